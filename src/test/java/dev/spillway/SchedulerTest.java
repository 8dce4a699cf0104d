package dev.spillway;

import static dev.spillway.testing.SpillwayFixture.keys;
import static dev.spillway.testing.SpillwayFixture.range;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.spillway.block.BlockOutcome;
import dev.spillway.block.DeviceEvent;
import dev.spillway.block.KvLayout;
import dev.spillway.block.KvLayout.Attention;
import dev.spillway.block.KvLayout.Group;
import dev.spillway.block.KvLayout.Piece;
import dev.spillway.block.LoadResult;
import dev.spillway.engine.EngineOptions.EngineKind;
import dev.spillway.engine.FaultSpec;
import dev.spillway.index.PrefixLease;
import dev.spillway.policy.LoadFailurePolicy;
import dev.spillway.testing.SpillwayFixture;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * What a scheduler does with Spillway, over the real engine and a real file whose bytes are changed
 * behind its back: one request's fault is that request's affair.
 */
class SchedulerTest {
  private static final int BLOCK = 4096;
  private static final int TOKENS = 16;

  @TempDir private Path directory;

  private SpillwayFixture open(KvLayout layout, UnaryOperator<SpillwayConfig.Builder> options) {
    return new SpillwayFixture(
        directory, layout, 400, builder -> options.apply(builder.capacityBytes(1200L * BLOCK)));
  }

  private SpillwayFixture open() {
    return open(KvLayout.ofBlockBytes(BLOCK, TOKENS), UnaryOperator.identity());
  }

  /** Full attention of 16 tokens a block, and a window of 64 tokens in blocks of 32. */
  private static KvLayout hybrid() {
    return new KvLayout(
        List.of(
            new Group("full", TOKENS, List.of(Piece.dense(BLOCK))),
            new Group("window", 2 * TOKENS, List.of(Piece.dense(BLOCK)), Attention.sliding(64))));
  }

