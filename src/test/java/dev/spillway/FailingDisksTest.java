package dev.spillway;

import static dev.spillway.testing.SpillwayFixture.keys;
import static dev.spillway.testing.SpillwayFixture.range;
import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.spillway.block.BlockFault;
import dev.spillway.block.BlockFault.NoRoom;
import dev.spillway.block.BlockOutcome;
import dev.spillway.block.KvLayout;
import dev.spillway.block.TransferResult;
import dev.spillway.engine.EngineOptions.Allocation;
import dev.spillway.engine.EngineOptions.EngineKind;
import dev.spillway.index.Lease;
import dev.spillway.testing.Commands;
import dev.spillway.testing.Mount;
import dev.spillway.testing.SpillwayFixture;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Faults of real file systems: full, cut off, gone read-only, limited. */
class FailingDisksTest {
  private static final int MIB = 1 << 20;
  private static final int EIO = 5;
  private static final int EFBIG = 27;
  private static final int ENOSPC = 28;
  private static final int EROFS = 30;

  @TempDir private Path directory;

  /** So many blocks of 1 MiB on disk and in device memory. */
  private static SpillwayFixture open(
      Path root, int blocks, UnaryOperator<SpillwayConfig.Builder> options) {
    return new SpillwayFixture(
        root,
        KvLayout.ofBlockBytes(MIB, 16),
        blocks,
        builder ->
            options.apply(
                builder.capacityBytes((long) blocks * MIB).stagingBytes(16L * MIB).queueDepth(4)));
  }

  private static List<Integer> errnos(TransferResult result) {
    return result.faults().values().stream().map(BlockFault::errno).distinct().sorted().toList();
  }

  /** Every block that is found is right; what is not is a miss. Answers how many were found. */
  private static int loadAllThatIsThere(SpillwayFixture test, long firstKey, int count) {
    int found = 0;
    for (int i = 0; i < count; i++) {
      test.fill(0, 12345);
      if (test.load(firstKey + i, 1, 0).moved() == 1) {
        assertThat(test.holds(0, firstKey + i)).as("block %d", i).isTrue();
        found++;
      } else {
        assertThat(test.holds(0, 12345)).as("block %d is not copied", i).isTrue();
      }
    }
    return found;
  }

  /** Shows: F11, case12: a disk that ends before its file does. */
  @ParameterizedTest
  @EnumSource(names = {"URING", "THREADS"})
  void aDeviceThatIsCutOffFailsWhatLiesBehindTheCut(EngineKind kind) {
    SpillwayFixture.assumeAllowed(kind);
    try (var mount = Mount.loop(directory, "ext4", 64, 512);
        var test = open(mount.root(), 40, builder -> builder.engine(kind))) {
      assertThat(test.store(1, 0, 40).moved()).isEqualTo(40);
      Commands.run("sync");
      Commands.run("truncate", "-s", "30m", directory.resolve("ext4.img").toString());
      for (int i = 0; i < 40; i++) {
        test.fill(i, 12345);
      }
      var result = test.load(1, 40, 0);
      assertThat(result.faults()).isNotEmpty();
      assertThat(errnos(result)).containsExactly(EIO);
      assertThat(result.faults().values())
          .allMatch(fault -> fault.outcome() == BlockOutcome.READ_ERROR);
      for (int i = 0; i < 40; i++) {
        assertThat(result.outcome(i).isWell()).isEqualTo(test.holds(i, 1 + i));
      }
      int lost = result.faults().size();
      assertThat(lost).isBetween(1, 39);
      assertThat(test.spillway.stats().retiredSlots()).isEqualTo(lost);
      assertThat(loadAllThatIsThere(test, 1, 40)).isEqualTo(40 - lost);
    }
  }

  /** Shows: F34, case45: a sparse file on a file system that fills up before our own limit. */
  @ParameterizedTest
  @EnumSource(names = {"URING", "THREADS"})
  void onAFullFileSystemOlderBlocksGiveWayAndIfNoneCanStoresPause(EngineKind kind)
      throws InterruptedException {
    SpillwayFixture.assumeAllowed(kind);
    try (var mount = Mount.loop(directory, "ext4", 32, 512);
        var test =
            open(mount.root(), 60, builder -> builder.engine(kind).allocation(Allocation.SPARSE))) {
      for (int first = 0; first < 60; first += 6) {
        var result = test.store(1 + first, first, 6);
        assertThat(result.moved()).as("%s", result.faults()).isEqualTo(6);
        assertThat(loadAllThatIsThere(test, 1 + first, 6)).isEqualTo(6);
      }
      var full = test.spillway.stats();
      assertThat(full.evictions()).as("our own limit was not reached").isPositive();
      assertThat(full.freeSlots()).isPositive();
      assertThat(full.noRoom()).isEmpty();
      assertThat(full.storePauses()).isZero();
      assertThat(loadAllThatIsThere(test, 1, 60)).isBetween(6, 32);

      var leases =
          IntStream.range(0, 60)
              .mapToObj(i -> test.spillway.lookup(SpillwayFixture.keys(1 + i, 1)))
              .collect(Collectors.toCollection(ArrayList::new));
      int kept = (int) leases.stream().filter(lease -> lease.size() == 1).count();
      var refused = test.store(101, 0, 1);
      for (int key = 102; refused.isWell() && key < 140; key++) { // what punched slots have left
        leases.add(test.spillway.lookup(SpillwayFixture.keys(key - 1, 1)));
        refused = test.store(key, 0, 1);
      }
      assertThat(errnos(refused)).containsExactly(ENOSPC);
      assertThat(test.spillway.stats().noRoom()).contains(NoRoom.FULL);
      assertThat(test.store(201, 0, 6).faults().values())
          .allMatch(fault -> fault.outcome() == BlockOutcome.REJECTED);
      assertThat(loadAllThatIsThere(test, 1, 60)).as("what is held stays").isEqualTo(kept);
      leases.forEach(Lease::close);
      int stored = 0;
      for (int i = 0; i < 100 && stored == 0; i++) {
        TimeUnit.MILLISECONDS.sleep(20);
        stored = test.store(301, 0, 6).moved();
      }
      assertThat(stored).as("they resume by themselves").isEqualTo(6);
      var resumed = test.spillway.stats();
      assertThat(resumed.noRoom()).isEmpty();
      assertThat(resumed.storePauses()).isEqualTo(1);
      assertThat(resumed.retiredSlots()).isZero();
    }
  }

