package dev.spillway.ledger;

import static dev.spillway.testing.SpillwayFixture.keys;
import static dev.spillway.testing.SpillwayFixture.range;
import static org.assertj.core.api.Assertions.assertThat;

import dev.spillway.block.BlockOutcome;
import dev.spillway.block.BlockStage;
import dev.spillway.block.DeviceEvent;
import dev.spillway.block.KvLayout;
import dev.spillway.block.Operation;
import dev.spillway.block.RankReport;
import dev.spillway.block.TransferPlan;
import dev.spillway.block.TransferResult;
import dev.spillway.index.BlockIndex;
import dev.spillway.index.Lease;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Abort, drain, reset, lost ranks, trials of slots and full disks, stepped by hand. */
class RecoveryTest {
  private static final int RANKS = 2;
  private static final int TOLD = RankReport.ENDED;
  private static final int WHOLE = RankReport.ENDED | RankReport.QUIET;

  private final BlockIndex index = new BlockIndex(List.of(8L), 1, 10);
  private final ArrayDeque<TransferPlan> plans = new ArrayDeque<>();
  private final List<TransferPlan> commands = new ArrayList<>();
  private long nanos;
  private final TransferLedger ledger =
      new TransferLedger(
          index,
          KvLayout.ofBlockBytes(4096, 16),
          new int[] {16},
          RANKS,
          32,
          () -> nanos,
          0,
          false,
          0,
          false,
          (ranks, plan) -> {
            if (plan.operation().isCommand()) {
              commands.add(plan);
            } else {
              plans.add(plan);
            }
          });

  @AfterEach
  void nothingIsHeldAndTheIndexIsWhole() {
    assertThat(ledger.isIdle()).isTrue();
    assertThat(index.heldCount()).isZero();
    index.verify();
  }

  private void tell(TransferPlan plan, int rank, int position, int flags, BlockOutcome outcome) {
    var report = new RankReport();
    report.begin(rank);
    report.add(plan.transferId(), position, flags, outcome, BlockStage.WRITING, 0, 0, 1);
    ledger.apply(report);
    ledger.finish();
  }

  private void tellAll(TransferPlan plan, int flags, BlockOutcome outcome) {
    for (int rank = 0; rank < RANKS; rank++) {
      for (int i = 0; i < plan.size(); i++) {
        tell(plan, rank, plan.position(i), flags, outcome);
      }
    }
  }

  private CompletableFuture<TransferResult> store(long request, int firstKey, int count) {
    return ledger.store(request, 0, keys(firstKey, count), 0, range(0, count), DeviceEvent.NOW);
  }

  private void storeWell(int firstKey, int count) {
    var result = store(0, firstKey, count);
    tellAll(plans.remove(), WHOLE, BlockOutcome.STORED);
    assertThat(result.join().isWell()).isTrue();
  }

  private CompletableFuture<TransferResult> load(long request, int firstKey, int count) {
    try (var lease = Lease.take(index, 0, keys(firstKey, count), 0)) {
      return ledger.load(request, lease, range(0, count), DeviceEvent.NOW, 0);
    }
  }

  private int hits(int firstKey, int count) {
    try (var lease = Lease.take(index, 0, keys(firstKey, count), 0)) {
      return lease.size();
    }
  }

  /** Shows: F47 V73 V113, case57: the fence on abort. */
  @Test
  void anAbortedLoadsBlocksAreFencedUntilTheLastRankIsQuiet() {
    storeWell(10, 2);
    var result = load(7, 10, 2);
    var plan = plans.remove();
    var quiet = ledger.abort(7);
    assertThat(commands).singleElement().returns(Operation.CANCEL, TransferPlan::operation);
    tell(plan, 0, 0, WHOLE, BlockOutcome.CANCELLED);
    tell(plan, 0, 1, TOLD, BlockOutcome.CANCELLED);
    tell(plan, 1, 0, WHOLE, BlockOutcome.CANCELLED);
    tell(plan, 1, 1, WHOLE, BlockOutcome.CANCELLED);
    assertThat(result.join().outcome(1)).isEqualTo(BlockOutcome.CANCELLED);
    assertThat(quiet).as("rank 0 may still write block 1").isNotDone();
    assertThat(result.join().quiet().toCompletableFuture()).isNotDone();
    assertThat(index.heldCount()).as("the slot is still being read").isEqualTo(1);
    tell(plan, 0, 1, RankReport.QUIET, BlockOutcome.CANCELLED);
    assertThat(quiet).isCompleted();
    assertThat(result.join().quiet().toCompletableFuture()).isCompleted();
    assertThat(hits(10, 2)).as("the entries stay").isEqualTo(2);
  }

