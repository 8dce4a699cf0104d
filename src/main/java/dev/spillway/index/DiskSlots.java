package dev.spillway.index;

import java.util.BitSet;

/**
 * Which slots of one group's region are free. A slot is handed out, comes back, or is retired:
 * never handed out again until the next open. Owned by the scheduler's thread.
 */
final class DiskSlots {
  private final int[] free;
  private final BitSet retired = new BitSet();
  private int freeCount;

  DiskSlots(int slotCount) {
    free = new int[slotCount];
    for (int i = 0; i < slotCount; i++) {
      free[i] = slotCount - 1 - i; // the lowest is handed out first
    }
    freeCount = slotCount;
  }

  /** A free slot, or -1 where there is none. */
  int take() {
    return freeCount == 0 ? -1 : free[--freeCount];
  }

  void giveBack(int slot) {
    assert freeCount < free.length : "slot " + slot + " comes back to a full list";
    free[freeCount++] = slot;
  }

  void retire(int slot) {
    assert !retired.get(slot) : "slot " + slot + " is retired twice";
    retired.set(slot);
  }

  int freeCount() {
    return freeCount;
  }

  int retiredCount() {
    return retired.cardinality();
  }

  int slotCount() {
    return free.length;
  }
}
