package dev.spillway.ledger;

import dev.spillway.block.BlockKeys;
import dev.spillway.block.BlockOutcome;
import dev.spillway.block.DeviceEvent;
import dev.spillway.block.KvLayout;
import dev.spillway.block.Operation;
import dev.spillway.block.RankReport;
import dev.spillway.block.TransferPlan;
import dev.spillway.block.TransferResult;
import dev.spillway.index.BlockIndex;
import dev.spillway.index.Lease;
import java.util.ArrayDeque;
import java.util.BitSet;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.function.LongSupplier;

/**
 * The failure bookkeeping: opens transfers, takes in endings, and lets every one of them pass once.
 * Endings that fit no open block are counted and harmless. Owned by the scheduler's thread.
 */
public final class TransferLedger {
  private static final long COUNT_MASK =
      (1L << (TransferPlan.ID_BITS - TransferPlan.PLACE_BITS)) - 1;

  private final BlockIndex index;
  private final KvLayout layout;
  private final int rankCount;
  private final int blocksInFlightMax;
  private final LongSupplier nanoClock;
  private final Consumer<TransferPlan> send;

  // Open transfers by the low bits of their id; the high bits are a count, so that an ending of an
  // earlier transfer at the same place is recognised.
  private final Transfer[] open;
  private final int[] freePlaces;
  private int freePlaceCount;
  private long opened;

  private final ArrayDeque<StoreTransfer> idleStores = new ArrayDeque<>();
  private final ArrayDeque<LoadTransfer> idleLoads = new ArrayDeque<>();
  private final ArrayDeque<Transfer> completed = new ArrayDeque<>();
  private final EntryList heldForStore = new EntryList();
  private final BitSet[] loading; // device blocks with a load in flight, by group
  private final int[][] storing; // stores in flight, by group and device block

  private int blocksInFlight;
  private final OutcomeCounts outcomes = new OutcomeCounts();
  private long storedBytes;
  private long loadedBytes;
  private long unknownEndings;
  private long doubleEndings;

  /**
   * @param deviceBlocks blocks of device memory, by group
   * @param send takes a plan to every rank
   */
  public TransferLedger(
      BlockIndex index,
      KvLayout layout,
      int[] deviceBlocks,
      int rankCount,
      int blocksInFlightMax,
      LongSupplier nanoClock,
      Consumer<TransferPlan> send) {
    this.index = index;
    this.layout = layout;
    this.rankCount = rankCount;
    this.blocksInFlightMax = blocksInFlightMax;
    this.nanoClock = nanoClock;
    this.send = send;
    int places = transfersMax(blocksInFlightMax);
    open = new Transfer[places];
    freePlaces = new int[places];
    for (int i = 0; i < places; i++) {
      freePlaces[i] = places - 1 - i;
    }
    freePlaceCount = places;
    loading = new BitSet[deviceBlocks.length];
    storing = new int[deviceBlocks.length][];
    for (int group = 0; group < deviceBlocks.length; group++) {
      loading[group] = new BitSet(deviceBlocks[group]);
      storing[group] = new int[deviceBlocks[group]];
    }
  }

  /** Transfers that can be open at a time, each with at least one block in flight. */
  public static int transfersMax(int blocksInFlightMax) {
    return Math.min(1 << TransferPlan.PLACE_BITS, Math.max(2, blocksInFlightMax));
  }

  // Down.

  /**
   * Stores the blocks of a prefix from {@code from} on. Blocks for which a bound is reached end as
   * {@code REJECTED}, keys that are there already as {@code PRESENT}; neither moves.
   */
  public CompletableFuture<TransferResult> store(
      int group, BlockKeys keys, int from, int[] deviceBlocks, DeviceEvent event) {
    checkForStore(group, deviceBlocks);
    int end = from + deviceBlocks.length;
    index.touch(group, keys, end);
    holdPresent(group, keys, end);
    var transfer = idleStores.isEmpty() ? new StoreTransfer(index, rankCount) : idleStores.pop();
    begin(transfer, group, deviceBlocks.length, event);
    int parent = from == 0 ? -1 : index.findAny(group, keys.high(from - 1), keys.low(from - 1));
    boolean full = false;
    for (int i = 0; i < deviceBlocks.length; i++) {
      long high = keys.high(from + i);
      long low = keys.low(from + i);
      int present = index.findAny(group, high, low);
      if (present >= 0) {
        transfer.addPresent(i);
        outcomes.add(BlockOutcome.PRESENT);
        parent = present;
        continue;
      }
      // Behind a gap a block is of no use, so the first that finds no slot is the last that asks.
      int entry = full ? BlockIndex.FULL : reserve(transfer, group, high, low, parent);
      full = entry < 0;
      if (full) {
        reject(transfer, i);
      } else {
        plan(transfer, group, i, entry, deviceBlocks[i]);
        storing[group][deviceBlocks[i]]++;
        parent = entry;
      }
    }
    heldForStore.forEach(index::release);
    heldForStore.clear();
    return launch(transfer);
  }

