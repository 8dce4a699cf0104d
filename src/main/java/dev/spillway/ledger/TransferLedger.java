package dev.spillway.ledger;

import dev.spillway.block.BlockFault;
import dev.spillway.block.BlockFault.NoRoom;
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
import dev.spillway.rank.RankAggregator;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.BiConsumer;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * The failure bookkeeping: opens transfers, takes in endings, and lets every one of them pass once.
 * Endings that fit no open block are counted and harmless. Owned by the scheduler's thread.
 */
public final class TransferLedger {
  private static final long COUNT_MASK =
      (1L << (TransferPlan.ID_BITS - TransferPlan.PLACE_BITS)) - 1;

  /** How many more blocks give way than have found no room. */
  private static final int MARGIN_BLOCKS = 8;

  private static final int PROBES_MAX = 4;
  private static final int ERASES_MAX = 16;
  private static final int USES_MAX = 1 << 16;

  /** Blocks in flight that no caller has asked for, for which engines have room besides. */
  public static final int OWN_BLOCKS_MAX = PROBES_MAX + ERASES_MAX + Scrub.IN_FLIGHT_MAX + 1;

  /** The request of transfers that belong to none. */
  public static final long NO_REQUEST = 0;

  private final BlockIndex index;
  private final KvLayout layout;
  private final int rankCount;
  private final int blocksInFlightMax;
  private final LongSupplier nanoClock;
  private final BiConsumer<Long, TransferPlan> send;
  private final long operationNanos;

  // Open transfers by the low bits of their id; the high bits are a count, so that an ending of an
  // earlier transfer at the same place is recognised.
  private final Transfer[] open;
  private final int[] freePlaces;
  private int freePlaceCount;
  private long opened;

  private final ArrayDeque<StoreTransfer> idleStores = new ArrayDeque<>();
  private final ArrayDeque<LoadTransfer> idleLoads = new ArrayDeque<>();
  private final CompletionLine completed;
  private final ArrayDeque<Fence> fenced = new ArrayDeque<>();
  private final ArrayDeque<CompletableFuture<Void>> quieted = new ArrayDeque<>();
  private final long allRanks;
  private long lostRanks;
  private boolean floorOpen; // ranks are writing one down
  private long nextFloor; // the generation up to which nothing is to count
  private final List<Fence> awaitingFloor = new ArrayList<>();
  private int probesOpen;
  private int erasesOpen;
  private final Scrub scrub;
  private final Map<Integer, List<Forgetting>> erasing = new HashMap<>();
  private final Map<Integer, List<Forgetting>> overwriting = new HashMap<>();
  private final ArrayDeque<Forgetting> forgotten = new ArrayDeque<>();
  private final StorePause pause;
  private final boolean givesWay;
  private final Map<StoreTransfer, SecondTry> secondTries = new LinkedHashMap<>(); // to be sent
  private final EntryList heldForStore = new EntryList();
  private final BitSet[] loading; // device blocks with a load in flight, by group
  private final int[][] storing; // stores in flight, by group and device block

  private int blocksInFlight;
  private int ownInFlight; // those of them that no caller has asked for
  private final OutcomeCounts outcomes = new OutcomeCounts();
  private final OutcomeCounts rankFaults = new OutcomeCounts();
  private long probeFaults;
  private long storedBytes;
  private long loadedBytes;
  private long unknownEndings;
  private long doubleEndings;

