package dev.spillway;

import static dev.spillway.testing.SpillwayFixture.engine;
import static dev.spillway.testing.SpillwayFixture.keys;
import static dev.spillway.testing.SpillwayFixture.range;
import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;

import dev.spillway.block.BlockFault;
import dev.spillway.block.BlockOutcome;
import dev.spillway.block.DeviceEvent;
import dev.spillway.block.KvLayout;
import dev.spillway.device.HostDevice;
import dev.spillway.engine.EngineOptions.EngineKind;
import dev.spillway.policy.LoadFailurePolicy;
import dev.spillway.testing.FaultFs;
import dev.spillway.testing.SpillwayFixture;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Faults that the kernel answers: a file system of the tests' own fails at chosen offsets. */
class KernelFaultsTest {
  private static final int BLOCK = 16384;
  private static final int EIO = 5;
  private static final int EAGAIN = 11;
  private static final int ENOSPC = 28;

  @TempDir private Path directory;
  private FaultFs disk;

  @BeforeEach
  void mount() {
    disk = FaultFs.mount(directory);
  }

  @AfterEach
  void unmount() {
    disk.close();
  }

  private SpillwayFixture open(EngineKind kind, boolean thread) {
    SpillwayFixture.assumeAllowed(kind);
    return SpillwayFixture.small(disk.root(), engine(kind, thread));
  }

  /** Where a slot begins: slots are handed out in order from a new file. */
  private static long slot(int number) {
    return 65536 + (long) number * BLOCK;
  }

  private static void assertHolds(SpillwayFixture test, int firstBlock, long firstKey, int count) {
    for (int i = 0; i < count; i++) {
      assertThat(test.holds(firstBlock + i, firstKey + i)).as("block %d", i).isTrue();
    }
  }

  /** Shows: F11 F24 V1 V2 V4 V5 V6 V16 V24 V25 V26 V202 V203 V212, case36 case37 */
  @ParameterizedTest
  @CsvSource({"URING,false", "THREADS,true"})
  void aReadErrorIsOneBlockAndItsCause(EngineKind kind, boolean thread) {
    try (var test = open(kind, thread)) {
      test.store(1, 0, 8);
      test.fill(21, 999);
      disk.rule("read", slot(5), BLOCK, "errno " + EIO, 0);
      var result = test.load(1, 8, 16);
      assertThat(result.faults()).containsOnlyKeys(5);
      var fault = requireNonNull(result.faults().get(5));
      assertThat(fault.outcome()).isEqualTo(BlockOutcome.READ_ERROR);
      assertThat(fault.errno()).isEqualTo(EIO);
      assertThat(fault.slot()).isEqualTo(5);
      assertThat(fault.bytesWanted()).isEqualTo(BLOCK);
      assertThat(test.holds(21, 999)).as("nothing was copied for the bad block").isTrue();
      assertHolds(test, 16, 1, 5);
      assertHolds(test, 22, 7, 2);
      assertThat(disk.hits("read errno")).as("a medium error is not tried again").isEqualTo(1);
      assertThat(test.hits(1, 8)).as("a retry cannot hit it").isEqualTo(5);
      assertThat(test.hits(7, 2)).as("what lies behind it stays").isEqualTo(2);
      assertThat(test.spillway.stats().retiredSlots()).isEqualTo(1);
      assertThat(test.spillway.poll()).as("told once").isZero();
      disk.clear();
      assertThat(test.load(1, 5, 24).isWell()).as("the same lanes go on").isTrue();
    }
  }

  /**
   * Records of 64 slots lie from byte 4096 of the index file on; no block does, nor a superblock.
   */
  @Test
  @Timeout(30)
  void recordsGoOnWhereTheirDiskDoes() throws InterruptedException {
    try (var test = open(EngineKind.AUTO, true)) {
      disk.rule("write", 4096, 4096, "errno " + ENOSPC, 0);
      assertThat(test.store(1, 0, 8).moved()).as("blocks need no records").isEqualTo(8);
      awaitTrouble(test, false);
      assertThat(test.store(11, 8, 8).moved()).isEqualTo(8);
      disk.clear();
      awaitTrouble(test, true);
    }
    try (var test = open(EngineKind.AUTO, false)) {
      assertThat(test.hits(1, 8)).isEqualTo(8);
      assertThat(test.hits(11, 8)).isEqualTo(8);
    }
  }

  private static void awaitTrouble(SpillwayFixture test, boolean over) throws InterruptedException {
    while (test.spillway.stats().restored().trouble().isEmpty() != over) {
      test.spillway.poll();
      Thread.sleep(1);
    }
  }

