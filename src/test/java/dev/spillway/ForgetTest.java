package dev.spillway;

import static dev.spillway.testing.SpillwayFixture.keys;
import static dev.spillway.testing.SpillwayFixture.range;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.spillway.block.BlockKeys;
import dev.spillway.block.BlockOutcome;
import dev.spillway.block.KvLayout;
import dev.spillway.block.PrefixHasher;
import dev.spillway.engine.EngineOptions.Allocation;
import dev.spillway.engine.FaultSpec;
import dev.spillway.testing.SpillwayFixture;
import dev.spillway.testing.TestDevices;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** KV can be turned back into prompts: what is forgotten is on no disk any more. */
class ForgetTest {
  private static final int SLOT = 16384;
  private static final int HEADER = 65536;

  @TempDir private Path directory;

  private SpillwayFixture open(UnaryOperator<SpillwayConfig.Builder> options) {
    return SpillwayFixture.small(directory, options);
  }

  private SpillwayFixture open() {
    return open(UnaryOperator.identity());
  }

  /** How many slots of a rank's file begin as the pattern of this number does. */
  private int onDisk(String file, long number) throws IOException {
    var bytes = Files.readAllBytes(directory.resolve(file));
    var pattern = new byte[64];
    for (int at = 0; at < pattern.length; at++) {
      pattern[at] = (byte) ((number + 1) * 31 + at * 5L + (at >> 8)); // as the fixture fills
    }
    int found = 0;
    for (int slot = HEADER; slot < bytes.length; slot += SLOT) {
      found += Arrays.equals(bytes, slot, slot + 64, pattern, 0, 64) ? 1 : 0;
    }
    return found;
  }

