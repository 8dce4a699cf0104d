package dev.spillway.ledger;

import static dev.spillway.testing.SpillwayFixture.keys;
import static dev.spillway.testing.SpillwayFixture.range;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.spillway.block.BlockOutcome;
import dev.spillway.block.BlockStage;
import dev.spillway.block.DeviceEvent;
import dev.spillway.block.KvLayout;
import dev.spillway.block.RankReport;
import dev.spillway.block.TransferPlan;
import dev.spillway.block.TransferResult;
import dev.spillway.index.BlockIndex;
import dev.spillway.index.Lease;
import java.util.ArrayDeque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Steps the machines by hand: plans are looked at, endings are made up. */
class TransferLedgerTest {
  private static final int RANKS = 2;

  private final BlockIndex index = new BlockIndex(List.of(8L), 1);
  private final ArrayDeque<TransferPlan> commands = new ArrayDeque<>();
  private long nanos;
  private final ArrayDeque<TransferPlan> plans = new ArrayDeque<>();
  private final TransferLedger ledger =
      new TransferLedger(
          index,
          KvLayout.ofBlockBytes(4096, 16),
          new int[] {16},
          RANKS,
          6,
          () -> nanos,
          0,
          false,
          0,
          false,
          this::send);

  private void send(long ranks, TransferPlan plan) {
    if (plan.operation().isCommand()) {
      commands.add(plan);
    } else {
      plans.add(plan);
    }
  }

  @AfterEach
  void nothingIsHeldAndTheIndexIsWhole() {
    assertThat(ledger.isIdle()).isTrue();
    assertThat(index.heldCount()).isZero();
    index.verify();
  }

  private CompletableFuture<TransferResult> store(int firstKey, int count) {
    return ledger.store(0, 0, keys(firstKey, count), 0, range(0, count), DeviceEvent.NOW);
  }

  private void report(TransferPlan plan, int rank, int position, BlockOutcome outcome) {
    report(plan.transferId(), rank, position, outcome);
  }

  private void report(long id, int rank, int position, BlockOutcome outcome) {
    var report = new RankReport();
    report.begin(rank);
    boolean well = outcome.isWell();
    int told = RankReport.ENDED | RankReport.QUIET | (well ? 0 : RankReport.MEDIUM);
    report.add(id, position, told, outcome, BlockStage.WRITING, well ? 0 : 5, 100, 1);
    ledger.apply(report);
  }

  private void reportAll(TransferPlan plan, BlockOutcome outcome) {
    for (int rank = 0; rank < RANKS; rank++) {
      for (int i = 0; i < plan.size(); i++) {
        report(plan, rank, plan.position(i), outcome);
      }
    }
    ledger.finish();
  }

  private void storeWell(int firstKey, int count) {
    var result = store(firstKey, count);
    reportAll(plans.remove(), BlockOutcome.STORED);
    assertThat(result.join().isWell()).isTrue();
  }

  private int hits(int firstKey, int count) {
    try (var lease = Lease.take(index, 0, keys(firstKey, count), 0)) {
      return lease.size();
    }
  }

  /** Shows: V109 V142 */
  @Test
  void aStoreIsVisibleOnlyAfterTheLastRank() {
    var result = store(10, 2);
    var plan = plans.remove();
    report(plan, 0, 0, BlockOutcome.STORED);
    report(plan, 0, 1, BlockOutcome.STORED);
    report(plan, 1, 0, BlockOutcome.STORED);
    assertThat(hits(10, 2)).as("the first block alone is on both ranks").isEqualTo(1);
    ledger.finish();
    assertThat(result).isNotDone();
    report(plan, 1, 1, BlockOutcome.STORED);
    assertThat(result).as("completed only in finish").isNotDone();
    ledger.finish();
    assertThat(result.join().moved()).isEqualTo(2);
    assertThat(hits(10, 2)).isEqualTo(2);
  }

