package dev.spillway.sim;

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
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;

/**
 * One rank's engine whose disk and device are words in memory. A block takes a step when the
 * schedule says so: sources are read and targets written as late as that, so whatever is reused too
 * early shows as a wrong word. Faults fall as the dice say.
 */
final class SimulatedEngine implements TransferEngine {
  private static final class Block {
    long ticket;
    Operation operation = Operation.STORE;
    int group;
    int device;
    int slot;
    long seed;
    long checksum;
    long word;
    int step; // 0 queued, then as far as it has come
    boolean told;
    boolean tellCopied;
  }

  private record Entry(long ticket, int flags, BlockOutcome outcome, long checksum) {}

  final long[][] device; // by group
  final long[][] disk;
  private final Random random;
  private final double faultRate;
  private final List<Block> batch = new ArrayList<>();
  private final List<Block> blocks = new ArrayList<>();
  private final ArrayDeque<Entry> up = new ArrayDeque<>();
  private final List<Entry> polled = new ArrayList<>();
  private final Set<Long> failedLoads = new HashSet<>();
  private boolean broken;
  private boolean hangs;
  long faults;

  SimulatedEngine(int[] deviceBlocks, int[] slots, Random random, double faultRate) {
    device = Arrays.stream(deviceBlocks).mapToObj(long[]::new).toArray(long[][]::new);
    disk = Arrays.stream(slots).mapToObj(long[]::new).toArray(long[][]::new);
    this.random = random;
    this.faultRate = faultRate;
  }

  /** Whether a disk fault ended the last load onto this device block; asked once for each. */
  boolean hasFailedLoad(int group, int deviceBlock) {
    return failedLoads.remove((long) group << 32 | deviceBlock);
  }

  /** What its kernel holds when it is closed it does not give back. */
  void hang() {
    hangs = true;
  }

  /** Every block takes as many steps as it needs; no more faults. */
  void settle() {
    while (!blocks.isEmpty()) {
      advance(blocks.get(blocks.size() - 1), false);
    }
  }

  /** Some block takes one step. */
  void step() {
    if (!blocks.isEmpty()) {
      advance(blocks.get(random.nextInt(blocks.size())), true);
    }
  }

  /** Device or ring are gone: every block comes back, those in the kernel's hands last. */
  void fail() {
    broken = true;
    settle();
  }

  private void advance(Block block, boolean faulty) {
    boolean fault = faulty && random.nextDouble() < faultRate;
    if (fault && !block.told && random.nextInt(4) == 0) {
      abandon(block, BlockOutcome.EXPIRED);
      return;
    }
    block.step++;
    if (broken) {
      over(block, BlockOutcome.ENGINE_FAILED, 0);
      return;
    }
    switch (block.operation) {
      case STORE -> advanceStore(block, fault);
      case LOAD, VERIFY -> advanceLoad(block, fault);
      case PROBE -> {
        disk[block.group][block.slot] = fault ? random.nextLong() : 0;
        over(block, fault ? BlockOutcome.CORRUPT : BlockOutcome.STORED, 0);
      }
      case CANCEL, DRAIN, FORGET, TOUCH, PUNCH -> throw new AssertionError("no block");
    }
  }

  private void advanceStore(Block block, boolean fault) {
    if (block.step == 1) {
      return; // the copy has begun
    }
    if (block.step == 2) {
      block.word = device[block.group][block.device];
      if (block.tellCopied) {
        up.add(new Entry(block.ticket, RankReport.COPIED, BlockOutcome.CANCELLED, 0));
      }
      return;
    }
    if (fault && random.nextInt(3) == 0) {
      over(block, BlockOutcome.WRITE_ERROR, RankReport.NO_ROOM);
      return;
    }
    if (fault) {
      disk[block.group][block.slot] = random.nextLong(); // torn
      over(block, BlockOutcome.WRITE_ERROR, RankReport.MEDIUM);
      return;
    }
    disk[block.group][block.slot] = block.word;
    over(block, BlockOutcome.STORED, 0);
  }

  private void advanceLoad(Block block, boolean fault) {
    if (block.step == 1) {
      return; // the read has begun
    }
    if (block.step == 2) {
      if (fault && !block.told && random.nextBoolean()) {
        over(
            block,
            random.nextBoolean() ? BlockOutcome.READ_ERROR : BlockOutcome.SHORT,
            RankReport.MEDIUM);
        return;
      }
      block.word = fault ? ~disk[block.group][block.slot] : disk[block.group][block.slot];
      if (!fault && checksum(block.word, block.seed) != block.checksum) {
        throw new AssertionError("slot %d was written while it was read".formatted(block.slot));
      }
      if (fault) {
        over(block, BlockOutcome.CORRUPT, RankReport.MEDIUM);
      } else if (block.told) {
        over(block, BlockOutcome.CANCELLED, 0);
      }
      return;
    }
    if (block.operation == Operation.LOAD) {
      device[block.group][block.device] = block.word;
    }
    over(block, BlockOutcome.LOADED, 0);
  }