  /** What a record names that could not be read may lie on disk still: nobody says it does not. */
  @Test
  void forgetDoesNotVouchForRecordsThatCannotBeRead() {
    UnaryOperator<SpillwayConfig.Builder> options =
        builder -> builder.capacityBytes(2048L * BLOCK); // 128 KiB of records, read at once
    try (var test = SpillwayFixture.small(disk.root(), options)) {
      test.store(1, 0, 8);
    }
    disk.rule("read", slot(2), 4096, "errno " + EIO, 0);
    try (var test = SpillwayFixture.small(disk.root(), options)) {
      assertThat(test.hits(1, 8)).isZero();
      assertThat(test.spillway.await(test.spillway.forget(0, keys(1, 8)))).isEqualTo(1);
      assertThat(test.spillway.await(test.spillway.forgetTenant("somebody"))).isEqualTo(1);
    }
    disk.clear();
    try (var test = SpillwayFixture.small(disk.root(), options)) {
      assertThat(test.spillway.await(test.spillway.forget(0, keys(1, 8)))).isZero();
      assertThat(test.hits(1, 8)).isZero();
    }
  }

  /** Shows: F20 V213: with the first block gone nothing is left, and it is said of each. */
  @Test
  void everyReadFailsAndEveryBlockSaysSo() {
    try (var test = open(EngineKind.AUTO, false)) {
      test.store(1, 0, 8);
      disk.rule("read", slot(0), 0, "errno " + EIO, 0);
      var result = test.load(1, 8, 16);
      assertThat(result.wellPrefix()).isZero();
      assertThat(result.faults()).hasSize(8);
      assertThat(test.hits(1, 8)).isZero();
      disk.clear();
      assertThat(test.store(1, 0, 8).moved()).as("into other slots").isEqualTo(8);
      assertThat(test.load(1, 8, 16).moved()).isEqualTo(8);
    }
  }

  /** Shows: F12 F35 V3, case23: goes on from where it stopped. */
  @ParameterizedTest
  @CsvSource({"URING,false", "THREADS,true"})
  void aShortReadGoesOn(EngineKind kind, boolean thread) {
    try (var test = open(kind, thread)) {
      test.store(1, 0, 4);
      disk.rule("read", slot(2), BLOCK, "short 4096", 1);
      assertThat(test.load(1, 4, 16).moved()).isEqualTo(4);
      assertHolds(test, 16, 1, 4);
      assertThat(disk.hits("read short")).isEqualTo(1);
      assertThat(test.spillway.stats().engine().load().resumed()).isEqualTo(1);
    }
  }

  /** Shows: F13 V3 */
  @Test
  void aReadThatMovesNothingIsShort() {
    try (var test = open(EngineKind.AUTO, false)) {
      test.store(1, 0, 4);
      disk.rule("read", slot(2), BLOCK, "short 0", 0);
      var result = test.load(1, 4, 16);
      assertThat(result.faults()).containsOnlyKeys(2);
      assertThat(result.outcome(2)).isEqualTo(BlockOutcome.SHORT);
      assertThat(test.hits(1, 4)).isEqualTo(2);
      assertThat(test.spillway.stats().retiredSlots()).isEqualTo(1);
    }
  }

  /** Shows: F15 V214: twice busy, then well. */
  @ParameterizedTest
  @CsvSource({"URING,false", "THREADS,true"})
  void aTransientErrorIsTriedAgain(EngineKind kind, boolean thread) {
    try (var test = open(kind, thread)) {
      test.store(1, 0, 4);
      disk.rule("read", slot(1), BLOCK, "errno " + EAGAIN, 2);
      assertThat(test.load(1, 4, 16).moved()).isEqualTo(4);
      assertHolds(test, 16, 1, 4);
      assertThat(disk.hits("read errno")).isEqualTo(2);
      assertThat(test.spillway.stats().retiredSlots()).isZero();
      assertThat(test.hits(1, 4)).isEqualTo(4);
    }
  }

  /** Shows: F16 F36: what the disk lost or changed is never given out. */
  @ParameterizedTest
  @CsvSource({"write,lost 0", "write,corrupt 1", "read,corrupt 1"})
  void bytesThatDifferAreCorrupt(String operation, String action) {
    try (var test = open(EngineKind.AUTO, false)) {
      disk.rule(operation, slot(3), BLOCK, action, 1);
      assertThat(test.store(1, 0, 6).moved()).isEqualTo(6);
      test.fill(19, 999);
      var result = test.load(1, 6, 16);
      assertThat(result.faults()).containsOnlyKeys(3);
      assertThat(result.outcome(3)).isEqualTo(BlockOutcome.CORRUPT);
      assertThat(test.holds(19, 999)).isTrue();
      assertThat(test.hits(1, 6)).isEqualTo(3);
      assertThat(test.spillway.stats().retiredSlots()).isEqualTo(1);
    }
  }

