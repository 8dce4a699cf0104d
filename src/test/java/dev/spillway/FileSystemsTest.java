package dev.spillway;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.spillway.block.KvLayout;
import dev.spillway.block.KvLayout.Group;
import dev.spillway.block.KvLayout.Piece;
import dev.spillway.engine.EngineMode;
import dev.spillway.engine.EngineOptions.EngineKind;
import dev.spillway.engine.NativeEngine;
import dev.spillway.testing.Commands;
import dev.spillway.testing.Mount;
import dev.spillway.testing.SpillwayFixture;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** True block sizes on real file systems, and machines that refuse io_uring. */
class FileSystemsTest {
  /** Pieces in bytes, as in real models, and one byte either side of a page. */
  private static final List<Integer> PIECES =
      List.of(
          512, 1024, 2048, 2112, 2304, 4095, 4096, 4097, 4224, 8192, 9216, 10_496, 16_384, 18_432,
          65_536, 137_216, 3_098_112, 4_255_744);

  @TempDir private Path directory;

  private static KvLayout one(int bytes) {
    return KvLayout.ofBlockBytes(bytes, 16);
  }

  /** Case 2: 2,112 + 9,216 + 4,096 bytes in one block, in tensors with gaps. */
  private static KvLayout case2() {
    return new KvLayout(
        List.of(
            new Group(
                "mixed",
                16,
                List.of(new Piece(2112, 2500), Piece.dense(9216), new Piece(4096, 8192)))));
  }

  private static EngineMode roundTrip(Path root, KvLayout layout) {
    long blockBytes = layout.groups().stream().mapToLong(Group::blockBytes).sum();
    try (var test =
        new SpillwayFixture(
            root, layout, 8, builder -> builder.capacityBytes(8 * (blockBytes + 65536)))) {
      assertThat(test.store(1, 0, 4).moved()).isEqualTo(4);
      assertThat(test.load(1, 4, 4).moved()).isEqualTo(4);
      for (int i = 0; i < 4; i++) {
        assertThat(test.holds(4 + i, 1 + i)).as("%d bytes, block %d", blockBytes, i).isTrue();
      }
      return test.spillway.stats().mode();
    } finally {
      assertThat(root.resolve("rank-0-of-1.blocks").toFile().delete()).isTrue();
    }
  }

  private static void everySizeRoundTrips(Path root, Consumer<EngineMode> check) {
    var layouts = new ArrayList<KvLayout>();
    PIECES.forEach(bytes -> layouts.add(one(bytes)));
    layouts.add(case2());
    for (var layout : layouts) {
      check.accept(roundTrip(root, layout));
    }
  }

  /** F5, case 11: nothing that is handed to the kernel is unaligned, whatever the pieces. */
  @Test
  void everySizeRoundTripsOnTheRootFileSystem() {
    everySizeRoundTrips(
        directory,
        mode -> {
          assertThat(mode.alignment()).isGreaterThanOrEqualTo(mode.direct() ? 4096 : 1);
          mode.slotBytes().forEach(bytes -> assertThat(bytes % mode.alignment()).isZero());
        });
  }

  /** Case 8, F4: a disk with sectors of 4096 bytes. */
  @Test
  void case8EverySizeRoundTripsOnADiskOf4KSectors() {
    try (var mount = Mount.loop(directory, "ext4", 160, 4096)) {
      everySizeRoundTrips(
          mount.root(),
          mode -> {
            assertThat(mode.fileSystem()).isEqualTo("ext4");
            assertThat(mode.direct()).isTrue();
            assertThat(mode.alignment()).isEqualTo(4096);
          });
      assertThatThrownBy(
              () ->
                  new SpillwayFixture(
                      mount.root(),
                      one(4224),
                      4,
                      builder -> builder.capacityBytes(1 << 20).alignment(512)))
          .hasMessageContaining("alignment 512")
          .hasMessageContaining("from 4096");
    }
  }

  @Test
  void everySizeRoundTripsOnXfs() {
    try (var mount = Mount.loop(directory, "xfs", 400, 512)) {
      everySizeRoundTrips(
          mount.root(),
          mode -> {
            assertThat(mode.fileSystem()).isEqualTo("xfs");
            assertThat(mode.direct()).isTrue();
          });
    }
  }

