package dev.spillway;

import static dev.spillway.testing.SpillwayFixture.engine;
import static dev.spillway.testing.SpillwayFixture.keys;
import static dev.spillway.testing.SpillwayFixture.range;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.spillway.block.BlockOutcome;
import dev.spillway.block.DeviceEvent;
import dev.spillway.block.KvLayout;
import dev.spillway.block.TransferResult;
import dev.spillway.device.HostDevice;
import dev.spillway.engine.EngineOptions.EngineKind;
import dev.spillway.engine.FaultSpec;
import dev.spillway.engine.NativeMemory;
import dev.spillway.engine.OpenRefusedException;
import dev.spillway.engine.OpenRefusedException.Reason;
import dev.spillway.policy.LoadFailurePolicy;
import dev.spillway.testing.SpillwayFixture;
import dev.spillway.testing.TestDevices;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The face over the real engine and a real disk, on both engines and with both kinds of worker. */
class SpillwayTest {
  @TempDir private Path directory;

  private SpillwayFixture open(EngineKind kind, boolean thread) {
    SpillwayFixture.assumeAllowed(kind);
    return SpillwayFixture.small(directory, engine(kind, thread));
  }

  /** Shows: V1 */
  @ParameterizedTest
  @CsvSource({"URING,false", "URING,true", "THREADS,false", "THREADS,true"})
  void v200WhatIsLoadedIsWhatWasStored(EngineKind kind, boolean thread) {
    try (var test = open(kind, thread)) {
      assertThat(test.store(1, 0, 16).moved()).isEqualTo(16);
      assertThat(test.load(1, 16, 16).moved()).isEqualTo(16);
      for (int i = 0; i < 16; i++) {
        assertThat(test.holds(16 + i, 1 + i)).as("block %d", i).isTrue();
      }
    }
  }

  /** Shows: V204 */
  @ParameterizedTest
  @CsvSource({"URING,false", "THREADS,true"})
  void v208BatchesOfAnySizeAreWhole(EngineKind kind, boolean thread) {
    try (var test = open(kind, thread)) {
      long first = 1;
      for (int count : new int[] {0, 1, 2, 5}) {
        assertThat(test.store(first, 0, count).size()).isEqualTo(count);
        assertThat(test.load(first, count, 16).wellPrefix()).isEqualTo(count);
        for (int i = 0; i < count; i++) {
          assertThat(test.holds(16 + i, first + i)).isTrue();
        }
        first += 100;
      }
    }
  }

  /** Shows: V204 */
  @Test
  void v201AMissingKeyIsAMiss() {
    try (var test = open(EngineKind.AUTO, false)) {
      assertThat(test.hits(1, 4)).isZero();
      test.store(1, 0, 2);
      assertThat(test.hits(1, 4)).isEqualTo(2);
      assertThat(test.hits(2, 1)).isEqualTo(1);
      assertThat(test.load(3, 4, 8).size()).isZero();
    }
  }

  /** A byte flipped on disk behind the engine's back: that block is CORRUPT, nothing else. */
  @ParameterizedTest
  @CsvSource({"URING,false", "THREADS,true"})
  void oneFlippedByteOnDiskIsOneCorruptBlock(EngineKind kind, boolean thread) throws IOException {
    try (var test = open(kind, thread)) {
      test.store(1, 0, 8);
      test.fill(20, 999);
      flipByte(65536 + 5 * 16384 + 777);
      var result = test.load(1, 8, 16);
      assertThat(result.faults()).containsOnlyKeys(5);
      assertThat(result.outcome(5)).isEqualTo(BlockOutcome.CORRUPT);
      for (int i = 0; i < 8; i++) {
        assertThat(test.holds(16 + i, 1 + i)).as("block %d", i).isEqualTo(i != 5);
      }
      assertThat(test.hits(1, 8)).as("the retry cannot hit it").isEqualTo(5);
      assertThat(test.hits(7, 2)).as("what lies behind it stays").isEqualTo(2);
      assertThat(test.spillway.stats().retiredSlots()).isEqualTo(1);
      assertThat(test.spillway.stats().count(BlockOutcome.CORRUPT)).isEqualTo(1);
    }
  }

