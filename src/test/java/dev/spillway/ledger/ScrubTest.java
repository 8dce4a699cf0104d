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
import dev.spillway.index.BlockIndex;
import dev.spillway.index.Lease;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** The round of the stored blocks, stepped by hand over two ranks: 4096 bytes each 1000 ns. */
class ScrubTest {
  private static final int RANKS = 2;
  private static final int WHOLE = RankReport.ENDED | RankReport.QUIET;
  private static final long STEP = 1000;
  private static final long SLOTS = 128;

  private final BlockIndex index = new BlockIndex(List.of(SLOTS), 1, 10);
  private final ArrayDeque<TransferPlan> plans = new ArrayDeque<>();
  private long nanos;
  private final TransferLedger ledger =
      new TransferLedger(
          index,
          KvLayout.ofBlockBytes(4096, 16),
          new int[] {16},
          RANKS,
          4,
          () -> nanos,
          0,
          false,
          4096 * 1_000_000L,
          false,
          (ranks, plan) -> plans.add(plan));

  @AfterEach
  void nothingIsHeldAndTheIndexIsWhole() {
    assertThat(ledger.isIdle()).isTrue();
    assertThat(index.heldCount()).isZero();
    index.verify();
  }

  private void tell(TransferPlan plan, int rank, int flags, BlockOutcome outcome) {
    var report = new RankReport();
    report.begin(rank);
    for (int i = 0; i < plan.size(); i++) {
      report.add(plan.transferId(), i, flags, outcome, BlockStage.VERIFYING, 0, 0, 1);
    }
    ledger.apply(report);
    ledger.finish();
  }

  private void tellAll(TransferPlan plan, BlockOutcome outcome) {
    for (int rank = 0; rank < RANKS; rank++) {
      tell(plan, rank, WHOLE, outcome);
    }
  }

  private void storeWell(int firstKey, int count) {
    var result = ledger.store(0, 0, keys(firstKey, count), 0, range(0, count), DeviceEvent.NOW);
    tellAll(plans.remove(), BlockOutcome.STORED);
    assertThat(result.join().isWell()).isTrue();
  }

  private int hits(int firstKey, int count) {
    try (var lease = Lease.take(index, 0, keys(firstKey, count), 0)) {
      return lease.size();
    }
  }

  private TransferPlan next() {
    nanos += STEP;
    ledger.scrub();
    var plan = plans.remove();
    assertThat(plan.operation()).isEqualTo(Operation.VERIFY);
    return plan;
  }

  @Test
  void everyStoredBlockHasItsTurnAtTheRateAndRoundsAreCounted() {
    assertThat(ledger.scrub()).as("nothing is stored").isZero();
    storeWell(10, 3);
    for (int round = 0; round < 2; round++) {
      for (int i = 0; i < 3; i++) {
        var plan = next();
        assertThat(plan.slot(0)).isEqualTo(i);
        assertThat(ledger.scrub()).as("its time has not come").isZero();
        tellAll(plan, BlockOutcome.LOADED);
      }
    }
    tellAll(next(), BlockOutcome.LOADED);
    var counters = ledger.counters().scrub();
    assertThat(counters.blocks()).isEqualTo(7);
    assertThat(counters.bytes()).isEqualTo(7 * 4096);
    assertThat(counters.bad()).isZero();
    assertThat(counters.rounds()).isEqualTo(2);
    assertThat(ledger.counters().outcomes())
        .as("no caller's")
        .containsEntry(BlockOutcome.LOADED, 0L);
  }

  @Test
  void noMoreThanAFewAreOnTheirWayAndTheyTakeNoRoomFromCallers() {
    storeWell(10, 4);
    storeWell(20, 4);
    tellAll(next(), BlockOutcome.LOADED);
    nanos += 1_000_000_000;
    assertThat(ledger.scrub()).isEqualTo(Scrub.IN_FLIGHT_MAX);
    var looks = new ArrayDeque<>(plans);
    plans.clear();
    try (var lease = Lease.take(index, 0, keys(10, 4), 0)) {
      var loading = ledger.load(0, lease, range(0, 4), DeviceEvent.NOW, 0);
      tellAll(plans.remove(), BlockOutcome.LOADED);
      assertThat(loading.join().moved()).as("all four that may be in flight").isEqualTo(4);
    }
    looks.forEach(look -> tellAll(look, BlockOutcome.LOADED));
  }

  /** What is read cannot be evicted: a store that needs the slot would be rejected. */
  @Test
  void aGroupOfFewSlotsIsReadOneBlockAtATime() {
    var own = new BlockIndex(List.of(1000L, 8L), 1, 10);
    int entry = own.reserve(0, 1, 1, -1);
    own.commit(entry);
    own.release(entry);
    var scrub = new Scrub(own, 4096 * 1_000_000L);
    assertThat(scrub.next(0)).isEqualTo(entry);
    scrub.begin(4096, 0);
    assertThat(scrub.next(STEP * STEP)).as("one of eight").isNegative();
  }

  @Test
  void aBlockThatOneRankFindsBadIsLostWithItsSlotAndOthersStay() {
    storeWell(10, 3);
    tellAll(next(), BlockOutcome.LOADED);
    var plan = next();
    tell(plan, 1, WHOLE | RankReport.MEDIUM, BlockOutcome.CORRUPT);
    assertThat(hits(10, 3)).as("before the other rank has told").isEqualTo(1);
    tell(plan, 0, WHOLE, BlockOutcome.LOADED);
    assertThat(index.retiredCount()).isEqualTo(1);
    assertThat(hits(12, 1)).isEqualTo(1);
    assertThat(ledger.counters().scrub().bad()).isEqualTo(1);
    assertThat(ledger.counters().rankFaults()).containsEntry(BlockOutcome.CORRUPT, 1L);
    assertThat(ledger.counters().probeFaults()).isEqualTo(1);
  }

  @Test
  void aSlotIsNotHandedOutWhileARankReadsIt() {
    storeWell(10, 4);
    storeWell(20, 4);
    var plan = next();
    var quiet = ledger.reset();
    tellAll(plans.remove(), BlockOutcome.STORED); // that they have written it down
    plans.clear();
    var handedOut = new ArrayList<Integer>();
    for (int i = 1; i < SLOTS; i++) {
      handedOut.add(index.reserve(0, 100 + i, 1, -1));
    }
    assertThat(handedOut).as("slot 0 is being read").doesNotContain(0, -1);
    assertThat(index.reserve(0, 100, 1, -1)).isNegative();
    for (int entry : handedOut) {
      index.discard(entry);
      index.release(entry);
    }
    tell(plan, 0, WHOLE, BlockOutcome.CANCELLED);
    tell(plan, 1, WHOLE, BlockOutcome.LOADED);
    assertThat(quiet).isDone();
    assertThat(index.freeCount()).isEqualTo((int) SLOTS);
    assertThat(ledger.counters().scrub().bad()).isZero();
  }

  @Test
  void aRankThatIsLostEndsTheScrub() {
    storeWell(10, 3);
    var plan = next();
    ledger.rankLost(1);
    ledger.finish();
    tell(plan, 0, WHOLE, BlockOutcome.LOADED);
    tell(plan, 1, RankReport.QUIET, BlockOutcome.CANCELLED);
    nanos += STEP;
    assertThat(ledger.scrub()).isZero();
  }
}
