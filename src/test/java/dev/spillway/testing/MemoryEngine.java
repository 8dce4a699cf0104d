package dev.spillway.testing;

import dev.spillway.block.BlockOutcome;
import dev.spillway.block.BlockStage;
import dev.spillway.block.Operation;
import dev.spillway.block.RankReport;
import dev.spillway.block.TransferPlan;
import dev.spillway.engine.EngineMode;
import dev.spillway.engine.EngineStats;
import dev.spillway.engine.FaultCounts;
import dev.spillway.engine.LaneStats;
import dev.spillway.engine.TransferEngine;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** An engine that moves nothing and ends blocks when and how a test says. */
public final class MemoryEngine implements TransferEngine {
  public static final long CHECKSUM = 0x5eed;

  private record Ending(long ticket, Operation operation, BlockOutcome outcome) {}

  private record Block(long ticket, Operation operation) {}

  private final long slotCount;
  public final List<Operation> commands = new ArrayList<>();
  private final List<Block> batch = new ArrayList<>();
  private final List<Block> inFlight = new ArrayList<>();
  private final ArrayDeque<Ending> ended = new ArrayDeque<>();
  private final List<Ending> polled = new ArrayList<>();
  private final Semaphore woken = new Semaphore(0);
  private @Nullable BlockOutcome atOnce;
  private @Nullable RuntimeException onSubmit;
  private long seed;
  private long expectedChecksum;

  public MemoryEngine(long slotCount) {
    this.slotCount = slotCount;
  }

  public void endAll(BlockOutcome outcome) {
    inFlight.forEach(block -> ended.add(new Ending(block.ticket(), block.operation(), outcome)));
    inFlight.clear();
  }

  public void endAtOnce(BlockOutcome outcome) {
    atOnce = outcome;
  }

  public void failOnSubmit(RuntimeException failure) {
    onSubmit = failure;
  }

  public int ended() {
    return ended.size();
  }

  public long seed() {
    return seed;
  }

  public long expectedChecksum() {
    return expectedChecksum;
  }

  @Override
  public int batchCapacity() {
    return 4;
  }

  @Override
  public void add(long ticket, TransferPlan plan, int index, long newSeed, long checksum) {
    batch.add(new Block(ticket, plan.operation()));
    seed = newSeed;
    expectedChecksum = checksum;
  }

  @Override
  public void command(Operation operation, long ticket, long mask) {
    commands.add(operation);
  }

  @Override
  public void raiseEpoch(long epoch) {}

  @Override
  public int punch(int group, int slot) {
    return 0;
  }

  @Override
  public void submit() {
    if (onSubmit != null) {
      throw onSubmit;
    }
    inFlight.addAll(batch);
    batch.clear();
    if (atOnce != null) {
      endAll(atOnce);
    }
  }

  @Override
  public int poll() {
    polled.clear();
    while (!ended.isEmpty()) {
      polled.add(ended.remove());
    }
    return polled.size();
  }

  @Override
  public long ticket(int index) {
    return polled.get(index).ticket();
  }

  @Override
  public BlockOutcome outcome(int index) {
    return polled.get(index).outcome();
  }

  @Override
  public BlockStage stage(int index) {
    return BlockStage.WRITING;
  }

  @Override
  public int errno(int index) {
    return 0;
  }

  @Override
  public int bytesDone(int index) {
    return 0;
  }

  @Override
  public long checksum(int index) {
    return CHECKSUM;
  }

  @Override
  public int flags(int index) {
    return RankReport.ENDED | RankReport.QUIET;
  }

  @Override
  public long nanos(int index) {
    return 1;
  }

  @Override
  public void stepDone(long step) {}

  @Override
  public void await(Duration bound) {
    try {
      woken.tryAcquire(bound.toNanos(), TimeUnit.NANOSECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  @Override
  public void wake() {
    woken.release();
  }

  @Override
  public EngineMode mode() {
    return new EngineMode(
        "memory",
        "",
        false,
        false,
        false,
        false,
        1,
        "none",
        "none",
        0,
        1,
        1,
        1,
        1,
        1,
        "small",
        "none",
        "none",
        "host",
        List.of(slotCount),
        List.of(4096),
        List.of(65536L),
        List.of());
  }

  @Override
  public EngineStats stats() {
    var none = new LaneStats(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, FaultCounts.NONE);
    return new EngineStats(none, none);
  }

  @Override
  public String failure() {
    return "";
  }

  @Override
  public boolean drain(Duration bound) {
    return inFlight.isEmpty();
  }

  @Override
  public void close() {}
}