  private void flipByte(long at) throws IOException {
    try (var file = new RandomAccessFile(directory.resolve("rank-0-of-1.blocks").toFile(), "rw")) {
      file.seek(at);
      int value = file.read();
      file.seek(at);
      file.write(value ^ 0x10);
      file.getFD().sync();
    }
  }

  @Test
  void aFileCutOffBehindOurBackIsShort() throws IOException {
    try (var test = open(EngineKind.AUTO, false)) {
      test.store(1, 0, 4);
      try (var file =
          new RandomAccessFile(directory.resolve("rank-0-of-1.blocks").toFile(), "rw")) {
        file.setLength(65536 + 2 * 16384 + 4096);
      }
      var result = test.load(1, 4, 16);
      assertThat(result.faults()).containsOnlyKeys(2, 3);
      assertThat(result.outcome(2)).isEqualTo(BlockOutcome.SHORT);
      assertThat(result.faults().get(2)).satisfies(f -> assertThat(f.bytesDone()).isEqualTo(4096));
      assertThat(test.hits(1, 4)).isEqualTo(2);
    }
  }

  @Test
  void theDefaultEvictsTheOldest() {
    try (var test = open(EngineKind.AUTO, false)) {
      for (int i = 0; i < 10; i++) {
        assertThat(test.store(100L * i, 0, 16).moved()).isEqualTo(16);
      }
      assertThat(test.hits(0, 16)).isZero();
      assertThat(test.hits(900, 16)).isEqualTo(16);
      assertThat(test.spillway.stats().evictions()).isEqualTo(160 - 64);
    }
  }

  /** Shows: V82 */
  @Test
  void aLeasedPrefixIsNotEvicted() {
    try (var test = open(EngineKind.AUTO, false)) {
      test.store(0, 0, 16);
      try (var lease = test.spillway.lookup(keys(0, 16))) {
        for (int i = 1; i < 10; i++) {
          test.store(100L * i, 0, 16);
        }
        assertThat(test.spillway.await(test.spillway.load(lease, range(16, 16))).moved())
            .isEqualTo(16);
      }
      assertThat(test.holds(31, 15)).isTrue();
    }
  }

  @Test
  void blocksBeyondTheBoundAreRejectedAndNothingElse() {
    try (var test = SpillwayFixture.small(directory, builder -> builder.blocksInFlightMax(4))) {
      var result = test.store(1, 0, 6);
      assertThat(result.wellPrefix()).isEqualTo(4);
      assertThat(result.outcome(5)).isEqualTo(BlockOutcome.REJECTED);
      assertThat(test.hits(1, 6)).isEqualTo(4);
    }
  }

  @Test
  void admissionDeclinesAStoreAsAWhole() {
    try (var test =
        SpillwayFixture.small(
            directory, builder -> builder.admission((group, from, count) -> count > 2))) {
      assertThat(test.store(1, 0, 2).outcome(1)).isEqualTo(BlockOutcome.REJECTED);
      assertThat(test.store(1, 0, 3).moved()).isEqualTo(3);
    }
  }

  /** V211, and promise 11: refused whole, with what was wrong and what would be right. */
  @Test
  void v211AnUnknownBlockFailsItsCallOnly() {
    try (var test = open(EngineKind.AUTO, false)) {
      assertThatThrownBy(() -> test.spillway.store(keys(1, 2), 0, new int[] {0, 32}))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage("device block 32 at position 1; group 0 has blocks 0 to 31");
      assertThatThrownBy(() -> test.spillway.store(keys(1, 2), 1, new int[] {0, 1}))
          .hasMessage(
              "2 blocks from position 1 of a prefix of 2 keys; up to 1 from there would be right");
      assertThatThrownBy(
              () -> test.spillway.store(1, keys(1, 1), 0, new int[] {0}, DeviceEvent.NOW))
          .hasMessage("group 1; 0 to 0 are known");
      assertThatThrownBy(() -> test.spillway.lookup(0, keys(1, 1), -1))
          .hasMessageContaining("from position -1");
      test.store(1, 0, 2);
      try (var lease = test.spillway.lookup(keys(1, 2))) {
        assertThatThrownBy(() -> test.spillway.load(lease, range(0, 3)))
            .hasMessage("3 device blocks for a lease of 2 blocks; at most that would be right");
      }
      assertThat(test.spillway.stats().blocksInFlight()).isZero();
    }
  }

