package dev.spillway;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.spillway.block.BlockOutcome;
import dev.spillway.block.KvLayout;
import dev.spillway.engine.EngineOptions.EngineKind;
import dev.spillway.testing.SpillwayFixture;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Random;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** With the key it is what was stored, without it noise that nothing takes for a block. */
class EncryptionTest {
  private static final int HEADER = 65536;

  @TempDir private Path directory;

  private static byte[] key(long seed) {
    var key = new byte[64];
    new Random(seed).nextBytes(key);
    return key;
  }

  private SpillwayFixture open(UnaryOperator<SpillwayConfig.Builder> options) {
    return SpillwayFixture.small(directory, options);
  }

  /** Every run of 16 bytes of the plain block, looked for in the file. */
  private boolean isOnDiskInPlain(long number) throws IOException {
    var bytes = Files.readAllBytes(directory.resolve("rank-0-of-1.blocks"));
    for (int at = HEADER; at + 16 <= bytes.length; at++) {
      boolean same = true;
      for (int i = 0; same && i < 16; i++) {
        same = bytes[at + i] == (byte) ((number + 1) * 31 + i * 5L);
      }
      if (same) {
        return true;
      }
    }
    return false;
  }

  @ParameterizedTest
  @CsvSource({"URING,false", "THREADS,true"})
  void withItsKeyABlockComesBackAndOnDiskItIsNoise(EngineKind kind, boolean thread)
      throws IOException {
    SpillwayFixture.assumeAllowed(kind);
    UnaryOperator<SpillwayConfig.Builder> options =
        builder -> builder.engine(kind).workerThread(thread).encryptionKey(key(1));
    try (var test = open(options)) {
      assertThat(test.spillway.stats().mode().cipher()).isEqualTo("aes-256-xts");
      test.store(1, 0, 16);
      assertThat(test.load(1, 16, 16).moved()).isEqualTo(16);
      for (int i = 0; i < 16; i++) {
        assertThat(test.holds(16 + i, 1 + i)).isTrue();
      }
    }
    for (int i = 0; i < 16; i++) {
      assertThat(isOnDiskInPlain(1 + i)).isFalse();
    }
    try (var test = open(options)) {
      assertThat(test.load(1, 16, 16).moved()).isEqualTo(16);
      assertThat(test.holds(20, 5)).isTrue();
    }
  }

  /** The test above can fail: without a key the bytes are there. */
  @Test
  void withoutAKeyTheBytesAreOnDisk() throws IOException {
    try (var test = open(UnaryOperator.identity())) {
      test.store(1, 0, 1);
    }
    assertThat(isOnDiskInPlain(1)).isTrue();
  }

  @Test
  void withAnotherKeyEverythingIsAMissAndNothingIsWrong() {
    try (var test = open(builder -> builder.encryptionKey(key(1)))) {
      test.store(1, 0, 16);
    }
    try (var test = open(builder -> builder.encryptionKey(key(2)))) {
      assertThat(test.spillway.stats().restored().blocks()).isEqualTo(16);
      test.fill(20, 777);
      for (int i = 0; i < 16; i++) {
        var result = test.load(1 + i, 1, 20);
        assertThat(result.outcome(0)).isEqualTo(BlockOutcome.REJECTED);
        assertThat(test.holds(20, 777)).isTrue();
      }
      assertThat(test.hits(1, 1)).isZero();
      assertThat(test.spillway.stats().retiredSlots()).isZero();
      test.store(1, 0, 16);
      assertThat(test.load(1, 16, 16).moved()).isEqualTo(16);
    }
  }

  @Test
  void plainAndEncryptedAreRefusedToOneAnotherByName() throws IOException {
    try (var test = open(builder -> builder.encryptionKey(key(1)))) {
      test.store(1, 0, 4);
    }
    assertThatThrownBy(() -> open(UnaryOperator.identity()))
        .hasMessageContaining("cipher is AES-256-XTS in the file and none here");
    assertThat(Spillway.verify(directory, 1L << 40).get(0).trouble()).contains("is encrypted");
    try (var test = open(builder -> builder.discardOther(true))) {
      assertThat(test.hits(1, 4)).isZero();
    }
  }

  /** Sizes around those of a cipher block and of a data unit. */
  @ParameterizedTest
  @ValueSource(ints = {512, 513, 527, 700, 4224, 1 << 20, (1 << 20) + 1, (1 << 20) + 16, 3_098_113})
  void blocksOfAnySizeComeBack(int bytes) {
    try (var test =
        new SpillwayFixture(
            directory,
            KvLayout.ofBlockBytes(bytes, 16),
            4,
            builder -> builder.capacityBytes(32L << 20).encryptionKey(key(3)))) {
      assertThat(test.store(1, 0, 2).moved()).isEqualTo(2);
      assertThat(test.load(1, 2, 2).moved()).isEqualTo(2);
      assertThat(test.holds(2, 1)).isTrue();
      assertThat(test.holds(3, 2)).isTrue();
    }
  }

  @Test
  void whatCannotBeAKeyIsRefused() {
    assertThatThrownBy(() -> open(builder -> builder.encryptionKey(new byte[32])))
        .hasMessageContaining("a key of 32 bytes; 64 would be right");
    assertThatThrownBy(() -> open(builder -> builder.encryptionKey(new byte[64])))
        .hasMessageContaining("halves are the same");
    assertThat(directory).isEmptyDirectory();
  }

  /** The same block stored again lies there as other noise: its tweak is of its generation. */
  @Test
  void theSameBytesNeverLookTheSameTwice() throws IOException {
    try (var test = open(builder -> builder.encryptionKey(key(1)))) {
      test.fill(0, 5);
      test.fill(1, 5);
      test.spillway.await(test.spillway.store(SpillwayFixture.keys(1, 2), 0, new int[] {0, 1}));
      var bytes = Files.readAllBytes(directory.resolve("rank-0-of-1.blocks"));
      assertThat(
              java.util.Arrays.equals(
                  bytes, HEADER, HEADER + 64, bytes, HEADER + 16384, HEADER + 16384 + 64))
          .isFalse();
    }
  }
}