  /** Shows: F42 F49 V10 V74, case56 */
  @Test
  void aDrainedStoreLetsGoOfItsBlocksWhenEveryRankHasCopiedThemAndIsStoredLater() {
    var result = store(7, 10, 1);
    var plan = plans.remove();
    var quiet = ledger.drain(7);
    assertThat(commands).singleElement().returns(Operation.DRAIN, TransferPlan::operation);
    tell(plan, 0, 0, RankReport.COPIED, BlockOutcome.CANCELLED);
    assertThat(quiet).isNotDone();
    tell(plan, 1, 0, RankReport.COPIED, BlockOutcome.CANCELLED);
    assertThat(quiet).isCompleted();
    assertThat(result).isNotDone();
    tellAll(plan, WHOLE, BlockOutcome.STORED);
    assertThat(hits(10, 1)).isEqualTo(1);
  }

  /** Shows: V33: a slot that one rank still writes is not handed out. */
  @Test
  void aDiscardedSlotIsNotHandedOutBeforeTheLastRankIsQuiet() {
    var result = store(7, 10, 1);
    var plan = plans.remove();
    tell(plan, 0, 0, TOLD, BlockOutcome.EXPIRED);
    tell(plan, 1, 0, WHOLE, BlockOutcome.STORED);
    assertThat(result.join().outcome(0)).isEqualTo(BlockOutcome.EXPIRED);
    assertThat(index.freeCount()).isEqualTo(7);
    assertThat(hits(10, 1)).isZero();
    tell(plan, 0, 0, RankReport.QUIET, BlockOutcome.EXPIRED);
    assertThat(index.freeCount()).isEqualTo(8);
  }

  /** Shows: F44 F45 V34 V83 V85 V87 */
  @Test
  void aResetEmptiesTheIndexAtOnceAndPublishesNothingThatIsInFlight() {
    storeWell(10, 2);
    var loading = load(7, 10, 2);
    var loadPlan = plans.remove();
    var storing = ledger.store(8, 0, keys(20, 2), 0, range(4, 2), DeviceEvent.NOW);
    var storePlan = plans.remove();
    var quiet = ledger.reset();
    assertThat(hits(10, 2)).isZero();
    var again = ledger.reset();
    assertThat(commands)
        .extracting(TransferPlan::operation)
        .as("each transfer is cancelled once, and the ranks write down one thing after the other")
        .containsExactly(Operation.FORGET, Operation.CANCEL, Operation.CANCEL);
    // The race: all had ended well before the cancel came.
    tellAll(storePlan, WHOLE, BlockOutcome.STORED);
    assertThat(quiet).isNotDone();
    tellAll(loadPlan, WHOLE, BlockOutcome.LOADED);
    assertThat(quiet).as("a kill could bring blocks back").isNotDone();
    assertThat(ledger.isIdle()).isFalse();
    tell(commands.get(0), 0, 0, WHOLE, BlockOutcome.STORED);
    assertThat(quiet).as("on rank 1").isNotDone();
    tell(commands.get(0), 1, 0, WHOLE, BlockOutcome.STORED);
    assertThat(quiet).isCompleted();
    assertThat(again).isNotDone();
    tellFloor();
    assertThat(again).isCompleted();
    assertThat(storing.join().outcome(0)).isEqualTo(BlockOutcome.CANCELLED);
    assertThat(loading.join().outcome(1)).isEqualTo(BlockOutcome.CANCELLED);
    assertThat(hits(20, 2)).isZero();
    assertThat(index.freeCount()).isEqualTo(8);
    storeWell(20, 2);
    assertThat(hits(20, 2)).as("it can be stored again").isEqualTo(2);
  }