  /** Shows: F37 V219: V33: one rank's failure discards the block, after the last has reported. */
  @Test
  void v33OneRanksFailedWriteDiscardsOnlyThatBlockAfterTheLastReport() {
    var result = store(10, 2);
    var plan = plans.remove();
    report(plan, 0, 1, BlockOutcome.WRITE_ERROR);
    report(plan, 0, 0, BlockOutcome.STORED);
    report(plan, 1, 0, BlockOutcome.STORED);
    assertThat(index.freeCount()).as("the slot may still be written").isEqualTo(6);
    report(plan, 1, 1, BlockOutcome.STORED);
    ledger.finish();
    assertThat(index.freeCount()).as("one is stored, one retired").isEqualTo(6);
    assertThat(index.retiredCount()).isEqualTo(1);
    assertThat(result.join().faults()).containsOnlyKeys(1);
    var fault = result.join().faults().values().iterator().next();
    assertThat(fault.outcome()).isEqualTo(BlockOutcome.WRITE_ERROR);
    assertThat(fault.errno()).isEqualTo(5);
    assertThat(fault.bytesWanted()).isEqualTo(4096);
    assertThat(hits(10, 2)).isEqualTo(1);
  }

  /** Shows: F24 V25 V26 V32 */
  @Test
  void aFailedLoadIsInvalidatedBeforeTheCallerHears() {
    storeWell(10, 3);
    CompletableFuture<TransferResult> result;
    try (var lease = Lease.take(index, 0, keys(10, 3), 0)) {
      result = ledger.load(0, lease, range(0, 3), DeviceEvent.NOW, 0);
    }
    var plan = plans.remove();
    report(plan, 1, 1, BlockOutcome.CORRUPT);
    assertThat(hits(10, 3)).as("gone with the first rank's report").isEqualTo(1);
    assertThat(result).isNotDone();
    for (int position : new int[] {0, 2}) {
      report(plan, 0, position, BlockOutcome.LOADED);
      report(plan, 1, position, BlockOutcome.LOADED);
    }
    report(plan, 0, 1, BlockOutcome.LOADED);
    ledger.finish();
    assertThat(result.join().faults()).containsOnlyKeys(1);
    assertThat(index.retiredCount()).isEqualTo(1);
    assertThat(index.isStored(index.find(0, 12, ~12L))).as("the block behind it stays").isTrue();
  }

  /** Shows: F60 V5 */
  @Test
  void aSecondEndingOfABlockIsCountedAndHarmless() {
    var result = store(10, 1);
    var plan = plans.remove();
    report(plan, 0, 0, BlockOutcome.STORED);
    report(plan, 0, 0, BlockOutcome.WRITE_ERROR);
    report(plan, 1, 0, BlockOutcome.STORED);
    ledger.finish();
    assertThat(result.join().isWell()).isTrue();
    assertThat(ledger.counters().doubleEndings()).isEqualTo(1);
  }

  /** Shows: F50 */
  @Test
  void anEndingOfNoTransferIsCountedAndHarmless() {
    storeWell(10, 1);
    var again = store(20, 1);
    var plan = plans.remove();
    report(plan.transferId() + (1L << TransferPlan.PLACE_BITS), 0, 0, BlockOutcome.STORED);
    report(12345, 0, 0, BlockOutcome.STORED);
    assertThat(ledger.counters().unknownEndings()).isEqualTo(2);
    reportAll(plan, BlockOutcome.STORED);
    assertThat(again).isCompleted();
  }

  /** Shows: V68 V69 V91 */
  @Test
  void aKeyThatIsThereOrOnItsWayIsPresentAndMovesNothing() {
    var first = store(10, 2);
    var second = store(10, 2);
    assertThat(plans).hasSize(1);
    ledger.finish();
    assertThat(second.join().outcome(0)).isEqualTo(BlockOutcome.PRESENT);
    assertThat(second.join().isWell()).isTrue();
    reportAll(plans.remove(), BlockOutcome.STORED);
    assertThat(first.join().moved()).isEqualTo(2);
  }

  /** Shows: F39 V94 */
  @Test
  void overTheBoundTheLeadingBlocksAreTakenAndTheRestRejected() {
    var result = store(10, 8);
    var plan = plans.remove();
    assertThat(plan.size()).isEqualTo(6);
    reportAll(plan, BlockOutcome.STORED);
    assertThat(result.join().wellPrefix()).isEqualTo(6);
    assertThat(result.join().faults().values())
        .allSatisfy(fault -> assertThat(fault.outcome()).isEqualTo(BlockOutcome.REJECTED));
  }

