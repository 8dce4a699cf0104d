package dev.spillway.ledger;

import dev.spillway.index.BlockIndex;
import dev.spillway.index.BlockIndex.RetiredSlot;
import java.util.function.LongSupplier;

/** A trial of one retired slot, by the ranks that found it bad. */
final class ProbeTransfer extends SlotTransfer {
  private final RetiredSlot slot;
  private final LongSupplier nanoClock;

  ProbeTransfer(BlockIndex index, int rankCount, RetiredSlot slot, LongSupplier nanoClock) {
    super(index, rankCount, slot.slot());
    this.slot = slot;
    this.nanoClock = nanoClock;
  }

  /** Only now may the slot be handed out again. */
  @Override
  void onOver(boolean clean, long failedRanks) {
    index.probed(slot.group(), slot.slot(), clean, nanoClock.getAsLong());
  }
}
