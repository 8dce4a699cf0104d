package dev.spillway;

import static dev.spillway.testing.SpillwayFixture.keys;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.spillway.block.BlockKeys;
import dev.spillway.block.BlockOutcome;
import dev.spillway.block.DeviceEvent;
import dev.spillway.testing.SpillwayFixture;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Blocks are stored when the scheduler's free queue is about to give them away, and not before. */
class LazyOffloadTest {
  private record Free(int block, @Nullable BlockKeys prefix, int position) {}

  @TempDir private Path directory;
  private final List<Free> queue = new ArrayList<>();

  private final LazyOffload.FreeQueue shown =
      new LazyOffload.FreeQueue() {
        @Override
        public int size() {
          return queue.size();
        }

        @Override
        public int deviceBlock(int place) {
          return queue.get(place).block();
        }

        @Override
        public @Nullable BlockKeys prefix(int place) {
          return queue.get(place).prefix();
        }

        @Override
        public int position(int place) {
          return queue.get(place).position();
        }
      };

  private static int settle(SpillwayFixture test, LazyOffload lazy, LazyOffload.FreeQueue shown) {
    int begun = lazy.cover(shown, DeviceEvent.NOW);
    assertThat(test.spillway.awaitIdle(Duration.ofSeconds(10))).isTrue();
    return begun;
  }

  /** Shows: V67 V70 V92 */
  @Test
  void theHeadOfTheQueueIsCoveredAndNothingTwice() {
    try (var test = SpillwayFixture.small(directory)) {
      var lazy = new LazyOffload(test.spillway, 0, 4);
      var one = keys(1, 6);
      for (int i = 0; i < 6; i++) {
        test.fill(10 + i, 1 + i);
        queue.add(new Free(10 + i, one, i));
      }
      queue.add(1, new Free(20, null, 0)); // an empty block
      assertThat(lazy.cover(shown, DeviceEvent.NOW)).as("of the first four").isEqualTo(3);
      assertThat(lazy.isCopying(10)).isTrue();
      assertThat(lazy.isCopying(20)).isFalse();
      test.spillway.awaitIdle(Duration.ofSeconds(10));
      assertThat(lazy.isCopying(10)).isFalse();
      assertThat(test.hits(1, 6)).isEqualTo(3);
      assertThat(settle(test, lazy, shown)).as("covered already").isZero();
      queue.remove(0); // given away
      queue.remove(0);
      assertThat(settle(test, lazy, shown)).as("the next two come near").isEqualTo(2);
      assertThat(test.hits(1, 6)).isEqualTo(5);
      queue.set(0, new Free(11, keys(40, 1), 0)); // the same block, used for another prefix since
      test.fill(11, 40);
      assertThat(settle(test, lazy, shown)).isEqualTo(1);
      assertThat(test.hits(40, 1)).isEqualTo(1);
      assertThat(test.load(1, 5, 25).moved()).isEqualTo(5);
      assertThat(test.holds(29, 5)).isTrue();
      assertThat(test.spillway.stats().count(BlockOutcome.PRESENT)).isZero();
    }
  }

  /** A block that the engine would not take is not held back for ever. */
  @Test
  void aRefusedStoreHoldsNoBlock() {
    try (var test = SpillwayFixture.small(directory)) {
      var lazy = new LazyOffload(test.spillway, 0, 8);
      queue.add(new Free(99, keys(1, 1), 0)); // no such block
      assertThatThrownBy(() -> lazy.cover(shown, DeviceEvent.NOW))
          .hasMessageContaining("device block 99");
      assertThat(lazy.isCopying(99)).isFalse();
    }
  }

  /** Shows: V84: what was on its way at a reset is not found after it. */
  @Test
  void aResetForgetsWhatWasCovered() {
    try (var test = SpillwayFixture.small(directory)) {
      var lazy = new LazyOffload(test.spillway, 0, 8);
      var one = keys(1, 4);
      for (int i = 0; i < 4; i++) {
        test.fill(10 + i, 1 + i);
        queue.add(new Free(10 + i, one, i));
      }
      assertThat(lazy.cover(shown, DeviceEvent.NOW)).isEqualTo(4);
      var quiet = test.spillway.reset();
      lazy.reset();
      test.spillway.awaitIdle(Duration.ofSeconds(10));
      assertThat(quiet).isCompleted();
      assertThat(test.hits(1, 4)).isZero();
      assertThat(settle(test, lazy, shown)).isEqualTo(4);
      assertThat(test.hits(1, 4)).isEqualTo(4);
    }
  }

  /**
   * Shows: V77 V78: a block that has left its request's window is in no table any more, but lies in
   * the queue with its key, and is stored; what has no key, such as scratch, is passed over.
   */
  @Test
  void v77ABlockThatLeftItsWindowIsStoredAndScratchIsNot() {
    try (var test = SpillwayFixture.small(directory)) {
      var prefix = keys(1, 4);
      for (int i = 0; i < 4; i++) {
        test.fill(10 + i, 1 + i);
      }
      int[] table = {Spillway.NULL_BLOCK, Spillway.NULL_BLOCK, 12, 13}; // two have left the window
      test.spillway.await(test.spillway.store(prefix, 0, table));
      assertThat(test.hits(1, 4)).isZero();
      queue.add(new Free(10, prefix, 0));
      queue.add(new Free(30, null, 0)); // scratch
      queue.add(new Free(11, prefix, 1));
      assertThat(settle(test, new LazyOffload(test.spillway, 0, 8), shown)).isEqualTo(2);
      assertThat(test.hits(1, 4)).isEqualTo(4);
      assertThat(test.load(1, 4, 20).moved()).isEqualTo(4);
      assertThat(test.holds(20, 1)).isTrue();
      assertThat(test.holds(23, 4)).isTrue();
    }
  }

  /** What another store has evicted from disk is not covered any more. */
  @Test
  void aBlockThatIsEvictedFromDiskIsStoredAgain() {
    try (var test = SpillwayFixture.small(directory, builder -> builder.capacityBytes(4 * 16384))) {
      var lazy = new LazyOffload(test.spillway, 0, 8);
      for (int i = 0; i < 4; i++) {
        test.fill(10 + i, 1 + i);
        queue.add(new Free(10 + i, keys(1, 4), i));
      }
      assertThat(settle(test, lazy, shown)).isEqualTo(4);
      test.store(101, 0, 4);
      assertThat(test.hits(1, 4)).isZero();
      assertThat(settle(test, lazy, shown)).isEqualTo(4);
      assertThat(test.hits(1, 4)).isEqualTo(4);
    }
  }
}