  /** Shows: V82 */
  @Test
  void anEntryThatWentBetweenLookupAndLoadIsALateMiss() {
    storeWell(10, 1);
    try (var lease = Lease.take(index, 0, keys(10, 1), 0)) {
      index.invalidate(lease.entry(0));
      var result = ledger.load(0, lease, range(0, 1), DeviceEvent.NOW, 0);
      ledger.finish();
      assertThat(result.join().outcome(0)).isEqualTo(BlockOutcome.REJECTED);
    }
    // The block that it was to go to is free for another load.
    storeWell(20, 1);
    try (var lease = Lease.take(index, 0, keys(20, 1), 0)) {
      var result = ledger.load(0, lease, range(0, 1), DeviceEvent.NOW, 0);
      reportAll(plans.remove(), BlockOutcome.LOADED);
      assertThat(result.join().isWell()).isTrue();
    }
  }

  @Test
  void aDeviceBlockInFlightIsRefusedWithItsPosition() {
    storeWell(10, 4);
    var lease = Lease.take(index, 0, keys(10, 4), 0);
    var load = ledger.load(0, lease, new int[] {3, 5}, DeviceEvent.NOW, 0);
    assertThatThrownBy(() -> ledger.load(0, lease, new int[] {7, 5}, DeviceEvent.NOW, 0))
        .hasMessage(
            "device block 5 at position 1 of group 0 has a load in flight or is given twice;"
                + " wait for its result");
    assertThatThrownBy(() -> ledger.load(0, lease, new int[] {7, 7}, DeviceEvent.NOW, 0))
        .hasMessageContaining("given twice");
    assertThatThrownBy(() -> ledger.load(0, lease, new int[] {7, 16}, DeviceEvent.NOW, 0))
        .hasMessage("device block 16 at position 1; group 0 has blocks 0 to 15");
    assertThatThrownBy(() -> ledger.store(0, 0, keys(50, 1), 0, new int[] {3}, DeviceEvent.NOW))
        .hasMessageContaining("has a load in flight");
    // Nothing was claimed by the refusals: block 7 can still be loaded onto.
    var other = ledger.load(0, lease, new int[] {7}, DeviceEvent.NOW, 0);
    reportAll(plans.remove(), BlockOutcome.LOADED);
    reportAll(plans.remove(), BlockOutcome.LOADED);
    assertThat(load.join().isWell() && other.join().isWell()).isTrue();
    lease.close();
    var store = ledger.store(0, 0, keys(60, 1), 0, new int[] {9}, DeviceEvent.NOW);
    var double2 = ledger.store(0, 0, keys(61, 1), 0, new int[] {9}, DeviceEvent.NOW);
    try (var last = Lease.take(index, 0, keys(10, 1), 0)) {
      assertThatThrownBy(() -> ledger.load(0, last, new int[] {9}, DeviceEvent.NOW, 0))
          .hasMessageContaining("has a store in flight");
    }
    reportAll(plans.remove(), BlockOutcome.STORED);
    reportAll(plans.remove(), BlockOutcome.STORED);
    assertThat(store.join().isWell() && double2.join().isWell()).isTrue();
  }

  @Test
  void whenTheEngineIsGoneEveryOpenTransferEnds() {
    var result = store(10, 2);
    plans.clear();
    ledger.abandon(BlockOutcome.CANCELLED, false);
    assertThat(result.join().outcome(1)).isEqualTo(BlockOutcome.CANCELLED);
    assertThat(ledger.counters().outcomes()).containsEntry(BlockOutcome.CANCELLED, 2L);
  }

  @Test
  void anAnswerToAResultMeetsALedgerAtRest() {
    var second = store(10, 1).thenCompose(result -> store(20, 1)); // called within finish
    reportAll(plans.remove(), BlockOutcome.STORED);
    assertThat(second).isNotDone();
    reportAll(plans.remove(), BlockOutcome.STORED);
    assertThat(second).isCompleted();
  }

