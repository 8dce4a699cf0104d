package dev.spillway.ledger;

import dev.spillway.block.BlockOutcome;
import dev.spillway.block.Operation;
import dev.spillway.index.BlockIndex;

/**
 * A slot on its own is overwritten and read back. It has neither caller nor device block, and is
 * over for good only when no rank writes to it any more.
 */
abstract class SlotTransfer extends OwnTransfer {
  private final int slot;
  private boolean clean;
  private long failedRanks;

  SlotTransfer(BlockIndex index, int rankCount, int slot) {
    super(Operation.PROBE, index, rankCount);
    this.slot = slot;
  }

  /** Every rank has let go of the slot: whether all have overwritten it, or which found it bad. */
  abstract void onOver(boolean clean, long failedRanks);

  @Override
  final void onFault(int entry, BlockOutcome outcome, long blamingRanks) {
    failedRanks |= blamingRanks;
  }

  @Override
  final void settle(int entry, BlockOutcome outcome) {
    clean = outcome == BlockOutcome.STORED;
  }

  @Override
  final void onQuiet(int entry) {
    onOver(clean, failedRanks);
  }

  @Override
  final int slotOf(int entry) {
    return slot;
  }
}