  private int reserve(Transfer transfer, int group, long high, long low, int parent) {
    return canStart(transfer) ? index.reserve(group, high, low, parent) : BlockIndex.FULL;
  }

  /** A store must not evict the prefix that it extends. */
  private void holdPresent(int group, BlockKeys keys, int count) {
    for (int i = 0; i < count; i++) {
      int entry = index.findAny(group, keys.high(i), keys.low(i));
      if (entry >= 0) {
        index.hold(entry);
        heldForStore.add(entry);
      }
    }
  }

  /** A store that admission declined: every block ends as {@code REJECTED}. */
  public CompletableFuture<TransferResult> decline(int group, int blockCount) {
    var transfer = idleStores.isEmpty() ? new StoreTransfer(index, rankCount) : idleStores.pop();
    begin(transfer, group, blockCount, DeviceEvent.NOW);
    for (int i = 0; i < blockCount; i++) {
      reject(transfer, i);
    }
    return launch(transfer);
  }

  /**
   * Loads the first blocks of a lease. A block whose entry has gone since the look-up, or for which
   * a bound is reached, ends as {@code REJECTED}: a late miss.
   */
  public CompletableFuture<TransferResult> load(
      Lease lease, int[] deviceBlocks, DeviceEvent event) {
    lease.checkUsableBy(index);
    int group = lease.group();
    claimForLoad(group, deviceBlocks);
    var transfer = idleLoads.isEmpty() ? new LoadTransfer(index, rankCount) : idleLoads.pop();
    begin(transfer, group, deviceBlocks.length, event);
    for (int i = 0; i < deviceBlocks.length; i++) {
      int entry = lease.entry(i);
      if (index.isStored(entry) && canStart(transfer)) {
        index.hold(entry);
        plan(transfer, group, i, entry, deviceBlocks[i]);
      } else {
        loading[group].clear(deviceBlocks[i]);
        reject(transfer, i);
      }
    }
    return launch(transfer);
  }

  private void begin(Transfer transfer, int group, int size, DeviceEvent event) {
    transfer.begin(group, size, layout.group(group).blockBytes(), event, nanoClock.getAsLong());
  }

  private boolean canStart(Transfer transfer) {
    boolean hasPlace = transfer.id() != Transfer.NO_ID || freePlaceCount > 0;
    return hasPlace && blocksInFlight < blocksInFlightMax;
  }

  /** A transfer takes a place among the open ones with its first block on the way. */
  private void open(Transfer transfer) {
    int place = freePlaces[--freePlaceCount];
    transfer.identify((++opened & COUNT_MASK) << TransferPlan.PLACE_BITS | place);
    open[place] = transfer;
  }

  private void plan(Transfer transfer, int group, int position, int entry, int deviceBlock) {
    if (transfer.id() == Transfer.NO_ID) {
      open(transfer);
    }
    long seed = seed(index.high(entry), index.low(entry), group, index.generation(entry));
    transfer.plan(position, entry, deviceBlock, seed);
    blocksInFlight++;
  }

  private void reject(Transfer transfer, int position) {
    transfer.addUnmoved(position, BlockOutcome.REJECTED);
    outcomes.add(BlockOutcome.REJECTED);
  }

  private CompletableFuture<TransferResult> launch(Transfer transfer) {
    var future = transfer.future();
    transfer.awaitRanks();
    if (transfer.isOver()) {
      completed.add(transfer);
    } else {
      send.accept(transfer.plan);
    }
    return future;
  }

  /** Everything that decides a block's bytes, and where and when they were written, as 64 bits. */
  static long seed(long high, long low, int group, long generation) {
    long mixed = high * 0x9e3779b97f4a7c15L ^ Long.rotateLeft(low, 31) * 0xc2b2ae3d27d4eb4fL;
    mixed ^= (generation + group) * 0x165667b19e3779f9L;
    mixed ^= mixed >>> 29;
    mixed *= 0x9fb21c651e98df25L;
    return mixed ^ mixed >>> 32;
  }

  // Up.

  /** Takes in the endings that a rank reports. Results are completed later, by {@link #finish}. */
  public void apply(RankReport report) {
    for (int i = 0; i < report.size(); i++) {
      onEnding(report, i);
    }
  }

