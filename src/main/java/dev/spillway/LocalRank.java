package dev.spillway;

import dev.spillway.block.KvLayout;
import dev.spillway.block.KvLayout.Group;
import dev.spillway.block.Operation;
import dev.spillway.block.RankHello;
import dev.spillway.block.RankReport;
import dev.spillway.block.RestoredBlocks;
import dev.spillway.block.TransferPlan;
import dev.spillway.engine.EngineMode;
import dev.spillway.engine.EngineStats;
import dev.spillway.engine.TransferEngine;
import dev.spillway.worker.IndexFile;
import dev.spillway.worker.TransferWorker;
import dev.spillway.worker.WorkerThread;
import java.time.Duration;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * One rank in this process: its engine, the worker that drives it, and the worker's thread where it
 * has one. Owned by the scheduler's thread.
 */
final class LocalRank implements Rank {
  private final TransferEngine engine;
  private final EngineMode mode;
  private final RankHello hello;
  private final TransferWorker worker;
  private final @Nullable Runnable onReports;
  private @Nullable WorkerThread thread;

  /**
   * @param records of its slots, closed with the rank; null where none are kept
   * @param secondClock seconds since 1970, for the records
   * @param onReports called by the rank's thread where it has reports; null for no thread
   */
  LocalRank(
      TransferEngine engine,
      RankHello hello,
      @Nullable IndexFile records,
      int transfersMax,
      LongSupplier secondClock,
      @Nullable Runnable onReports) {
    this.engine = engine;
    this.hello = hello;
    this.onReports = onReports;
    mode = engine.mode();
    worker = new TransferWorker(engine, hello.rank(), transfersMax, records, secondClock);
  }

  static RankHello helloOf(
      TransferEngine engine,
      int rank,
      int rankCount,
      KvLayout layout,
      @Nullable IndexFile records) {
    var mode = engine.mode();
    return new RankHello(
        rank,
        rankCount,
        mode.slotCounts(),
        mode.alignment(),
        layout.fingerprint(),
        records == null ? mode.epoch() : Math.max(mode.epoch(), records.epoch()));
  }

  /** The records of an engine that is open, or null where none are to be kept. */
  /** What is refused here is refused before the block file was touched. */
  static void checkRecords(int rank, int rankCount, SpillwayConfig config) {
    if (config.warmRestart()) {
      var name = "rank-%d-of-%d.blocks".formatted(rank, rankCount);
      IndexFile.check(config.directory().resolve(name), config.discardOther());
    }
  }

  static @Nullable IndexFile recordsOf(
      TransferEngine engine, int rank, int rankCount, SpillwayConfig config) {
    if (!config.warmRestart()) {
      return null;
    }
    var payloadBytes = config.layout().groups().stream().map(Group::blockBytes).toList();
    return IndexFile.open(
        engine.mode(),
        rank,
        rankCount,
        config.layout().fingerprint(),
        payloadBytes,
        config.discardOther());
  }

  /** An open that failed half-way leaves nothing that was not there before. */
  static void undo(TransferEngine engine, @Nullable IndexFile records) {
    if (records != null) {
      records.removeIfCreated();
      records.close();
    }
    engine.discard();
    engine.close();
  }

  @Override
  public EngineMode mode() {
    return mode;
  }

  @Override
  public EngineStats stats() {
    return engine.stats();
  }

  @Override
  public String engineFailure() {
    return engine.failure();
  }

  @Override
  public RankHello hello() {
    return hello;
  }

  @Override
  public void begin(long epoch) {
    engine.raiseEpoch(epoch);
    worker.begin(epoch);
    if (onReports != null) {
      thread = new WorkerThread(worker, hello.rank(), onReports);
    }
  }

  @Override
  public @Nullable String loss() {
    return null; // its engine says itself what has become of every block
  }

  @Override
  public void stepDone(long step) {
    engine.stepDone(step);
  }

  @Override
  public void close() {
    if (thread != null) {
      thread.close(); // it must not look at an engine that is gone
    }
    worker.close();
    engine.close();
  }

  @Override
  public @Nullable RestoredBlocks nextRestored() {
    var run = worker.nextRestored();
    if (run != null && thread != null) {
      worker.wake(); // it may have waited for room
    }
    return run;
  }

  @Override
  public boolean hasRestored() {
    return worker.hasRestored();
  }

  @Override
  public String recordTrouble() {
    return worker.recordTrouble();
  }

  @Override
  public void discard() {
    worker.discardRecords();
    engine.discard();
  }

  @Override
  public void send(TransferPlan plan) {
    if (plan.operation() != Operation.TOUCH || !worker.isCrowded()) {
      worker.offer(plan);
    }
  }

  @Override
  public void drive() {
    if (thread == null) {
      worker.doWork();
    } else {
      worker.wake();
    }
  }

  @Override
  public void work() {
    var failure = failure();
    if (failure != null) {
      throw new IllegalStateException("the worker of rank " + hello.rank() + " has ended", failure);
    }
    if (thread == null) {
      worker.doWork();
    }
  }

  @Override
  public void takeReports(Consumer<RankReport> target) {
    for (var report = worker.nextReport(); report != null; report = worker.nextReport()) {
      target.accept(report);
      worker.giveBack(report);
    }
  }

  /** Also where the thread has ended, which {@link #work} tells. */
  @Override
  public boolean hasReports() {
    return worker.hasReports() || failure() != null;
  }

  /** What ended the rank's thread before its time, or null. */
  private @Nullable Throwable failure() {
    return thread == null ? null : thread.failure();
  }

  @Override
  public void await(Duration bound) {
    worker.await(bound);
  }

  @Override
  public void leave() {
    // Its drain is quick to begin.
  }

  @Override
  public boolean drain(Duration bound, Consumer<RankReport> target) {
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