  @Test
  void aLeaseThatIsClosedOrOfAnotherIndexIsRefusedAndNothingIsClaimed() {
    storeWell(10, 1);
    var closed = Lease.take(index, 0, keys(10, 1), 0);
    closed.close();
    assertThatThrownBy(() -> ledger.load(0, closed, range(0, 1), DeviceEvent.NOW, 0))
        .hasMessageContaining("the lease is closed");
    var other = new BlockIndex(List.of(8L), 1);
    int entry = other.reserve(0, 10, ~10L, -1);
    other.commit(entry);
    other.release(entry);
    try (var foreign = Lease.take(other, 0, keys(10, 1), 0)) {
      assertThatThrownBy(() -> ledger.load(0, foreign, range(0, 1), DeviceEvent.NOW, 0))
          .hasMessage("the lease is of another Spillway; look up in this one");
    }
    try (var lease = Lease.take(index, 0, keys(10, 1), 0)) {
      var result = ledger.load(0, lease, range(0, 1), DeviceEvent.NOW, 0);
      reportAll(plans.remove(), BlockOutcome.LOADED);
      assertThat(result.join().isWell()).isTrue();
    }
  }

  @Test
  void anAnswerMayTakeInAResultOfTheSameRound() {
    var first = store(10, 1);
    var second = ledger.store(0, 0, keys(20, 1), 0, new int[] {5}, DeviceEvent.NOW);
    var seen = first.thenApply(result -> ledger.finish() + (second.isDone() ? 10 : 0));
    var one = plans.remove();
    var two = plans.remove();
    for (int rank = 0; rank < RANKS; rank++) {
      report(one, rank, 0, BlockOutcome.STORED);
      report(two, rank, 0, BlockOutcome.STORED);
    }
    ledger.finish();
    assertThat(seen).isCompletedWithValue(11);
  }

  @Test
  void aPrefixStoredInPartsKeepsItsOrder() {
    // Chunked prefill: the second part is asked for while the first is on its way.
    var first = ledger.store(0, 0, keys(10, 6), 0, range(0, 2), DeviceEvent.NOW);
    var second = ledger.store(0, 0, keys(10, 6), 2, range(2, 2), DeviceEvent.NOW);
    reportAll(plans.remove(), BlockOutcome.STORED);
    reportAll(plans.remove(), BlockOutcome.STORED);
    assertThat(first.join().isWell() && second.join().isWell()).isTrue();
    storeWell(50, 6);
    assertThat(hits(10, 4)).as("the end of the prefix went, its beginning stayed").isEqualTo(2);
  }

  @Test
  void aStoreLongerThanTheDiskKeepsItsOwnBeginning() {
    for (int round = 0; round < 2; round++) {
      for (int from = 0; from < 10; from += 5) {
        var result = ledger.store(0, 0, keys(10, 10), from, range(0, 5), DeviceEvent.NOW);
        if (!plans.isEmpty()) {
          reportAll(plans.remove(), BlockOutcome.STORED);
        }
        ledger.finish();
        assertThat(result).isCompleted();
      }
      assertThat(hits(10, 10)).isEqualTo(8);
    }
    assertThat(index.evictions()).isZero();
  }

  /** Shows: V72 */
  @Test
  void whatIsPresentCountsAsUsed() {
    storeWell(10, 3);
    storeWell(20, 3);
    var again = ledger.store(0, 0, keys(10, 4), 0, range(0, 4), DeviceEvent.NOW);
    reportAll(plans.remove(), BlockOutcome.STORED);
    assertThat(again.join().isWell()).isTrue();
    storeWell(30, 2);
    assertThat(hits(10, 4)).isEqualTo(4);
    assertThat(hits(20, 3)).as("the older prefix gave way").isEqualTo(2);
  }

  @Test
  void whatMovesNothingTakesNoPlace() {
    storeWell(10, 1);
    for (int i = 0; i < 50; i++) {
      assertThat(store(10, 1)).isNotDone();
    }
    var moved = store(20, 1);
    reportAll(plans.remove(), BlockOutcome.STORED);
    assertThat(moved.join().isWell()).isTrue();
  }

  @Test
  void seedsDifferByKeyGroupAndGeneration() {
    long seed = TransferLedger.seed(1, 2, 0, 3);
    assertThat(TransferLedger.seed(2, 1, 0, 3)).isNotEqualTo(seed);
    assertThat(TransferLedger.seed(1, 2, 1, 3)).isNotEqualTo(seed);
    assertThat(TransferLedger.seed(1, 2, 0, 4)).isNotEqualTo(seed);
  }
}
