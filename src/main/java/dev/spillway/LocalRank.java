package dev.spillway;

import dev.spillway.block.RankHello;
import dev.spillway.block.RankReport;
import dev.spillway.block.TransferPlan;
import dev.spillway.engine.EngineMode;
import dev.spillway.engine.TransferEngine;
import dev.spillway.worker.TransferWorker;
import dev.spillway.worker.WorkerThread;
import java.time.Duration;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * One rank in this process: its engine, the worker that drives it, and the worker's thread where it
 * has one. Owned by the scheduler's thread.
 */
final class LocalRank {
  private final TransferEngine engine;
  private final EngineMode mode;
  private final RankHello hello;
  private final TransferWorker worker;
  private final @Nullable WorkerThread thread;

  /**
   * @param onReports called by the rank's thread where it has reports; null for no thread
   */
  LocalRank(
      TransferEngine engine, RankHello hello, int transfersMax, @Nullable Runnable onReports) {
    this.engine = engine;
    this.hello = hello;
    mode = engine.mode();
    worker = new TransferWorker(engine, hello.rank(), transfersMax);
    thread = onReports == null ? null : new WorkerThread(worker, hello.rank(), onReports);
  }

  TransferEngine engine() {
    return engine;
  }

  EngineMode mode() {
    return mode;
  }

  RankHello hello() {
    return hello;
  }

  void send(TransferPlan plan) {
    worker.offer(plan);
  }

  /** Has the rank look at what was sent. */
  void drive() {
    if (thread == null) {
      worker.doWork();
    } else {
      worker.wake();
    }
  }

  /** Does the rank's work where it has no thread for it. */
  void work() {
    var failure = failure();
    if (failure != null) {
      throw new IllegalStateException("the worker of rank " + hello.rank() + " has ended", failure);
    }
    if (thread == null) {
      worker.doWork();
    }
  }

  void takeReports(Consumer<RankReport> target) {
    for (var report = worker.nextReport(); report != null; report = worker.nextReport()) {
      target.accept(report);
      worker.giveBack(report);
    }
  }

  boolean hasReports() {
    return worker.hasReports();
  }

  /** What ended the rank's thread before its time, or null. */
  @Nullable Throwable failure() {
    return thread == null ? null : thread.failure();
  }

  void await(Duration bound) {
    worker.await(bound);
  }

  /**
   * Cancels what has not started, waits for the rest and hands over what there is to tell.
   *
   * @return false where kernel or device still own memory after the bound
   */
  boolean drain(Duration bound, Consumer<RankReport> target) {
    if (thread != null) {
      thread.close();
    }
    boolean broken = failure() != null;
    if (!broken) {
      worker.doWork(); // a plan that its thread has not seen yet
    }
    boolean drained = engine.drain(bound);
    while (!broken && (worker.doWork() > 0 || worker.hasReports())) {
      takeReports(target);
    }
    takeReports(target);
    return drained;
  }
}
