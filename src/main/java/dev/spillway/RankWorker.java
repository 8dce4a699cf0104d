package dev.spillway;

import dev.spillway.block.Operation;
import dev.spillway.block.RankHello;
import dev.spillway.block.TransferPlan;
import dev.spillway.engine.EngineMode;
import dev.spillway.engine.EngineStats;
import dev.spillway.engine.NativeEngine;
import dev.spillway.ledger.TransferLedger;
import dev.spillway.rank.RankChannel;
import dev.spillway.worker.IndexFile;
import dev.spillway.worker.TransferWorker;
import dev.spillway.worker.WorkerThread;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ByteChannel;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One rank's side in a process of its own: its engine, block file and device memory. The scheduler
 * is a {@link Spillway} in another process, which was given the other end of the channel with
 * {@link SpillwayConfig.Builder#addRank(ByteChannel)}.
 *
 * <pre>
 * try (var worker = RankWorker.open(config, 1, 2)) {
 *   worker.serve(SocketChannel.open(UnixDomainSocketAddress.of(path)));
 * }
 * </pre>
 *
 * <p>{@link #serve} is for one thread, once; {@link #stepDone}, {@link #stats} and {@link #close}
 * are for any.
 */
public final class RankWorker implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(RankWorker.class);

  private final NativeEngine engine;
  private final RankHello hello;
  private final @Nullable IndexFile records;
  private final SpillwayConfig config;
  private final Duration closeWait;
  private volatile @Nullable String gone; // why the scheduler sends nothing any more
  private volatile boolean byeHeard;
  private volatile long heardAt;
  private final CountDownLatch over = new CountDownLatch(1);
  private volatile @Nullable TransferWorker toWake;
  private volatile @Nullable ByteChannel toClose;
  private boolean begun;
  private volatile boolean closed;
  private boolean drained;

  private RankWorker(
      NativeEngine engine, RankHello hello, @Nullable IndexFile records, SpillwayConfig config) {
    this.engine = engine;
    this.hello = hello;
    this.records = records;
    this.config = config;
    closeWait = config.closeWait();
  }

  /**
   * Opens the block file of a rank.
   *
   * @param config whose device memory is this rank's; ranks share directory, name space, layout and
   *     capacity
   * @param rank this one, from 0
   * @param rankCount how many there are
   * @throws dev.spillway.engine.OpenRefusedException where that cannot be, with its reason
   */
  public static RankWorker open(SpillwayConfig config, int rank, int rankCount) {
    if (rankCount < 1 || rank < 0 || rank >= rankCount) {
      throw new IllegalArgumentException(
          "rank %d of %d; 0 to %d would be right".formatted(rank, rankCount, rankCount - 1));
    }
    if (config.localRanks() == 0) {
      throw new IllegalArgumentException(
          "a configuration without device memory; builder(directory, device) would be right");
    }
    LocalRank.checkRecords(rank, rankCount, config);
    var engine = NativeEngine.open(config.engineOptions(0, rank, rankCount));
    IndexFile records = null;
    try {
      records = LocalRank.recordsOf(engine, rank, rankCount, config);
      var hello = LocalRank.helloOf(engine, rank, rankCount, config.layout(), records);
      return new RankWorker(engine, hello, records, config);
    } catch (RuntimeException | Error e) {
      LocalRank.undo(engine, records);
      throw e;
    }
  }

  /**
   * Does what a scheduler asks until it leaves or is gone; then everything has ended.
   *
   * @param channel to the scheduler, blocking; closed at the end
   * @throws IOException where the scheduler went without a word, or is none
   */
  public void serve(ByteChannel channel) throws IOException {
    synchronized (this) {
      if (begun || closed) {
        throw new IllegalStateException(
            closed ? "this worker is closed" : "this worker serves, or has served, a scheduler");
      }
      begun = true;
      toClose = channel; // a close from now on finds it
    }
    try (var link = new RankChannel(channel)) {
      serve(link);
    } finally {
      over.countDown();
    }
  }

  private void serve(RankChannel link) throws IOException {
    try (link) {
      link.send(RankChannel.Kind.HELLO, RankChannel.hello(hello, engine.mode().lines()));
      if (link.receive() != RankChannel.Kind.WELCOME) {
        throw new IOException("a scheduler that does not say welcome");
      }
      var body = link.body();
      long epoch = body.getLong();
      engine.raiseEpoch(epoch);
      long plansMax = body.getLong();
      long transfersMax = body.getLong();
      var lease = Duration.ofNanos(body.getLong());
      int room = TransferLedger.transfersMax(config.blocksInFlightMax());
      if (transfersMax < 1
          || transfersMax > room
          || plansMax != TransferPlan.PLANS_A_TRANSFER * transfersMax) {
        throw new IOException(
            "a scheduler with %d transfers at a time; at most the %d of this rank would be right"
                .formatted(transfersMax, room));
      }
      var served = new TransferWorker(engine, hello.rank(), room, records, config.secondClock());
      try {
        served.begin(epoch);
        toWake = served;
        link.send(RankChannel.Kind.READY, RankChannel.buffer(0));
        LOG.info("rank {} of {} serves a scheduler", hello.rank(), hello.rankCount());
        serve(link, served, lease);
      } finally {
        served.close();
      }
    }
  }

  private void serve(RankChannel link, TransferWorker served, Duration lease) throws IOException {
    heardAt = System.nanoTime();
    var receiver = new Thread(() -> receive(link, served), "spillway-from-scheduler");
    receiver.setDaemon(true);
    receiver.start();
    try {
      try {
        work(link, served, lease);
      } catch (IOException e) {
        gone = String.valueOf(e.getMessage());
      }
      leave(link, served);
    } finally {
      link.close(); // which ends the receiver's wait
      WorkerThread.join(receiver);
    }
  }

  private void leave(RankChannel link, TransferWorker served) throws IOException {
    boolean bye = byeHeard;
    if (bye) {
      served.doWork(); // plans that came just before
    }
    drained = engine.drain(closeWait);
    if (!drained) {
      LOG.error(
          "{} stays locked and its memory in use until this process ends: the kernel had not"
              + " finished after {}",
          engine.mode().path(),
          closeWait);
    }
    if (!bye) {
      throw new IOException(closed ? "this worker was closed" : "the scheduler is gone: " + gone);
    }
    while (served.doWork() > 0 || served.hasReports()) {
      sendReports(link, served);
    }
    sendAlive(link);
    link.send(RankChannel.Kind.BYE, ByteBuffer.wrap(new byte[] {(byte) (drained ? 1 : 0)}));
  }

  private void work(RankChannel link, TransferWorker served, Duration lease) throws IOException {
    var beat = lease.dividedBy(RemoteRank.BEATS);
    long sentAt = System.nanoTime() - lease.toNanos();
    boolean failureTold = false;
    var lapse = new Lapse(lease);
    while (gone == null && !byeHeard) {
      int done = served.doWork();
      if (sendReports(link, served)) {
        done++;
      }
      boolean failed = !failureTold && !engine.failure().isEmpty();
      if (failed || System.nanoTime() - sentAt >= beat.toNanos()) {
        sendAlive(link);
        failureTold |= failed;
        sentAt = System.nanoTime();
      }
      if (lapse.hasLapsed(heardAt)) {
        gone = "nothing was heard of it for " + lease;
      }
      if (done == 0) {
        served.await(beat);
      }
    }
  }

  private static boolean sendReports(RankChannel link, TransferWorker served) throws IOException {
    boolean any = false;
    for (var run = served.nextRestored(); run != null; run = served.nextRestored()) {
      link.send(run);
      any = true;
    }
    for (var report = served.nextReport(); report != null; report = served.nextReport()) {
      link.send(report);
      served.giveBack(report);
      any = true;
    }
    return any;
  }

  private void sendAlive(RankChannel link) throws IOException {
    var failure = engine.failure();
    var body = RankChannel.buffer(EngineStats.ENCODED_BYTES + 4 * failure.length() + Integer.BYTES);
    engine.stats().writeTo(body);
    RankChannel.putText(body, failure);
    link.send(RankChannel.Kind.ALIVE, body.flip());
  }

  // The receiver's thread.

  private void receive(RankChannel link, TransferWorker served) {
    try {
      while (!byeHeard) {
        var kind = link.receive();
        heardAt = System.nanoTime();
        switch (kind) {
          case PLAN -> {
            served.offer(checked(TransferPlan.readFrom(link.body())));
            served.wake();
          }
          case ALIVE -> {}
          case BYE -> byeHeard = true;
          case HELLO, WELCOME, READY, REPORT, RESTORED ->
              throw new IOException("a scheduler that sends " + kind);
        }
      }
    } catch (IOException | RuntimeException e) {
      gone = e.getMessage() == null ? e.getClass().getSimpleName() : e.getMessage();
    }
    served.wake();
  }

  /** What comes over a channel is checked before it reaches native code. */
  private TransferPlan checked(TransferPlan plan) throws IOException {
    var counts = hello.slotCounts();
    long place = plan.transferId() & TransferPlan.PLACE_MASK;
    boolean right =
        plan.group() >= 0
            && plan.group() < counts.size()
            && place < TransferLedger.transfersMax(config.blocksInFlightMax())
            && (plan.operation() != Operation.FORGET || plan.size() == 1);
    for (int i = 0; right && i < plan.size(); i++) {
      right = plan.slot(i) >= 0 && plan.slot(i) < counts.get(plan.group());
      right &= plan.position(i) >= 0 && plan.deviceBlock(i) >= 0;
      if (right && plan.deviceBlock(i) >= config.deviceBlocks(plan.group())) {
        throw new IOException(
            "device block %d of group %d; this rank has %d"
                .formatted(plan.deviceBlock(i), plan.group(), config.deviceBlocks(plan.group())));
      }
    }
    if (!right) {
      throw new IOException("a plan for slots or groups that this rank does not have");
    }
    return plan;
  }

  /**
   * Announces the end of a step of the computation and of all before it on this rank's device: what
   * waits for {@link dev.spillway.block.DeviceEvent#ofStep} goes on.
   */
  public void stepDone(long step) {
    Spillway.checkStep(step);
    engine.stepDone(step);
  }

  public EngineMode mode() {
    return engine.mode();
  }

  public EngineStats stats() {
    return engine.stats();
  }

  /**
   * Releases the file. While {@link #serve} runs, it is ended first: what has begun is finished,
   * and the scheduler sees a rank that is gone.
   */
  @Override
  public void close() {
    boolean serves;
    synchronized (this) {
      serves = begun && !closed;
      closed = true;
    }
    if (serves) {
      stopServing();
    }
    if (records != null) {
      records.close();
    }
    engine.close();
  }

  private void stopServing() {
    gone = "this worker was closed";
    var served = toWake;
    if (served != null) {
      served.wake();
    } else if (toClose != null) {
      closeQuietly(toClose); // it still waits for a first word
    }
    boolean interrupted = Thread.interrupted();
    while (true) {
      try {
        over.await();
        break;
      } catch (InterruptedException e) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  private static void closeQuietly(ByteChannel channel) {
    try {
      channel.close();
    } catch (IOException e) {
      LOG.debug("the channel to the scheduler could not be closed", e);
    }
  }
}