  /** Shows: F33 V2 V6 V17 V219, case36: the blocks beside it stay. */
  @ParameterizedTest
  @CsvSource({"URING,false", "THREADS,true"})
  void aWriteErrorIsOneBlockAndTheOthersCommit(EngineKind kind, boolean thread) {
    try (var test = open(kind, thread)) {
      disk.rule("write", slot(3), BLOCK, "errno " + EIO, 0);
      var result = test.store(1, 0, 6);
      assertThat(result.faults()).containsOnlyKeys(3);
      assertThat(result.outcome(3)).isEqualTo(BlockOutcome.WRITE_ERROR);
      assertThat(requireNonNull(result.faults().get(3)).errno()).isEqualTo(EIO);
      assertThat(test.hits(1, 6)).isEqualTo(3);
      assertThat(test.hits(5, 2)).isEqualTo(2);
      assertThat(test.spillway.stats().retiredSlots()).isEqualTo(1);
      assertThat(test.store(4, 3, 1).moved()).as("the next store takes another slot").isEqualTo(1);
      assertThat(test.load(1, 6, 16).moved()).isEqualTo(6);
      assertHolds(test, 16, 1, 6);
    }
  }

  /** Shows: F42 V10 V11: a drain waits for both, and only one has failed. */
  @Test
  void aDrainOfTwoRequestsTellsOfBothAndOnlyOneHasFailed() {
    try (var test = open(EngineKind.AUTO, false)) {
      disk.rule("write", slot(1), BLOCK, "errno " + EIO, 1);
      var one = test.spillway.store(1, 0, keys(1, 2), 0, range(0, 2), DeviceEvent.NOW);
      var other = test.spillway.store(2, 0, keys(11, 2), 0, range(2, 2), DeviceEvent.NOW);
      while (disk.hits("write errno") == 0) {
        test.spillway.poll(Duration.ofMillis(10));
      }
      var quiet = test.spillway.drain(1, 2);
      while (!quiet.isDone() || !one.isDone() || !other.isDone()) {
        test.spillway.poll(Duration.ofMillis(10));
      }
      assertThat(one.join().outcome(1)).isEqualTo(BlockOutcome.WRITE_ERROR);
      assertThat(other.join().faults().values())
          .allMatch(fault -> fault.outcome() == BlockOutcome.CANCELLED);
    }
  }

  /** Shows: F34 V2, case46 case48: no space, quota and read-only put stores off; loads go on. */
  @ParameterizedTest
  @CsvSource({"28", "122", "30", "27"})
  void noRoomPausesStoresAndNothingElse(int errno) throws InterruptedException {
    try (var test = open(EngineKind.AUTO, false)) {
      test.store(1, 0, 4);
      disk.rule("write", 0, 0, "errno " + errno, 0);
      var refused = test.store(11, 4, 4);
      assertThat(refused.faults().values()).allMatch(f -> f.outcome() == BlockOutcome.WRITE_ERROR);
      assertThat(refused.faults().values()).allMatch(f -> f.errno() == errno);
      long reached = disk.hits("write errno");
      assertThat(test.store(21, 4, 4).faults().values())
          .allMatch(fault -> fault.outcome() == BlockOutcome.REJECTED);
      assertThat(disk.hits("write errno")).as("a paused store reaches no disk").isEqualTo(reached);
      assertThat(test.spillway.stats().storePauses()).isEqualTo(1);
      var cause = BlockFault.noRoom(errno);
      assertThat(test.spillway.stats().noRoom()).isEqualTo(cause).isPresent();
      assertThat(refused.faults().get(0)).asString().contains(cause.orElseThrow().name());
      assertThat(test.spillway.stats().retiredSlots()).as("full is not broken").isZero();
      assertThat(test.load(1, 4, 16).moved()).isEqualTo(4);
      disk.clear();
      int stored = 0;
      for (int i = 0; i < 300 && stored == 0; i++) {
        TimeUnit.MILLISECONDS.sleep(10);
        stored = test.store(31, 4, 4).moved();
      }
      assertThat(stored).as("they resume by themselves").isEqualTo(4);
      assertThat(test.spillway.stats().noRoom()).isEmpty();
      assertThat(test.hits(31, 4)).isEqualTo(4);
    }
  }