  private void onEnding(RankReport report, int at) {
    long id = report.transferId(at);
    int place = (int) (id & TransferPlan.PLACE_MASK);
    var transfer = place < open.length ? open[place] : null;
    if (transfer == null || transfer.id() != id) {
      unknownEndings++;
      return;
    }
    switch (transfer.onEnding(report, at)) {
      case DOUBLE -> doubleEndings++;
      case WAITING -> {}
      case OVER -> onBlockOver(transfer, report.position(at));
    }
  }

  private void onBlockOver(Transfer transfer, int position) {
    blocksInFlight--;
    count(transfer, transfer.outcome(position));
    letGoOfDevice(transfer, position);
    if (transfer.isOver()) {
      completed.add(transfer);
    }
  }

  private void count(Transfer transfer, BlockOutcome outcome) {
    outcomes.add(outcome);
    int bytes = layout.group(transfer.plan.group()).blockBytes();
    if (outcome == BlockOutcome.STORED) {
      storedBytes += bytes;
    } else if (outcome == BlockOutcome.LOADED) {
      loadedBytes += bytes;
    }
  }

  private void letGoOfDevice(Transfer transfer, int position) {
    int group = transfer.plan.group();
    int block = transfer.deviceBlock(position);
    if (transfer.plan.operation() == Operation.STORE) {
      storing[group][block]--;
    } else {
      loading[group].clear(block);
    }
  }

  /**
   * Completes the results of transfers that are over, after all endings of this round were taken
   * in, so that whatever a caller does in answer meets a ledger at rest.
   *
   * @return how many were completed
   */
  public int finish() {
    int count = 0;
    // An answer to a result may poll, and so come here again: each is taken off first.
    for (var transfer = completed.poll(); transfer != null; transfer = completed.poll()) {
      var result = transfer.complete(nanoClock.getAsLong());
      var future = transfer.future();
      close(transfer);
      count++;
      future.complete(result);
    }
    return count;
  }

  private void close(Transfer transfer) {
    if (transfer.id() != Transfer.NO_ID) {
      int place = (int) (transfer.id() & TransferPlan.PLACE_MASK);
      open[place] = null;
      freePlaces[freePlaceCount++] = place;
    }
    if (transfer instanceof StoreTransfer store && idleStores.size() < open.length) {
      idleStores.push(store);
    } else if (transfer instanceof LoadTransfer load && idleLoads.size() < open.length) {
      idleLoads.push(load);
    }
  }

  /** Ends what no rank will report any more, because the engine is gone with its memory. */
  public void abandon(BlockOutcome outcome) {
    for (var transfer : open) {
      if (transfer != null && !transfer.isOver()) {
        outcomes.add(outcome, transfer.abandon(outcome));
        completed.add(transfer);
      }
    }
    blocksInFlight = 0;
    finish();
  }

  /** Whether a block has ended because its rank's engine did. */
  public boolean engineHasFailed() {
    return outcomes.get(BlockOutcome.ENGINE_FAILED) > 0;
  }

  public boolean isIdle() {
    return blocksInFlight == 0 && completed.isEmpty();
  }

  public int blocksInFlight() {
    return blocksInFlight;
  }

  public LedgerCounters counters() {
    return new LedgerCounters(
        outcomes.byName(), storedBytes, loadedBytes, unknownEndings, doubleEndings);
  }

  // Refusals, before anything has changed.

  private void checkForStore(int group, int[] blocks) {
    for (int i = 0; i < blocks.length; i++) {
      checkBound(group, i, blocks[i]);
      if (loading[group].get(blocks[i])) {
        throw inFlight(group, i, blocks[i], "a load in flight; wait for its result");
      }
    }
  }

  /** Marks the blocks as being loaded onto; takes all marks back where one is refused. */
  private void claimForLoad(int group, int[] blocks) {
    int claimed = 0;
    try {
      for (; claimed < blocks.length; claimed++) {
        int block = blocks[claimed];
        checkBound(group, claimed, block);
        if (loading[group].get(block)) {
          throw inFlight(
              group, claimed, block, "a load in flight or is given twice; wait for its result");
        }
        if (storing[group][block] > 0) {
          throw inFlight(group, claimed, block, "a store in flight; wait for its result");
        }
        loading[group].set(block);
      }
    } finally {
      if (claimed < blocks.length) {
        for (int i = 0; i < claimed; i++) {
          loading[group].clear(blocks[i]);
        }
      }
    }
  }

  private void checkBound(int group, int position, int block) {
    int count = storing[group].length;
    if (block < 0 || block >= count) {
      throw new IllegalArgumentException(
          "device block %d at position %d; group %d has blocks 0 to %d"
              .formatted(block, position, group, count - 1));
    }
  }

  private static IllegalArgumentException inFlight(
      int group, int position, int block, String what) {
    return new IllegalArgumentException(
        "device block %d at position %d of group %d has %s"
            .formatted(block, position, group, what));
  }
}