  @Test
  void v210AwaitIdleWaitsForEverything() {
    try (var test = open(EngineKind.AUTO, false)) {
      var results = new ArrayList<CompletableFuture<TransferResult>>();
      for (int i = 0; i < 8; i++) {
        results.add(test.spillway.store(keys(100L * i, 4), 0, range(4 * i, 4)));
      }
      assertThat(test.spillway.awaitIdle(Duration.ofSeconds(30))).isTrue();
      assertThat(results).allSatisfy(result -> assertThat(result).isCompleted());
    }
  }

  /** V209, V46: the page cache, only because it was asked for; slots are not padded. */
  @Test
  void v46V209WorksInThePageCacheWhenAsked() {
    var layout = KvLayout.ofBlockBytes(10_496, 16);
    try (var test =
        new SpillwayFixture(
            directory, layout, 8, builder -> builder.capacityBytes(1 << 20).directIo(false))) {
      var mode = test.spillway.stats().mode();
      assertThat(mode.direct()).isFalse();
      assertThat(mode.slotBytes()).containsExactly(10_496);
      test.store(1, 0, 4);
      assertThat(test.load(1, 4, 4).wellPrefix()).isEqualTo(4);
      assertThat(test.holds(7, 4)).isTrue();
    }
  }

  /** Case 54: what is stored is what the block held after its event, not before. */
  @ParameterizedTest
  @CsvSource({"URING,false", "THREADS,true"})
  void case54AStoreWaitsForItsEvent(EngineKind kind, boolean thread) {
    try (var word = NativeMemory.map(8);
        var test = open(kind, thread)) {
      var computed = word.view(0, 8);
      var event = new DeviceEvent(word.address(), 1);
      var stored = test.spillway.store(0, keys(1, 1), 0, new int[] {0}, event);
      test.spillway.poll(Duration.ofMillis(1));
      assertThat(stored).isNotDone();
      test.fill(0, 1);
      computed.putLong(0, 1);
      assertThat(test.spillway.await(stored).isWell()).isTrue();
      test.load(1, 1, 9);
      assertThat(test.holds(9, 1)).isTrue();
    }
  }

  @ParameterizedTest
  @CsvSource({"URING,false", "URING,true", "THREADS,false"})
  void case33CloseDrainsAndEveryResultIsThere(EngineKind kind, boolean thread) throws Exception {
    var results = new ArrayList<CompletableFuture<TransferResult>>();
    var stop = new AtomicBoolean();
    var opener =
        new Thread(
            () -> {
              while (!stop.get()) {
                try (var file = Files.newInputStream(Path.of("/proc/self/stat"))) {
                  file.read();
                } catch (IOException e) {
                  throw new AssertionError(e);
                }
              }
            });
    try (var test = open(kind, thread)) {
      test.store(0, 0, 16);
      opener.start();
      for (int i = 0; i < 16; i++) {
        try (var lease = test.spillway.lookup(keys(0, 1))) {
          results.add(test.spillway.load(lease, new int[] {16 + i}));
        }
      }
      test.spillway.close();
      assertThatThrownBy(() -> test.spillway.lookup(keys(0, 1)))
          .hasMessage("this Spillway is closed");
      for (int i = 0; i < 16; i++) {
        var outcome = results.get(i).join().outcome(0);
        assertThat(outcome).isIn(BlockOutcome.LOADED, BlockOutcome.CANCELLED);
        assertThat(test.holds(16 + i, 0)).isEqualTo(outcome == BlockOutcome.LOADED);
      }
    } finally {
      stop.set(true);
      opener.join();
    }
  }

