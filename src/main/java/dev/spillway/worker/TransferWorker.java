package dev.spillway.worker;

import dev.spillway.block.BlockOutcome;
import dev.spillway.block.BlockStage;
import dev.spillway.block.Operation;
import dev.spillway.block.RankReport;
import dev.spillway.block.TransferPlan;
import dev.spillway.engine.TransferEngine;
import java.time.Duration;
import java.util.Queue;
import java.util.concurrent.locks.LockSupport;
import org.jctools.queues.varhandle.SpscVarHandleArrayQueue;
import org.jspecify.annotations.Nullable;

/**
 * One rank's side: turns plans into submissions and endings into reports. It knows slots, blocks
 * and checksums, never keys or requests. Plans and reports cross in bounded queues with one thread
 * at each end: the scheduler's calls {@link #offer}, {@link #nextReport} and {@link #giveBack}, the
 * worker's {@link #doWork}. Both may be the same.
 */
public final class TransferWorker {
  private static final int REPORTS = 16;
  private static final long STARVED_NANOS = 1_000_000;
  private static final long INDEX_MASK = TransferPlan.BLOCKS_MAX - 1L;
  private static final long RANK_SEED = 0x9e3779b97f4a7c15L;

  private final TransferEngine engine;
  private final int rank;
  private final SlotTable slots;
  private final TransferPlan[] open; // by the place in the low bits of the transfer's id
  private final Queue<TransferPlan> plans;
  private final Queue<RankReport> reports = new SpscVarHandleArrayQueue<>(REPORTS);
  private final Queue<RankReport> idle = new SpscVarHandleArrayQueue<>(REPORTS);
  private @Nullable RankReport filling;

  /**
   * @param transfersMax transfers open at a time
   */
  public TransferWorker(TransferEngine engine, int rank, int transfersMax) {
    this.engine = engine;
    this.rank = rank;
    this.slots = new SlotTable(engine.mode().slotCounts());
    this.open = new TransferPlan[transfersMax];
    // Besides its plan, an open transfer may be drained and cancelled.
    this.plans = new SpscVarHandleArrayQueue<>(3 * transfersMax);
    for (int i = 0; i < REPORTS; i++) {
      idle.add(new RankReport());
    }
  }

  // The scheduler's end.

  /** Hands over a plan; there is room, since the scheduler keeps to the transfers agreed. */
  public void offer(TransferPlan plan) {
    if (!plans.offer(plan)) {
      throw new IllegalStateException("more plans than " + open.length + " transfers can have");
    }
  }

  /** The next report, or null. It must come back through {@link #giveBack}. */
  public @Nullable RankReport nextReport() {
    return reports.poll();
  }

  public void giveBack(RankReport report) {
    idle.add(report);
  }

  public boolean hasReports() {
    return !reports.isEmpty();
  }

  // The worker's end.

  /** Does what there is to do, without waiting; answers how much it was. */
  public int doWork() {
    return submitPlans() + collectEndings();
  }

  /** Sleeps until there may be something to do. */
  public void await(Duration bound) {
    if (!plans.isEmpty()) {
      return;
    }
    if (filling == null && idle.isEmpty()) {
      // Every report waits for a scheduler that does not poll; the engine would not let us sleep.
      LockSupport.parkNanos(this, Math.min(bound.toNanos(), STARVED_NANOS));
    } else {
      engine.await(bound);
    }
  }

  /** Ends the sleep of {@link #await}; any thread. */
  public void wake() {
    engine.wake();
  }

  private int submitPlans() {
    int count = 0;
    for (var plan = plans.poll(); plan != null; plan = plans.poll()) {
      if (plan.operation().isCommand()) {
        command(plan);
      } else {
        open[place(plan.transferId())] = plan;
        submit(plan);
      }
      count++;
    }
    return count;
  }

  private void submit(TransferPlan plan) {
    int left = engine.batchCapacity();
    for (int i = 0; i < plan.size(); i++) {
      if (left == 0) {
        engine.submit();
        left = engine.batchCapacity();
      }
      add(plan, i);
      left--;
    }
    engine.submit();
  }

  /** The plan before it on its way down is that of the transfer which it names. */
  private void command(TransferPlan plan) {
    long ticket = plan.transferId() << TransferPlan.INDEX_BITS;
    engine.command(plan.operation(), ticket, ~INDEX_MASK);
    engine.submit();
  }

  private void add(TransferPlan plan, int i) {
    long ticket = plan.transferId() << TransferPlan.INDEX_BITS | i;
    int group = plan.group();
    int slot = plan.slot(i);
    boolean load = plan.operation() == Operation.LOAD;
    assert !load || slots.holds(group, slot, plan.generation(i))
        : "slot " + slot + " of group " + group + " holds another generation";
    long checksum = load ? slots.checksum(group, slot) : 0;
    engine.add(ticket, plan, i, plan.seed(i) ^ rank * RANK_SEED, checksum);
  }

  /** Endings wait in the engine, which has room for all, while no report is idle. */
  private int collectEndings() {
    int collected = 0;
    while (true) {
      if (filling == null) {
        filling = idle.poll();
      }
      if (filling == null) {
        return collected;
      }
      int count = engine.poll();
      if (count == 0) {
        return collected;
      }
      filling.begin(rank);
      for (int i = 0; i < count; i++) {
        addEnding(filling, i);
      }
      reports.add(filling);
      filling = null;
      collected += count;
    }
  }

  private void addEnding(RankReport report, int at) {
    long ticket = engine.ticket(at);
    int i = (int) (ticket & INDEX_MASK);
    long id = ticket >>> TransferPlan.INDEX_BITS;
    var plan = open[place(id)];
    int flags = engine.flags(at);
    boolean ended = (flags & RankReport.ENDED) != 0;
    var outcome = ended ? engine.outcome(at) : BlockOutcome.CANCELLED;
    if (ended && outcome == BlockOutcome.STORED && plan.operation() == Operation.STORE) {
      slots.put(plan.group(), plan.slot(i), plan.generation(i), engine.checksum(at));
    }
    report.add(
        id,
        plan.position(i),
        flags,
        outcome,
        ended ? engine.stage(at) : BlockStage.QUEUED,
        engine.errno(at),
        engine.bytesDone(at),
        engine.nanos(at));
  }

  private static int place(long transferId) {
    return (int) (transferId & TransferPlan.PLACE_MASK);
  }
}
