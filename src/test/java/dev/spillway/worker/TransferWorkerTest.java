package dev.spillway.worker;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.spillway.block.BlockOutcome;
import dev.spillway.block.DeviceEvent;
import dev.spillway.block.Operation;
import dev.spillway.block.RankReport;
import dev.spillway.block.TransferPlan;
import dev.spillway.testing.MemoryEngine;
import java.util.Arrays;
import java.util.Objects;
import org.junit.jupiter.api.Test;

class TransferWorkerTest {
  private final MemoryEngine engine = new MemoryEngine(16);
  private final TransferWorker worker = new TransferWorker(engine, 3, 4);

  private static TransferPlan plan(long id, Operation operation, int... positions) {
    var plan = new TransferPlan();
    plan.begin(id, operation, 0, DeviceEvent.NOW);
    for (int position : positions) {
      plan.add(position, position, 100 + position, 7L * position, position);
    }
    return plan;
  }

  private RankReport next() {
    return Objects.requireNonNull(worker.nextReport());
  }

  @Test
  void reportsNameTheTransferTheRankAndThePosition() {
    worker.offer(plan(5 << TransferPlan.PLACE_BITS | 1, Operation.STORE, 2, 4));
    worker.doWork();
    engine.endAll(BlockOutcome.STORED);
    assertThat(worker.doWork()).isEqualTo(2);
    var report = next();
    assertThat(report.rank()).isEqualTo(3);
    assertThat(report.size()).isEqualTo(2);
    assertThat(report.transferId(1)).isEqualTo(5 << TransferPlan.PLACE_BITS | 1);
    assertThat(report.position(0)).isEqualTo(2);
    assertThat(report.position(1)).isEqualTo(4);
  }

  /** A report has room for as many endings as the engine hands out at a time. */
  @Test
  void whatWasWrittenDownIsToldInAReportOfItsOwn() {
    var many = new int[RankReport.CAPACITY];
    Arrays.fill(many, 2);
    worker.offer(plan(1, Operation.STORE, many));
    worker.doWork();
    engine.endAll(BlockOutcome.STORED);
    worker.offer(plan(2, Operation.FORGET, 0));
    worker.doWork();
    int told = 0;
    int words = 0;
    for (var report = worker.nextReport(); report != null; report = worker.nextReport()) {
      for (int i = 0; i < report.size(); i++) {
        told++;
        words += report.transferId(i) == 2 ? 1 : 0;
      }
    }
    assertThat(words).isEqualTo(1);
    assertThat(told).isEqualTo(RankReport.CAPACITY + 1);
  }

  @Test
  void aLoadExpectsTheChecksumThatItsStoreHad() {
    worker.offer(plan(1, Operation.STORE, 2));
    worker.doWork();
    engine.endAll(BlockOutcome.STORED);
    worker.doWork();
    worker.offer(plan(2, Operation.LOAD, 2));
    worker.doWork();
    assertThat(engine.expectedChecksum()).isEqualTo(MemoryEngine.CHECKSUM);
    engine.endAll(BlockOutcome.LOADED);
    worker.doWork();
  }

  @Test
  void theRankIsMixedIntoTheSeed() {
    worker.offer(plan(1, Operation.STORE, 2));
    worker.doWork();
    long seed = engine.seed();
    var other = new TransferWorker(engine, 0, 4);
    other.offer(plan(1, Operation.STORE, 2));
    other.doWork();
    assertThat(engine.seed()).isEqualTo(14).isNotEqualTo(seed);
  }

  @Test
  void endingsWaitInTheEngineWhileNoReportIsIdle() {
    for (int i = 0; i < 20; i++) {
      worker.offer(plan(1, Operation.STORE, 2));
      worker.doWork();
      engine.endAll(BlockOutcome.STORED);
      worker.doWork();
    }
    int reports = 0;
    for (var report = worker.nextReport(); report != null; report = worker.nextReport()) {
      reports++;
      worker.giveBack(report);
      worker.doWork();
    }
    assertThat(engine.ended()).as("none is lost").isZero();
    assertThat(reports).isPositive();
  }

  @Test
  void moreTransfersThanAgreedAreRefused() {
    for (int i = 0; i < 4 * TransferPlan.PLANS_A_TRANSFER; i++) {
      worker.offer(plan(i, Operation.STORE, 1));
    }
    assertThatThrownBy(
            () -> {
              for (int i = 0; i < 16; i++) { // the queue's size is a power of two
                worker.offer(plan(9, Operation.STORE, 1));
              }
            })
        .hasMessage("more plans than 4 transfers can have");
  }

  @Test
  void aThreadOfItsOwnIsWokenByAPlanAndTellsOfReports() throws InterruptedException {
    var told = new java.util.concurrent.CountDownLatch(1);
    engine.endAtOnce(BlockOutcome.STORED);
    try (var thread = new WorkerThread(worker, 3, told::countDown)) {
      worker.offer(plan(1, Operation.STORE, 2));
      worker.wake();
      told.await();
      assertThat(next().outcome(0)).isEqualTo(BlockOutcome.STORED);
      assertThat(thread.failure()).isNull();
    }
  }

  /** Shows: F53 V12 */
  @Test
  void aFaultOfTheCodeEndsTheThreadAndIsKept() throws InterruptedException {
    var told = new java.util.concurrent.CountDownLatch(1);
    engine.failOnSubmit(new IllegalStateException("made for the test"));
    try (var thread = new WorkerThread(worker, 3, told::countDown)) {
      worker.offer(plan(1, Operation.STORE, 2));
      worker.wake();
      told.await();
      assertThat(thread.failure()).hasMessage("made for the test");
    }
  }
}