  /** Case 30: another thread is refused at once, with both names; never a silent hang. */
  @Test
  void case30AnotherThreadIsRefusedByName() throws InterruptedException {
    try (var test = open(EngineKind.AUTO, false)) {
      test.store(1, 0, 1);
      var failures = new ArrayList<Throwable>();
      var other =
          new Thread(
              () -> {
                List<Runnable> calls =
                    List.of(
                        () -> test.spillway.poll(),
                        () -> test.spillway.lookup(keys(1, 1)),
                        () -> test.spillway.store(keys(2, 1), 0, new int[] {0}).join(),
                        test.spillway::close);
                for (var call : calls) {
                  try {
                    call.run();
                  } catch (IllegalStateException e) {
                    failures.add(e);
                  }
                }
              },
              "intruder");
      other.start();
      other.join();
      assertThat(failures).hasSize(4);
      assertThat(failures.get(0))
          .hasMessageContaining("called by thread intruder; this Spillway belongs to thread");
    }
  }

  @Test
  void missingArgumentsAreRefusedBeforeAnythingChanges() {
    try (var test = open(EngineKind.AUTO, true)) {
      test.store(1, 0, 1);
      DeviceEvent none = nothing();
      assertThatThrownBy(() -> test.spillway.store(0, keys(9, 1), 0, new int[] {0}, none))
          .isInstanceOf(NullPointerException.class)
          .hasMessageContaining("DeviceEvent.NOW");
      try (var lease = test.spillway.lookup(keys(1, 1))) {
        assertThatThrownBy(() -> test.spillway.load(lease, new int[] {4}, none))
            .isInstanceOf(NullPointerException.class);
      }
      assertThat(test.load(1, 1, 4).isWell()).isTrue();
    }
  }

  @SuppressWarnings({"NullAway", "TypeParameterUnusedInFormals"})
  private static <T> T nothing() {
    return null;
  }

  @Test
  void awaitInAnAnswerAndOfAForeignResultEnds() {
    try (var test = open(EngineKind.AUTO, false)) {
      test.fill(0, 1);
      test.fill(1, 2);
      var second = new ArrayList<CompletableFuture<TransferResult>>();
      var first = test.spillway.store(keys(1, 1), 0, new int[] {0});
      var answer = first.thenApply(result -> test.spillway.await(second.get(0)).moved());
      second.add(test.spillway.store(keys(2, 1), 0, new int[] {1}));
      test.spillway.awaitIdle(Duration.ofSeconds(30));
      assertThat(answer).isCompletedWithValue(1);
      assertThatThrownBy(() -> test.spillway.await(new CompletableFuture<>()))
          .hasMessage("nothing is in flight; the result is not this Spillway's");
      assertThat(test.spillway.poll(Duration.ofSeconds(-1))).isZero();
    }
  }

  /** A scheduler that does not poll for a while costs no processor time. */
  @Test
  void aWorkerWhoseReportsNobodyTakesSleeps() {
    var cpu = java.lang.management.ManagementFactory.getThreadMXBean();
    try (var test = open(EngineKind.AUTO, true)) {
      var results = new ArrayList<CompletableFuture<TransferResult>>();
      for (int i = 0; i < 24; i++) {
        results.add(test.spillway.store(keys(100L * i, 1), 0, new int[] {i}));
        while (test.spillway.stats().engine().store().ended() <= i) {
          Thread.onSpinWait();
        }
      }
      long worker = workerThreadId();
      long before = cpu.getThreadCpuTime(worker);
      long until = System.nanoTime() + 300_000_000L;
      while (System.nanoTime() < until) {
        Thread.onSpinWait();
      }
      assertThat(cpu.getThreadCpuTime(worker) - before).isLessThan(100_000_000L);
      results.forEach(result -> assertThat(test.spillway.await(result).isWell()).isTrue());
    }
  }

