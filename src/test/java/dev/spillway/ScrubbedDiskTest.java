package dev.spillway;

import static org.assertj.core.api.Assertions.assertThat;

import dev.spillway.testing.SpillwayFixture;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Rot on a real disk is found by the scrub before a request meets it. */
@Timeout(120)
class ScrubbedDiskTest {
  private static final int SLOT = 16384;
  private static final int HEADER = 65536;

  @TempDir private Path directory;

  private SpillwayFixture open(UnaryOperator<SpillwayConfig.Builder> options) {
    return SpillwayFixture.small(directory, options);
  }

  private void rot(int slot) throws IOException {
    try (var file =
        FileChannel.open(
            directory.resolve("rank-0-of-1.blocks"),
            StandardOpenOption.WRITE,
            StandardOpenOption.DSYNC)) {
      file.write(ByteBuffer.wrap(new byte[] {1, 2, 3, 4, 5}), HEADER + slot * SLOT + 5000L);
    }
  }

  private static void pollUntil(Spillway spillway, BooleanSupplier done) {
    long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
    while (!done.getAsBoolean()) {
      spillway.poll();
      assertThat(System.nanoTime() - until).as(() -> spillway.stats().toString()).isNegative();
      Thread.onSpinWait();
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aBlockThatHasRottedIsLostBeforeARequestMeetsIt(boolean thread) throws IOException {
    try (var test = open(builder -> builder.workerThread(thread).scrubBytesPerSecond(1L << 30))) {
      test.store(1, 0, 16);
      rot(5);
      pollUntil(test.spillway, () -> test.spillway.stats().scrubbed().bad() == 1);
      assertThat(test.hits(1, 16)).isEqualTo(5);
      assertThat(test.hits(7, 10)).isEqualTo(10);
      assertThat(test.spillway.stats().retiredSlots()).isEqualTo(1);
      long rounds = test.spillway.stats().scrubbed().rounds();
      pollUntil(test.spillway, () -> test.spillway.stats().scrubbed().rounds() > rounds + 1);
      assertThat(test.spillway.stats().scrubbed().bad()).as("once").isEqualTo(1);
      assertThat(test.spillway.stats().loadedBytes()).as("no device block took part").isZero();
    }
  }

  /** A record of an earlier process is only a hint, for the scrub as for a load. */
  @Test
  void aRestoredBlockThatHasRottedIsAMissAndItsSlotIsAsGoodAsBefore() throws IOException {
    try (var test = open(UnaryOperator.identity())) {
      test.store(1, 0, 16);
    }
    rot(5);
    try (var test = open(builder -> builder.scrubBytesPerSecond(1L << 30))) {
      pollUntil(test.spillway, () -> test.spillway.stats().scrubbed().rounds() > 0);
      assertThat(test.spillway.stats().scrubbed().bad()).isEqualTo(1);
      assertThat(test.spillway.stats().restored().stale()).isEqualTo(1);
      assertThat(test.spillway.stats().retiredSlots()).isZero();
      assertThat(test.hits(1, 16)).isEqualTo(5);
    }
  }

  @Test
  void itKeepsToItsRateAndUnlessAskedForThereIsNone() {
    try (var test = open(builder -> builder.scrubBytesPerSecond(100 * SLOT))) {
      test.store(1, 0, 16);
      long begun = System.nanoTime();
      pollUntil(test.spillway, () -> test.spillway.stats().scrubbed().blocks() >= 50);
      // 100 a second, of which a few may have been made up for.
      assertThat(System.nanoTime() - begun).isGreaterThan(TimeUnit.MILLISECONDS.toNanos(400));
    }
    try (var test = open(UnaryOperator.identity())) {
      test.store(1, 0, 16);
      long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(50);
      pollUntil(test.spillway, () -> System.nanoTime() - until > 0);
      assertThat(test.spillway.stats().scrubbed().blocks()).isZero();
    }
  }

  /** Stores, loads and resets go on beside it, and each gets its own result. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void othersGoOnBesideIt(boolean thread) {
    try (var test = open(builder -> builder.workerThread(thread).scrubBytesPerSecond(1L << 34))) {
      for (int round = 0; round < 300; round++) {
        long key = 1 + 16L * (round % 7);
        assertThat(test.store(key, 0, 16).isWell()).isTrue();
        var loaded = test.load(key, 16, 16);
        assertThat(loaded.isWell()).isTrue();
        assertThat(test.holds(16 + round % 16, key + round % 16)).isTrue();
        if (round % 50 == 49) {
          test.spillway.await(test.spillway.reset());
        }
      }
      assertThat(test.spillway.stats().scrubbed().bad()).isZero();
      assertThat(test.spillway.stats().scrubbed().blocks()).isPositive();
    }
  }
}
