package dev.spillway;

import static dev.spillway.testing.SpillwayFixture.keys;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.spillway.block.BlockKey;
import dev.spillway.block.BlockKeys;
import dev.spillway.block.KvLayout;
import dev.spillway.block.PrefixHasher;
import dev.spillway.device.HostDevice;
import dev.spillway.engine.OpenRefusedException;
import dev.spillway.testing.Commands;
import dev.spillway.testing.SpillwayFixture;
import dev.spillway.testing.TestDevices;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Blocks are served to who stored them: model, layout, ranks and keys decide, and nothing else. */
class IdentityTest {
  private static final int SLOT = 16384;
  private static final KvLayout LAYOUT = KvLayout.ofBlockBytes(SLOT, 16);

  @TempDir private Path directory;

  private SpillwayFixture open(KvLayout layout, UnaryOperator<SpillwayConfig.Builder> options) {
    return new SpillwayFixture(
        directory, layout, 32, builder -> options.apply(builder.capacityBytes(64 * SLOT)));
  }

  /** Case 71: the same bytes, another order of dimensions. */
  @Test
  void case71OnlyTheTagOfTheLayoutDiffers() {
    try (var test = open(LAYOUT.withTag("NHD"), UnaryOperator.identity())) {
      test.store(1, 0, 8);
    }
    assertThatThrownBy(() -> open(LAYOUT.withTag("HND"), UnaryOperator.identity()))
        .isInstanceOf(OpenRefusedException.class)
        .hasMessageContaining("layout fingerprint is");
    try (var test = open(LAYOUT.withTag("HND"), builder -> builder.discardOther(true))) {
      assertThat(test.hits(1, 8)).isZero();
    }
    assertThatThrownBy(() -> open(LAYOUT, UnaryOperator.identity()))
        .hasMessageContaining("layout fingerprint is");
  }

  /** Case 74: two ranks instead of one, and back. */
  @Test
  void case74AnotherNumberOfRanksBeginsColdAndNothingIsMixed() throws IOException {
    try (var test = open(LAYOUT, UnaryOperator.identity())) {
      test.store(1, 0, 8);
    }
    try (var second = TestDevices.allocate(LAYOUT, 32);
        var test = open(LAYOUT, builder -> builder.addRank(second))) {
      assertThat(test.hits(1, 8)).isZero();
      test.store(1, 0, 4);
      assertThat(test.load(1, 4, 8).moved()).isEqualTo(4);
    }
    try (var test = open(LAYOUT, UnaryOperator.identity())) {
      assertThat(test.load(1, 8, 16).moved()).isEqualTo(8);
      assertThat(test.holds(16, 1)).isTrue();
    }
    assertThat(directory.resolve("rank-0-of-1.blocks")).exists();
    assertThat(directory.resolve("rank-1-of-2.index")).exists();
  }

  /** Case 63: ranks of one directory never touch one another's blocks, over restarts too. */
  @Test
  void case63RanksOfOneDirectoryKeepApart() throws IOException {
    try (var second = TestDevices.allocate(LAYOUT, 32)) {
      for (int round = 0; round < 3; round++) {
        try (var test = open(LAYOUT, builder -> builder.addRank(second))) {
          assertThat(test.hits(1, 4)).isEqualTo(round == 0 ? 0 : 4);
          test.store(1, 0, 4);
          test.store(100 + round * 10L, 4, 4);
          assertThat(test.load(1, 4, 16).moved()).isEqualTo(4);
        }
      }
      // One rank's file in the place of the other's is refused by what it says of itself.
      Files.copy(
          directory.resolve("rank-0-of-2.blocks"),
          directory.resolve("rank-1-of-2.blocks"),
          java.nio.file.StandardCopyOption.REPLACE_EXISTING);
      assertThatThrownBy(() -> open(LAYOUT, builder -> builder.addRank(second)))
          .hasMessageContaining("rank is 0 in the file and 1 here");
    }
  }

  /** Case 79: what one rank may take, and what all may. */
  @Test
  void case79TheLimitIsOfARankOrOfAll() throws IOException {
    try (var second = TestDevices.allocate(LAYOUT, 32);
        var test =
            open(LAYOUT, builder -> builder.addRank(second).totalCapacityBytes(40L * SLOT))) {
      assertThat(test.spillway.stats().mode().slotCounts()).containsExactly(20L);
      long all = 0;
      try (var files = Files.list(directory)) {
        for (var file : files.filter(path -> path.toString().endsWith(".blocks")).toList()) {
          all += Files.size(file) - 65536;
        }
      }
      assertThat(all).isEqualTo(40L * SLOT);
    }
    assertThatThrownBy(
            () ->
                SpillwayConfig.builder(directory, HostDevice.allocate(LAYOUT, 1))
                    .totalCapacityBytes(0))
        .hasMessageContaining("totalCapacityBytes is 0");
  }

  /** Stores a prompt's blocks in a JVM of its own. */
  static final class Child {
    public static void main(String[] args) {
      try (var test = SpillwayFixture.small(Path.of(args[0]))) {
        for (int i = 0; i < 8; i++) {
          test.fill(i, 40 + i);
        }
        test.spillway.await(test.spillway.store(prompt(), 0, SpillwayFixture.range(0, 8)));
        test.spillway.await(test.spillway.store(colliding(), 0, SpillwayFixture.range(0, 4)));
        System.out.println("hash " + new Object().hashCode());
      }
    }
  }

  private static BlockKeys prompt() {
    return new PrefixHasher("tenant", "adapter")
        .hash(new Random(5).ints(128, 0, 50_000).toArray(), 16);
  }

  /** Keys that Java's hashCode cannot tell apart. */
  private static BlockKeys colliding() {
    return BlockKeys.of(
        List.of(
            new BlockKey(0, 0),
            new BlockKey(1L << 32 | 1, 0),
            new BlockKey(0, 1L << 32 | 1),
            new BlockKey(7L << 32 | 7, 9L << 32 | 9)));
  }

  /** Shows: V155, case73: nothing on disk depends on a hash, a seed or an identity of a process. */
  @Test
  void case73AnotherJvmFindsWhatThisOneStored() {
    for (var mode : List.of("0", "2", "5")) { // random, constant, thread-local
      var output =
          Commands.run(
              Commands.java(
                  List.of("-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=" + mode),
                  Child.class,
                  directory.toString()));
      assertThat(output.code()).as(output.text()).isZero();
    }
    try (var test = SpillwayFixture.small(directory)) {
      assertThat(test.spillway.stats().restored().blocks()).isEqualTo(12);
      try (var lease = test.spillway.lookup(prompt())) {
        assertThat(lease.size()).isEqualTo(8);
        assertThat(
                test.spillway
                    .await(test.spillway.load(lease, SpillwayFixture.range(16, 8)))
                    .moved())
            .isEqualTo(8);
      }
      for (int i = 0; i < 8; i++) {
        assertThat(test.holds(16 + i, 40 + i)).isTrue();
      }
      try (var lease = test.spillway.lookup(colliding())) {
        assertThat(lease.size()).isEqualTo(4);
      }
      assertThat(test.hits(1, 1)).as("a full key is compared").isZero();
      assertThat(test.spillway.lookup(keys(0, 1)).size()).isZero();
    }
  }
}
