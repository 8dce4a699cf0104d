package dev.spillway.ledger;

import dev.spillway.block.BlockFault;
import dev.spillway.block.BlockOutcome;
import dev.spillway.block.DeviceEvent;
import dev.spillway.block.Operation;
import dev.spillway.block.RankReport;
import dev.spillway.block.TransferPlan;
import dev.spillway.block.TransferResult;
import dev.spillway.index.BlockIndex;
import dev.spillway.rank.RankAggregator;
import java.util.BitSet;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/**
 * What a store and a load have in common: one request's blocks on their way over all ranks. Each
 * block ends exactly once, whatever the ranks report; the transfer is complete when its last block
 * is. Objects are used again, under another id. Owned by the scheduler's thread.
 *
 * <pre>
 * PLANNED → AWAITING_RANKS → COMPLETED → (PLANNED, for another request)
 * </pre>
 */
abstract class Transfer {
  enum State {
    PLANNED,
    AWAITING_RANKS,
    COMPLETED
  }

  static final long NO_ID = -1;

  final BlockIndex index;
  final TransferPlan plan = new TransferPlan();
  private final RankAggregator ranks;
  private final Operation operation;

  private State state = State.COMPLETED;
  private long id;
  private int size;
  private int blockBytes;
  private int planned;
  private int over;
  private int[] entries = new int[16];
  private int[] deviceBlocks = new int[16];
  private @Nullable SortedMap<Integer, BlockFault> faults;
  private @Nullable BitSet present;
  private long startedAt;
  private CompletableFuture<TransferResult> future = new CompletableFuture<>();

  Transfer(Operation operation, BlockIndex index, int rankCount) {
    this.operation = operation;
    this.index = index;
    this.ranks = new RankAggregator(rankCount);
  }

  /** The block is on every rank, or on none. */
  abstract void settle(int entry, BlockOutcome outcome);

  /** A rank has failed the block; others may still be at it. */
  abstract void onFault(int entry, BlockOutcome outcome, boolean blamesMedium);

  // In the order of a transfer's life.

  final void begin(int group, int newSize, int newBlockBytes, DeviceEvent event, long now) {
    assert state == State.COMPLETED : "transfer " + id + " is " + state;
    id = NO_ID;
    size = newSize;
    blockBytes = newBlockBytes;
    planned = 0;
    over = 0;
    faults = null;
    present = null;
    startedAt = now;
    future = new CompletableFuture<>();
    if (size > entries.length) {
      entries = new int[Integer.highestOneBit(size - 1) << 1];
      deviceBlocks = new int[entries.length];
    }
    ranks.begin(size);
    plan.begin(id, operation, group, event);
    state = State.PLANNED;
  }

  /** Before the first block is planned: what never leaves Java needs no id. */
  final void identify(long newId) {
    assert id == NO_ID : "transfer " + id + " gets another id";
    id = newId;
    plan.identify(newId);
  }

  final void plan(int position, int entry, int deviceBlock, long seed) {
    entries[position] = entry;
    deviceBlocks[position] = deviceBlock;
    plan.add(position, index.slot(entry), index.generation(entry), seed, deviceBlock);
    planned++;
  }

  final void addPresent(int position) {
    if (present == null) {
      present = new BitSet();
    }
    present.set(position);
  }

  /** The block ends without having left Java. */
  final void addUnmoved(int position, BlockOutcome outcome) {
    addFault(position, BlockFault.unmoved(outcome, blockBytes));
  }

  final void awaitRanks() {
    assert state == State.PLANNED : "transfer " + id + " is " + state;
    state = State.AWAITING_RANKS;
  }

  /** Takes in one ending; answers what it changed. */
  final RankAggregator.Answer onEnding(RankReport report, int at) {
    assert state == State.AWAITING_RANKS : "transfer " + id + " is " + state;
    int position = report.position(at);
    var outcome = report.outcome(at);
    var answer = ranks.report(report.rank(), position, outcome);
    if (answer == RankAggregator.Answer.DOUBLE) {
      return answer;
    }
    int entry = entries[position];
    if (!outcome.isWell()) {
      if (faults == null || !faults.containsKey(position)) {
        addFault(position, fault(report, at, entry));
      }
      onFault(entry, outcome, report.blamesMedium(at));
    }
    if (answer == RankAggregator.Answer.OVER) {
      settle(entry, ranks.outcome(position));
      over++;
    }
    return answer;
  }

  private BlockFault fault(RankReport report, int at, int entry) {
    return new BlockFault(
        report.outcome(at),
        report.stage(at),
        report.errno(at),
        index.slot(entry),
        report.bytesDone(at),
        blockBytes);
  }

  /** Whether the last planned block is over. */
  final boolean isOver() {
    return over == planned;
  }

  /** Blocks that will not be reported any more end here, since the engine is gone. */
  final int abandon(BlockOutcome outcome) {
    int abandoned = 0;
    for (int i = 0; i < plan.size(); i++) {
      int position = plan.position(i);
      if (!ranks.isOver(position)) {
        addFault(position, BlockFault.unmoved(outcome, blockBytes));
        settle(entries[position], outcome);
        over++;
        abandoned++;
      }
    }
    return abandoned;
  }

  /** The result, once; the future is the caller's to complete. */
  final TransferResult complete(long now) {
    assert isOver() : "transfer " + id + " has " + (planned - over) + " blocks on their way";
    state = State.COMPLETED;
    return new TransferResult(
        operation,
        size,
        faults == null ? new TreeMap<>() : faults,
        present == null ? new BitSet() : present,
        now - startedAt);
  }

  final long id() {
    return id;
  }

  final State state() {
    return state;
  }

  final int size() {
    return size;
  }

  final int planned() {
    return planned;
  }

  final int deviceBlock(int position) {
    return deviceBlocks[position];
  }

  final BlockOutcome outcome(int position) {
    return ranks.outcome(position);
  }

  final CompletableFuture<TransferResult> future() {
    return future;
  }

  private void addFault(int position, BlockFault fault) {
    if (faults == null) {
      faults = new TreeMap<>();
    }
    faults.put(position, fault);
  }

  @Override
  public final String toString() {
    return "%s %d %s: %d of %d blocks over".formatted(operation, id, state, over, planned);
  }
}
