package dev.spillway.index;

import java.util.BitSet;
import java.util.HashMap;
import java.util.Map;
import java.util.function.IntPredicate;

/**
 * Which slots of one group's region are free. A slot that a disk fault hit is retired: it is not
 * handed out again before a probe has found it clean several times in a row. Owned by the
 * scheduler's thread.
 *
 * <pre>
 * FREE ⇄ TAKEN → RETIRED ⇄ PROBING → FREE
 * </pre>
 */
final class DiskSlots {
  /** Clean probes in a row that bring a slot back. */
  static final int ROUNDS = 3;

  /** Retirements after which a slot is not tried again before the next open. */
  static final int RETIREMENTS_MAX = 3;

  private static final class Retired {
    long ranks;
    int clean;
    boolean probing;
    boolean due; // looked at for the first time, or again
    long probeAt;
  }

  private final int[] free;
  private final long probeNanos;
  private final Map<Integer, Retired> retired = new HashMap<>();
  private final Map<Integer, Integer> retirements = new HashMap<>();
  private final BitSet claimed = new BitSet(); // in the list of the free, but not free
  private int listed; // in the list of the free
  private int freeCount;
  private int probedBackCount;
  private int lostCount;

  /**
   * @param probeNanos between the trials of a slot; {@code Long.MAX_VALUE} for none
   */
  DiskSlots(int slotCount, long probeNanos) {
    this.probeNanos = probeNanos;
    free = new int[slotCount];
    for (int i = 0; i < slotCount; i++) {
      free[i] = slotCount - 1 - i; // the lowest is handed out first
    }
    listed = slotCount;
    freeCount = slotCount;
  }

  /** A free slot, or -1 where there is none. */
  int take() {
    if (freeCount == 0) {
      return -1;
    }
    freeCount--;
    int slot = free[--listed];
    while (claimed.get(slot)) {
      claimed.clear(slot);
      slot = free[--listed];
    }
    return slot;
  }

  /** Takes a slot that is free: it stays in the list until {@link #take} comes upon it. */
  void claim(int slot) {
    assert !claimed.get(slot) : "slot " + slot + " is claimed twice";
    claimed.set(slot);
    freeCount--;
  }

  void giveBack(int slot) {
    freeCount++;
    if (claimed.get(slot)) {
      claimed.clear(slot); // it never left the list
      return;
    }
    assert listed < free.length : "slot " + slot + " comes back to a full list";
    free[listed++] = slot;
  }

  /** Takes a slot out of service that these ranks found bad. */
  void retire(int slot, long ranks) {
    assert !retired.containsKey(slot) : "slot " + slot + " is retired twice";
    var state = new Retired();
    state.ranks = ranks;
    retired.put(slot, state);
    if (retirements.merge(slot, 1, Integer::sum) == RETIREMENTS_MAX) {
      lostCount++;
    }
  }

  boolean isRetired(int slot) {
    return retired.containsKey(slot);
  }

  boolean isProbing(int slot) {
    var state = retired.get(slot);
    return state != null && state.probing;
  }

  /**
   * A retired slot whose trial is due, now under trial; -1 where there is none.
   *
   * @param mayBeTried whether nobody else is at a slot
   */
  int nextToProbe(long now, IntPredicate mayBeTried) {
    if (retired.isEmpty() || probeNanos == Long.MAX_VALUE) {
      return -1;
    }
    for (var entry : retired.entrySet()) {
      var state = entry.getValue();
      if (state.probing || retirements.getOrDefault(entry.getKey(), 0) >= RETIREMENTS_MAX) {
        continue;
      }
      if (!state.due) {
        state.due = true;
        state.probeAt = now + probeNanos;
      }
      if (now - state.probeAt >= 0 && mayBeTried.test(entry.getKey())) {
        state.probing = true;
        return entry.getKey();
      }
    }
    return -1;
  }

  long blamedRanks(int slot) {
    return stateOf(slot).ranks;
  }

  void probed(int slot, boolean clean, long now) {
    var state = stateOf(slot);
    assert state.probing : "slot " + slot + " is not under trial";
    state.probing = false;
    state.probeAt = now + probeNanos;
    state.clean = clean ? state.clean + 1 : 0;
    if (state.clean == ROUNDS) {
      retired.remove(slot);
      probedBackCount++;
      giveBack(slot);
    }
  }

  private Retired stateOf(int slot) {
    var state = retired.get(slot);
    if (state == null) {
      throw new IllegalStateException("slot " + slot + " is not retired");
    }
    return state;
  }

  int freeCount() {
    return freeCount;
  }

  int retiredCount() {
    return retired.size();
  }

  /** Retired slots that are not tried again. */
  int lostCount() {
    return lostCount;
  }

  /** How many slots have come back from retirement. */
  int probedBackCount() {
    return probedBackCount;
  }

  int slotCount() {
    return free.length;
  }
}