  private static long checksum(long word, long seed) {
    return (word ^ seed) * 0x9e3779b97f4a7c15L;
  }

  private void abandon(Block block, BlockOutcome outcome) {
    if (block.told) {
      return;
    }
    if (block.step == 0) {
      over(block, outcome, 0);
    } else {
      block.told = true;
      up.add(new Entry(block.ticket, RankReport.ENDED, outcome, 0));
    }
  }

  private void over(Block block, BlockOutcome outcome, int blame) {
    if (outcome.isOfDisk() && !block.told) {
      faults++;
      if (block.operation == Operation.LOAD) {
        failedLoads.add((long) block.group << 32 | block.device);
      }
    }
    int flags = block.told ? RankReport.QUIET : RankReport.QUIET | RankReport.ENDED | blame;
    up.add(new Entry(block.ticket, flags, outcome, checksum(block.word, block.seed)));
    blocks.remove(block);
  }

  @Override
  public int batchCapacity() {
    return 8;
  }

  @Override
  public void add(long ticket, TransferPlan plan, int index, long seed, long checksum) {
    var block = new Block();
    block.ticket = ticket;
    block.operation = plan.operation();
    block.group = plan.group();
    block.device = plan.deviceBlock(index);
    block.slot = plan.slot(index);
    block.seed = seed;
    block.checksum = checksum;
    batch.add(block);
  }

  @Override
  public void submit() {
    blocks.addAll(batch);
    batch.clear();
    if (broken) {
      settle();
    }
  }

  @Override
  public void command(Operation operation, long ticket, long mask) {
    for (var block : List.copyOf(blocks)) {
      if (((block.ticket ^ ticket) & mask) != 0 || block.told) {
        continue;
      }
      if (operation == Operation.CANCEL || block.step == 0) {
        abandon(block, BlockOutcome.CANCELLED);
      } else if (block.operation == Operation.STORE && !block.tellCopied) {
        block.tellCopied = true;
        if (block.step >= 2) {
          up.add(new Entry(block.ticket, RankReport.COPIED, BlockOutcome.CANCELLED, 0));
        }
      }
    }
  }

  @Override
  public int poll() {
    polled.clear();
    for (int i = random.nextInt(8); i >= 0 && !up.isEmpty(); i--) {
      polled.add(up.remove());
    }
    return polled.size();
  }

  boolean isQuiet() {
    return blocks.isEmpty() && up.isEmpty();
  }

  @Override
  public long ticket(int index) {
    return polled.get(index).ticket();
  }

  @Override
  public int flags(int index) {
    return polled.get(index).flags();
  }

  @Override
  public BlockOutcome outcome(int index) {
    return polled.get(index).outcome();
  }

  @Override
  public BlockStage stage(int index) {
    return BlockStage.QUEUED;
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
    return polled.get(index).checksum();
  }

  @Override
  public long nanos(int index) {
    return 1;
  }

  @Override
  public void stepDone(long step) {}

  @Override
  public void await(Duration bound) {}

  @Override
  public void wake() {}

  @Override
  public EngineMode mode() {
    return new EngineMode(
        "simulated",
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
        Arrays.stream(disk).map(slots -> (long) slots.length).toList(),
        Arrays.stream(disk).map(slots -> 4096).toList(),
        Arrays.stream(disk).map(slots -> 65536L).toList(),
        List.of());
  }

  @Override
  public void raiseEpoch(long epoch) {}

  @Override
  public int punch(int group, int slot) {
    for (var block : blocks) {
      if (block.group == group && block.slot == slot) {
        throw new AssertionError("slot %d is punched under a block".formatted(slot));
      }
    }
    disk[group][slot] = 0;
    return 0;
  }

  @Override
  public EngineStats stats() {
    var none = new LaneStats(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, FaultCounts.NONE);
    return new EngineStats(none, none);
  }

  @Override
  public String failure() {
    return broken ? "simulated" : "";
  }

  @Override
  public boolean drain(Duration bound) {
    for (var block : List.copyOf(blocks)) {
      if (block.step == 0) {
        abandon(block, BlockOutcome.CANCELLED);
      }
    }
    if (!hangs) {
      settle();
    }
    return blocks.isEmpty();
  }

  @Override
  public void close() {}
}
