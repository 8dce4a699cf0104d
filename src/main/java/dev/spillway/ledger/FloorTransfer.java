package dev.spillway.ledger;

import dev.spillway.block.BlockOutcome;
import dev.spillway.block.Operation;
import dev.spillway.index.BlockIndex;

/**
 * Every rank writes down that no block up to a generation counts, so that none comes back with a
 * later process. Nothing of the disk or the device takes part.
 */
final class FloorTransfer extends OwnTransfer {
  private final Runnable onOver;

  /**
   * @param onOver runs once the last rank has written it, or will not any more
   */
  FloorTransfer(BlockIndex index, int rankCount, Runnable onOver) {
    super(Operation.FORGET, index, rankCount);
    this.onOver = onOver;
  }

  @Override
  void settle(int entry, BlockOutcome outcome) {
    onOver.run();
  }

  @Override
  int slotOf(int entry) {
    return -1;
  }
}