  /** One rank's disk refuses the word: what was reset may come back, and the caller must know. */
  @Test
  void aResetThatOneRankCouldNotWriteDownEndsExceptionallyAndAnotherTriesAgain() {
    storeWell(10, 2);
    var quiet = ledger.reset();
    var waiting = ledger.reset();
    tell(commands.get(0), 0, 0, WHOLE, BlockOutcome.STORED);
    tell(commands.get(0), 1, 0, WHOLE, BlockOutcome.WRITE_ERROR);
    assertThat(quiet).isCompletedExceptionally();
    assertThat(waiting).isNotDone();
    assertThat(hits(10, 2)).as("in this process it is gone all the same").isZero();
    assertThat(ledger.counters().rankFaults())
        .as("no lane's fault")
        .containsEntry(BlockOutcome.WRITE_ERROR, 0L);
    tellFloor();
    assertThat(waiting).isCompleted();
  }

  /** The ranks have written down what the last reset has voided. */
  private void tellFloor() {
    ledger.sendFloor();
    var floor = commands.get(commands.size() - 1);
    for (var plan : commands) {
      floor = plan.operation() == Operation.FORGET ? plan : floor;
    }
    tellAll(floor, WHOLE, BlockOutcome.STORED);
  }

  @Test
  void aRankThatIsLostNeedWriteNothingDownAndAfterAllAreResetIsDoneAtOnce() {
    var quiet = ledger.reset();
    tell(commands.get(0), 0, 0, WHOLE, BlockOutcome.STORED);
    assertThat(quiet).isNotDone();
    ledger.rankLost(1);
    ledger.finish();
    assertThat(quiet).isCompleted();
    tell(commands.get(0), 1, 0, RankReport.QUIET, BlockOutcome.STORED);
    ledger.rankLost(0);
    var again = ledger.reset();
    ledger.finish();
    assertThat(again).isCompleted();
  }

  /** No rank is left to write anything down, but one may still be at a device block. */
  @Test
  void aResetAfterTheLastRankIsLostStillWaitsForItsDeviceBlocks() {
    storeWell(10, 1);
    var loading = load(7, 10, 1);
    var plan = plans.remove();
    ledger.rankLost(0);
    ledger.rankLost(1);
    var quiet = ledger.reset();
    ledger.finish();
    assertThat(loading.join().outcome(0)).isEqualTo(BlockOutcome.ENGINE_FAILED);
    assertThat(quiet).isNotDone();
    tell(plan, 0, 0, RankReport.QUIET, BlockOutcome.CANCELLED);
    assertThat(quiet).isNotDone();
    tell(plan, 1, 0, RankReport.QUIET, BlockOutcome.CANCELLED);
    assertThat(quiet).isCompleted();
  }

  /** Shows: F45: a fault between reset and the ending. */
  @Test
  void aFaultAfterAResetOnlyDropsReferences() {
    var storing = store(8, 20, 1);
    var plan = plans.remove();
    var quiet = ledger.reset();
    tell(plan, 0, 0, WHOLE | RankReport.MEDIUM, BlockOutcome.WRITE_ERROR);
    tell(plan, 1, 0, WHOLE, BlockOutcome.STORED);
    tellFloor();
    assertThat(quiet).isCompleted();
    assertThat(storing.join().outcome(0)).isEqualTo(BlockOutcome.WRITE_ERROR);
    assertThat(index.retiredCount()).isEqualTo(1);
  }

  /** Shows: F50 F60 V5 V140: aborts of what is not there, late and double reports. */
  @Test
  void anAbortOfNothingIsDoneAtOnceAndLateReportsAreCounted() {
    assertThat(ledger.abort(99)).isCompleted();
    var result = store(7, 10, 1);
    var plan = plans.remove();
    tellAll(plan, WHOLE, BlockOutcome.STORED);
    assertThat(ledger.abort(7)).isCompleted();
    tell(plan, 0, 0, WHOLE, BlockOutcome.WRITE_ERROR);
    assertThat(ledger.counters().unknownEndings()).isEqualTo(1);
    assertThat(result.join().isWell()).isTrue();
  }