  private void damage(SpillwayFixture test, int group, int slot) {
    var mode = test.spillway.stats().mode();
    // Of the first group, whose blocks are of half as many tokens, a band has two slots.
    boolean two = mode.slotCounts().size() > 1;
    long bandBytes = mode.slotBytes().get(0) * (two ? 2L : 1) + (two ? mode.slotBytes().get(1) : 0);
    int bandSlots = two && group == 0 ? 2 : 1;
    long at = mode.regionOffsets().get(group) + slot / bandSlots * bandBytes;
    try (var file = new RandomAccessFile(directory.resolve("rank-0-of-1.blocks").toFile(), "rw")) {
      file.seek(at + (long) (slot % bandSlots) * mode.slotBytes().get(group) + 100);
      int value = file.read();
      file.seek(file.getFilePointer() - 1);
      file.write(value ^ 1);
      file.getFD().sync();
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  private static LoadResult load(
      SpillwayFixture test, long request, PrefixLease lease, int firstBlock) {
    return await(test, begin(test, request, lease, firstBlock, LoadFailurePolicy.recompute()));
  }

  private static CompletableFuture<LoadResult> begin(
      SpillwayFixture test,
      long request,
      PrefixLease lease,
      int firstBlock,
      LoadFailurePolicy policy) {
    var blocks = lease.groups().stream().map(part -> range(firstBlock, part.size())).toList();
    return test.spillway.load(request, lease, blocks, DeviceEvent.NOW, Duration.ZERO, policy);
  }

  private static LoadResult await(SpillwayFixture test, CompletableFuture<LoadResult> load) {
    while (!load.isDone()) {
      test.spillway.poll(Duration.ofMillis(100));
    }
    return load.join();
  }

  private static PrefixLease lookup(SpillwayFixture test, long key, int blocks) {
    return test.spillway.lookup(List.of(keys(key, blocks)), 0, blocks * TOKENS);
  }

  /** Shows: F21 V117 V118 V136: 100 blocks, 99 of them stored; two of three requests are whole. */
  @ParameterizedTest
  @CsvSource({"0,0", "50,50", "98,98"})
  void v117OnlyTheFailedRequestIsCutBack(int bad, int valid) {
    try (var test = open()) {
      for (int request = 0; request < 3; request++) {
        test.store(1000L * request + 1, 100 * request, 99);
      }
      damage(test, 0, 99 + bad); // of the second
      if (bad != 98) {
        damage(test, 0, 99 + 98);
      }
      var loads = new ArrayList<CompletableFuture<LoadResult>>();
      var leases = new ArrayList<PrefixLease>();
      for (int request = 0; request < 3; request++) {
        var lease = lookup(test, 1000L * request + 1, 100);
        assertThat(lease.tokens()).isEqualTo(99 * TOKENS);
        leases.add(lease);
        loads.add(begin(test, request + 1L, lease, 100 * request, LoadFailurePolicy.recompute()));
      }
      for (int request = 0; request < 3; request++) {
        var result = await(test, loads.get(request));
        assertThat(result.fails()).isFalse();
        assertThat(result.validTokens() / TOKENS).isEqualTo(request == 1 ? valid : 99);
        assertThat(result.failedBlocks(0).contains(98)).isEqualTo(request == 1);
      }
      leases.forEach(PrefixLease::close);
      assertThat(test.hits(1001, 100))
          .as("the next look-up asks for no bad block")
          .isEqualTo(valid);
    }
  }

  /** Shows: F22 F30 F31 V22 V23 V24 V25 V26 V27 V28 V136 V139: three requests of two blocks. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void v22AFaultIsolatesItsRequestUnderBothPolicies(boolean recompute) {
    var policy = recompute ? LoadFailurePolicy.recompute() : LoadFailurePolicy.fail();
    try (var test = open()) {
      for (int request = 0; request < 3; request++) {
        test.store(100L * request + 1, 2 * request, 2);
      }
      damage(test, 0, 3); // the second block of the second
      for (int block = 10; block < 16; block++) {
        test.fill(block, 9999);
      }
      var loads = new ArrayList<CompletableFuture<LoadResult>>();
      var leases = new ArrayList<PrefixLease>();
      for (int request = 0; request < 3; request++) {
        leases.add(lookup(test, 100L * request + 1, 2));
        loads.add(begin(test, request + 1L, leases.get(request), 10 + 2 * request, policy));
      }
      for (int request = 0; request < 3; request++) {
        var result = await(test, loads.get(request));
        assertThat(result.fails()).isEqualTo(request == 1 && !recompute);
        assertThat(result.isWell()).isEqualTo(request != 1);
        assertThat(result.validTokens()).isEqualTo(request == 1 ? TOKENS : 2 * TOKENS);
      }
      var failed = loads.get(1).join();
      assertThat(failed.causes()).containsExactly(BlockOutcome.CORRUPT);
      assertThat(failed.groups().get(0).faults().get(1))
          .hasToString("CORRUPT while VERIFYING (errno 0, slot 3, 4096 of 4096 bytes)");
      for (int block = 10; block < 16; block++) {
        assertThat(test.holds(block, 9999))
            .as("only the bad block is not copied")
            .isEqualTo(block == 13);
      }
      leases.forEach(PrefixLease::close);
      assertThat(test.hits(101, 2)).isEqualTo(1);
      assertThat(test.hits(201, 2)).isEqualTo(2);
      assertThat(test.spillway.stats().heldBlocks()).isZero();
    }
  }

  /** Shows: F23 V119: each request that uses the bad block has it in its own result. */
  @Test
  void f23ASharedBadBlockIsInEveryResultThatUsesIt() {
    try (var test = open()) {
      test.store(1, 0, 50);
      damage(test, 0, 25);
      try (var one = lookup(test, 1, 50);
          var other = lookup(test, 1, 40)) {
        var first = begin(test, 1, one, 100, LoadFailurePolicy.recompute());
        var second = begin(test, 2, other, 200, LoadFailurePolicy.recompute());
        assertThat(await(test, first).failedBlocks(0)).containsExactly(25);
        assertThat(await(test, second).failedBlocks(0)).containsExactly(25);
        assertThat(second.join().validTokens()).isEqualTo(25 * TOKENS);
      }
      assertThat(test.spillway.stats().retiredSlots()).as("one slot, once").isEqualTo(1);
    }
  }

  /**
   * Shows: F28 F29 V30 V121 V122 V129 V130 V131 V132 V137: a fault names group and position; what
   * stays is valid in every group, and no null block is touched. Of a window only the end was
   * loaded, so a shorter prefix has none of its own: another look-up finds it on disk.
   */
  @ParameterizedTest
  @CsvSource({"0,3,32", "0,7,96", "1,3,96", "1,0,128"})
  void v122WhatStaysIsValidInEveryGroup(int group, int bad, int valid) {
    try (var test = open(hybrid(), UnaryOperator.identity())) {
      var keys = List.of(keys(1, 8), keys(1001, 4));
      var others = List.of(keys(51, 8), keys(1051, 4));
      for (int part = 0; part < 2; part++) {
        int count = keys.get(part).size();
        test.spillway.await(
            test.spillway.store(part, keys.get(part), 0, range(0, count), DeviceEvent.NOW));
        test.spillway.await(
            test.spillway.store(part, others.get(part), 0, range(20, count), DeviceEvent.NOW));
      }
      damage(test, group, bad);
      try (var one = test.spillway.lookup(keys, 0, 128);
          var other = test.spillway.lookup(others, 0, 128)) {
        assertThat(one.group(1).from()).as("the window needs its end only").isEqualTo(2);
        var result = load(test, 1, one, 100);
        assertThat(result.validTokens()).isEqualTo(valid == 128 ? 128 : 0);
        assertThat(result.failedBlocks(1 - group)).isEmpty();
        assertThat(result.failedBlocks(group)).hasSize(valid == 128 ? 0 : 1);
        assertThat(load(test, 2, other, 200).validTokens()).isEqualTo(128);
      }
      try (var next = test.spillway.lookup(keys, 0, 128)) {
        assertThat(next.tokens()).isEqualTo(valid);
        assertThat(load(test, 3, next, 100).validTokens()).isEqualTo(valid);
      }
    }
  }

  /** Shows: F57 V66 V81 V126: a part of what was found is taken; the rest is let go. */
  @Test
  void v81FewerBlocksThanWereFoundMayBeLoaded() {
    try (var test = open()) {
      test.store(1, 0, 8);
      var keys = keys(1, 8);
      try (var lease = test.spillway.lookup(0, keys, 2)) { // two are on the device
        assertThat(lease.size()).isEqualTo(6);
        var result = test.spillway.await(test.spillway.load(lease, range(20, 3)));
        assertThat(result.moved()).isEqualTo(3);
        assertThat(test.holds(20, 3)).isTrue();
        assertThat(test.holds(22, 5)).isTrue();
        assertThat(test.spillway.stats().heldBlocks()).isEqualTo(6);
      }
      assertThat(test.spillway.stats().heldBlocks()).isZero();
      try (var capped = test.spillway.lookup(List.of(keys), 0, 8 * TOKENS - 1)) {
        assertThat(capped.tokens()).as("the last token is computed").isEqualTo(7 * TOKENS);
      }
    }
  }

  /** Shows: V100: a place within a block is no place to go on from. */
  @Test
  void v100AMisalignedBeginningFindsNothing() {
    try (var test = open()) {
      test.store(1, 0, 8);
      try (var lease = test.spillway.lookup(List.of(keys(1, 8)), 8, 128)) {
        assertThat(lease.isEmpty()).isTrue();
        assertThat(lease.tokens()).isEqualTo(8);
      }
    }
  }

  /** Shows: V79 V90 V91 V93: a second part stores only what is new, in every group. */
  @Test
  void v79AnotherPartOfAPrefixStoresOnlyItsNewBlocks() {
    try (var test = open(hybrid(), UnaryOperator.identity())) {
      for (int group = 0; group < 2; group++) {
        var keys = keys(1 + 1000 * group, 8);
        var first = test.spillway.store(group, keys, 0, range(0, 4), DeviceEvent.NOW);
        var whole = test.spillway.store(group, keys, 0, range(0, 8), DeviceEvent.NOW);
        assertThat(test.spillway.await(first).moved()).isEqualTo(4);
        assertThat(test.spillway.await(whole).moved())
            .as("the first four are on their way")
            .isEqualTo(4);
        assertThat(whole.join().outcome(3)).isEqualTo(BlockOutcome.PRESENT);
        assertThat(whole.join().outcome(4)).isEqualTo(BlockOutcome.STORED);
      }
      assertThat(test.spillway.stats().engine().store().ended()).isEqualTo(16);
    }
  }

  /** Shows: F59 V31 V60 V63 V128: whoever is done is told so, also behind one that is not. */
  @Test
  void f59AResultDoesNotWaitForAnEarlierOne() {
    try (var test = open()) {
      var first = test.spillway.store(0, keys(1, 2), 0, range(0, 2), DeviceEvent.NOW);
      var waits = test.spillway.store(0, keys(11, 2), 0, range(2, 2), DeviceEvent.ofStep(1));
      var third = test.spillway.store(0, keys(21, 2), 0, range(4, 2), DeviceEvent.NOW);
      assertThat(test.spillway.await(first).moved()).isEqualTo(2);
      assertThat(test.spillway.await(third).moved()).isEqualTo(2);
      assertThat(waits).isNotDone();
      assertThat(test.spillway.poll() + test.spillway.poll()).as("told once").isZero();
      test.spillway.stepDone(1);
      assertThat(test.spillway.await(waits).moved()).isEqualTo(2);
    }
  }

  /** Shows: V86 V87: what was found before a reset is let go, and never loaded after it. */
  @Test
  void v86ALeaseFromBeforeAResetIsALateMiss() {
    try (var test = open()) {
      test.store(1, 0, 4);
      try (var lease = test.spillway.lookup(keys(1, 4))) {
        test.spillway.await(test.spillway.reset());
        var result = test.spillway.await(test.spillway.load(lease, range(20, 4)));
        assertThat(result.faults().values())
            .hasSize(4)
            .allMatch(fault -> fault.outcome() == BlockOutcome.REJECTED);
      }
      assertThat(test.spillway.stats().heldBlocks()).isZero();
      assertThat(test.spillway.stats().storedBlocks()).isZero();
    }
  }

  /** Shows: F32 V141: nobody has to poll in circles; a fault wakes whoever sleeps. */
  @Test
  void f32AFaultWakesAnIdleScheduler() {
    try (var test =
        open(KvLayout.ofBlockBytes(BLOCK, TOKENS), builder -> builder.workerThread(true))) {
      test.store(1, 0, 2);
      assertThat(test.spillway.poll()).as("nothing has happened").isZero();
      damage(test, 0, 1);
      try (var lease = test.spillway.lookup(keys(1, 2))) {
        var load = test.spillway.load(lease, range(10, 2));
        long begun = System.nanoTime();
        while (!load.isDone()) {
          test.spillway.poll(Duration.ofSeconds(30));
        }
        assertThat(System.nanoTime() - begun).isLessThan(10_000_000_000L);
        assertThat(load.join().faults()).containsOnlyKeys(1);
      }
    }
  }

  /** Shows: F18 F38 F53 V12 V13 V14 V18 V20 V21 V29: the device fails; the process lives. */
  @ParameterizedTest
  @EnumSource(names = {"URING", "THREADS"})
  void f18ADeviceFailureEndsTheRankAndReopeningWorks(EngineKind kind) {
    SpillwayFixture.assumeAllowed(kind);
    var faults = FaultSpec.parse("copy-fail=100%", 3);
    try (var test =
        open(
            KvLayout.ofBlockBytes(BLOCK, TOKENS), builder -> builder.engine(kind).faults(faults))) {
      assertThat(test.spillway.poll()).isZero();
      var result = test.store(1, 0, 8);
      assertThat(result.faults().values())
          .hasSize(8)
          .allMatch(fault -> fault.outcome() == BlockOutcome.ENGINE_FAILED);
      assertThat(test.hits(1, 8)).as("nothing is published").isZero();
      for (int i = 0; i < 2; i++) {
        assertThatThrownBy(() -> test.spillway.store(keys(20, 1), 0, range(0, 1)))
            .isInstanceOf(EngineFailedException.class)
            .hasMessageContaining("copy");
      }
    }
    try (var again = open()) {
      assertThat(again.store(1, 0, 8).moved()).isEqualTo(8);
      assertThat(again.load(1, 8, 20).moved()).isEqualTo(8);
    }
  }

  /** Shows: V207: closing drops what has not begun and tells of it. */
  @Test
  void v207CloseDropsWhatWaits() {
    var waits = new ArrayList<CompletableFuture<?>>();
    try (var test = open()) {
      waits.add(test.spillway.store(0, keys(1, 4), 0, range(0, 4), DeviceEvent.ofStep(9)));
      test.spillway.poll();
    }
    assertThat(waits).allMatch(CompletableFuture::isDone);
  }

  /** Shows: V68 V69 V71: no key takes two slots, and the oldest prefix goes first. */
  @Test
  void v71TheOldestRequestIsEvictedFirst() {
    try (var test =
        open(KvLayout.ofBlockBytes(BLOCK, TOKENS), builder -> builder.capacityBytes(16L * BLOCK))) {
      test.store(1, 0, 8);
      test.store(101, 8, 8);
      assertThat(test.spillway.stats().freeSlots()).isZero();
      test.store(1, 0, 8);
      assertThat(test.spillway.stats().count(BlockOutcome.PRESENT)).isEqualTo(8);
      test.store(201, 16, 4);
      assertThat(test.hits(1, 8)).as("used last").isEqualTo(8);
      assertThat(test.hits(101, 8)).as("its end went first").isEqualTo(4);
      assertThat(test.hits(201, 4)).isEqualTo(4);
    }
  }

  /** Shows: V7 V142: a store's end is told to who stored; a load of the same request knows none. */
  @Test
  void v7AStoresEndEndsNoLoad() {
    try (var test = open()) {
      test.store(1, 0, 2);
      try (var lease = lookup(test, 1, 2)) {
        var load =
            test.spillway.load(
                7,
                lease,
                List.of(range(10, 2)),
                DeviceEvent.ofStep(1), // so that it cannot end yet
                Duration.ZERO,
                LoadFailurePolicy.fail());
        var store = test.spillway.store(7, 0, keys(51, 2), 0, range(20, 2), DeviceEvent.NOW);
        assertThat(test.spillway.await(store).moved()).isEqualTo(2);
        assertThat(load).isNotDone();
        test.spillway.stepDone(1);
        assertThat(await(test, load).isWell()).isTrue();
      }
    }
  }

  /**
   * Shows: V60 V61 V62 V63: where results are asked for in the order of the calls, one that is done
   * waits for the head of its line, and is then told with it, once; another line does not wait.
   */
  @Test
  void v62InOrderedModeAResultWaitsForTheHeadAndBothAreToldAtOnce() {
    try (var test =
        open(KvLayout.ofBlockBytes(BLOCK, TOKENS), builder -> builder.orderedResults(true))) {
      var order = new ArrayList<String>();
      var done = test.spillway.store(0, keys(1, 2), 0, range(0, 2), DeviceEvent.NOW);
      var head = test.spillway.store(0, keys(11, 2), 0, range(2, 2), DeviceEvent.ofStep(1));
      var next = test.spillway.store(0, keys(21, 2), 0, range(4, 2), DeviceEvent.NOW);
      var declined = test.spillway.store(keys(21, 2), 0, range(4, 2)); // all present: over at once
      var unused = head.thenRun(() -> order.add("head"));
      unused = next.thenRun(() -> order.add("next"));
      unused = declined.thenRun(() -> order.add("declined"));
      assertThat(test.spillway.await(done).moved()).isEqualTo(2);
      long until = System.nanoTime() + 10_000_000_000L;
      while (test.spillway.stats().count(BlockOutcome.STORED) < 4 && System.nanoTime() < until) {
        test.spillway.poll(Duration.ofMillis(10));
      }
      assertThat(test.spillway.stats().count(BlockOutcome.STORED)).isEqualTo(4);
      assertThat(order).as("the head is not done").isEmpty();
      assertThat(test.load(1, 2, 50).moved()).as("loads are in a line of their own").isEqualTo(2);
      test.spillway.stepDone(1);
      test.spillway.await(head);
      assertThat(order).containsExactly("head", "next", "declined");
      assertThat(test.spillway.poll()).as("told once").isZero();
    }
  }

  /**
   * Shows: F41 F42 V80: a preempted request's stores that had not begun are dropped; when it comes
   * back its cursor goes back to what is stored, and only the rest moves.
   */
  @Test
  void v80AfterPreemptionTheCursorGoesBackToWhatIsStored() {
    try (var test = open()) {
      var keys = keys(1, 8);
      var stored = test.spillway.store(5, 0, keys, 0, range(0, 4), DeviceEvent.NOW);
      var waits = test.spillway.store(5, 0, keys, 4, range(4, 4), DeviceEvent.ofStep(1));
      test.spillway.await(stored);
      var quiet = test.spillway.drain(5);
      test.spillway.await(waits);
      assertThat(waits.join().outcome(0)).isEqualTo(BlockOutcome.CANCELLED);
      assertThat(quiet).isCompleted();
      int cursor = test.hits(1, 8);
      assertThat(cursor).isEqualTo(4);
      for (int block = 20; block < 24; block++) { // elsewhere on the device, and other output
        test.fill(block, 500 + block);
      }
      var again = test.spillway.store(5, 0, keys, cursor, range(20, 4), DeviceEvent.NOW);
      assertThat(test.spillway.await(again).moved()).isEqualTo(4);
      assertThat(test.load(1, 8, 100).moved()).isEqualTo(8);
      assertThat(test.holds(104, 520)).isTrue();
    }
  }

  /** Shows: F58 V88: a request that must compute all of its prompt lets go of what was found. */
  @Test
  void v88AHitThatIsNotWantedIsLetGo() {
    try (var test = open()) {
      test.store(1, 0, 4);
      var lease = lookup(test, 1, 4);
      assertThat(test.spillway.stats().openLeases()).isEqualTo(1);
      assertThat(test.spillway.stats().heldBlocks()).isEqualTo(4);
      lease.close();
      lease.close();
      assertThat(test.spillway.stats().openLeases()).isZero();
      assertThat(test.spillway.stats().heldBlocks()).isZero();
      assertThat(test.hits(1, 4)).as("nothing is lost").isEqualTo(4);
    }
  }

  /** Shows: F58: the lease of a request that was never allocated, and that nobody has any more. */
  @Test
  void f58ALeaseThatWasForgottenIsLetGo() {
    try (var test = open()) {
      test.store(1, 0, 4);
      forget(test);
      assertThat(test.spillway.stats().heldBlocks()).isEqualTo(4);
      long until = System.nanoTime() + 20_000_000_000L;
      while (test.spillway.stats().openLeases() > 0 && System.nanoTime() < until) {
        System.gc();
        test.spillway.poll();
      }
      assertThat(test.spillway.stats().heldBlocks()).isZero();
      assertThat(test.spillway.stats().forgottenLeases()).isEqualTo(1);
    }
  }

  private static void forget(SpillwayFixture test) {
    assertThat(lookup(test, 1, 4).tokens()).isEqualTo(4 * TOKENS);
  }

  /**
   * Shows: V134 V135: only the bad block goes; the prefix before it stays, and so do those behind
   * it, which nothing was wrong with. Found and loaded are counted apart.
   */
  @Test
  void v134OnlyTheBadBlockGoesAndTheCountersSaySo() {
    try (var test = open()) {
      test.store(1, 0, 8);
      damage(test, 0, 3);
      try (var lease = lookup(test, 1, 8)) {
        assertThat(load(test, 1, lease, 100).validTokens()).isEqualTo(3 * TOKENS);
      }
      var stats = test.spillway.stats();
      assertThat(stats.hitBlocks()).isEqualTo(8);
      assertThat(stats.count(BlockOutcome.LOADED)).isEqualTo(7);
      assertThat(stats.count(BlockOutcome.CORRUPT)).isEqualTo(1);
      assertThat(stats.loadedBytes()).isEqualTo(7L * BLOCK);
      assertThat(test.hits(1, 8)).isEqualTo(3);
      try (var behind = test.spillway.lookup(0, keys(1, 8), 4)) {
        assertThat(behind.size()).isEqualTo(4);
      }
      test.fill(3, 4); // computed again
      var again = test.spillway.store(keys(1, 8), 3, range(3, 1));
      assertThat(test.spillway.await(again).moved()).isEqualTo(1);
      assertThat(test.hits(1, 8)).isEqualTo(8);
    }
  }

  /** Shows: V89 V93: each group has keys of its own, which a store and a load keep apart. */
  @Test
  void v89EachGroupIsFoundByItsOwnKeys() {
    try (var test = open(hybrid(), UnaryOperator.identity())) {
      var keys = List.of(keys(1, 8), keys(1, 4)); // the same numbers in both groups
      for (int group = 0; group < 2; group++) {
        for (int i = 0; i < keys.get(group).size(); i++) {
          test.fill(i, 100 * group + i);
        }
        var blocks = range(0, keys.get(group).size());
        test.spillway.await(
            test.spillway.store(group, keys.get(group), 0, blocks, DeviceEvent.NOW));
      }
      try (var lease = test.spillway.lookup(keys, 0, 128)) {
        assertThat(load(test, 1, lease, 200).isWell()).isTrue();
      }
      try (var other = test.spillway.lookup(List.of(keys(1, 8), keys(51, 4)), 0, 128)) {
        assertThat(other.isEmpty()).as("a key of the other group finds nothing").isTrue();
      }
    }
  }

  /** Shows: case80: it works on when it is full. */
  @Test
  void case80TheDefaultEvicts() {
    try (var test =
        open(KvLayout.ofBlockBytes(BLOCK, TOKENS), builder -> builder.capacityBytes(16L * BLOCK))) {
      for (int round = 0; round < 20; round++) {
        assertThat(test.store(1 + 100 * round, 0, 8).moved()).isEqualTo(8);
        assertThat(test.hits(1 + 100 * round, 8)).isEqualTo(8);
      }
      assertThat(test.spillway.stats().evictions()).isEqualTo(20 * 8 - 16);
      assertThat(test.spillway.stats().count(BlockOutcome.REJECTED)).isZero();
    }
  }

  /** The user's own code may be wrong too; then the one request fails and is told so. */
  @ParameterizedTest
  @ValueSource(strings = {"throws", "fails an assertion", "answers null"})
  @SuppressWarnings("NullAway") // as a caller without it may do
  void aPolicyThatThrowsFailsItsRequestAndNoOther(String how) {
    try (var test = open()) {
      test.store(1, 0, 2);
      damage(test, 0, 1);
      LoadFailurePolicy broken =
          (causes, valid, asked) -> {
            switch (how) {
              case "throws" -> throw new IllegalStateException("a fault of the user's");
              case "answers null" -> {
                return null;
              }
              default -> throw new AssertionError("a fault of the user's");
            }
          };
      try (var lease = lookup(test, 1, 2)) {
        var result = await(test, begin(test, 1, lease, 10, broken));
        assertThat(result.fails()).isTrue();
        assertThat(result.validTokens()).isEqualTo(TOKENS);
      }
    }
  }

  /** Shows: V47: a scheduler with nothing to compute polls, and its store is finished by that. */
  @Test
  void v47AStepWithoutAnythingElseFinishesAStore() {
    try (var test = open()) {
      var store = test.spillway.store(keys(1, 4), 0, range(0, 4));
      long until = System.nanoTime() + 10_000_000_000L;
      while (!store.isDone() && System.nanoTime() < until) {
        test.spillway.poll();
      }
      assertThat(store.join().moved()).isEqualTo(4);
      assertThat(test.hits(1, 4)).isEqualTo(4);
    }
  }
}
