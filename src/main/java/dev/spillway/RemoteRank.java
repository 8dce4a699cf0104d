package dev.spillway;

import dev.spillway.block.Operation;
import dev.spillway.block.RankHello;
import dev.spillway.block.RankReport;
import dev.spillway.block.RestoredBlocks;
import dev.spillway.block.TransferPlan;
import dev.spillway.engine.EngineMode;
import dev.spillway.engine.EngineStats;
import dev.spillway.rank.RankChannel;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ByteChannel;
import java.time.Duration;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import org.jctools.queues.varhandle.SpscVarHandleArrayQueue;
import org.jspecify.annotations.Nullable;

/**
 * A rank in another process. A thread of its own sends what the scheduler hands over, another takes
 * in what the rank says, so that the scheduler never waits for the channel. The rank is lost when
 * the channel ends, or when nothing was heard of it for the time of its lease; what it says after a
 * lapsed lease is still taken in, since only its own word can say that its memory is quiet.
 */
final class RemoteRank implements Rank {
  private static final int REPORTS = 16;
  private static final int RUNS = 16;
  private static final long STARVED_NANOS = 1_000_000;

  private static final Duration WAIT_MIN = Duration.ofSeconds(1);

  /** The rank tells that it is there this often in the time of its lease. */
  static final int BEATS = 4;

  private final RankChannel channel;
  private final Duration lease;
  private final int plansMax;
  private final Runnable onReports;
  private final Queue<ByteBuffer> plans;
  private final Queue<RankReport> reports = new SpscVarHandleArrayQueue<>(REPORTS);
  private final Queue<RestoredBlocks> restored = new SpscVarHandleArrayQueue<>(RUNS);
  private final Queue<RankReport> idle = new SpscVarHandleArrayQueue<>(REPORTS);
  private final CompletableFuture<EngineMode> greeted = new CompletableFuture<>();
  private final CompletableFuture<Void> ready = new CompletableFuture<>();
  private final CompletableFuture<Boolean> left = new CompletableFuture<>();
  private final Thread receiver;
  private final Thread sender;

  private volatile @Nullable RankHello hello;
  private volatile EngineStats stats = EngineStats.NONE;
  private volatile String engineFailure = "";
  private volatile long heardAt = System.nanoTime();
  private volatile @Nullable String ended;
  private volatile boolean leaving;
  private volatile boolean closed;
  private final Lapse lapse;
  private boolean lapsed;

  /**
   * Waits for the rank's hello.
   *
   * @param lease for how long a silent rank counts as there
   * @param onReports called where there is something to take
   * @throws IllegalStateException where the other end does not say hello in time, or is none
   */
  RemoteRank(ByteChannel channel, Duration lease, Duration wait, int plansMax, Runnable onReports) {
    this.channel = new RankChannel(channel);
    this.lease = lease;
    lapse = new Lapse(lease);
    this.plansMax = plansMax;
    this.onReports = onReports;
    plans = new SpscVarHandleArrayQueue<>(plansMax);
    for (int i = 0; i < REPORTS; i++) {
      idle.add(new RankReport());
    }
    receiver = daemon("spillway-from-rank", this::receive);
    sender = daemon("spillway-to-rank", this::send);
    receiver.start();
    await(greeted, atLeast(wait), "hello");
  }

  private static Thread daemon(String name, Runnable body) {
    var thread = new Thread(body, name);
    thread.setDaemon(true);
    return thread;
  }

  /** A hello and a write to disk take their time. */
  private static Duration atLeast(Duration wait) {
    return wait.compareTo(WAIT_MIN) < 0 ? WAIT_MIN : wait;
  }

  private <T> T await(CompletableFuture<T> word, Duration wait, String what) {
    try {
      return word.get(wait.toNanos(), TimeUnit.NANOSECONDS);
    } catch (TimeoutException e) {
      channel.close();
      throw new IllegalStateException("a rank has not said %s within %s".formatted(what, wait), e);
    } catch (ExecutionException e) {
      channel.close();
      throw new IllegalStateException(
          "a rank has not said %s: %s".formatted(what, e.getCause()), e.getCause());
    } catch (InterruptedException e) {
      channel.close();
      Thread.currentThread().interrupt();
      throw new IllegalStateException("interrupted while a rank was to say " + what, e);
    }
  }

  @Override
  public void begin(long epoch) {
    var body = RankChannel.buffer(4 * Long.BYTES);
    body.putLong(epoch)
        .putLong(plansMax)
        .putLong(plansMax / TransferPlan.PLANS_A_TRANSFER)
        .putLong(lease.toNanos())
        .flip();
    try {
      channel.send(RankChannel.Kind.WELCOME, body);
    } catch (IOException e) {
      end(e);
    }
    await(ready, atLeast(lease.multipliedBy(BEATS)), "that it is ready");
    heardAt = System.nanoTime();
    sender.start();
  }

  @Override
  public RankHello hello() {
    var known = hello;
    if (known == null) {
      throw new IllegalStateException("the rank has not said hello");
    }
    return known;
  }

  @Override
  public EngineMode mode() {
    return greeted.join();
  }

  @Override
  public EngineStats stats() {
    return stats;
  }

  @Override
  public String engineFailure() {
    var loss = loss();
    return loss == null ? engineFailure : loss;
  }