  /**
   * @param deviceBlocks blocks of device memory, by group
   * @param operationNanos how long a block may take on a rank; 0 for no bound
   * @param givesWay whether stored blocks give way to a store where a disk is full, which helps
   *     where the block files are sparse
   * @param scrubBytesPerSecond of stored blocks that are read and compared on each rank, at most; 0
   *     for none
   * @param ordered whether results are completed in the order of the calls
   * @param send takes a plan to some ranks, bit by bit
   */
  public TransferLedger(
      BlockIndex index,
      KvLayout layout,
      int[] deviceBlocks,
      int rankCount,
      int blocksInFlightMax,
      LongSupplier nanoClock,
      long operationNanos,
      boolean givesWay,
      long scrubBytesPerSecond,
      boolean ordered,
      BiConsumer<Long, TransferPlan> send) {
    this.index = index;
    this.layout = layout;
    this.rankCount = rankCount;
    this.blocksInFlightMax = blocksInFlightMax;
    this.nanoClock = nanoClock;
    this.send = send;
    this.operationNanos = operationNanos;
    this.givesWay = givesWay;
    pause = new StorePause(nanoClock);
    scrub = new Scrub(index, scrubBytesPerSecond);
    completed = new CompletionLine(ordered);
    allRanks = rankCount == RankAggregator.RANKS_MAX ? -1L : (1L << rankCount) - 1;
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

  /** In the place of a device block that the caller does not have: nothing moves for it. */
  public static final int NULL_BLOCK = -1;

  /** Transfers that can be open at a time, each with at least one block in flight. */
  public static int transfersMax(int blocksInFlightMax) {
    return Math.min(1 << TransferPlan.PLACE_BITS, blocksInFlightMax + OWN_BLOCKS_MAX);
  }

  // Down.

  /**
   * Stores the blocks of a prefix from {@code from} on. Blocks for which a bound is reached end as
   * {@code REJECTED}, keys that are there already as {@code PRESENT}; neither moves.
   */
  public CompletableFuture<TransferResult> store(
      long request, int group, BlockKeys keys, int from, int[] deviceBlocks, DeviceEvent event) {
    checkForStore(group, deviceBlocks);
    if (pause.isOn()) {
      return decline(group, deviceBlocks.length);
    }
    int end = from + deviceBlocks.length;
    index.touch(group, keys, end);
    holdPresent(group, keys, end);
    var transfer = idleStores.isEmpty() ? new StoreTransfer(index, rankCount) : idleStores.pop();
    begin(transfer, request, group, deviceBlocks.length, event);
    int parent = from == 0 ? -1 : index.findAny(group, keys.high(from - 1), keys.low(from - 1));
    boolean full = false;
    for (int i = 0; i < deviceBlocks.length; i++) {
      long high = keys.high(from + i);
      long low = keys.low(from + i);
      int present = index.findAny(group, high, low);
      if (deviceBlocks[i] == NULL_BLOCK) {
        transfer.addPresent(i);
        parent = present;
        continue;
      }
      if (present >= 0) {
        transfer.addPresent(i);
        outcomes.add(BlockOutcome.PRESENT);
        parent = present;
        continue;
      }
      // Behind a gap a block is of no use, so the first that finds no slot is the last that asks.
      int entry = full ? BlockIndex.FULL : reserve(transfer, group, keys, from + i, parent);
      full = entry < 0;
      if (full) {
        reject(transfer, i);
      } else {
        plan(transfer, group, i, entry, deviceBlocks[i], from + i);
        storing[group][deviceBlocks[i]]++;
        parent = entry;
      }
    }
    letGoForStore();
    return launch(transfer);
  }

  private int reserve(Transfer transfer, int group, BlockKeys keys, int at, int parent) {
    return canStart(transfer)
        ? index.reserve(group, keys.high(at), keys.low(at), keys.tenant(), parent)
        : BlockIndex.FULL;
  }

  /** A store must not evict the prefix that it extends. */
  private void holdPresent(int group, BlockKeys keys, int count) {
    for (int i = 0; i < count; i++) {
      int entry = index.findAny(group, keys.high(i), keys.low(i));
      if (entry >= 0) {
        holdForStore(entry);
      }
    }
  }

  private void holdForStore(int entry) {
    index.hold(entry);
    heldForStore.add(entry);
  }

  private void letGoForStore() {
    heldForStore.forEach(index::release);
    heldForStore.clear();
  }

  /** A store that admission declined: every block ends as {@code REJECTED}. */
  public CompletableFuture<TransferResult> decline(int group, int blockCount) {
    var transfer = idleStores.isEmpty() ? new StoreTransfer(index, rankCount) : idleStores.pop();
    begin(transfer, NO_REQUEST, group, blockCount, DeviceEvent.NOW);
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
      long request, Lease lease, int[] deviceBlocks, DeviceEvent event, long boundNanos) {
    lease.checkUsableBy(index);
    int group = lease.group();
    claimForLoad(group, deviceBlocks);
    var transfer = idleLoads.isEmpty() ? new LoadTransfer(index, rankCount) : idleLoads.pop();
    begin(transfer, request, group, deviceBlocks.length, event);
    if (boundNanos > 0) {
      transfer.plan.bound(operationNanos == 0 ? boundNanos : Math.min(boundNanos, operationNanos));
    }
    for (int i = 0; i < deviceBlocks.length; i++) {
      int entry = lease.entry(i);
      if (index.isStored(entry) && canStart(transfer)) {
        index.hold(entry);
        plan(transfer, group, i, entry, deviceBlocks[i], 0);
      } else {
        loading[group].clear(deviceBlocks[i]);
        reject(transfer, i);
      }
    }
    return launch(transfer);
  }

  private void begin(Transfer transfer, long request, int group, int size, DeviceEvent event) {
    int blockBytes = layout.group(group).blockBytes();
    transfer.begin(request, group, size, blockBytes, event, nanoClock.getAsLong());
    transfer.plan.bound(operationNanos);
  }

  private boolean canStart(Transfer transfer) {
    boolean hasPlace = transfer.id() != Transfer.NO_ID || freePlaceCount > 0;
    return hasPlace && blocksInFlight - ownInFlight < blocksInFlightMax && lostRanks == 0;
  }

  /** A transfer takes a place among the open ones with its first block on the way. */
  private void open(Transfer transfer) {
    int place = freePlaces[--freePlaceCount];
    transfer.identify((++opened & COUNT_MASK) << TransferPlan.PLACE_BITS | place);
    open[place] = transfer;
  }

  private void plan(
      Transfer transfer, int group, int position, int entry, int deviceBlock, int depth) {
    if (transfer.id() == Transfer.NO_ID) {
      open(transfer);
    }
    long seed = seed(index.high(entry), index.low(entry), group, index.generation(entry));
    transfer.plan(position, entry, deviceBlock, seed, depth);
    blocksInFlight++;
  }

  private void reject(Transfer transfer, int position) {
    transfer.addUnmoved(position, BlockOutcome.REJECTED);
    outcomes.add(BlockOutcome.REJECTED);
  }

  private CompletableFuture<TransferResult> launch(Transfer transfer) {
    var future = transfer.future();
    transfer.awaitRanks();
    completed.begun(transfer);
    if (transfer.isOver()) {
      completed.over(transfer);
    } else {
      send.accept(allRanks, transfer.plan);
    }
    return future;
  }

  /** What no caller waits for takes no room from callers. */
  private void launchOwn(Transfer transfer, long ranks) {
    open(transfer);
    blocksInFlight += transfer.planned();
    ownInFlight += transfer.planned();
    transfer.awaitRanks();
    send.accept(ranks, transfer.plan);
  }

  /** Everything that decides a block's bytes, and where and when they were written, as 64 bits. */
  public static long seed(long high, long low, int group, long generation) {
    long mixed = high * 0x9e3779b97f4a7c15L ^ Long.rotateLeft(low, 31) * 0xc2b2ae3d27d4eb4fL;
    mixed ^= (generation + group) * 0x165667b19e3779f9L;
    mixed ^= mixed >>> 29;
    mixed *= 0x9fb21c651e98df25L;
    return mixed ^ mixed >>> 32;
  }

  // Up.

  /** Takes in what a rank tells. Results are completed later, by {@link #finish}. */
  public void apply(RankReport report) {
    for (int i = 0; i < report.size(); i++) {
      onTold(report, i);
    }
    if (!secondTries.isEmpty()) {
      tryAgain(report.rank());
    }
  }

  private void onTold(RankReport report, int at) {
    long id = report.transferId(at);
    int place = (int) (id & TransferPlan.PLACE_MASK);
    var transfer = place < open.length ? open[place] : null;
    if (transfer == null || transfer.id() != id) {
      unknownEndings++;
      return;
    }
    if (report.position(at) < 0) {
      unknownEndings++;
      return;
    }
    if (isTriedAgain(transfer, report, at)) {
      countFault(transfer, report.outcome(at));
      return;
    }
    take(transfer, report, at);
    if (transfer instanceof SecondTry again) {
      take(again.first(), report, at);
    }
  }

  private void take(Transfer transfer, RankReport report, int at) {
    int rank = report.rank();
    int position = report.position(at);
    if (report.tells(at, RankReport.ENDED) && !isLost(rank)) {
      notePause(transfer, report, at);
      onEnding(
          transfer,
          rank,
          position,
          report.outcome(at),
          transfer.faultOf(report, at),
          report.tells(at, RankReport.MEDIUM));
    }
    boolean heldBefore = position < transfer.size() && !transfer.isReleased(position);
    if (report.tells(at, RankReport.COPIED)) {
      transfer.onCopied(rank, position);
    }
    boolean quiet = report.tells(at, RankReport.QUIET) && transfer.onQuiet(rank, position);
    if (heldBefore && transfer.isReleased(position)) {
      letGoOfDevice(transfer, position);
    }
    if (quiet) {
      onBlockQuiet(transfer);
    }
  }

  private void onEnding(
      Transfer transfer,
      int rank,
      int position,
      BlockOutcome outcome,
      BlockFault fault,
      boolean blamesMedium) {
    switch (transfer.onEnding(rank, position, outcome, fault, blamesMedium)) {
      case DOUBLE -> doubleEndings++;
      case WAITING -> countFault(transfer, outcome);
      case OVER -> {
        countFault(transfer, outcome);
        onBlockOver(transfer, position);
      }
    }
  }

  /** Disk faults by rank: what the lanes ended is what the ranks reported. */
  private void countFault(Transfer transfer, BlockOutcome outcome) {
    if (outcome.isOfDisk() && transfer.countsFaults()) {
      rankFaults.add(outcome);
      if (transfer.isOurOwn()) {
        probeFaults++;
      }
    }
  }

  private void onBlockOver(Transfer transfer, int position) {
    if (!transfer.isOurOwn()) {
      count(transfer, transfer.outcome(position));
    }
    if (transfer.isOver()) {
      completed.over(transfer);
    }
  }

  private void onBlockQuiet(Transfer transfer) {
    blocksInFlight--;
    ownInFlight -= transfer.isOurOwn() ? 1 : 0;
    // Where the result is out already, this was the last that was waited for.
    if (transfer.isQuiet() && transfer.state() == Transfer.State.COMPLETED) {
      quieted.add(transfer.quietFuture());
      close(transfer);
    }
  }

  private void notePause(Transfer transfer, RankReport report, int at) {
    if (report.tells(at, RankReport.NO_ROOM)) {
      pause.onNoRoom(noRoom(report, at));
    } else if (transfer instanceof StoreTransfer && report.outcome(at) == BlockOutcome.STORED) {
      pause.onStored(transfer.startedAt());
    }
  }

  private static NoRoom noRoom(RankReport report, int at) {
    return BlockFault.noRoom(report.errno(at)).orElse(NoRoom.FULL);
  }

  // Where there was no room.

  /** A block of a store that a rank has written nothing of, and may once more. */
  private boolean isTriedAgain(Transfer transfer, RankReport report, int at) {
    int told = RankReport.ENDED | RankReport.QUIET | RankReport.NO_ROOM;
    if (!givesWay
        || !(transfer instanceof StoreTransfer store)
        || !report.tells(at, told)
        || !noRoom(report, at).isForWantOfSpace()
        || pause.isOn()
        || store.isOrdered()
        || !store.awaits(report.rank(), report.position(at))
        || lostRanks != 0) {
      return false;
    }
    var again = secondTries.get(store);
    if (again == null) {
      if (freePlaceCount <= secondTries.size()) {
        return false;
      }
      again = new SecondTry(index, rankCount, store);
      again.begin(nanoClock.getAsLong());
      secondTries.put(store, again);
    }
    again.add(report, at);
    return true;
  }

  /** Others give way on all ranks, the rank gives their space back, and writes once more. */
  private void tryAgain(int rank) {
    var all = List.copyOf(secondTries.values());
    secondTries.clear();
    for (var again : all) {
      int group = again.plan.group();
      var punch = TransferPlan.command(Operation.PUNCH, 0);
      punch.begin(0, Operation.PUNCH, group, DeviceEvent.NOW);
      again.first().eachStored(this::holdForStore); // a store must not evict what it has stored
      index.evict(group, again.planned() + MARGIN_BLOCKS, slot -> punch.add(0, slot, 0, 0, 0));
      letGoForStore();
      if (punch.size() > 0) {
        send.accept(allRanks, punch);
      }
      launchOwn(again, 1L << rank);
    }
  }

  /**
   * A rank will report no ending any more: what it owed ends as {@code ENGINE_FAILED}, once. Its
   * fences stay: only its own word can say that its memory is quiet, and that is still taken in.
   *
   * @return false where that was known
   */
  public boolean rankLost(int rank) {
    if (isLost(rank)) {
      return false;
    }
    lostRanks |= 1L << rank;
    giveUpErasing();
    for (var transfer : open) {
      if (transfer == null || transfer.state() != Transfer.State.AWAITING_RANKS) {
        continue;
      }
      for (int i = 0; i < transfer.plan.size(); i++) {
        int position = transfer.plan.position(i);
        if (!transfer.isBlockOver(position)) {
          var fault = transfer.engineFailed(position);
          switch (transfer.onEnding(rank, position, fault.outcome(), fault, false)) {
            case DOUBLE, WAITING -> {}
            case OVER -> onBlockOver(transfer, position);
          }
        }
      }
    }
    return true;
  }

  public boolean isLost(int rank) {
    return (lostRanks >>> rank & 1) != 0;
  }

  // Abort, drain, reset.

  /**
   * Ends what a request has under way: its loads at once, its stores where they have not begun. A
   * store that has begun goes on, since its bytes are right.
   *
   * @return completes when neither kernel nor device can touch the request's device blocks
   */
  public CompletableFuture<Void> abort(long request) {
    var fence = new Fence();
    for (var transfer : open) {
      if (transfer != null && transfer.request() == request && request != NO_REQUEST) {
        boolean load = transfer.plan.operation() == Operation.LOAD;
        order(transfer, load ? Operation.CANCEL : Operation.DRAIN, fence);
      }
    }
    return answer(fence);
  }

  /** Drops what has not begun of these requests, and waits for what has as {@link #abort} does. */
  public CompletableFuture<Void> drain(long... requests) {
    var fence = new Fence();
    for (var transfer : open) {
      if (transfer != null && isOneOf(transfer.request(), requests)) {
        order(transfer, Operation.DRAIN, fence);
      }
    }
    return answer(fence);
  }

  private static boolean isOneOf(long request, long[] requests) {
    return request != NO_REQUEST && Arrays.stream(requests).anyMatch(each -> each == request);
  }

  /** Forgets everything that is stored, and publishes nothing of what is on its way. */
  public CompletableFuture<Void> reset() {
    index.clear();
    var fence = new Fence();
    fence.awaitOne();
    awaitingFloor.add(fence);
    nextFloor = index.lastGeneration();
    if (lostRanks != allRanks) {
      sendFloor(); // before the cancels, so that no record that is written later counts
    }
    for (var transfer : open) {
      if (transfer != null && !isOfSlots(transfer.plan.operation())) {
        transfer.reset();
        order(transfer, Operation.CANCEL, fence);
      }
    }
    sendFloor(); // where no rank is left the fence needs to know first what it waits for
    return answer(fence);
  }

  private static boolean isOfSlots(Operation operation) {
    return operation == Operation.PROBE || operation == Operation.FORGET;
  }

  /**
   * Has the ranks write down what a reset has voided; one after the other.
   *
   * @return how many words were sent
   */
  public int sendFloor() {
    if (floorOpen || awaitingFloor.isEmpty() || freePlaceCount == 0) {
      return 0;
    }
    var waiting = List.copyOf(awaitingFloor);
    awaitingFloor.clear();
    long targets = allRanks & ~lostRanks;
    if (targets == 0) {
      letGo(waiting);
      return 0;
    }
    floorOpen = true;
    var floor = new FloorTransfer(index, rankCount, outcome -> onFloor(waiting, outcome));
    begin(floor, NO_REQUEST, 0, 1, DeviceEvent.NOW);
    floor.planOwn(0, nextFloor, 0, targets);
    launchOwn(floor, targets);
    return 1;
  }

  /** Whether ranks have yet to write down what a reset has voided. */
  public boolean isVoiding() {
    return floorOpen || !awaitingFloor.isEmpty();
  }

  private void onFloor(List<Fence> waiting, BlockOutcome outcome) {
    floorOpen = false;
    boolean written = outcome == BlockOutcome.STORED;
    boolean lost = outcome == BlockOutcome.ENGINE_FAILED && lostRanks != 0; // it need not
    if (!written && !lost) {
      waiting.forEach(Fence::fail);
    }
    letGo(waiting);
  }

  private void letGo(List<Fence> fences) {
    for (var fence : fences) {
      if (fence.letGo()) {
        fenced.add(fence);
      }
    }
  }

  private void order(Transfer transfer, Operation command, Fence fence) {
    if (!transfer.isQuiet() && transfer.mark(command)) {
      send.accept(allRanks & ~lostRanks, TransferPlan.command(command, transfer.id()));
    }
    if (transfer.holdsDeviceBlocks()) {
      fence.await(transfer);
    }
  }

  private CompletableFuture<Void> answer(Fence fence) {
    if (fence.isOpen()) {
      fence.complete();
    }
    return fence.future();
  }

  // Retired slots.

  /** Sends a trial for retired slots whose time has come; a few at a time, behind all stores. */
  public int probeRetired() {
    int sent = 0;
    while (lostRanks == 0 && probesOpen < PROBES_MAX && freePlaceCount > 1) {
      var slot = index.nextToProbe(nanoClock.getAsLong());
      if (slot == null) {
        break;
      }
      sent++;
      probesOpen++;
      var probe = new ProbeTransfer(index, rankCount, slot, nanoClock);
      begin(probe, NO_REQUEST, slot.group(), 1, DeviceEvent.NOW);
      probe.planOwn(slot.slot(), 0, ++opened * 0x9e3779b97f4a7c15L, slot.ranks());
      launchOwn(probe, slot.ranks());
    }
    return sent;
  }

  /** Sends stored blocks whose turn it is to be read and compared; a few at a time. */
  public int scrub() {
    int sent = 0;
    while (lostRanks == 0 && freePlaceCount > 1) {
      long now = nanoClock.getAsLong();
      int entry = scrub.next(now);
      if (entry < 0) {
        break;
      }
      sent++;
      index.hold(entry);
      int group = index.group(entry);
      var look = new ScrubTransfer(index, rankCount);
      begin(look, NO_REQUEST, group, 1, DeviceEvent.NOW);
      long seed = seed(index.high(entry), index.low(entry), group, index.generation(entry));
      look.planOwn(entry, seed, allRanks);
      scrub.begin(look.blockBytes(), now);
      launchOwn(look, allRanks);
    }
    return sent;
  }

  /** Tells the ranks which blocks were used, for their records: now and then. */
  public void tellUses() {
    if (lostRanks != 0) {
      return;
    }
    var plans = new TransferPlan[layout.groups().size()];
    for (int group = 0; group < plans.length; group++) {
      plans[group] = new TransferPlan();
      plans[group].begin(0, Operation.TOUCH, group, DeviceEvent.NOW);
    }
    index.takeUsed(
        USES_MAX,
        entry ->
            plans[index.group(entry)].add(0, index.slot(entry), index.generation(entry), 0, 0));
    for (var plan : plans) {
      if (plan.size() > 0) {
        send.accept(allRanks, plan);
      }
    }
  }

  // What is to be forgotten.

  /** Overwrites slots whose blocks were forgotten and which nothing holds; a few at a time. */
  public int eraseForgotten() {
    int sent = 0;
    while (lostRanks == 0 && erasesOpen < ERASES_MAX && freePlaceCount > 1) {
      int entry = index.nextToErase();
      if (entry < 0) {
        break;
      }
      sent++;
      erasesOpen++;
      var erase = new EraseTransfer(index, rankCount, entry, this::onErased);
      begin(erase, NO_REQUEST, index.group(entry), 1, DeviceEvent.NOW);
      erase.planOwn(index.slot(entry), 0, ++opened * 0x9e3779b97f4a7c15L, allRanks);
      launchOwn(erase, allRanks);
    }
    return sent;
  }

  private void onErased(int entry, boolean clean) {
    erasesOpen--;
    over(erasing.remove(entry), clean);
    over(overwriting.remove(entry), clean);
  }

  private void over(@Nullable List<Forgetting> waiting, boolean clean) {
    if (waiting != null) {
      waiting.forEach(forgetting -> over(forgetting, clean));
    }
  }

  private void over(Forgetting forgetting, boolean clean) {
    if (forgetting.over(clean)) {
      forgotten.add(forgetting);
    }
  }

  private void takeOverwritten() {
    for (int entry = index.nextOverwritten(); entry >= 0; entry = index.nextOverwritten()) {
      over(overwriting.remove(entry), true);
    }
  }

  /** What was to be overwritten and was not can no more be. */
  public void giveUpErasing() {
    takeOverwritten();
    for (var map : List.of(erasing, overwriting)) {
      var given = List.copyOf(map.values());
      map.clear();
      given.forEach(waiting -> over(waiting, false));
    }
  }

  /** Whether slots have yet to be overwritten. */
  public boolean isErasing() {
    return !erasing.isEmpty() || !overwriting.isEmpty();
  }

  /** The wait is over when the store into the slot has overwritten it, or else an erasure has. */
  public void awaitOverwriting(int entry, Forgetting forgetting) {
    forgetting.begin();
    if (lostRanks == 0) {
      overwriting.computeIfAbsent(entry, unused -> new ArrayList<>(1)).add(forgetting);
    } else {
      over(forgetting, false);
    }
  }

  /** No look-up finds the block, at once; the wait is over when its slot was overwritten. */
  public void forget(int entry, Forgetting forgetting) {
    index.forget(entry);
    forgetting.begin();
    if (lostRanks == 0) {
      erasing.computeIfAbsent(entry, unused -> new ArrayList<>(1)).add(forgetting);
    } else {
      over(forgetting, false);
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
    if (transfer.releaseDeviceBlock()) {
      letGo(transfer.fences());
      transfer.fences().clear();
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
    takeOverwritten();
    // An answer to a result may poll, and so come here again: each is taken off first.
    // An answer that begins another transfer gets its result in another round, so that this ends.
    long round = completed.round();
    for (var transfer = completed.next(round); transfer != null; transfer = completed.next(round)) {
      var result = transfer.complete(nanoClock.getAsLong());
      var future = transfer.future();
      boolean ours = transfer.isOurOwn();
      if (transfer.isQuiet()) {
        close(transfer);
      }
      if (!ours) {
        count++;
        future.complete(result);
      }
    }
    for (var fence = fenced.poll(); fence != null; fence = fenced.poll()) {
      fence.complete();
    }
    for (var future = quieted.poll(); future != null; future = quieted.poll()) {
      future.complete(null);
    }
    for (var done = forgotten.poll(); done != null; done = forgotten.poll()) {
      done.complete();
    }
    return count;
  }

  private void close(Transfer transfer) {
    if (transfer.id() != Transfer.NO_ID) {
      int place = (int) (transfer.id() & TransferPlan.PLACE_MASK);
      open[place] = null;
      freePlaces[freePlaceCount++] = place;
    }
    if (transfer instanceof ProbeTransfer) {
      probesOpen--;
    } else if (transfer instanceof ScrubTransfer look) {
      scrub.end(look.outcome(0), look.blockBytes());
      return;
    }
    if (transfer instanceof StoreTransfer store && idleStores.size() < open.length) {
      idleStores.push(store);
    } else if (transfer instanceof LoadTransfer load && idleLoads.size() < open.length) {
      idleLoads.push(load);
    }
  }

  /**
   * Ends what no rank will report any more, because the engine is gone with its memory.
   *
   * @param leaked whether kernel or device may still touch memory, which is then never reused
   */
  public void abandon(BlockOutcome outcome, boolean leaked) {
    var unquiet = new ArrayList<Transfer>();
    var fences = new ArrayList<CompletableFuture<Void>>();
    if (lostRanks != allRanks) {
      awaitingFloor.forEach(Fence::fail);
    }
    letGo(awaitingFloor);
    awaitingFloor.clear();
    for (var transfer : open) {
      if (transfer == null) {
        continue;
      }
      transfer.fences().forEach(fence -> fences.add(fence.future()));
      if (!transfer.isQuiet()) {
        unquiet.add(transfer);
      }
      int ended = transfer.abandon(outcome);
      if (!transfer.isOurOwn()) {
        outcomes.add(outcome, ended);
      }
      if (ended > 0) {
        completed.over(transfer);
      }
    }
    blocksInFlight = 0;
    ownInFlight = 0;
    finish(); // whose results get the futures of the quiet that is yet to come
    unquiet.forEach(transfer -> fences.add(transfer.quietFuture()));
    for (var future : fences) {
      if (leaked) {
        future.completeExceptionally(
            new IllegalStateException("closed while the kernel or the device owned memory"));
      } else {
        future.complete(null);
      }
    }
  }

  /** Whether a block has ended because its rank's engine did. */
  public boolean engineHasFailed() {
    return lostRanks != 0 || outcomes.get(BlockOutcome.ENGINE_FAILED) > 0;
  }

  /**
   * Whether nothing of a caller's is under way; trials of retired slots and the scrub are nobody's.
   */
  public boolean isIdle() {
    return blocksInFlight == ownInFlight
        && erasesOpen == 0
        && !floorOpen
        && awaitingFloor.isEmpty()
        && completed.isEmpty()
        && fenced.isEmpty()
        && quieted.isEmpty()
        && forgotten.isEmpty();
  }

  public int blocksInFlight() {
    return blocksInFlight;
  }

  public LedgerCounters counters() {
    return new LedgerCounters(
        outcomes.byName(),
        rankFaults.byName(),
        probeFaults,
        pause.count(),
        pause.cause(),
        scrub.counters(),
        storedBytes,
        loadedBytes,
        unknownEndings,
        doubleEndings);
  }

  // Refusals, before anything has changed.

  private void checkForStore(int group, int[] blocks) {
    for (int i = 0; i < blocks.length; i++) {
      if (blocks[i] == NULL_BLOCK) {
        continue;
      }
      checkBound(group, i, blocks[i]);
      if (loading[group].get(blocks[i])) {
        throw inFlight(group, i, blocks[i], "a load in flight; wait for its result");
      }
    }
  }

  /** Refuses a load of several groups before anything of it has begun. */
  public void checkForLoad(Lease lease, int[] blocks) {
    lease.checkUsableBy(index);
    claimForLoad(lease.group(), blocks);
    for (int block : blocks) {
      loading[lease.group()].clear(block);
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