  /** Shows: F34: the kernel has made the file system read-only after an error of its own. */
  @Test
  void aFileSystemThatGoesReadOnlyFailsStoresAndKeepsLoads() throws IOException {
    try (var mount = Mount.loop(directory, "ext4", 64, 512)) {
      assumeTrue(
          Commands.run("mount", "-o", "remount,errors=remount-ro", mount.root().toString()).code()
              == 0,
          "the file system cannot be told to go read-only at an error");
      var trigger = Path.of("/sys/fs/ext4", mount.deviceName(), "trigger_fs_error");
      assumeTrue(Files.isWritable(trigger), trigger + " cannot be written");
      try (var test = open(mount.root(), 20, UnaryOperator.identity())) {
        test.store(1, 0, 4);
        Files.writeString(trigger, "1");
        var result = test.store(11, 4, 4);
        assertThat(result.faults()).hasSize(4);
        assertThat(errnos(result)).containsAnyOf(EROFS, EIO);
        assertThat(loadAllThatIsThere(test, 1, 4)).isEqualTo(4);
        assertThat(test.hits(11, 4)).isZero();
      }
    }
  }

  /** Shows: F35, case23: a limit cuts a write short, and the next goes past it. */
  @ParameterizedTest
  @EnumSource(names = {"URING", "THREADS"})
  void aWriteThatIsCutShortByALimitIsNoStore(EngineKind kind) {
    SpillwayFixture.assumeAllowed(kind);
    var output =
        Commands.run(
            Commands.java(List.of(), UnderALimit.class, directory.toString(), kind.name()));
    assumeTrue(!output.text().contains("no prlimit"), output.text());
    assertThat(output.text()).contains("as it should be");
  }

  /** What the child JVM runs, since a limit on file sizes is one of a whole process. */
  static final class UnderALimit {
    public static void main(String[] args) {
      try (var test =
          open(Path.of(args[0]), 8, builder -> builder.engine(EngineKind.valueOf(args[1])))) {
        test.store(1, 0, 2);
        long limit = 65536 + 4 * MIB + MIB / 2; // in the middle of the fifth slot
        var pid = "" + ProcessHandle.current().pid();
        if (Commands.run("prlimit", "--pid", pid, "--fsize=" + limit).code() != 0) {
          System.out.println("no prlimit");
          return;
        }
        var result = test.store(11, 2, 5); // into slots 2 to 6
        assertThat(result.faults()).containsOnlyKeys(2, 3, 4);
        assertThat(errnos(result)).containsExactly(EFBIG);
        assertThat(test.spillway.stats().retiredSlots()).isZero();
        assertThat(test.spillway.stats().storePauses()).isEqualTo(1);
        assertThat(loadAllThatIsThere(test, 1, 2)).isEqualTo(2);
        assertThat(loadAllThatIsThere(test, 11, 5)).isEqualTo(2);
        System.out.println("as it should be");
      }
    }
  }

  /** Shows: F13: cut off behind our back, then grown again by the next store. */
  @Test
  void aFileThatIsCutOffBehindOurBackHealsWithTheNextStores() throws IOException {
    try (var test = open(directory, 8, builder -> builder.probeInterval(Duration.ofMillis(20)))) {
      test.store(1, 0, 8);
      var path = directory.resolve("rank-0-of-1.blocks");
      long whole = Files.size(path);
      try (var file = new RandomAccessFile(path.toFile(), "rw")) {
        file.setLength(65536 + 4L * MIB);
      }
      var result = test.load(1, 8, 0);
      assertThat(result.faults()).containsOnlyKeys(4, 5, 6, 7);
      assertThat(result.faults().values()).allMatch(f -> f.outcome() == BlockOutcome.SHORT);
      assertThat(test.spillway.stats().retiredSlots()).isEqualTo(4);
      long until = System.nanoTime() + Duration.ofSeconds(20).toNanos();
      while (test.spillway.stats().retiredSlots() > 0 && System.nanoTime() < until) {
        test.spillway.poll(Duration.ofMillis(5));
      }
      assertThat(test.spillway.stats().probedBackSlots())
          .as("trials brought them back")
          .isEqualTo(4);
      assertThat(Files.size(path)).isEqualTo(whole);
      assertThat(test.spillway.await(test.spillway.store(keys(21, 4), 0, range(4, 4))).moved())
          .isEqualTo(4);
    }
  }
}
