package dev.spillway.ledger;

import dev.spillway.block.BlockOutcome;
import dev.spillway.block.Operation;
import dev.spillway.index.BlockIndex;
import dev.spillway.index.BlockIndex.RetiredSlot;
import dev.spillway.rank.RankAggregator;
import java.util.function.LongSupplier;

/** A trial of one retired slot, by the ranks that found it bad. It has neither key nor caller. */
final class ProbeTransfer extends Transfer {
  private final RetiredSlot slot;
  private final LongSupplier nanoClock;
  private boolean clean;

  ProbeTransfer(BlockIndex index, int rankCount, RetiredSlot slot, LongSupplier nanoClock) {
    super(Operation.PROBE, index, rankCount);
    this.slot = slot;
    this.nanoClock = nanoClock;
  }

  @Override
  void onFault(int entry, BlockOutcome outcome, long blamingRanks) {}

  @Override
  boolean isReleased(RankAggregator ranks, int position) {
    return true;
  }

  @Override
  void settle(int entry, BlockOutcome outcome) {
    clean = outcome == BlockOutcome.STORED;
  }

  /** Only now may the slot be handed out again: nothing writes to it any more. */
  @Override
  void onQuiet(int entry) {
    index.probed(slot.group(), slot.slot(), clean, nanoClock.getAsLong());
  }

  @Override
  int slotOf(int entry) {
    return slot.slot();
  }
}
