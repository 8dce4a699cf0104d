package dev.spillway.worker;

import dev.spillway.block.BlockOutcome;
import dev.spillway.block.BlockStage;
import dev.spillway.block.Operation;
import dev.spillway.block.RankReport;
import dev.spillway.block.RestoredBlocks;
import dev.spillway.block.TransferPlan;
import dev.spillway.engine.OpenRefusedException;
import dev.spillway.engine.TransferEngine;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Queue;
import java.util.concurrent.locks.LockSupport;
import java.util.function.LongSupplier;
import org.jctools.queues.varhandle.SpscVarHandleArrayQueue;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One rank's side: turns plans into submissions and endings into reports. It knows slots, blocks
 * and checksums, never keys or requests. Plans and reports cross in bounded queues with one thread
 * at each end: the scheduler's calls {@link #offer}, {@link #nextReport} and {@link #giveBack}, the
 * worker's {@link #doWork}. Both may be the same.
 */
public final class TransferWorker implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(TransferWorker.class);

  private static final int REPORTS = 16;
  private static final long STARVED_NANOS = 1_000_000;
  private static final long INDEX_MASK = TransferPlan.BLOCKS_MAX - 1L;

  /** Mixed into the seed of a checksum, so that no rank's bytes are taken for another's. */
  private static final long RANK_SEED = 0x9e3779b97f4a7c15L;

  private static final int RUNS = 16;

  private final TransferEngine engine;
  private final int rank;
  private final SlotTable slots;
  private final TransferPlan[] open; // by the place in the low bits of the transfer's id
  private final Queue<TransferPlan> plans;
  private final Queue<RankReport> reports = new SpscVarHandleArrayQueue<>(REPORTS);
  private final Queue<RankReport> idle = new SpscVarHandleArrayQueue<>(REPORTS);
  private @Nullable RankReport filling;
  private final ArrayDeque<TransferPlan> written = new ArrayDeque<>(); // to be told
  private final ArrayDeque<TransferPlan> unwritten = new ArrayDeque<>(); // to be told too
  private final @Nullable IndexFile records;
  private @Nullable RecordWriter writer;
  private @Nullable RecordScan scan;
  private final Queue<RestoredBlocks> restored = new SpscVarHandleArrayQueue<>(RUNS);
  private @Nullable RestoredBlocks waiting; // for room among the restored
  private final LongSupplier secondClock;

  /** A worker that keeps nothing beyond this process. */
  public TransferWorker(TransferEngine engine, int rank, int transfersMax) {
    this(engine, rank, transfersMax, null, () -> 0);
  }

  /**
   * @param transfersMax transfers open at a time
   * @param records of the slots, closed with the worker; null keeps none
   * @param secondClock seconds since 1970, for the records
   */
  public TransferWorker(
      TransferEngine engine,
      int rank,
      int transfersMax,
      @Nullable IndexFile records,
      LongSupplier secondClock) {
    this.secondClock = secondClock;
    this.engine = engine;
    this.rank = rank;
    this.records = records;
    this.slots = new SlotTable(engine.mode().slotCounts(), records != null);
    this.open = new TransferPlan[transfersMax];
    this.plans = new SpscVarHandleArrayQueue<>(TransferPlan.PLANS_A_TRANSFER * transfersMax);
    for (int i = 0; i < REPORTS; i++) {
      idle.add(new RankReport());
    }
  }

  /**
   * Before anything else: what is stored from now on is of this epoch, and what earlier ones have
   * left is read.
   *
   * @throws OpenRefusedException where the records cannot be written
   */
  public void begin(long epoch) {
    if (records == null) {
      restored.add(RestoredBlocks.end());
      return;
    }
    try {
      records.begin(epoch);
    } catch (IOException e) {
      throw new OpenRefusedException(
          OpenRefusedException.Reason.PATH,
          0,
          "%s cannot be written (%s); mend that, or keep nothing (warmRestart false)"
              .formatted(records.path(), e));
    }
    writer = new RecordWriter(records, rank);
    scan = new RecordScan(records, rank, engine::wake);
  }

  /** The open has failed: records that it has made go, others stay. */
  public void discardRecords() {
    if (records != null) {
      records.removeIfCreated();
    }
  }

  /** Records that were dropped, and why no more are written, or an empty text. */
  public String recordTrouble() {
    return writer == null ? "" : writer.trouble();
  }

  // The scheduler's end.

  /** Hands over a plan; there is room, since the scheduler keeps to the transfers agreed. */
  public void offer(TransferPlan plan) {
    if (!plans.offer(plan)) {
      throw new IllegalStateException("more plans than " + open.length + " transfers can have");
    }
  }

  /** Whether so much waits that what may get lost should not be added. */
  public boolean isCrowded() {
    return plans.size() > open.length;
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

  public boolean hasRestored() {
    return !restored.isEmpty();
  }

  /** The next run of slots whose blocks an earlier process has stored, or null for now. */
  public @Nullable RestoredBlocks nextRestored() {
    return restored.poll();
  }

  // The worker's end.

  /** Does what there is to do, without waiting; answers how much it was. */
  public int doWork() {
    int done = takeRestored() + submitPlans() + collectEndings();
    if (writer != null) {
      writer.flush();
    }
    return done;
  }

  /** Before the plans that may rest on it, and told before their endings. */
  private int takeRestored() {
    int count = 0;
    while (scan != null) {
      if (waiting == null) {
        waiting = scan.poll();
        if (waiting == null) {
          break;
        }
        slots.restore(waiting);
        count++;
      }
      if (!restored.offer(waiting)) {
        break;
      }
      if (waiting.isEnd()) {
        scan.close();
        scan = null;
      }
      waiting = null;
    }
    return count;
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
    if (plan.operation() == Operation.FORGET) {
      (raiseFloor(plan.generation(0)) ? written : unwritten).add(plan);
      return;
    }
    if (plan.operation() == Operation.TOUCH) {
      touch(plan);
      return;
    }
    if (plan.operation() == Operation.PUNCH) {
      punch(plan);
      return;
    }
    long ticket = plan.transferId() << TransferPlan.INDEX_BITS;
    engine.command(plan.operation(), ticket, ~INDEX_MASK);
    engine.submit();
  }

  private void touch(TransferPlan plan) {
    for (int i = 0; i < plan.size() && writer != null; i++) {
      int group = plan.group();
      int slot = plan.slot(i);
      if (slots.holds(group, slot, plan.generation(i))
          && slots.touch(slots.entry(group, slot), second())) {
        writer.put(slots, group, slot);
      }
    }
  }

  /** Here and now: what comes behind wants the space. Where it cannot be, the slots serve on. */
  private void punch(TransferPlan plan) {
    for (int i = 0; i < plan.size(); i++) {
      int group = plan.group();
      int slot = plan.slot(i);
      int errno = engine.punch(group, slot);
      if (errno != 0) {
        LOG.debug("slot {} of group {} keeps its space (errno {})", slot, group, errno);
        continue;
      }
      slots.clear(group, slot);
      if (writer != null) {
        writer.erase(slots, group, slot);
      }
    }
  }

  private void add(TransferPlan plan, int i) {
    long ticket = plan.transferId() << TransferPlan.INDEX_BITS | i;
    int group = plan.group();
    int slot = plan.slot(i);
    boolean reads = plan.operation().reads();
    assert !reads || slots.holds(group, slot, plan.generation(i))
        : "slot " + slot + " of group " + group + " holds another generation";
    long checksum = reads ? slots.checksum(group, slot) : 0;
    engine.add(ticket, plan, i, seedOf(plan.seed(i), rank), checksum);
  }

  /** The seed of a block's checksum on a rank. */
  public static long seedOf(long seed, int rank) {
    return seed ^ rank * RANK_SEED;
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
      // A report has room for what the engine hands out at a time, and for no more.
      int told = written.size() + unwritten.size();
      int count = told > 0 ? 0 : engine.poll();
      if (count + told == 0) {
        return collected;
      }
      filling.begin(rank);
      tell(filling, written, BlockOutcome.STORED);
      tell(filling, unwritten, BlockOutcome.WRITE_ERROR);
      for (int i = 0; i < count; i++) {
        addEnding(filling, i);
      }
      reports.add(filling);
      filling = null;
      collected += count + told;
    }
  }

  private static void tell(
      RankReport report, ArrayDeque<TransferPlan> plans, BlockOutcome outcome) {
    for (var plan = plans.poll(); plan != null; plan = plans.poll()) {
      int flags = RankReport.ENDED | RankReport.QUIET;
      report.add(plan.transferId(), 0, flags, outcome, BlockStage.WRITING, 0, 0, 0);
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
    if (ended) {
      remember(plan, i, outcome, engine.checksum(at));
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

  /** What the ending of a block says of its slot, for this process and for the next. */
  private void remember(TransferPlan plan, int i, BlockOutcome outcome, long checksum) {
    int group = plan.group();
    int slot = plan.slot(i);
    if (plan.operation() == Operation.STORE && outcome == BlockOutcome.STORED) {
      slots.put(plan, i, checksum, second());
      if (writer != null) {
        writer.put(slots, group, slot);
      }
    } else if (plan.operation() == Operation.PROBE && outcome == BlockOutcome.STORED) {
      slots.clear(group, slot); // whatever was there is overwritten
      if (writer != null) {
        writer.erase(slots, group, slot);
      }
    } else if (plan.operation().reads() && writer != null && outcome.invalidatesEntry()) {
      writer.erase(slots, group, slot);
    }
  }

  private int second() {
    return (int) secondClock.getAsLong();
  }

  private boolean raiseFloor(long generation) {
    if (records != null) {
      try {
        records.raiseFloor(generation);
      } catch (IOException e) {
        LOG.error("{}: what was forgotten may come back at the next open", records.path(), e);
        return false;
      }
    }
    return true;
  }

  /** Writes the last records. Nothing else may call any more. */
  @Override
  public void close() {
    if (scan != null) {
      scan.close();
    }
    if (writer != null) {
      writer.close();
    }
    if (records != null) {
      records.close();
    }
  }

  private static int place(long transferId) {
    return (int) (transferId & TransferPlan.PLACE_MASK);
  }
}
