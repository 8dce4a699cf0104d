package dev.spillway.index;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class DiskSlotsTest {
  @Test
  void handsOutEachSlotOnceLowestFirst() {
    var slots = new DiskSlots(3);
    assertThat(slots.take()).isZero();
    assertThat(slots.take()).isEqualTo(1);
    assertThat(slots.take()).isEqualTo(2);
    assertThat(slots.take()).isEqualTo(-1);
    slots.giveBack(1);
    assertThat(slots.take()).isEqualTo(1);
  }

  @Test
  void aRetiredSlotCountsAndStaysAway() {
    var slots = new DiskSlots(2);
    slots.retire(slots.take());
    assertThat(slots.retiredCount()).isEqualTo(1);
    assertThat(slots.freeCount()).isEqualTo(1);
    slots.take();
    assertThat(slots.take()).isEqualTo(-1);
  }
}
