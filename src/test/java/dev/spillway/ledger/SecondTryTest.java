package dev.spillway.ledger;

import static dev.spillway.testing.SpillwayFixture.keys;
import static dev.spillway.testing.SpillwayFixture.range;
import static org.assertj.core.api.Assertions.assertThat;

import dev.spillway.block.BlockFault;
import dev.spillway.block.BlockFault.NoRoom;
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
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** A rank that has no room while older blocks could give way, stepped by hand. */
class SecondTryTest {
  private static final int RANKS = 2;
  private static final int WHOLE = RankReport.ENDED | RankReport.QUIET;
  private static final int FULL = WHOLE | RankReport.NO_ROOM;
  private static final int ENOSPC = 28;

  /** What was sent, and to which ranks. */
  private record Sent(long ranks, TransferPlan plan) {
    Operation operation() {
      return plan.operation();
    }
  }

  private final BlockIndex index = new BlockIndex(List.of(16L), 1, 10);
  private final ArrayDeque<Sent> sent = new ArrayDeque<>();
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
          true,
          0,
          false,
          (ranks, plan) -> sent.add(new Sent(ranks, plan)));

  @AfterEach
  void nothingIsHeldAndTheBooksBalance() {
    assertThat(ledger.isIdle()).isTrue();
    assertThat(ledger.blocksInFlight()).isZero();
    assertThat(ledger.counters().doubleEndings()).isZero();
    assertThat(ledger.counters().unknownEndings()).isZero();
    assertThat(index.heldCount()).isZero();
    assertThat(sent).isEmpty();
    index.verify();
  }

  private CompletableFuture<TransferResult> store(long request, int firstKey, int count) {
    return ledger.store(request, 0, keys(firstKey, count), 0, range(0, count), DeviceEvent.NOW);
  }

  private void tell(TransferPlan plan, int rank, int flags, int errno, BlockOutcome outcome) {
    var report = new RankReport();
    report.begin(rank);
    for (int i = 0; i < plan.size(); i++) {
      report.add(
          plan.transferId(), plan.position(i), flags, outcome, BlockStage.WRITING, errno, 0, 1);
    }
    ledger.apply(report);
    ledger.finish();
  }

  private void tellStored(TransferPlan plan, int rank) {
    tell(plan, rank, WHOLE, 0, BlockOutcome.STORED);
  }

  private void tellFull(TransferPlan plan, int rank) {
    tell(plan, rank, FULL, ENOSPC, BlockOutcome.WRITE_ERROR);
  }

  private void storeWell(int firstKey, int count) {
    var result = store(0, firstKey, count);
    var plan = sent.remove().plan();
    for (int rank = 0; rank < RANKS; rank++) {
      tellStored(plan, rank);
    }
    assertThat(result.join().isWell()).isTrue();
  }

  private int hits(int firstKey, int count) {
    try (var lease = Lease.take(index, 0, keys(firstKey, count), 0)) {
      return lease.size();
    }
  }

  /** Shows: case45: on all ranks the same blocks give way; the one that had no room tries again. */
  @Test
  void case45OlderBlocksGiveWayAndOnlyTheRankThatHadNoRoomWritesAgain() {
    storeWell(100, 4);
    var result = store(7, 10, 2);
    var plan = sent.remove().plan();
    tellFull(plan, 1);
    assertThat(result).isNotDone();
    var punch = sent.remove();
    assertThat(punch.operation()).isEqualTo(Operation.PUNCH);
    assertThat(punch.ranks()).isEqualTo(0b11);
    assertThat(punch.plan().size()).as("all that were there").isEqualTo(4);
    assertThat(hits(100, 4)).isZero();
    var again = sent.remove();
    assertThat(again.ranks()).isEqualTo(0b10);
    assertThat(again.operation()).isEqualTo(Operation.STORE);
    for (int i = 0; i < 2; i++) {
      assertThat(again.plan().slot(i)).isEqualTo(plan.slot(i));
      assertThat(again.plan().generation(i)).isEqualTo(plan.generation(i));
      assertThat(again.plan().seed(i)).isEqualTo(plan.seed(i));
      assertThat(again.plan().deviceBlock(i)).isEqualTo(plan.deviceBlock(i));
    }
    tellStored(again.plan(), 1);
    assertThat(hits(10, 2)).as("rank 0 has yet to speak").isZero();
    tellStored(plan, 0);
    assertThat(result.join().isWell()).isTrue();
    assertThat(hits(10, 2)).isEqualTo(2);
    assertThat(ledger.counters().storePauses()).isZero();
    assertThat(ledger.counters().noRoom()).isEmpty();
    assertThat(ledger.counters().rankFaults()).containsEntry(BlockOutcome.WRITE_ERROR, 2L);
    assertThat(ledger.counters().outcomes()).containsEntry(BlockOutcome.WRITE_ERROR, 0L);
  }

  /**
   * Shows: case45: what the store itself has stored before does not give way to its later blocks.
   */
  @Test
  void case45AStoreDoesNotEvictItsOwnBlocks() {
    var result = store(7, 10, 4);
    var plan = sent.remove().plan();
    for (int rank = 0; rank < RANKS; rank++) {
      var report = new RankReport();
      report.begin(rank);
      for (int i = 0; i < 3; i++) {
        report.add(
            plan.transferId(), i, WHOLE, BlockOutcome.STORED, BlockStage.WRITING, 0, 4096, 1);
      }
      boolean full = rank == 1;
      report.add(
          plan.transferId(),
          3,
          full ? FULL : WHOLE,
          full ? BlockOutcome.WRITE_ERROR : BlockOutcome.STORED,
          BlockStage.WRITING,
          full ? ENOSPC : 0,
          0,
          1);
      ledger.apply(report);
    }
    var again = sent.remove();
    assertThat(again.operation()).as("nothing gave way").isEqualTo(Operation.STORE);
    tellStored(again.plan(), 1);
    assertThat(result.join().isWell()).isTrue();
    assertThat(hits(10, 4)).isEqualTo(4);
  }

  /** Shows: case45: once, then stores pause. */
  @Test
  void case45ASecondRefusalIsTheEndAndStoresPause() {
    storeWell(100, 1);
    var result = store(7, 10, 1);
    var plan = sent.remove().plan();
    tellStored(plan, 0);
    tellFull(plan, 1);
    assertThat(sent.remove().operation()).isEqualTo(Operation.PUNCH);
    tellFull(sent.remove().plan(), 1);
    assertThat(result.join().outcome(0)).isEqualTo(BlockOutcome.WRITE_ERROR);
    assertThat(result.join().faults().values())
        .singleElement()
        .returns(Optional.of(NoRoom.FULL), BlockFault::noRoom);
    assertThat(hits(10, 1)).isZero();
    assertThat(ledger.counters().noRoom()).contains(NoRoom.FULL);
    assertThat(ledger.counters().rankFaults()).containsEntry(BlockOutcome.WRITE_ERROR, 2L);
    var paused = store(8, 20, 1);
    ledger.finish();
    assertThat(paused.join().outcome(0)).isEqualTo(BlockOutcome.REJECTED);
  }

  @Test
  void whereNothingCanGiveWayItIsTriedAllTheSame() {
    var result = store(7, 10, 1);
    var plan = sent.remove().plan();
    tellFull(plan, 0);
    tellStored(plan, 1);
    var again = sent.remove();
    assertThat(again.operation()).isEqualTo(Operation.STORE);
    tellStored(again.plan(), 0);
    assertThat(result.join().isWell()).isTrue();
  }

  /** A file system that is read-only stays so, whatever gives way. */
  @Test
  void readOnlyIsNotTriedAgain() {
    storeWell(100, 1);
    var result = store(7, 10, 1);
    var plan = sent.remove().plan();
    tellStored(plan, 0);
    tell(plan, 1, FULL, 30, BlockOutcome.WRITE_ERROR);
    assertThat(result.join().isWell()).isFalse();
    assertThat(hits(100, 1)).isEqualTo(1);
    assertThat(ledger.counters().noRoom()).contains(NoRoom.READ_ONLY);
  }

  /** The caller may have its device block back, so nothing may be read from it again. */
  @Test
  void aStoreThatWasDrainedOrAbortedIsNotTriedAgain() {
    storeWell(100, 1);
    var result = store(7, 10, 1);
    var plan = sent.remove().plan();
    var quiet = ledger.drain(7);
    assertThat(sent.remove().operation()).isEqualTo(Operation.DRAIN);
    tellFull(plan, 0);
    tellStored(plan, 1);
    assertThat(result.join().isWell()).isFalse();
    assertThat(quiet).isCompleted();
    assertThat(hits(100, 1)).isEqualTo(1);
  }

  @Test
  void anAbortReachesTheSecondTryAndFencesItsDeviceBlock() {
    storeWell(100, 1);
    var result = store(7, 10, 1);
    var plan = sent.remove().plan();
    tellStored(plan, 0);
    tellFull(plan, 1);
    sent.remove();
    var again = sent.remove().plan();
    var quiet = ledger.abort(7);
    assertThat(sent.stream().map(Sent::operation)).containsOnly(Operation.DRAIN);
    assertThat(sent.stream().map(each -> each.plan().transferId())).contains(again.transferId());
    sent.clear();
    assertThat(quiet).as("the device block is read once more").isNotDone();
    tell(again, 1, RankReport.COPIED, 0, BlockOutcome.CANCELLED);
    assertThat(quiet).isCompleted();
    tellStored(again, 1);
    assertThat(result.join().isWell()).isTrue();
    assertThat(hits(10, 1)).isEqualTo(1);
  }

  @Test
  void aResetPublishesNothingOfASecondTry() {
    storeWell(100, 1);
    var result = store(7, 10, 1);
    var plan = sent.remove().plan();
    tellStored(plan, 0);
    tellFull(plan, 1);
    sent.remove();
    var again = sent.remove().plan();
    var quiet = ledger.reset();
    var floor = sent.remove().plan();
    sent.clear();
    for (int rank = 0; rank < RANKS; rank++) {
      tellStored(floor, rank);
    }
    tellStored(again, 1);
    assertThat(quiet).isCompleted();
    assertThat(result.join().outcome(0)).isEqualTo(BlockOutcome.CANCELLED);
    assertThat(hits(10, 1)).isZero();
  }

  /** The rank is gone: the block ends once, and only its own word makes it quiet. */
  @Test
  void aRankThatIsLostEndsItsSecondTriesOnce() {
    storeWell(100, 1);
    var result = store(7, 10, 1);
    var plan = sent.remove().plan();
    tellStored(plan, 0);
    tellFull(plan, 1);
    sent.remove();
    var again = sent.remove().plan();
    ledger.rankLost(1);
    ledger.finish();
    assertThat(result.join().outcome(0)).isEqualTo(BlockOutcome.ENGINE_FAILED);
    assertThat(result.join().quiet().toCompletableFuture()).isNotDone();
    tellStored(again, 1);
    assertThat(result.join().quiet().toCompletableFuture()).isCompleted();
    assertThat(hits(10, 1)).isZero();
  }

  @Test
  void closeEndsASecondTryWithItsStore() {
    storeWell(100, 1);
    var result = store(7, 10, 1);
    tellFull(sent.remove().plan(), 1);
    sent.clear();
    ledger.abandon(BlockOutcome.CANCELLED, false);
    assertThat(result.join().outcome(0)).isEqualTo(BlockOutcome.CANCELLED);
    assertThat(new ArrayList<>(result.join().faults().keySet())).containsExactly(0);
    assertThat(ledger.counters().outcomes()).containsEntry(BlockOutcome.CANCELLED, 1L);
  }
}
