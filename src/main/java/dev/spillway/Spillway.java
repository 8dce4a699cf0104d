package dev.spillway;

import dev.spillway.block.BlockKeys;
import dev.spillway.block.BlockOutcome;
import dev.spillway.block.DeviceEvent;
import dev.spillway.block.RankHello;
import dev.spillway.block.RankReport;
import dev.spillway.block.TransferPlan;
import dev.spillway.block.TransferResult;
import dev.spillway.engine.EngineMode;
import dev.spillway.engine.NativeEngine;
import dev.spillway.engine.TransferEngine;
import dev.spillway.index.BlockIndex;
import dev.spillway.index.Lease;
import dev.spillway.ledger.TransferLedger;
import dev.spillway.policy.AdmissionPolicy;
import dev.spillway.worker.TransferWorker;
import dev.spillway.worker.WorkerThread;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.locks.LockSupport;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps blocks of a KV cache on disk for one scheduler. {@link #store}, {@link #lookup} and {@link
 * #load} only plan; {@link #poll}, called once a scheduler step, takes in what has ended and
 * completes results. None of them waits.
 *
 * <p>One thread owns it: the first that calls after open. Device blocks of a transfer stay
 * Spillway's from the call until its result; the caller must neither reuse nor free them before.
 */
public final class Spillway implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(Spillway.class);

  private static final Duration SLEEP_MAX = Duration.ofHours(1);
  private static final Duration IDLE_WAIT_MAX = Duration.ofDays(365);

  private final TransferEngine engine;
  private final EngineMode mode;
  private final RankHello hello;
  private final BlockIndex index;
  private final TransferLedger ledger;
  private final TransferWorker worker;
  private final @Nullable WorkerThread workerThread;
  private final AdmissionPolicy admission;
  private final Duration closeWait;
  private final LongSupplier nanoClock = System::nanoTime;

  private volatile @Nullable Thread owner;
  private volatile @Nullable Thread sleeper;
  private boolean closed;
  private long lookups;
  private long lookupBlocks;
  private long hitBlocks;

  private Spillway(SpillwayConfig config, TransferEngine engine) {
    this.engine = engine;
    mode = engine.mode();
    var layout = config.device().layout();
    hello =
        new RankHello(
            0, 1, mode.slotCounts(), mode.alignment(), layout.fingerprint(), mode.epoch());
    index = new BlockIndex(hello.slotCounts(), hello.epoch());
    var deviceBlocks = new int[layout.groups().size()];
    for (int group = 0; group < deviceBlocks.length; group++) {
      deviceBlocks[group] = config.device().blockCount(group);
    }
    int blocksInFlightMax = config.blocksInFlightMax();
    ledger =
        new TransferLedger(
            index, layout, deviceBlocks, 1, blocksInFlightMax, nanoClock, this::send);
    worker =
        new TransferWorker(engine, hello.rank(), TransferLedger.transfersMax(blocksInFlightMax));
    admission = config.admission();
    closeWait = config.closeWait();
    workerThread =
        config.workerThread() ? new WorkerThread(worker, hello.rank(), this::wakeOwner) : null;
  }

  /**
   * Opens or takes over the block file in the configured directory.
   *
   * @throws dev.spillway.engine.OpenRefusedException where that cannot be, with its reason; nothing
   *     is left behind
   * @throws UnsatisfiedLinkError where the native library cannot be loaded, with its reason
   */
  public static Spillway open(SpillwayConfig config) {
    var engine = NativeEngine.open(config.engineOptions());
    try {
      var spillway = new Spillway(config, engine);
      spillway.logMode();
      return spillway;
    } catch (RuntimeException | Error e) {
      engine.close();
      throw e;
    }
  }

  // What a scheduler calls.

  /**
   * Stores the blocks of a prefix from position {@code from} on, one for each device block, now.
   *
   * @see #store(int, BlockKeys, int, int[], DeviceEvent)
   */
  public CompletableFuture<TransferResult> store(BlockKeys keys, int from, int[] deviceBlocks) {
    return store(0, keys, from, deviceBlocks, DeviceEvent.NOW);
  }

  /**
   * Stores blocks of a prefix: those at positions {@code from} to {@code from +
   * deviceBlocks.length} of {@code keys}. Each becomes visible to look-ups on its own, once it is
   * written.
   *
   * @param group KV group of the layout
   * @param keys the prefix from its root; read during the call only
   * @param deviceBlocks where the blocks lie, device block numbers of the group
   * @param event after which the blocks are whole
   * @return the result, completed by {@link #poll}; never exceptionally
   * @throws IllegalArgumentException where an argument is out of bounds or a block is being loaded
   *     onto; nothing has changed then
   * @throws EngineFailedException once the engine has failed
   */
  public CompletableFuture<TransferResult> store(
      int group, BlockKeys keys, int from, int[] deviceBlocks, DeviceEvent event) {
    Objects.requireNonNull(event, "event; DeviceEvent.NOW would be right for no waiting");
    checkOwner();
    checkEngine();
    checkRange(group, keys, from, deviceBlocks.length);
    if (!admission.admit(group, from, deviceBlocks.length)) {
      return ledger.decline(group, deviceBlocks.length);
    }
    var result = ledger.store(group, keys, from, deviceBlocks, event);
    drive();
    return result;
  }

  /** A lease on the stored blocks of a prefix, from its root up to the first that is missing. */
  public Lease lookup(BlockKeys keys) {
    return lookup(0, keys, 0);
  }

  /**
   * A lease on the stored blocks of a prefix from position {@code from} up to the first that is
   * missing; empty where that is the first. The whole prefix counts as used.
   *
   * @param keys the prefix from its root; read during the call only
   */
  public Lease lookup(int group, BlockKeys keys, int from) {
    checkOwner();
    checkOpen();
    checkRange(group, keys, from, 0);
    var lease = Lease.take(index, group, keys, from);
    lookups++;
    lookupBlocks += keys.size() - from;
    hitBlocks += lease.size();
    return lease;
  }

  /** Loads the first blocks of a lease, one for each device block, now. */
  public CompletableFuture<TransferResult> load(Lease lease, int[] deviceBlocks) {
    return load(lease, deviceBlocks, DeviceEvent.NOW);
  }

  /**
   * Loads the first {@code deviceBlocks.length} blocks of a lease. A block that fails is not
   * copied, its entry is gone before the result says so, and the others are not affected.
   *
   * @param deviceBlocks where to, device block numbers of the lease's group, each at most once
   * @param event after which they may be overwritten
   * @return the result, completed by {@link #poll}; never exceptionally
   * @throws IllegalArgumentException where an argument is out of bounds or a block is in flight;
   *     nothing has changed then
   * @throws EngineFailedException once the engine has failed
   */
  public CompletableFuture<TransferResult> load(
      Lease lease, int[] deviceBlocks, DeviceEvent event) {
    Objects.requireNonNull(event, "event; DeviceEvent.NOW would be right for no waiting");
    checkOwner();
    checkEngine();
    if (deviceBlocks.length > lease.size()) {
      throw new IllegalArgumentException(
          "%d device blocks for a lease of %d blocks; at most that would be right"
              .formatted(deviceBlocks.length, lease.size()));
    }
    var result = ledger.load(lease, deviceBlocks, event);
    drive();
    return result;
  }

  /**
   * Takes in what has ended and completes the results of transfers that are over, on this thread.
   * Never waits.
   *
   * @return how many results were completed
   */
  public int poll() {
    checkOwner();
    checkOpen();
    return pollOnce();
  }

  /** The same, but sleeps up to {@code bound} where there is nothing to take in yet. */
  public int poll(Duration bound) {
    int completed = poll();
    if (completed > 0 || ledger.isIdle() || bound.isNegative() || bound.isZero()) {
      return completed;
    }
    sleep(bound.compareTo(SLEEP_MAX) < 0 ? bound : SLEEP_MAX);
    return pollOnce();
  }

  /**
   * Polls until a result of this Spillway is there, and answers it.
   *
   * @throws IllegalStateException where nothing is in flight that could bring it
   */
  public TransferResult await(CompletionStage<TransferResult> result) {
    var future = result.toCompletableFuture();
    while (!future.isDone()) {
      if (poll(SLEEP_MAX) == 0 && ledger.isIdle() && !future.isDone()) {
        throw new IllegalStateException("nothing is in flight; the result is not this Spillway's");
      }
    }
    return future.join();
  }

  /**
   * Polls until nothing is in flight, or the time has passed.
   *
   * @return whether all is quiet
   */
  public boolean awaitIdle(Duration bound) {
    var within = bound.compareTo(IDLE_WAIT_MAX) < 0 ? bound : IDLE_WAIT_MAX;
    long until = nanoClock.getAsLong() + within.toNanos();
    while (!ledger.isIdle()) {
      long left = until - nanoClock.getAsLong();
      if (left <= 0) {
        return false;
      }
      poll(Duration.ofNanos(left));
    }
    return true;
  }

  /** Counters, and how the engine works: the owner's thread, also after close. */
  public SpillwayStats stats() {
    var counters = ledger.counters();
    return new SpillwayStats(
        lookups,
        lookupBlocks,
        hitBlocks,
        counters.outcomes(),
        counters.storedBytes(),
        counters.loadedBytes(),
        index.storedCount(),
        index.heldCount(),
        index.freeCount(),
        index.retiredCount(),
        index.evictions(),
        ledger.blocksInFlight(),
        counters.unknownEndings(),
        counters.doubleEndings(),
        mode,
        engine.stats());
  }

  /**
   * Cancels what has not started, waits for the rest, completes every result, and releases the
   * file. Where kernel or device still own memory after the configured wait, that memory, the file
   * and its lock are kept until the process ends, and that is said.
   */
  @Override
  public void close() {
    if (closed) {
      return;
    }
    checkOwner();
    closed = true;
    boolean drained = false;
    try {
      drained = drain();
    } finally {
      // Every result is completed, whatever went wrong, and the engine is released.
      ledger.abandon(drained ? BlockOutcome.ENGINE_FAILED : BlockOutcome.CANCELLED);
      engine.close();
    }
  }

  private boolean drain() {
    if (workerThread != null) {
      workerThread.close();
    }
    boolean broken = workerThread != null && workerThread.failure() != null;
    if (!broken) {
      worker.doWork(); // a plan that its thread has not seen yet
    }
    boolean drained = engine.drain(closeWait);
    while (!broken && (worker.doWork() > 0 || worker.hasReports())) {
      applyReports();
    }
    applyReports();
    ledger.finish();
    if (!drained) {
      LOG.error(
          "{} stays locked and its memory in use until this process ends: the kernel had not"
              + " finished after {}",
          mode.path(),
          closeWait);
    }
    return drained;
  }

  // What drives it.

  private void send(TransferPlan plan) {
    worker.offer(plan);
  }

  private void drive() {
    if (workerThread == null) {
      worker.doWork();
    } else {
      worker.wake();
    }
  }

  private int pollOnce() {
    if (workerThread == null) {
      worker.doWork();
    } else if (workerThread.failure() != null) {
      throw new IllegalStateException("the worker has ended", workerThread.failure());
    }
    applyReports();
    return ledger.finish();
  }

  private void applyReports() {
    for (RankReport report = worker.nextReport(); report != null; report = worker.nextReport()) {
      ledger.apply(report);
      worker.giveBack(report);
    }
  }

  private void sleep(Duration bound) {
    if (workerThread == null) {
      worker.await(bound);
      return;
    }
    sleeper = Thread.currentThread();
    if (!worker.hasReports() && workerThread.failure() == null) {
      LockSupport.parkNanos(this, bound.toNanos());
    }
    sleeper = null;
  }

  private void wakeOwner() {
    LockSupport.unpark(sleeper);
  }

  // Refusals.

  private void checkOwner() {
    var thread = Thread.currentThread();
    var known = owner;
    if (known == null || !known.isAlive()) {
      owner = thread;
    } else if (known != thread) {
      throw new IllegalStateException(
          "called by thread %s; this Spillway belongs to thread %s"
              .formatted(thread.getName(), known.getName()));
    }
  }

  private void checkOpen() {
    if (closed) {
      throw new IllegalStateException("this Spillway is closed");
    }
  }

  private void checkEngine() {
    checkOpen();
    if (ledger.engineHasFailed()) {
      throw new EngineFailedException(engine.failure());
    }
  }

  private void checkRange(int group, BlockKeys keys, int from, int count) {
    int groups = mode.slotCounts().size();
    if (group < 0 || group >= groups) {
      throw new IllegalArgumentException(
          "group " + group + "; 0 to " + (groups - 1) + " are known");
    }
    if (from < 0 || count > TransferPlan.BLOCKS_MAX || from > keys.size() - count) {
      throw new IllegalArgumentException(
          "%d blocks from position %d of a prefix of %d".formatted(count, from, keys.size()));
    }
  }

  private void logMode() {
    LOG.info(
        "{}: {} engine{}, {}, alignment {}, depth {}, {} staging slots in {} pages{}, {} slots",
        mode.path(),
        mode.kind(),
        mode.kindReason().isEmpty() ? "" : " (" + mode.kindReason() + ")",
        mode.direct() ? "direct I/O" : "buffered I/O",
        mode.alignment(),
        mode.queueDepth(),
        mode.stagingSlots(),
        mode.stagingPages(),
        mode.registered() ? ", registered" : "",
        mode.slotCounts());
    mode.notices().forEach(LOG::warn);
  }
}