  /**
   * Shows: F17 V8 V9 V138, case31 case57: told at once, and the memory is kept until it is quiet.
   */
  @ParameterizedTest
  @CsvSource({"URING,false", "THREADS,true"})
  void aReadThatHangsExpiresAndItsBlockStaysFenced(EngineKind kind, boolean thread) {
    try (var test = open(kind, thread)) {
      test.store(1, 0, 4);
      disk.rule("read", slot(2), BLOCK, "hang 1500", 1);
      try (var lease = test.spillway.lookup(List.of(keys(1, 4)), 0, 64)) {
        long begun = System.nanoTime();
        var load =
            test.spillway.load(
                7,
                lease,
                List.of(range(16, 4)),
                DeviceEvent.NOW,
                Duration.ofMillis(200),
                LoadFailurePolicy.recompute());
        while (!load.isDone()) {
          test.spillway.poll(Duration.ofMillis(20));
        }
        assertThat(System.nanoTime() - begun).as("told at once").isLessThan(1_200_000_000L);
        var result = load.join();
        assertThat(result.failedBlocks(0)).containsExactly(2);
        assertThat(result.causes()).containsExactly(BlockOutcome.EXPIRED);
        assertThat(result.validTokens()).isEqualTo(32);
        assertThat(result.fails()).isFalse();
        var quiet = result.quiet().toCompletableFuture();
        assertThat(quiet).isNotDone();
        assertThat(test.load(1, 2, 20).moved()).as("costs a slot, not the lane").isEqualTo(2);
        while (!quiet.isDone()) {
          test.spillway.poll(Duration.ofMillis(20));
        }
        assertThat(System.nanoTime() - begun).isGreaterThan(1_400_000_000L);
      }
      assertThat(test.hits(1, 4)).as("the entry stays").isEqualTo(4);
      assertThat(test.load(1, 4, 16).moved()).isEqualTo(4);
    }
  }

  /** Shows: F54 V29, case46: close within its bound leaves behind what the kernel owns. */
  @Test
  void closeReturnsThoughAReadHangs() {
    var device = HostDevice.allocate(KvLayout.ofBlockBytes(BLOCK, 16), 8);
    var spillway =
        Spillway.open(
            SpillwayConfig.builder(disk.root(), device)
                .capacityBytes(16 * BLOCK)
                .closeWait(Duration.ofMillis(300))
                .build());
    spillway.await(spillway.store(keys(1, 2), 0, range(0, 2)));
    disk.rule("read", slot(1), BLOCK, "hang 3000", 1);
    var lease = spillway.lookup(keys(1, 2));
    var load = spillway.load(lease, range(4, 2));
    while (disk.hits("read hang") == 0) {
      spillway.poll(Duration.ofMillis(10)); // until the kernel has it
    }
    lease.close();
    long begun = System.nanoTime();
    spillway.close();
    assertThat(System.nanoTime() - begun).isLessThan(2_000_000_000L);
    assertThat(load).isCompleted();
    assertThat(load.join().outcome(1)).isIn(BlockOutcome.CANCELLED, BlockOutcome.ENGINE_FAILED);
    assertThat(load.join().quiet().toCompletableFuture())
        .as("its memory is never free again")
        .isCompletedExceptionally();
    device.close(); // and the read that comes back finds nobody: no copy, and no crash
    long until = System.nanoTime() + 4_000_000_000L;
    while (System.nanoTime() < until) {
      LockSupport.parkNanos(100_000_000);
    }
  }

  /** Shows: V29, case12: the disk is pulled out; everything ends, nothing hangs. */
  @ParameterizedTest
  @CsvSource({"URING,false", "THREADS,true"})
  void aDiskThatGoesAwayEndsEveryBlock(EngineKind kind, boolean thread) {
    try (var test = open(kind, thread)) {
      test.store(1, 0, 8);
      disk.rule("read", slot(2), BLOCK, "hang 500", 1);
      try (var lease = test.spillway.lookup(keys(1, 8))) {
        var load = test.spillway.load(lease, range(16, 8));
        while (disk.hits("read hang") == 0) {
          test.spillway.poll(Duration.ofMillis(10));
        }
        disk.kill();
        var result = test.spillway.await(load);
        for (int i = 0; i < 8; i++) {
          if (result.outcome(i) == BlockOutcome.LOADED) {
            assertThat(test.holds(16 + i, 1 + i)).as("block %d", i).isTrue();
          }
        }
        assertThat(result.outcome(2)).isEqualTo(BlockOutcome.READ_ERROR);
      }
      assertThat(test.load(7, 2, 24).faults().values())
          .allMatch(fault -> fault.outcome() == BlockOutcome.READ_ERROR);
      assertThat(test.store(31, 0, 4).faults().values())
          .allMatch(fault -> fault.outcome() == BlockOutcome.WRITE_ERROR);
    }
  }
}
