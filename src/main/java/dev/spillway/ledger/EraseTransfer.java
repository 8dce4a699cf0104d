package dev.spillway.ledger;

import dev.spillway.index.BlockIndex;

/** A block that was forgotten is overwritten on every rank. */
final class EraseTransfer extends SlotTransfer {
  /** Hears that an entry's slot was overwritten, or could not be. */
  @FunctionalInterface
  interface Listener {
    void erased(int entry, boolean clean);
  }

  private final int entry;
  private final Listener listener;

  EraseTransfer(BlockIndex index, int rankCount, int entry, Listener listener) {
    super(index, rankCount, index.slot(entry));
    this.entry = entry;
    this.listener = listener;
  }

  @Override
  void onOver(boolean clean, long failedRanks) {
    index.erased(entry, clean, failedRanks);
    listener.erased(entry, clean);
  }
}
