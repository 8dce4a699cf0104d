package dev.spillway.ledger;

import dev.spillway.block.BlockOutcome;
import dev.spillway.block.Operation;
import dev.spillway.index.BlockIndex;
import dev.spillway.rank.RankAggregator;

/**
 * Every rank writes down that no block up to a generation counts, so that none comes back with a
 * later process. Nothing of the disk or the device takes part.
 */
final class FloorTransfer extends Transfer {
  private final Runnable onOver;

  /**
   * @param onOver runs once the last rank has written it, or will not any more
   */
  FloorTransfer(BlockIndex index, int rankCount, Runnable onOver) {
    super(Operation.FORGET, index, rankCount);
    this.onOver = onOver;
  }

  @Override
  boolean isOurOwn() {
    return true;
  }

  @Override
  void settle(int entry, BlockOutcome outcome) {
    onOver.run();
  }

  @Override
  void onFault(int entry, BlockOutcome outcome, long blamingRanks) {}

  @Override
  void onQuiet(int entry) {}

  @Override
  boolean isReleased(RankAggregator ranks, int position) {
    return true;
  }

  @Override
  int slotOf(int entry) {
    return -1;
  }
}
