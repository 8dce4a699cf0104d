package dev.spillway.ledger;

import dev.spillway.block.BlockFault;
import dev.spillway.block.BlockOutcome;
import dev.spillway.block.BlockStage;
import dev.spillway.block.DeviceEvent;
import dev.spillway.block.Operation;
import dev.spillway.block.RankReport;
import dev.spillway.block.TransferPlan;
import dev.spillway.block.TransferResult;
import dev.spillway.index.BlockIndex;
import dev.spillway.rank.RankAggregator;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/**
 * What a store and a load have in common: one request's blocks on their way over all ranks. Each
 * block ends exactly once, whatever the ranks report; the transfer is complete when its last block
 * is over. It is quiet when no rank's kernel or device can touch its blocks any more, mostly at the
 * same moment; only then is the object used again, under another id. Owned by the scheduler's
 * thread.
 *
 * <pre>
 * PLANNED → AWAITING_RANKS → COMPLETED → (quiet: PLANNED, for another request)
 * </pre>
 */
abstract class Transfer {
  enum State {
    PLANNED,
    AWAITING_RANKS,
    COMPLETED
  }

  static final long NO_ID = -1;
  private static final CompletableFuture<Void> QUIET = CompletableFuture.completedFuture(null);

  private long begunAs;

  final BlockIndex index;
  final TransferPlan plan = new TransferPlan();
  private final RankAggregator ranks;
  private final Operation operation;

  private State state = State.COMPLETED;
  private long id;
  private int size;
  private int blockBytes;
  private long request;
  private int planned;
  private int over;
  private int quiet;
  private int held; // device blocks that the caller may not reuse yet
  private boolean reset;
  private boolean cancelled;
  private boolean drained;
  private int[] entries = new int[16];
  private int[] deviceBlocks = new int[16];
  private @Nullable SortedMap<Integer, BlockFault> faults;
  private @Nullable BitSet present;
  private long startedAt;
  private CompletableFuture<TransferResult> future = new CompletableFuture<>();
  private CompletableFuture<Void> quietFuture = QUIET;
  private final List<Fence> fences = new ArrayList<>(0);

  Transfer(Operation operation, BlockIndex index, int rankCount) {
    this.operation = operation;
    this.index = index;
    this.ranks = new RankAggregator(rankCount);
  }

  /** The block is on every rank, or on none. */
  abstract void settle(int entry, BlockOutcome outcome);

  /** Ranks have failed the block, whose slot they blame or not; others may still be at it. */
  abstract void onFault(int entry, BlockOutcome outcome, long blamingRanks);

  /** Whether no caller waits for it. */
  boolean isOurOwn() {
    return false;
  }

  /** Whether its faults are those of lanes, and counted with it. */
  boolean countsFaults() {
    return true;
  }

  /** Whether nothing may be published of the block any more. */
  boolean isUnwanted(int entry) {
    return false;
  }

  /** A fault as the caller hears of it. */
  BlockFault told(int entry, BlockFault fault) {
    return fault;
  }

  /** No rank can touch the block's device memory, though its slot may still be written. */
  abstract boolean isReleased(RankAggregator ranks, int position);

  /** No rank can touch the block at all any more. */
  void onQuiet(int entry) {
    index.release(entry);
  }

  /** The slot that a fault names. */
  int slotOf(int entry) {
    return index.slot(entry);
  }

  // In the order of a transfer's life.