  /** Case 7: accepted, recognised, and said. */
  @Test
  void case7EverySizeRoundTripsOnTmpfsWhichIsSaidToBeMemory() {
    try (var mount = Mount.tmpfs(directory, "size=200m")) {
      everySizeRoundTrips(
          mount.root(),
          mode -> {
            assertThat(mode.fileSystem()).isEqualTo("tmpfs");
            assertThat(mode.direct()).isFalse();
            assertThat(mode.notices()).anyMatch(text -> text.contains("in memory, not on a disk"));
          });
    }
  }

  /** Case 6: on overlay the flag proves nothing; a trial write and read does. */
  @Test
  void case6OverlayWorksOrIsRefusedWithItsPath() {
    try (var mount = Mount.overlay(directory)) {
      try {
        assertThat(roundTrip(mount.root(), one(16384)).fileSystem()).isEqualTo("overlay");
      } catch (RuntimeException e) {
        assertThat(e).hasMessageContaining(mount.root().toString());
      }
    }
  }

  /** F3: a disk that is too small is seen at open, and nothing is left on it. */
  @Test
  void f3ASmallDiskIsRefusedAtOpen() throws IOException {
    try (var mount = Mount.loop(directory, "ext4", 32, 512)) {
      assertThatThrownBy(
              () ->
                  new SpillwayFixture(
                      mount.root(), one(16384), 4, builder -> builder.capacityBytes(64L << 20)))
          // 4,096 slots and a header, and a record of 64 bytes for each slot
          .hasMessageContaining("needs 67436544 bytes")
          .hasMessageContaining("ENOSPC");
      assertThat(mount.root().resolve("rank-0-of-1.blocks")).doesNotExist();
    }
  }

  /** F1: a file system that is mounted read-only. */
  @Test
  void f1AReadOnlyFileSystemIsRefusedByName() {
    try (var mount = Mount.loop(directory, "ext4", 32, 512)) {
      mount.remountReadOnly();
      assertThatThrownBy(() -> SpillwayFixture.small(mount.root()))
          .hasMessageContaining(mount.root().toString())
          .hasMessageContaining("EROFS");
    }
  }

  /** What the child JVMs of cases 14 and 17 run: a round trip, twice, and how it was done. */
  static final class RoundTripAndSay {
    public static void main(String[] args) {
      for (int i = 0; i < 2; i++) {
        var mode = roundTrip(Path.of(args[0]), one(16384));
        System.out.println(mode.kind() + ": " + mode.kindReason());
      }
    }
  }

  @Test
  void case14UnderASeccompFilterThreadsDoTheSameAndSayWhy() {
    var command = new ArrayList<String>(List.of(Commands.tool("deny-io-uring").toString()));
    command.addAll(Commands.java(List.of(), RoundTripAndSay.class, directory.toString()));
    var output = Commands.run(command);
    assertThat(output.text().lines().filter(line -> line.startsWith("threads:")))
        .as(output.text())
        .hasSize(2)
        .allMatch(line -> line.contains("seccomp") && line.contains("EPERM"));
  }

  @ParameterizedTest
  @ValueSource(strings = {"1", "2"})
  void case17TheSysctlIsObeyedByTryingAndSaid(String value) throws IOException {
    var sysctl = Path.of("/proc/sys/kernel/io_uring_disabled");
    assumeTrue(Commands.isRoot() && Files.isWritable(sysctl), "changing the sysctl needs root");
    assumeTrue(NativeEngine.uringRefusal().isEmpty(), "io_uring is refused already");
    var before = Files.readString(sysctl).trim();
    try {
      Files.writeString(sysctl, value);
      boolean refused = value.equals("2"); // 1 still lets root
      var mode = roundTrip(directory, one(16384));
      assertThat(mode.kind()).isEqualTo(refused ? "threads" : "uring");
      assertThat(mode.kindReason().contains("kernel.io_uring_disabled is 2")).isEqualTo(refused);
      if (refused) {
        assertThatThrownBy(
                () ->
                    SpillwayFixture.small(
                        directory, SpillwayFixture.engine(EngineKind.URING, false)))
            .hasMessageContaining("io_uring cannot be used")
            .hasMessageContaining("or choose the thread engine");
      }
    } finally {
      Files.writeString(sysctl, before);
    }
    assertThat(roundTrip(directory, one(16384)).kind()).isEqualTo("uring");
  }
}