  private static long workerThreadId() {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> thread.getName().equals("spillway-rank-0"))
        .findFirst()
        .orElseThrow()
        .getId();
  }

  /**
   * Shows: F56: F2: one owner; the second is told who the first is. A later open takes the file
   * over.
   */
  @Test
  void f2ASecondOwnerIsRefusedWithThePidOfTheFirst() {
    try (var first = open(EngineKind.AUTO, false)) {
      assertThatThrownBy(() -> open(EngineKind.AUTO, false))
          .isInstanceOfSatisfying(
              OpenRefusedException.class, e -> assertThat(e.reason()).isEqualTo(Reason.LOCKED))
          .hasMessageContaining("pid " + ProcessHandle.current().pid());
      first.store(1, 0, 1);
    }
    try (var second = open(EngineKind.AUTO, false)) {
      assertThat(second.spillway.stats().mode().epoch()).isEqualTo(2);
      assertThat(second.hits(1, 1)).as("the refusal has touched nothing").isEqualTo(1);
    }
  }

  /** V205 and F1: a path that cannot work is refused at open, by name. */
  @Test
  void v205AnInvalidPathIsRefusedAtOpen() throws IOException {
    var file = Files.createFile(directory.resolve("file"));
    assertThatThrownBy(() -> SpillwayFixture.small(file))
        .isInstanceOfSatisfying(
            OpenRefusedException.class,
            e -> {
              assertThat(e.reason()).isEqualTo(Reason.PATH);
              assertThat(e.errno()).isNotZero();
            })
        .hasMessageContaining(file.toString());
  }

  /** V149, V45, V42: values that cannot work are refused where they are given. */
  @Test
  void v42V149ValuesAreCheckedWithWhatWasGivenAndWhatIsAllowed() {
    try (var test = open(EngineKind.AUTO, false)) {
      var builder = SpillwayConfig.builder(directory, test.device);
      assertThatThrownBy(() -> builder.capacityBytes(0))
          .hasMessage("capacityBytes is 0; at least 1 would be right");
      assertThatThrownBy(() -> builder.capacityBytes(-5)).hasMessageContaining("is -5;");
      assertThatThrownBy(() -> builder.queueDepth(0))
          .hasMessage("queueDepth is 0; 1 to 4096 would be right");
      assertThatThrownBy(() -> builder.alignment(-512)).hasMessageContaining("alignment is -512");
      assertThatThrownBy(() -> builder.alignment(3000))
          .hasMessage("alignment is 3000; 0 or a power of two would be right");
      assertThatThrownBy(() -> builder.stagingBytes(0)).hasMessageContaining("stagingBytes is 0");
      assertThatThrownBy(() -> builder.blocksInFlightMax(65537)).hasMessageContaining("65537");
      assertThatThrownBy(() -> builder.nameSpace("")).hasMessageContaining("nameSpace has 0 bytes");
      assertThatThrownBy(() -> builder.closeWait(Duration.ofSeconds(-1)))
          .hasMessageContaining("closeWait is PT-1S");
      assertThatThrownBy(() -> builder.lockWait(Duration.ofSeconds(Long.MAX_VALUE)))
          .hasMessageContaining("zero to one day would be right");
    }
  }

  @Test
  void v45CapacityBelowOneSlotIsRefusedAtOpen() {
    assertThatThrownBy(
            () ->
                new SpillwayFixture(
                    directory,
                    KvLayout.ofBlockBytes(16384, 16),
                    1,
                    builder -> builder.capacityBytes(16383)))
        .hasMessageContaining("capacity 16383 bytes gives 0 slots of 16384 bytes");
  }

  /** Case 83: which memory, how much of it, and what to change. */
  @Test
  void case83TooMuchStagingNamesHostMemory() {
    assertThatThrownBy(
            () ->
                new SpillwayFixture(
                    directory,
                    KvLayout.ofBlockBytes(64 << 20, 16),
                    1,
                    builder ->
                        builder.capacityBytes(1L << 30).queueDepth(4096).stagingBytes(1L << 50)))
        .isInstanceOfSatisfying(
            OpenRefusedException.class, e -> assertThat(e.reason()).isEqualTo(Reason.HOST_MEMORY))
        .hasMessageContaining("host memory: 549755813888 bytes asked")
        .hasMessageContaining("lower stagingBytes or queueDepth");
  }

  @Test
  void anotherLayoutIsRefusedByTheFieldThatDiffers() {
    open(EngineKind.AUTO, false).close();
    assertThatThrownBy(
            () ->
                new SpillwayFixture(
                    directory,
                    KvLayout.ofBlockBytes(16384, 32),
                    4,
                    builder -> builder.capacityBytes(1 << 20)))
        .hasMessageContaining("group 0: block tokens is 16 in the file and 32 here");
  }

  @Test
  void theDepthIsReachedAndKeptUnderLoad() {
    assumeTrue(TestDevices.areHost(), "the emulated device is late on purpose");
    assertThat(meanDepthUnderLoad(directory.resolve("loaded"))).isGreaterThanOrEqualTo(0.9 * 32);
  }

  private static double meanDepthUnderLoad(Path place) {
    var layout = KvLayout.ofBlockBytes(65536, 16);
    try (var test =
        new SpillwayFixture(place, layout, 1024, builder -> builder.capacityBytes(1024L * 65536))) {
      var results = new ArrayList<CompletableFuture<TransferResult>>();
      for (int i = 0; i < 4; i++) {
        results.add(test.spillway.store(keys(1000L * i, 256), 0, range(256 * i, 256)));
      }
      results.forEach(result -> assertThat(test.spillway.await(result).isWell()).isTrue());
      results.clear();
      // A part is loaded again once its last load is over, and others are under way meanwhile.
      for (int turn = 0; turn < 24; turn++) {
        int part = turn % 4;
        if (turn >= 4) {
          assertThat(test.spillway.await(results.get(turn - 4)).isWell()).isTrue();
        }
        try (var lease = test.spillway.lookup(keys(1000L * part, 256))) {
          results.add(test.spillway.load(lease, range(256 * part, 256)));
        }
      }
      results.forEach(result -> assertThat(test.spillway.await(result).isWell()).isTrue());
      var load = test.spillway.stats().engine().load();
      assertThat(load.inFlightMax()).isEqualTo(32);
      assertThat((double) load.enters() / load.ended())
          .as("system calls a block: %s", load)
          .isLessThan(test.spillway.stats().mode().kind().equals("uring") ? 0.5 : 1.0);
      return load.inFlightMean();
    }
  }

  /** Shows: F39: an answer that begins a transfer gets its result at another poll. */
  @Test
  void aCallbackThatStoresAgainDoesNotHoldThePoll() {
    try (var test = SpillwayFixture.small(directory, builder -> builder.blocksInFlightMax(2))) {
      var tries = new java.util.concurrent.atomic.AtomicInteger();
      for (int i = 0; i < 8; i++) {
        storeUntilTaken(test, i, tries);
      }
      test.spillway.poll();
      assertThat(tries.get()).as("each at most once a poll").isLessThanOrEqualTo(16);
      assertThat(test.spillway.awaitIdle(Duration.ofSeconds(20))).isTrue();
      assertThat(test.spillway.stats().storedBlocks()).isEqualTo(8);
    }
  }

  private static void storeUntilTaken(
      SpillwayFixture test, int block, java.util.concurrent.atomic.AtomicInteger tries) {
    tries.incrementAndGet();
    var unused =
        test.spillway
            .store(keys(100 + block, 1), 0, range(block, 1))
            .thenAccept(
                result -> {
                  if (result.outcome(0) == BlockOutcome.REJECTED) {
                    storeUntilTaken(test, block, tries);
                  }
                });
  }

  /** A number that means none, a bound that means nothing: refused with what would be right. */
  @Test
  void argumentsThatMeanNothingAreRefusedAndNothingChanges() {
    try (var test = SpillwayFixture.small(directory)) {
      var spillway = test.spillway;
      assertThatThrownBy(() -> spillway.store(0, 0, keys(1, 1), 0, range(0, 1), DeviceEvent.NOW))
          .hasMessage("request 0, which stands for none; any other number would be right");
      assertThatThrownBy(() -> spillway.abort(0)).hasMessageContaining("request 0");
      assertThatThrownBy(() -> spillway.drain(3, 0)).hasMessageContaining("request 0");
      assertThatThrownBy(() -> spillway.stepDone(-1)).hasMessageContaining("step -1; at least 1");
      assertThatThrownBy(() -> spillway.lookup(List.of(keys(1, 1)), 32, 64))
          .hasMessageContaining("1 keys of group 0 for a prefix from token 32 on; at least 2");
      test.store(1, 0, 1);
      try (var lease = spillway.lookup(List.of(keys(1, 1)), 0, 16)) {
        for (var bound : List.of(Duration.ofDays(400), Duration.ofSeconds(-1))) {
          assertThatThrownBy(
                  () ->
                      spillway.load(
                          1,
                          lease,
                          List.of(range(5, 1)),
                          DeviceEvent.NOW,
                          bound,
                          LoadFailurePolicy.fail()))
              .hasMessageContaining("zero to one day would be right");
        }
        var load =
            spillway.load(
                1,
                lease,
                List.of(range(5, 1)),
                DeviceEvent.NOW,
                Duration.ofDays(1),
                LoadFailurePolicy.fail());
        assertThat(spillway.await(load).isWell()).isTrue();
      }
      assertThat(spillway.stats().openLeases()).isZero();
      assertThat(spillway.await(spillway.abort(9))).isNull();
    }
  }

  /** Shows: V207: a close in answer to a result ends the poll that told it. */
  @Test
  void closeFromACallbackEndsThePoll() {
    var faults = FaultSpec.parse("write-eio=100%", 1);
    var test =
        SpillwayFixture.small(
            directory, builder -> builder.faults(faults).probeInterval(Duration.ZERO));
    var closed = test.spillway.store(keys(1, 4), 0, range(0, 4)).thenRun(test.spillway::close);
    long until = System.nanoTime() + 10_000_000_000L;
    while (!closed.isDone() && System.nanoTime() < until) {
      test.spillway.poll();
    }
    assertThat(closed).isCompleted();
    test.device.close();
  }

  /** Shows: F1: where one rank cannot open, the files that the others have made go again. */
  @Test
  void anOpenThatFailsLeavesNoRanksFileBehind() throws IOException {
    var foreign = directory.resolve("rank-1-of-2.blocks");
    Files.writeString(foreign, "not ours".repeat(1000));
    var layout = KvLayout.ofBlockBytes(16384, 16);
    try (var one = HostDevice.allocate(layout, 4);
        var other = HostDevice.allocate(layout, 4)) {
      var config =
          SpillwayConfig.builder(directory, one).addRank(other).capacityBytes(1 << 20).build();
      assertThatThrownBy(() -> Spillway.open(config)).isInstanceOf(OpenRefusedException.class);
    }
    assertThat(directory.resolve("rank-0-of-2.blocks")).doesNotExist();
    assertThat(foreign).exists();
  }

  /** What follows from a result on another thread is awaited too. */
  @Test
  void whatFollowsOnAnotherThreadIsAwaited() {
    try (var test = SpillwayFixture.small(directory)) {
      var moved =
          test.spillway
              .store(keys(1, 2), 0, range(0, 2))
              .thenApplyAsync(result -> result.moved() + 40);
      assertThat(test.spillway.await(moved)).isEqualTo(42);
    }
  }

  /** Shows: F25: slots that fail again and again are counted as lost. */
  @Test
  void slotsThatAreOutForGoodAreCounted() {
    var faults = FaultSpec.parse("read-eio=100%", 1);
    try (var test =
        SpillwayFixture.small(
            directory,
            builder -> builder.faults(faults).capacityBytes(16384).probeInterval(Duration.ZERO))) {
      assertThat(test.spillway.stats().lostSlots()).isZero();
      test.store(1, 0, 1);
      test.load(1, 1, 5);
      assertThat(test.spillway.stats().retiredSlots()).isEqualTo(1);
      assertThat(test.spillway.stats().lostSlots()).as("it is tried first").isZero();
    }
  }
}
