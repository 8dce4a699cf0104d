package dev.spillway.ledger;

import dev.spillway.block.BlockOutcome;
import dev.spillway.block.Operation;
import dev.spillway.index.BlockIndex;
import java.util.function.Consumer;

/**
 * Every rank writes down that no block up to a generation counts, so that none comes back with a
 * later process. Nothing of the disk or the device takes part.
 */
final class FloorTransfer extends OwnTransfer {
  private final Consumer<BlockOutcome> onOver;

  /**
   * @param onOver is told how it went once the last rank has written it, or will not any more
   */
  FloorTransfer(BlockIndex index, int rankCount, Consumer<BlockOutcome> onOver) {
    super(Operation.FORGET, index, rankCount);
    this.onOver = onOver;
  }

  @Override
  void settle(int entry, BlockOutcome outcome) {
    onOver.accept(outcome);
  }

  @Override
  boolean countsFaults() {
    return false; // no lane has written it
  }

  @Override
  int slotOf(int entry) {
    return -1;
  }
}