  final void begin(
      long newRequest, int group, int newSize, int newBlockBytes, DeviceEvent event, long now) {
    assert state == State.COMPLETED : "transfer " + id + " is " + state;
    id = NO_ID;
    size = newSize;
    blockBytes = newBlockBytes;
    request = newRequest;
    planned = 0;
    over = 0;
    quiet = 0;
    held = 0;
    reset = false;
    cancelled = false;
    drained = false;
    quietFuture = QUIET;
    fences.clear();
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

  final void plan(int position, int entry, int deviceBlock, long seed, int depth) {
    entries[position] = entry;
    deviceBlocks[position] = deviceBlock;
    plan.add(position, index.slot(entry), index.generation(entry), seed, deviceBlock);
    plan.name(index.high(entry), index.low(entry), index.tenant(entry), depth);
    ranks.expect(position);
    planned++;
    held++;
  }

  /** Blocks of another transfer that a rank is told of again. */
  final void planAgain(Transfer other, int index, int rank) {
    var from = other.plan;
    int position = from.position(index);
    entries[position] = other.entries[position];
    plan.add(
        position,
        from.slot(index),
        from.generation(index),
        from.seed(index),
        from.deviceBlock(index));
    plan.name(from.high(index), from.low(index), from.tenant(index), from.depth(index));
    ranks.expect(position, 1L << rank);
    planned++;
  }

  /** One block of no caller's, for these ranks. */
  final void planOwn(int slot, long generation, long seed, long targets) {
    plan.add(0, slot, generation, seed, 0);
    ranks.expect(0, targets);
    planned++;
  }

  /** The same of a block that is stored. */
  final void planOwn(int entry, long seed, long targets) {
    entries[0] = entry;
    planOwn(index.slot(entry), index.generation(entry), seed, targets);
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
  final RankAggregator.Answer onEnding(
      int rank, int position, BlockOutcome outcome, BlockFault fault, boolean blamesMedium) {
    assert state != State.PLANNED : "transfer " + id + " is " + state;
    if (position >= size) {
      return RankAggregator.Answer.DOUBLE;
    }
    var answer = ranks.report(rank, position, outcome);
    if (answer == RankAggregator.Answer.DOUBLE) {
      return answer;
    }
    int entry = entries[position];
    if (!outcome.isWell()) {
      if (faults == null || !faults.containsKey(position)) {
        addFault(position, told(entry, fault));
      }
      onFault(entry, outcome, blamesMedium ? 1L << rank : 0);
    }
    if (answer == RankAggregator.Answer.OVER) {
      boolean late = (reset || isUnwanted(entry)) && ranks.outcome(position).isWell();
      if (late) {
        addUnmoved(position, BlockOutcome.CANCELLED);
      }
      settle(entry, outcome(position));
      over++;
    }
    return answer;
  }

  /** A rank has let go of a block; answers whether it was the last of all. */
  final boolean onQuiet(int rank, int position) {
    if (position >= size || !ranks.quiet(rank, position)) {
      return false;
    }
    quiet++;
    onQuiet(entries[position]);
    return true;
  }

  final void onCopied(int rank, int position) {
    if (position < size) {
      ranks.copied(rank, position);
    }
  }

  /** Whether the caller may reuse the device block, as far as this transfer goes. */
  final boolean isReleased(int position) {
    return isReleased(ranks, position);
  }

  /** A device block is the caller's again; the fences of a transfer open with its last. */
  final boolean releaseDeviceBlock() {
    assert held > 0 : "transfer " + id + " holds no device block";
    return --held == 0;
  }

  final BlockFault faultOf(RankReport report, int at) {
    int position = report.position(at);
    return new BlockFault(
        report.outcome(at),
        report.stage(at),
        report.errno(at),
        position < size ? slotOf(entries[position]) : -1,
        report.bytesDone(at),
        blockBytes);
  }

  /** A rank that is lost ends all that it still owed. */
  final BlockFault engineFailed(int position) {
    return new BlockFault(
        BlockOutcome.ENGINE_FAILED, BlockStage.QUEUED, 0, slotOf(entries[position]), 0, blockBytes);
  }

  // Abort, drain, reset.

  /** Its endings are worth nothing any more: nothing of it is published. */
  final void reset() {
    reset = true;
  }

  /** Whether a command of this kind has yet to be sent; it is noted as sent. */
  final boolean mark(Operation command) {
    boolean sent = cancelled || (command == Operation.DRAIN && drained);
    cancelled |= command == Operation.CANCEL;
    drained = true;
    return !sent;
  }

  /** Whether something was ordered that leaves no time for a second try. */
  final boolean isOrdered() {
    return reset || drained;
  }

  /** Whether a rank has yet to tell how a block ends that is still wanted. */
  final boolean awaits(int rank, int position) {
    return plan.indexOf(position) >= 0
        && ranks.awaits(rank, position)
        && !isUnwanted(entries[position]);
  }

  final void add(Fence fence) {
    fences.add(fence);
  }

  final List<Fence> fences() {
    return fences;
  }

  final boolean holdsDeviceBlocks() {
    return held > 0;
  }

  final long request() {
    return request;
  }

  /** Which of all transfers it is, counted as they begin; 0 for a trial. */
  final long begunAs() {
    return begunAs;
  }

  final void begunAs(long count) {
    begunAs = count;
  }

  /** Whether the last planned block is over. */
  final boolean isOver() {
    return over == planned;
  }

  /** Whether no rank can touch any of its blocks any more. */
  final boolean isQuiet() {
    return quiet == planned;
  }

  final boolean isBlockOver(int position) {
    return ranks.isOver(position);
  }

  final boolean isBlockQuiet(int position) {
    return ranks.isQuiet(position);
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
      if (!ranks.isQuiet(position)) {
        onQuiet(entries[position]);
      }
    }
    return abandoned;
  }

  /** The result, once; the future is the caller's to complete. */
  final TransferResult complete(long now) {
    assert isOver() : "transfer " + id + " has " + (planned - over) + " blocks on their way";
    state = State.COMPLETED;
    if (!isQuiet()) {
      quietFuture = new CompletableFuture<>();
    }
    return new TransferResult(
        operation,
        size,
        faults == null ? new TreeMap<>() : faults,
        present == null ? new BitSet() : present,
        now - startedAt,
        quietFuture);
  }

  final long id() {
    return id;
  }

  final long startedAt() {
    return startedAt;
  }

  final State state() {
    return state;
  }

  final int size() {
    return size;
  }

  final int blockBytes() {
    return blockBytes;
  }

  final int planned() {
    return planned;
  }

  final int entry(int position) {
    return entries[position];
  }

  final int deviceBlock(int position) {
    return deviceBlocks[position];
  }

  /** How a block that is over ended. */
  final BlockOutcome outcome(int position) {
    var fault = faults == null ? null : faults.get(position);
    return fault == null ? ranks.outcome(position) : fault.outcome();
  }

  final CompletableFuture<Void> quietFuture() {
    return quietFuture;
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