  @Override
  public void send(TransferPlan plan) {
    if (plan.operation() == Operation.TOUCH
        && plans.size() > plansMax / TransferPlan.PLANS_A_TRANSFER) {
      return;
    }
    if (ended == null && !plans.offer(RankChannel.encoded(plan))) {
      throw new IllegalStateException("more plans than the " + plansMax + " agreed");
    }
  }

  @Override
  public void drive() {
    LockSupport.unpark(sender);
  }

  @Override
  public void work() {
    if (!lapsed && ended == null && lapse.hasLapsed(heardAt)) {
      // Where it could not be heard for want of a free report, its word waits in the channel.
      lapsed = reports.isEmpty() && restored.isEmpty();
    }
  }

  @Override
  public void takeReports(Consumer<RankReport> target) {
    for (var report = reports.poll(); report != null; report = reports.poll()) {
      target.accept(report);
      heardAt = System.nanoTime();
      idle.add(report);
    }
  }

  @Override
  public boolean hasReports() {
    return !reports.isEmpty();
  }

  @Override
  public boolean hasRestored() {
    return !restored.isEmpty();
  }

  @Override
  public @Nullable RestoredBlocks nextRestored() {
    return restored.poll();
  }

  @Override
  public String recordTrouble() {
    return ""; // its own process says so in its log
  }

  @Override
  public @Nullable String loss() {
    var end = ended;
    if (end != null) {
      return end;
    }
    return lapsed ? "nothing was heard of it for " + lease : null;
  }

  @Override
  public void stepDone(long step) {
    // Its own process announces that.
  }

  @Override
  public void await(Duration bound) {
    throw new IllegalStateException("a remote rank has threads of its own");
  }

  @Override
  public void leave() {
    leaving = true;
    LockSupport.unpark(sender);
  }

  @Override
  public boolean drain(Duration bound, Consumer<RankReport> target) {
    long until = System.nanoTime() + bound.toNanos();
    boolean drained = false;
    while (System.nanoTime() < until && !left.isDone()) {
      takeReports(target);
      LockSupport.parkNanos(this, STARVED_NANOS);
    }
    if (left.isDone()) {
      drained = left.join();
    }
    takeReports(target);
    return drained;
  }

  @Override
  public void close() {
    leaving = true;
    closed = true;
    channel.close();
    LockSupport.unpark(sender);
  }

  // The sender's thread.

  private void send() {
    long beat = lease.toNanos() / BEATS;
    long sentAt = System.nanoTime();
    try {
      while (ended == null) {
        var plan = plans.poll();
        if (plan != null) {
          channel.send(RankChannel.Kind.PLAN, plan);
          sentAt = System.nanoTime();
        } else if (leaving) {
          channel.send(RankChannel.Kind.BYE, RankChannel.buffer(0));
          return;
        } else if (System.nanoTime() - sentAt > beat) {
          channel.send(RankChannel.Kind.ALIVE, RankChannel.buffer(0));
          sentAt = System.nanoTime();
        } else {
          LockSupport.parkNanos(this, beat);
        }
      }
    } catch (IOException e) {
      end(e);
    }
  }

  // The receiver's thread.

  private void receive() {
    try {
      while (true) {
        take(channel.receive());
        heardAt = System.nanoTime();
      }
    } catch (IOException | RuntimeException e) {
      end(e);
      channel.close(); // nobody reads it any more
    }
  }

  private void take(RankChannel.Kind kind) throws IOException {
    var body = channel.body();
    switch (kind) {
      case HELLO -> {
        hello = RankChannel.helloOf(body);
        greeted.complete(EngineMode.parse(RankChannel.textOf(body)));
      }
      case READY -> ready.complete(null);
      case REPORT -> {
        var report = idleReport();
        report.readFrom(body);
        if (report.rank() != hello().rank()) {
          throw new IOException("a report of rank " + report.rank());
        }
        reports.add(report);
        onReports.run();
      }
      case RESTORED -> {
        restored(RestoredBlocks.readFrom(body));
      }
      case ALIVE -> {
        stats = EngineStats.readFrom(body);
        var failure = RankChannel.textOf(body);
        if (!failure.isEmpty()) {
          engineFailure = failure;
        }
      }
      case BYE -> left.complete(body.get() == 1);
      case WELCOME, PLAN -> throw new IOException("a rank that sends " + kind);
    }
  }

  /** Waits for room, so that a rank cannot flood a scheduler that is slow. */
  private void restored(RestoredBlocks run) throws IOException {
    var counts = hello().slotCounts();
    boolean right =
        run.isEnd()
            || (run.group() < counts.size()
                && run.from() + run.scanned() <= counts.get(run.group()));
    if (!right) {
      throw new IOException("records of slots that the rank does not have");
    }
    while (!restored.offer(run)) {
      if (closed) {
        throw new IOException("closed");
      }
      LockSupport.parkNanos(this, STARVED_NANOS); // until the scheduler polls
    }
    onReports.run();
  }

  private RankReport idleReport() throws IOException {
    while (true) {
      var report = idle.poll();
      if (report != null) {
        return report;
      }
      if (closed) {
        throw new IOException("closed");
      }
      LockSupport.parkNanos(this, STARVED_NANOS); // until the scheduler polls
    }
  }

  private void end(Exception cause) {
    if (ended == null) {
      ended =
          "its channel ended: "
              + (cause.getMessage() == null ? cause.toString() : cause.getMessage());
    }
    greeted.completeExceptionally(cause);
    ready.completeExceptionally(cause);
    left.complete(false); // unless it has said so before
    onReports.run();
  }
}