  private int onDisk(long number) throws IOException {
    return onDisk("rank-0-of-1.blocks", number);
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void whatIsForgottenIsOnNoDiskAndOthersStay(boolean thread) throws IOException {
    try (var test = open(builder -> builder.workerThread(thread))) {
      test.store(1, 0, 8);
      test.store(100, 8, 8);
      assertThat(onDisk(3)).isEqualTo(1);
      var forgotten = test.spillway.forget(0, keys(3, 2));
      assertThat(test.hits(3, 1)).as("at once").isZero();
      assertThat(test.hits(1, 8)).isEqualTo(2);
      assertThat(test.spillway.await(forgotten)).isZero();
      assertThat(onDisk(3) + onDisk(4)).isZero();
      assertThat(onDisk(5)).isEqualTo(1);
      assertThat(test.load(100, 8, 16).isWell()).isTrue();
      assertThat(test.spillway.stats().freeSlots()).isEqualTo(64 - 14);
      assertThat(test.store(3, 0, 2).moved()).as("it may be stored again").isEqualTo(2);
      assertThat(test.load(1, 8, 16).moved()).isEqualTo(8);
    }
  }

  @Test
  void whatIsForgottenDoesNotComeBackWithTheNextProcess() throws IOException {
    try (var test = open()) {
      test.store(1, 0, 8);
      var forgotten = test.spillway.forget(0, keys(3, 2));
      assertThat(forgotten).isNotDone(); // close sees to it
    }
    assertThat(onDisk(3) + onDisk(4)).isZero();
    try (var test = open()) {
      assertThat(test.spillway.stats().restored().blocks()).isEqualTo(6);
      assertThat(test.hits(3, 1)).isZero();
    }
  }

  /** What is in a slot that is free already is still there until it is overwritten. */
  @Test
  void copiesThatNoLookupFindsAnyMoreAreOverwrittenToo() throws IOException {
    try (var test = open()) {
      test.store(1, 0, 8);
      test.spillway.await(test.spillway.reset());
      assertThat(onDisk(3)).isEqualTo(1);
      assertThat(test.spillway.await(test.spillway.forget(0, keys(1, 4)))).isZero();
      assertThat(onDisk(1) + onDisk(2) + onDisk(3) + onDisk(4)).isZero();
      assertThat(onDisk(5)).isEqualTo(1);
      assertThat(test.spillway.stats().freeSlots()).isEqualTo(64);
      for (int i = 0; i < 4; i++) {
        assertThat(test.store(1000 + 16 * i, 0, 16).moved()).isEqualTo(16);
      }
    }
  }

  /** A tenant is the salt of its keys, in every group and also before all is found again. */
  @Test
  void aTenantIsForgottenAndNoOther() throws IOException {
    var one = new PrefixHasher("tenant one", "").hash(new int[128], 16);
    var two = new PrefixHasher("tenant two", "").hash(new int[128], 16);
    try (var test = open()) {
      for (int i = 0; i < 8; i++) {
        test.fill(i, 500 + i);
        test.fill(8 + i, 600 + i);
      }
      test.spillway.await(test.spillway.store(one, 0, range(0, 8)));
      test.spillway.await(test.spillway.store(two, 0, range(8, 8)));
    }
    try (var test = open(builder -> builder.restoreWait(Duration.ZERO))) {
      assertThat(test.spillway.await(test.spillway.forgetTenant("tenant one"))).isZero();
      assertThat(hits(test, one)).isZero();
      assertThat(test.spillway.awaitRestored(Duration.ofSeconds(10))).isTrue();
      assertThat(hits(test, one)).isZero();
      assertThat(hits(test, two)).isEqualTo(8);
      for (int i = 0; i < 8; i++) {
        assertThat(onDisk(500 + i)).isZero();
        assertThat(onDisk(600 + i)).isEqualTo(1);
      }
      assertThatThrownBy(() -> test.spillway.forgetTenant(""))
          .hasMessageContaining("reset() forgets all");
    }
  }

  /**
   * More slots than are overwritten at a time: the next ones are sent in the midst of a poll, and
   * what is collected with that must not wait for the owner to wake by itself.
   */
  @Test
  @Timeout(value = 60, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
  void anEndingThatIsCollectedWhileSlotsAreOverwrittenIsNotSleptThrough() {
    try (var test = open()) {
      for (int round = 0; round < 200; round++) {
        test.store(1, 0, 32);
        var forgetting = test.spillway.forget(0, keys(1, 32));
        var storing = test.spillway.store(keys(100, 1), 0, new int[] {5});
        assertThat(test.spillway.await(storing).isWell()).isTrue();
        assertThat(test.spillway.await(forgetting)).isZero();
      }
    }
  }

  private static int hits(SpillwayFixture test, BlockKeys keys) {
    try (var lease = test.spillway.lookup(keys)) {
      return lease.size();
    }
  }

  @Test
  void aBlockThatALeaseHoldsWaitsForIt() throws IOException {
    try (var test = open()) {
      test.store(1, 0, 4);
      var lease = test.spillway.lookup(keys(1, 4));
      var forgotten = test.spillway.forget(0, keys(1, 4));
      assertThat(test.hits(1, 4)).isZero();
      test.spillway.poll();
      assertThat(forgotten).isNotDone();
      var late = test.spillway.await(test.spillway.load(lease, range(8, 4)));
      assertThat(late.outcome(0)).isEqualTo(BlockOutcome.REJECTED);
      lease.close();
      assertThat(test.spillway.await(forgotten)).isZero();
      assertThat(onDisk(1)).isZero();
    }
  }

  @Test
  void aBlockThatIsBeingStoredIsOverwrittenOnceItIs() throws IOException {
    try (var test = open()) {
      for (int i = 0; i < 8; i++) {
        test.fill(i, 1 + i);
      }
      var storing = test.spillway.store(keys(1, 8), 0, range(0, 8));
      var forgotten = test.spillway.forget(0, keys(1, 8));
      assertThat(test.hits(1, 8)).isZero();
      assertThat(test.spillway.await(forgotten)).isZero();
      assertThat(storing).isDone();
      assertThat(test.hits(1, 8)).isZero();
      for (int i = 0; i < 8; i++) {
        assertThat(onDisk(1 + i)).isZero();
      }
    }
    try (var test = open()) {
      assertThat(test.spillway.stats().restored().blocks()).isZero();
    }
  }

  @Test
  void everyRankOverwritesItsShare() throws IOException {
    try (var second = TestDevices.allocate(KvLayout.ofBlockBytes(SLOT, 16), 32);
        var test = open(builder -> builder.addRank(second))) {
      for (int i = 0; i < 4; i++) {
        var share = java.nio.ByteBuffer.allocateDirect(SLOT);
        for (int at = 0; at < SLOT; at++) {
          share.put(at, (byte) ((700L + i + 1) * 31 + at * 5L + (at >> 8)));
        }
        second.write(0, 0, i, share);
      }
      test.store(1, 0, 4);
      assertThat(onDisk("rank-1-of-2.blocks", 702)).isEqualTo(1);
      assertThat(test.spillway.await(test.spillway.forget(0, keys(1, 4)))).isZero();
      for (int i = 0; i < 4; i++) {
        assertThat(onDisk("rank-0-of-2.blocks", 1 + i)).isZero();
        assertThat(onDisk("rank-1-of-2.blocks", 700 + i)).isZero();
      }
    }
  }

  /** A disk that does not take the overwriting is said; the slot is not handed out. */
  @Test
  void whatCouldNotBeOverwrittenIsCounted() {
    try (var test = open(builder -> builder.faults(FaultSpec.parse("corrupt=100%", 7)))) {
      test.store(1, 0, 4);
      assertThat(test.spillway.await(test.spillway.forget(0, keys(1, 4)))).isEqualTo(4);
      assertThat(test.hits(1, 4)).isZero();
      assertThat(test.spillway.stats().retiredSlots()).isEqualTo(4);
    }
  }

  @Test
  void whatIsNotThereIsForgottenAtOnce() {
    try (var test = open()) {
      assertThat(test.spillway.forget(0, keys(1, 4))).isCompletedWithValue(0);
      assertThat(test.spillway.forgetTenant("nobody")).isCompletedWithValue(0);
    }
  }

  /** What is forgotten before all is found again is forgotten nevertheless, also by close. */
  @Test
  void closeFindsWhatIsToBeForgottenFirst() throws IOException {
    try (var test = open()) {
      test.store(1, 0, 8);
    }
    try (var test = open(builder -> builder.restoreWait(Duration.ZERO))) {
      var forgotten = test.spillway.forget(0, keys(1, 8));
      test.spillway.close();
      assertThat(forgotten).isCompletedWithValue(0);
    }
    for (int i = 0; i < 8; i++) {
      assertThat(onDisk(1 + i)).isZero();
    }
    try (var test = open()) {
      assertThat(test.hits(1, 8)).isZero();
    }
  }

  @Test
  void itMayBeAwaitedBeforeAllIsFoundAgain() {
    try (var test = open()) {
      test.store(1, 0, 8);
    }
    try (var test = open(builder -> builder.restoreWait(Duration.ZERO))) {
      assertThat(test.spillway.await(test.spillway.forget(0, keys(1, 8)))).isZero();
      assertThat(test.hits(1, 8)).isZero();
    }
  }

  /**
   * One poll takes in more of the records than it works on; nobody wakes the owner for the rest.
   */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void recordsThatWereTakenInAreNotSleptOver(boolean thread) throws InterruptedException {
    var layout = KvLayout.ofBlockBytes(4096, 16);
    UnaryOperator<SpillwayConfig.Builder> options =
        builder ->
            builder
                .capacityBytes(40_000L * 4096)
                .allocation(Allocation.SPARSE)
                .restoreWait(Duration.ZERO)
                .workerThread(thread);
    try (var test = new SpillwayFixture(directory, layout, 32, options)) {
      test.store(1, 0, 8);
    }
    try (var test = new SpillwayFixture(directory, layout, 32, options)) {
      while (threadsNamed("spillway-restore-0") > 0) {
        Thread.sleep(1); // all is read
      }
      long from = System.nanoTime();
      var forgotten = test.spillway.forgetTenant("nobody");
      assertThat(test.spillway.awaitIdle(Duration.ofSeconds(6))).isTrue();
      assertThat(forgotten).isCompletedWithValue(0);
      assertThat(Duration.ofNanos(System.nanoTime() - from)).isLessThan(Duration.ofSeconds(5));
    }
  }

  private static long threadsNamed(String name) {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> thread.getName().equals(name))
        .count();
  }

  /** A store that evicts a block and then does not happen has left its bytes where they were. */
  @Test
  void aBlockWhoseSlotWasTakenForAStoreThatFailedIsFoundAllTheSame() throws IOException {
    try (var test = open()) {
      for (int i = 0; i < 4; i++) {
        test.store(1 + 16 * i, 0, 16); // all 64 slots
      }
      var never =
          test.spillway.store(
              7, 0, keys(1000, 4), 0, range(0, 4), dev.spillway.block.DeviceEvent.ofStep(99));
      test.spillway.await(test.spillway.drain(7));
      assertThat(test.spillway.await(never).outcome(0)).isEqualTo(BlockOutcome.CANCELLED);
      assertThat(test.hits(13, 4)).as("evicted, the end of the oldest prefix").isZero();
      assertThat(onDisk(14)).isEqualTo(1);
      assertThat(test.spillway.await(test.spillway.forget(0, keys(13, 4)))).isZero();
      for (int i = 13; i < 17; i++) {
        assertThat(onDisk(i)).isZero();
      }
    }
    try (var test = open()) {
      assertThat(test.hits(13, 4)).isZero();
    }
  }

  /** A key that was stored anew before its old record was read lies in two slots. */
  @Test
  void everyCopyOfABlockIsForgotten() throws IOException {
    try (var test = open()) {
      test.store(1, 0, 16);
    }
    try (var test = open(builder -> builder.restoreWait(Duration.ZERO))) {
      test.store(10, 0, 1); // into slot 0, where key 1 was
      assertThat(test.spillway.awaitRestored(Duration.ofSeconds(10))).isTrue();
      assertThat(test.spillway.await(test.spillway.forget(0, keys(10, 1)))).isZero();
      assertThat(onDisk(10)).isZero();
    }
    try (var test = open()) {
      assertThat(test.hits(10, 1)).isZero();
    }
  }

  /** Asked twice, each waits; where it failed it can be asked again. */
  @Test
  void itMayBeAskedTwice() {
    try (var test = open()) {
      test.store(1, 0, 4);
      var first = test.spillway.forget(0, keys(1, 4));
      var second = test.spillway.forget(0, keys(1, 4));
      assertThat(second).isNotDone();
      assertThat(test.spillway.await(second)).isZero();
      assertThat(first).isCompletedWithValue(0);
    }
    try (var test = open(builder -> builder.faults(FaultSpec.parse("corrupt=100%", 7)))) {
      test.store(1, 0, 4);
      assertThat(test.spillway.await(test.spillway.forget(0, keys(1, 4)))).isEqualTo(4);
      assertThat(test.spillway.await(test.spillway.forget(0, keys(1, 4)))).isEqualTo(4);
    }
  }

  /** On the rank that is well the bytes of a retired slot are whole. */
  @Test
  void whatARetiredSlotHoldsIsForgottenToo() throws IOException {
    try (var second = TestDevices.allocate(KvLayout.ofBlockBytes(SLOT, 16), 32);
        var test = open(builder -> builder.addRank(second))) {
      test.store(1, 0, 4);
      try (var file =
          new java.io.RandomAccessFile(directory.resolve("rank-1-of-2.blocks").toFile(), "rw")) {
        file.seek(HEADER + 2L * SLOT + 9000);
        file.write(77);
      }
      assertThat(test.load(1, 4, 8).outcome(2)).isEqualTo(BlockOutcome.CORRUPT);
      assertThat(test.spillway.stats().retiredSlots()).isEqualTo(1);
      assertThat(onDisk("rank-0-of-2.blocks", 3)).isEqualTo(1);
      assertThat(test.spillway.await(test.spillway.forget(0, keys(1, 4)))).isZero();
      assertThat(onDisk("rank-0-of-2.blocks", 3)).isZero();
      test.spillway.verify();
    }
  }

  @Test
  void aResultMayCloseTheSpillway() {
    var test = open();
    test.store(1, 0, 4);
    var forgotten = test.spillway.forget(0, keys(1, 4)).thenRun(test.spillway::close);
    test.close();
    assertThat(forgotten).isCompleted();
  }
}
