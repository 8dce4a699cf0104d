package dev.spillway.index;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class DiskSlotsTest {
  @Test
  void handsOutEachSlotOnceLowestFirst() {
    var slots = new DiskSlots(3, Long.MAX_VALUE);
    assertThat(slots.take()).isZero();
    assertThat(slots.take()).isEqualTo(1);
    assertThat(slots.take()).isEqualTo(2);
    assertThat(slots.take()).isEqualTo(-1);
    slots.giveBack(1);
    assertThat(slots.take()).isEqualTo(1);
  }

  @Test
  void aRetiredSlotCountsAndStaysAway() {
    var slots = new DiskSlots(2, Long.MAX_VALUE);
    slots.retire(slots.take(), 1);
    assertThat(slots.nextToProbe(1L << 60, slot -> true)).isEqualTo(-1);
    assertThat(slots.retiredCount()).isEqualTo(1);
    assertThat(slots.freeCount()).isEqualTo(1);
    slots.take();
    assertThat(slots.take()).isEqualTo(-1);
  }

  @Test
  void aRetiredSlotComesBackAfterThreeCleanProbesInARow() {
    var slots = new DiskSlots(1, 10);
    slots.retire(slots.take(), 0b100);
    assertThat(slots.nextToProbe(0, slot -> true)).as("its time begins now").isEqualTo(-1);
    assertThat(slots.nextToProbe(9, slot -> true)).isEqualTo(-1);
    for (boolean clean : new boolean[] {true, true, false, true, true, true}) {
      assertThat(slots.take()).isEqualTo(-1);
      assertThat(slots.nextToProbe(1000, slot -> true)).isZero();
      assertThat(slots.blamedRanks(0)).isEqualTo(0b100);
      assertThat(slots.nextToProbe(1000, slot -> true)).as("one trial at a time").isEqualTo(-1);
      slots.probed(0, clean, 100);
    }
    assertThat(slots.probedBackCount()).isEqualTo(1);
    assertThat(slots.take()).isZero();
  }

  @Test
  void theThirdRetirementIsForGood() {
    var slots = new DiskSlots(1, 0);
    for (int round = 0; round < DiskSlots.RETIREMENTS_MAX - 1; round++) {
      slots.retire(slots.take(), 1);
      for (int i = 0; i < DiskSlots.ROUNDS; i++) {
        assertThat(slots.nextToProbe(0, slot -> true)).isZero();
        slots.probed(0, true, 0);
      }
    }
    slots.retire(slots.take(), 1);
    assertThat(slots.nextToProbe(1000, slot -> true)).isEqualTo(-1);
    assertThat(slots.retiredCount()).isEqualTo(1);
  }
}