  /** A lapsed rank ends outcomes, never fences (decision 8). */
  @Test
  void aLostRankEndsItsBlocksOnceAndItsQuietIsStillAwaited() {
    var result = store(7, 10, 2);
    var plan = plans.remove();
    tell(plan, 0, 0, WHOLE, BlockOutcome.STORED);
    ledger.rankLost(1);
    ledger.finish();
    assertThat(result).as("rank 0 has yet to speak of block 1").isNotDone();
    tell(plan, 0, 1, WHOLE, BlockOutcome.STORED);
    assertThat(result.join().outcome(0)).isEqualTo(BlockOutcome.ENGINE_FAILED);
    assertThat(result.join().outcome(1)).isEqualTo(BlockOutcome.ENGINE_FAILED);
    assertThat(ledger.engineHasFailed()).isTrue();
    assertThat(index.heldCount()).as("rank 1 may still write").isEqualTo(2);
    tell(plan, 1, 0, WHOLE, BlockOutcome.STORED);
    assertThat(ledger.counters().doubleEndings()).as("a late outcome is dropped").isZero();
    tell(plan, 1, 1, RankReport.QUIET, BlockOutcome.STORED);
    assertThat(index.freeCount()).isEqualTo(8);
    assertThat(hits(10, 2)).isZero();
  }

  /** Shows: F25: bad slots leave and come back. */
  @Test
  void aRetiredSlotIsTriedByTheRankThatFailedAndComesBackAfterThreeCleanTrials() {
    var result = store(7, 10, 1);
    var plan = plans.remove();
    tell(plan, 0, 0, WHOLE, BlockOutcome.STORED);
    tell(plan, 1, 0, WHOLE | RankReport.MEDIUM, BlockOutcome.WRITE_ERROR);
    assertThat(result.join().isWell()).isFalse();
    assertThat(index.retiredCount()).isEqualTo(1);
    ledger.probeRetired();
    assertThat(plans).as("its time has not come").isEmpty();
    for (int round = 0; round < 3; round++) {
      nanos += 10;
      ledger.probeRetired();
      var probe = plans.remove();
      assertThat(probe.operation()).isEqualTo(Operation.PROBE);
      tell(probe, 0, 0, WHOLE, BlockOutcome.STORED);
      assertThat(ledger.blocksInFlight()).as("only rank 1 was asked").isEqualTo(1);
      assertThat(ledger.isIdle()).as("a trial is nobody's").isTrue();
      tell(probe, 1, 0, WHOLE, BlockOutcome.STORED);
    }
    assertThat(index.retiredCount()).isZero();
    assertThat(index.probedBackCount()).isEqualTo(1);
  }

  /** Shows: F34, case38 case48: full is a state of stores, never of loads. */
  @Test
  void aFullDiskPausesStoresAndOneThatSucceedsResumesThem() {
    storeWell(10, 1);
    var full = store(7, 20, 1);
    tellAll(plans.remove(), WHOLE | RankReport.NO_ROOM, BlockOutcome.WRITE_ERROR);
    assertThat(full.join().isWell()).isFalse();
    assertThat(index.retiredCount()).as("a full disk blames no slot").isZero();
    var paused = store(8, 30, 1);
    ledger.finish();
    assertThat(paused.join().outcome(0)).isEqualTo(BlockOutcome.REJECTED);
    assertThat(plans).isEmpty();
    var loading = load(9, 10, 1);
    tellAll(plans.remove(), WHOLE, BlockOutcome.LOADED);
    assertThat(loading.join().isWell()).isTrue();
    nanos += 1_000_000_000;
    storeWell(40, 1);
    storeWell(50, 1);
    assertThat(ledger.counters().storePauses()).isEqualTo(1);
  }

  /** Shows: V76 */
  @Test
  void aNullBlockMovesNothing() {
    var result =
        ledger.store(
            7, 0, keys(10, 3), 0, new int[] {0, TransferLedger.NULL_BLOCK, 2}, DeviceEvent.NOW);
    var plan = plans.remove();
    assertThat(plan.size()).isEqualTo(2);
    tellAll(plan, WHOLE, BlockOutcome.STORED);
    assertThat(result.join().isWell()).isTrue();
    assertThat(result.join().moved()).isEqualTo(2);
    assertThat(hits(10, 3)).isEqualTo(1);
  }
}
