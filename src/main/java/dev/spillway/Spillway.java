package dev.spillway;

import dev.spillway.SpillwayStats.Restored;
import dev.spillway.SpillwayStats.Scrubbed;
import dev.spillway.SpillwayStats.StoredFile;
import dev.spillway.block.BlockKey;
import dev.spillway.block.BlockKeys;
import dev.spillway.block.BlockOutcome;
import dev.spillway.block.DeviceEvent;
import dev.spillway.block.LoadResult;
import dev.spillway.block.PrefixHasher;
import dev.spillway.block.RestoredBlocks;
import dev.spillway.block.TransferPlan;
import dev.spillway.block.TransferResult;
import dev.spillway.engine.EngineMode;
import dev.spillway.engine.EngineStats;
import dev.spillway.engine.NativeEngine;
import dev.spillway.index.BlockIndex;
import dev.spillway.index.Lease;
import dev.spillway.index.PrefixLease;
import dev.spillway.index.PrefixRule;
import dev.spillway.ledger.Forgetting;
import dev.spillway.ledger.TransferLedger;
import dev.spillway.policy.AdmissionPolicy;
import dev.spillway.policy.LoadFailurePolicy;
import dev.spillway.rank.RestoredRanks;
import dev.spillway.worker.IndexFile;
import java.io.IOException;
import java.nio.channels.ByteChannel;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BiConsumer;
import java.util.function.IntConsumer;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps blocks of a KV cache on disk for one scheduler. {@link #store}, {@link #lookup} and {@link
 * #load} only plan; {@link #poll}, called once a scheduler step, takes in what has ended and
 * completes results. None of them waits.
 *
 * <p>One thread owns it: the first that calls after open. Device blocks of a transfer stay
 * Spillway's from the call until its result; the caller must neither reuse nor free them before.
 */
public final class Spillway implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(Spillway.class);

  /** In the place of a device block that is not there: a store moves nothing for it. */
  public static final int NULL_BLOCK = TransferLedger.NULL_BLOCK;

  private static final long USES_NANOS = 1_000_000_000;
  private static final int RUNS_AHEAD = 4;
  private static final Duration NAP = Duration.ofMillis(5);
  private static final Duration SLEEP_MAX = Duration.ofHours(1);
  private static final Duration BOUND_MAX = Duration.ofDays(1);
  private static final Duration IDLE_WAIT_MAX = Duration.ofDays(365);

  private final List<Rank> ranks;
  private final OwnerWaker waker;
  private final EngineMode mode; // of rank 0
  private final PrefixRule rule;
  private final BlockIndex index;
  private final TransferLedger ledger;
  private final boolean threads;
  private final boolean hasRemote;
  private final boolean hasCuda;
  private final Duration rankLease;
  private final AdmissionPolicy admission;
  private final Duration closeWait;
  private final LongSupplier nanoClock;
  private final RestoredRanks restored;
  private boolean unread; // records may name more than was told
  private final boolean keepsRecords;

  private volatile @Nullable Thread owner;
  private boolean closed;
  private int lostToSay = 1;
  private long lookups;
  private long lookupBlocks;
  private long hitBlocks;
  private boolean inOrder;
  private boolean released;
  private long usesToldAt;
  private final List<ForgetLater> forgetLater = new ArrayList<>();
  private long displaced;

  /** Over ranks that are open, rank 0 first. */
  Spillway(SpillwayConfig config, List<Rank> ranks, OwnerWaker waker, LongSupplier nanoClock) {
    this.ranks = List.copyOf(ranks);
    this.waker = waker;
    this.nanoClock = nanoClock;
    mode = ranks.get(0).mode();
    var layout = config.layout();
    rule = new PrefixRule(layout);
    long epoch = ranks.stream().mapToLong(rank -> rank.hello().epoch()).max().orElseThrow();
    ranks.forEach(rank -> rank.begin(epoch));
    restored = new RestoredRanks(ranks.size());
    index = new BlockIndex(smallestOf(ranks), epoch, config.probeInterval().toNanos());
    var deviceBlocks = new int[layout.groups().size()];
    Arrays.setAll(deviceBlocks, config::deviceBlocks);
    ledger =
        new TransferLedger(
            index,
            layout,
            deviceBlocks,
            ranks.size(),
            config.blocksInFlightMax(),
            nanoClock,
            config.operationBound().toNanos(),
            config.givesWay(),
            config.scrubBytesPerSecond(),
            config.orderedResults(),
            this::send);
    admission = config.admission();
    keepsRecords = config.warmRestart();
    closeWait = config.closeWait();
    threads = hasThreads(config);
    hasRemote = !config.channels().isEmpty();
    hasCuda = config.hasCuda();
    rankLease = config.rankLease();
  }

  /** A slot must be there on every rank. */
  private static List<Long> smallestOf(List<Rank> ranks) {
    var counts = new ArrayList<>(ranks.get(0).hello().slotCounts());
    for (var rank : ranks) {
      for (int group = 0; group < counts.size(); group++) {
        counts.set(group, Math.min(counts.get(group), rank.hello().slotCounts().get(group)));
      }
    }
    return counts;
  }

  private static boolean hasThreads(SpillwayConfig config) {
    return config.workerThread() || config.rankCount() > 1 || config.localRanks() == 0;
  }

  /**
   * Opens or takes over the block files, one for each rank, in the configured directory, and waits
   * for the ranks in other processes to say hello.
   *
   * @throws dev.spillway.engine.OpenRefusedException where that cannot be, with its reason; nothing
   *     is left behind
   * @throws IllegalStateException where a rank in another process says no hello within the time
   *     that is waited for a lock, or does not belong here
   * @throws UnsatisfiedLinkError where the native library cannot be loaded, with its reason
   */
  public static Spillway open(SpillwayConfig config) {
    var waker = new OwnerWaker();
    var ranks = new ArrayList<Rank>();
    try {
      for (int rank = 0; rank < config.localRanks(); rank++) {
        ranks.add(openLocal(config, rank, waker));
      }
      for (var channel : config.channels()) {
        ranks.add(
            new RemoteRank(
                channel,
                config.rankLease(),
                config.lockWait(),
                TransferPlan.PLANS_A_TRANSFER
                    * TransferLedger.transfersMax(config.blocksInFlightMax()),
                waker::wake));
      }
      ranks.sort(Comparator.comparingInt(rank -> rank.hello().rank()));
      checkBelongTogether(config, ranks);
      var spillway = new Spillway(config, ranks, waker, System::nanoTime);
      spillway.logMode(config);
      spillway.awaitRestored(config.restoreWait());
      spillway.owner = null; // the first that calls
      return spillway;
    } catch (RuntimeException | Error e) {
      ranks.forEach(Rank::discard);
      ranks.forEach(Rank::close);
      config.channels().forEach(Spillway::closeQuietly);
      throw e;
    }
  }

  /**
   * What lies in a directory: superblocks, records, ages, groups. Reads only, and takes no lock, so
   * that it may be asked beside an owner. A file that cannot be read, or is none of Spillway's,
   * says why as its trouble.
   *
   * @throws IOException where the directory cannot be read
   */
  public static List<StoredFile> inspect(Path directory) throws IOException {
    return StoredFiles.in(directory).stream().map(StoredFiles::inspect).toList();
  }

  /**
   * Reads every block in a directory that nobody has open and compares its checksum. A file that
   * cannot be opened, is none of Spillway's, or is in use, says why as its trouble.
   *
   * @param bytesPerSecond at most
   * @throws IOException where the directory cannot be read
   */
  public static List<StoredFile> verify(Path directory, long bytesPerSecond) throws IOException {
    if (bytesPerSecond < 1) {
      throw new IllegalArgumentException(
          "bytesPerSecond is " + bytesPerSecond + "; at least 1 would be right");
    }
    return StoredFiles.in(directory).stream()
        .map(path -> StoredFiles.verify(path, bytesPerSecond))
        .toList();
  }

  private static void closeQuietly(ByteChannel channel) {
    try {
      channel.close();
    } catch (IOException e) {
      LOG.warn("a rank's channel could not be closed", e);
    }
  }

  private static Rank openLocal(SpillwayConfig config, int rank, OwnerWaker waker) {
    LocalRank.checkRecords(rank, config.rankCount(), config);
    var engine = NativeEngine.open(config.engineOptions(rank, rank, config.rankCount()));
    IndexFile records = null;
    try {
      records = LocalRank.recordsOf(engine, rank, config.rankCount(), config);
      return new LocalRank(
          engine,
          LocalRank.helloOf(engine, rank, config.rankCount(), config.layout(), records),
          records,
          TransferLedger.transfersMax(config.blocksInFlightMax()),
          config.secondClock(),
          hasThreads(config) ? waker::wake : null);
    } catch (RuntimeException | Error e) {
      LocalRank.undo(engine, records);
      throw e;
    }
  }

  private static void checkBelongTogether(SpillwayConfig config, List<Rank> ranks) {
    if (ranks.isEmpty()) {
      throw new IllegalArgumentException("no rank at all; addRank(channel) would be right");
    }
    long fingerprint = config.layout().fingerprint();
    for (int rank = 0; rank < ranks.size(); rank++) {
      var hello = ranks.get(rank).hello();
      if (hello.rank() != rank || hello.rankCount() != ranks.size()) {
        throw new IllegalStateException(
            "rank %d of %d where rank %d of %d would be right"
                .formatted(hello.rank(), hello.rankCount(), rank, ranks.size()));
      }
      if (hello.fingerprint() != fingerprint) {
        throw new IllegalStateException(
            "rank %d has layout %016x; that of the scheduler is %016x"
                .formatted(rank, hello.fingerprint(), fingerprint));
      }
    }
  }

  // What a scheduler calls.

  /**
   * Stores the blocks of a prefix from position {@code from} on, one for each device block, now.
   *
   * @see #store(int, BlockKeys, int, int[], DeviceEvent)
   */
  public CompletableFuture<TransferResult> store(BlockKeys keys, int from, int[] deviceBlocks) {
    return store(0, keys, from, deviceBlocks, DeviceEvent.NOW);
  }

  /**
   * Stores blocks of a prefix: those at positions {@code from} to {@code from +
   * deviceBlocks.length} of {@code keys}. Each becomes visible to look-ups on its own, once it is
   * written.
   *
   * @param group KV group of the layout
   * @param keys the prefix from its root; read during the call only
   * @param deviceBlocks where the blocks lie, device block numbers of the group
   * @param event after which the blocks are whole
   * @return the result, completed by {@link #poll}; never exceptionally
   * @throws IllegalArgumentException where an argument is out of bounds or a block is being loaded
   *     onto; nothing has changed then
   * @throws EngineFailedException once the engine has failed
   */
  public CompletableFuture<TransferResult> store(
      int group, BlockKeys keys, int from, int[] deviceBlocks, DeviceEvent event) {
    return begin(TransferLedger.NO_REQUEST, group, keys, from, deviceBlocks, event);
  }

  /**
   * The same for a request, by which it can be drained or aborted. A device block of {@link
   * #NULL_BLOCK} moves nothing.
   *
   * @param request the caller's number for it, not 0
   */
  public CompletableFuture<TransferResult> store(
      long request, int group, BlockKeys keys, int from, int[] deviceBlocks, DeviceEvent event) {
    checkRequest(request);
    return begin(request, group, keys, from, deviceBlocks, event);
  }

  private CompletableFuture<TransferResult> begin(
      long request, int group, BlockKeys keys, int from, int[] deviceBlocks, DeviceEvent event) {
    checkEvent(event);
    checkOwner();
    checkEngine();
    checkRange(group, keys, from, deviceBlocks.length);
    if (!admission.admit(group, from, deviceBlocks.length)) {
      return ledger.decline(group, deviceBlocks.length);
    }
    var result = ledger.store(request, group, keys, from, deviceBlocks, event);
    drive();
    return result;
  }

  /** A lease on the stored blocks of a prefix, from its root up to the first that is missing. */
  public Lease lookup(BlockKeys keys) {
    return lookup(0, keys, 0);
  }

  /**
   * A lease on the stored blocks of a prefix from position {@code from} up to the first that is
   * missing; empty where that is the first. The whole prefix counts as used.
   *
   * @param keys the prefix from its root; read during the call only
   */
  public Lease lookup(int group, BlockKeys keys, int from) {
    checkOwner();
    checkOpen();
    checkRange(group, keys, from, 0);
    var lease = Lease.take(index, group, keys, from);
    lookups++;
    lookupBlocks += keys.size() - from;
    hitBlocks += lease.size();
    return lease;
  }

  /** Loads the first blocks of a lease, one for each device block, now. */
  public CompletableFuture<TransferResult> load(Lease lease, int[] deviceBlocks) {
    return load(lease, deviceBlocks, DeviceEvent.NOW);
  }

  /**
   * Loads the first {@code deviceBlocks.length} blocks of a lease. A block that fails is not
   * copied, its entry is gone before the result says so, and the others are not affected.
   *
   * @param deviceBlocks where to, device block numbers of the lease's group, each at most once
   * @param event after which they may be overwritten
   * @return the result, completed by {@link #poll}; never exceptionally
   * @throws IllegalArgumentException where an argument is out of bounds or a block is in flight;
   *     nothing has changed then
   * @throws EngineFailedException once the engine has failed
   */
  public CompletableFuture<TransferResult> load(
      Lease lease, int[] deviceBlocks, DeviceEvent event) {
    checkEvent(event);
    checkOwner();
    checkEngine();
    if (deviceBlocks.length > lease.size()) {
      throw new IllegalArgumentException(
          "%d device blocks for a lease of %d blocks; at most that would be right"
              .formatted(deviceBlocks.length, lease.size()));
    }
    var result = ledger.load(TransferLedger.NO_REQUEST, lease, deviceBlocks, event, 0);
    drive();
    return result;
  }

  /**
   * A lease on the longest prefix that every KV group can serve: full attention all of its blocks,
   * a sliding window those of its window, recurrent state the snapshot at its end.
   *
   * @param keys of the prefix in each group, group 0 first; read during the call only
   * @param fromTokens what the device has already in every group, a multiple of {@link
   *     #unitTokens}; a lookup from any other place finds nothing
   * @param untilTokens the longest prefix that is wanted
   */
  public PrefixLease lookup(List<BlockKeys> keys, int fromTokens, int untilTokens) {
    checkOwner();
    checkOpen();
    if (keys.size() != mode.slotCounts().size() || fromTokens < 0) {
      throw new IllegalArgumentException(
          "keys of %d groups from token %d; those of %d groups from 0 on would be right"
              .formatted(keys.size(), fromTokens, mode.slotCounts().size()));
    }
    for (int group = 0; group < keys.size(); group++) {
      if (keys.get(group).size() < rule.blocksOf(group, fromTokens)) {
        throw new IllegalArgumentException(
            "%d keys of group %d for a prefix from token %d on; at least %d would be right"
                .formatted(
                    keys.get(group).size(), group, fromTokens, rule.blocksOf(group, fromTokens)));
      }
    }
    boolean aligned = fromTokens % rule.unitTokens() == 0;
    int until = aligned ? Math.max(fromTokens, untilTokens) : fromTokens;
    var lease = PrefixLease.take(index, rule, keys, fromTokens, until);
    lookups++;
    for (int group = 0; group < keys.size(); group++) {
      lookupBlocks += Math.max(0, rule.blocksOf(group, until) - rule.blocksOf(group, fromTokens));
      hitBlocks += lease.group(group).size();
    }
    return lease;
  }

  /** Tokens of which a prefix over all groups is a multiple: whole blocks in each of them. */
  public int unitTokens() {
    return rule.unitTokens();
  }

  /**
   * Loads what a lease over all groups needs, for a request.
   *
   * @param request the caller's number for it, by which it can be drained or aborted; 0 for none
   * @param deviceBlocks where to, for each group as many as its lease has
   * @param event after which they may be overwritten
   * @param bound after which a block that has not ended is {@code EXPIRED}, one day at most; zero
   *     for none but that of every operation
   * @param policy what is to become of the request if a block fails; asked where one does
   * @return what failed, by group and block, and the longest prefix that is valid in every group;
   *     never exceptionally: where the policy throws, the request fails
   */
  public CompletableFuture<LoadResult> load(
      long request,
      PrefixLease lease,
      List<int[]> deviceBlocks,
      DeviceEvent event,
      Duration bound,
      LoadFailurePolicy policy) {
    checkEvent(event);
    Objects.requireNonNull(policy, "policy; LoadFailurePolicy.fail() is the default elsewhere");
    if (bound.isNegative() || bound.compareTo(BOUND_MAX) > 0) {
      throw new IllegalArgumentException("bound is " + bound + "; zero to one day would be right");
    }
    checkOwner();
    checkEngine();
    var leases = lease.groups();
    for (int group = 0; group < leases.size(); group++) {
      if (deviceBlocks.size() != leases.size()) {
        throw new IllegalArgumentException(
            "device blocks for %d groups; those of %d groups would be right"
                .formatted(deviceBlocks.size(), leases.size()));
      }
      if (deviceBlocks.get(group).length != leases.get(group).size()) {
        throw new IllegalArgumentException(
            "%d device blocks for group %d; %d would be right"
                .formatted(deviceBlocks.get(group).length, group, leases.get(group).size()));
      }
      ledger.checkForLoad(leases.get(group), deviceBlocks.get(group));
    }
    var results = new ArrayList<CompletableFuture<TransferResult>>();
    for (int group = 0; group < leases.size(); group++) {
      results.add(
          ledger.load(request, leases.get(group), deviceBlocks.get(group), event, bound.toNanos()));
    }
    drive();
    return CompletableFuture.allOf(results.toArray(CompletableFuture[]::new))
        .thenApply(
            done ->
                resultOf(lease, results.stream().map(CompletableFuture::join).toList(), policy));
  }

  private LoadResult resultOf(
      PrefixLease lease, List<TransferResult> results, LoadFailurePolicy policy) {
    var leases = lease.groups();
    int valid =
        rule.longest(
            lease.fromTokens(),
            lease.tokens(),
            (group, block) -> {
              int at = block - leases.get(group).from();
              var result = results.get(group);
              return at >= 0 && at < result.size() && result.outcome(at).isWell();
            });
    var firstBlocks = leases.stream().map(Lease::from).toList();
    var result = new LoadResult(results, firstBlocks, lease.tokens(), valid, false);
    if (result.isWell()) {
      return result;
    }
    return new LoadResult(results, firstBlocks, lease.tokens(), valid, fails(policy, result));
  }

  /** A policy that does not know is taken at its safest. */
  private static boolean fails(LoadFailurePolicy policy, LoadResult result) {
    try {
      return policy.decide(result.causes(), result.validTokens(), result.askedTokens())
          != LoadFailurePolicy.Decision.RECOMPUTE;
    } catch (RuntimeException | Error e) { // it is the user's code
      LOG.error("a load failure policy has thrown; its request fails", e);
      return true;
    }
  }

  /**
   * Ends what a request has under way: loads at once, stores where they have not begun; one that
   * has is finished and kept, since its bytes are right. Its results complete as ever.
   *
   * @return completes in {@link #poll}, when neither kernel nor device can touch the request's
   *     device blocks: only then may they be reused
   */
  public CompletableFuture<Void> abort(long request) {
    checkRequest(request);
    checkOwner();
    checkOpen();
    var quiet = ledger.abort(request);
    drive();
    return quiet;
  }

  /**
   * For preemption: drops what has not begun of these requests, lets the rest go on, and completes
   * when neither kernel nor device can touch their device blocks; of a store that is when its
   * blocks are copied.
   */
  public CompletableFuture<Void> drain(long... requests) {
    for (long request : requests) {
      checkRequest(request);
    }
    checkOwner();
    checkOpen();
    var quiet = ledger.drain(requests);
    drive();
    return quiet;
  }

  /**
   * Forgets all that is stored, at once. What is in flight ends as {@code CANCELLED} and is never
   * found. Leases that are open stay valid as to memory, but loads from them are late misses.
   *
   * @return completes in {@link #poll} when neither kernel nor device can touch any device block,
   *     and every rank has written down that nothing of before counts: a process that is killed
   *     after that brings nothing back; with an {@link IllegalStateException} where a rank could
   *     not write it down: what was stored before may come back at the next open, and another reset
   *     tries again
   */
  public CompletableFuture<Void> reset() {
    checkOwner();
    checkOpen();
    endRestoring();
    var quiet = ledger.reset();
    drive();
    return quiet;
  }

  /**
   * Forgets blocks for good: no look-up finds them from now on, and their slots are overwritten on
   * every rank, also those of copies that were evicted before; so are their records. Looks at every
   * slot once.
   *
   * @param keys the blocks, wherever they stand in a prefix; read during the call only
   * @return completes in {@link #poll} when their slots were overwritten, with the number of blocks
   *     that could not be: 0 mostly; their records are erased some 20 ms behind. A block that a
   *     lease holds waits for its lease; a block that is being stored ends as {@code CANCELLED} and
   *     is overwritten. What had lost its name before, which {@code docs/OPERATIONS.md} tells, is
   *     not among them
   */
  public CompletableFuture<Integer> forget(int group, BlockKeys keys) {
    checkOwner();
    checkOpen();
    checkRange(group, keys, 0, 0);
    var named = new HashSet<BlockKey>();
    for (int i = 0; i < keys.size(); i++) {
      named.add(keys.get(i));
    }
    return forget(
        (action, onDoubt) -> index.eachOfKeys(group, named, action, onDoubt),
        (run, i) -> run.group() == group && named.contains(new BlockKey(run.high(i), run.low(i))));
  }

  /**
   * The same for all blocks of a tenant, in every group: those whose keys were made with this salt.
   *
   * @param salt as given to {@link dev.spillway.block.PrefixHasher}, not empty
   */
  public CompletableFuture<Integer> forgetTenant(String salt) {
    checkOwner();
    checkOpen();
    if (salt.isEmpty()) {
      throw new IllegalArgumentException("an empty salt is no tenant's; reset() forgets all");
    }
    long tenant = PrefixHasher.tenantOf(salt);
    return forget(
        (action, onDoubt) -> index.eachOfTenant(tenant, action, onDoubt),
        (run, i) -> run.tenant(i) == tenant);
  }

  private CompletableFuture<Integer> forget(
      BiConsumer<IntConsumer, IntConsumer> each, RecordTest isNamed) {
    var forgetting = new Forgetting();
    each.accept(
        entry -> ledger.forget(entry, forgetting),
        entry -> ledger.awaitOverwriting(entry, forgetting));
    if (restored.isOver()) {
      forgetting.named(!unread);
    } else {
      forgetLater.add(new ForgetLater(isNamed, forgetting)); // what is yet to be found again
    }
    eraseForgotten();
    return forgetting.future();
  }

  /** Names what is to be forgotten as soon as it is restored. */
  private record ForgetLater(RecordTest isNamed, Forgetting forgetting) {}

  /** Whether a record of a run is of something. */
  private interface RecordTest {
    boolean test(RestoredBlocks run, int at);
  }

  private void eraseForgotten() {
    if (ledger.eraseForgotten() > 0) {
      drive();
    }
  }

  /**
   * Announces the end of a step of the computation, and of all before it, on the devices of this
   * process: what waits for {@link DeviceEvent#ofStep} goes on. Ranks in other processes have
   * {@link RankWorker#stepDone}. Any thread.
   *
   * @param step counted up by the caller, at least 1
   */
  public void stepDone(long step) {
    checkStep(step);
    ranks.forEach(rank -> rank.stepDone(step));
  }

  /**
   * Takes in what has ended and completes the results of transfers that are over, on this thread.
   * Never waits.
   *
   * @return how many results were completed
   */
  public int poll() {
    checkOwner();
    checkOpen();
    return pollOnce();
  }

  /** The same, but sleeps up to {@code bound} where there is nothing to take in yet. */
  public int poll(Duration bound) {
    int completed = poll();
    if (completed > 0 || isIdle() || bound.isNegative() || bound.isZero()) {
      return completed;
    }
    sleep(bound.compareTo(SLEEP_MAX) < 0 ? bound : SLEEP_MAX);
    return pollOnce();
  }

  /**
   * Polls until a result of this Spillway, a fence, or what follows from one, is there, and answers
   * it.
   *
   * @throws IllegalStateException where nothing is in flight that could bring it
   */
  public <T> T await(CompletionStage<T> result) {
    var future = result.toCompletableFuture();
    while (!future.isDone()) {
      if (poll(SLEEP_MAX) == 0 && isIdle() && !comesFromElsewhere(future)) {
        throw new IllegalStateException("nothing is in flight; the result is not this Spillway's");
      }
    }
    return future.join();
  }

  private boolean isIdle() {
    return ledger.isIdle() && forgetLater.isEmpty();
  }

  /** What follows from a result may be the work of another thread, which gets a second for it. */
  private static boolean comesFromElsewhere(CompletableFuture<?> future) {
    try {
      future.get(1, TimeUnit.SECONDS);
      return true;
    } catch (TimeoutException | InterruptedException e) {
      return future.isDone();
    } catch (ExecutionException | CancellationException e) {
      return true; // join will say so
    }
  }

  /**
   * Polls until nothing is in flight, or the time has passed.
   *
   * @return whether all is quiet
   */
  public boolean awaitIdle(Duration bound) {
    var within = bound.compareTo(IDLE_WAIT_MAX) < 0 ? bound : IDLE_WAIT_MAX;
    long until = nanoClock.getAsLong() + within.toNanos();
    while (!isIdle()) {
      long left = until - nanoClock.getAsLong();
      if (left <= 0) {
        return false;
      }
      poll(Duration.ofNanos(left));
    }
    return true;
  }

  /** Counters, and how the engine works: the owner's thread, also after close. */
  public SpillwayStats stats() {
    var counters = ledger.counters();
    return new SpillwayStats(
        lookups,
        lookupBlocks,
        hitBlocks,
        counters.outcomes(),
        counters.storedBytes(),
        counters.loadedBytes(),
        index.storedCount(),
        index.heldCount(),
        index.openLeaseCount(),
        index.forgottenLeaseCount(),
        index.freeCount(),
        index.retiredCount(),
        index.lostCount(),
        index.probedBackCount(),
        index.evictions(),
        ledger.blocksInFlight(),
        counters.unknownEndings(),
        counters.doubleEndings(),
        counters.rankFaults(),
        counters.probeFaults(),
        counters.storePauses(),
        counters.noRoom(),
        new Scrubbed(
            counters.scrub().blocks(),
            counters.scrub().bytes(),
            counters.scrub().bad(),
            counters.scrub().rounds()),
        new Restored(
            restored.isOver(),
            restored.scanned(),
            index.restoring().restored(),
            index.restoring().stale(),
            restored.torn(),
            restored.voided(),
            displaced,
            restored.incomplete(),
            ranks.stream().map(Rank::recordTrouble).filter(text -> !text.isEmpty()).toList()),
        mode,
        ranks.stream().map(Rank::stats).reduce(EngineStats::plus).orElseThrow());
  }

  /**
   * Cancels what has not started, waits for the rest, completes every result, and releases the
   * file. Where kernel or device still own memory after the configured wait, that memory, the file
   * and its lock are kept until the process ends, and that is said.
   */
  @Override
  public void close() {
    if (closed) {
      return;
    }
    checkOwner();
    long until = nanoClock.getAsLong() + closeWait.toNanos();
    boolean drained = false;
    try {
      eraseForgotten(until - closeWait.toNanos() / 2); // the rest is for what is in flight
      if (closed) {
        return; // in answer to what was forgotten
      }
      closed = true;
      drained = drain(until);
    } finally {
      if (!released) {
        released = true;
        closed = true;
        // Every result is completed, whatever went wrong, and the engine is released.
        ledger.abandon(drained ? BlockOutcome.ENGINE_FAILED : BlockOutcome.CANCELLED, !drained);
        ranks.forEach(Rank::close);
      }
    }
  }

  /** What was forgotten is overwritten first, within the time that close may take. */
  private void eraseForgotten(long until) {
    if (keepsRecords) {
      tellUses();
    }
    while (!closed
        && nanoClock.getAsLong() - until < 0
        && (!forgetLater.isEmpty()
            || ledger.isVoiding()
            || (ledger.isErasing() && !ledger.isIdle()))) {
      pollOnce();
      if (!closed) {
        sleep(NAP);
      }
    }
    if (!closed && (ledger.isErasing() || !forgetLater.isEmpty())) {
      LOG.warn("closed before all that was forgotten could be overwritten");
    }
    endRestoring();
  }

  private boolean drain(long until) {
    boolean drained = true;
    ranks.forEach(Rank::leave);
    for (var rank : ranks) {
      var left = Duration.ofNanos(Math.max(0, until - nanoClock.getAsLong()));
      boolean quiet = rank.drain(left, ledger::apply);
      drained &= quiet;
      if (!quiet) {
        var loss = rank.loss();
        LOG.error(
            "{} stays locked and its memory in use until its process ends: {}",
            rank.mode().path(),
            loss == null ? "the kernel had not finished after " + closeWait : loss);
      }
    }
    ledger.giveUpErasing();
    ledger.finish();
    return drained;
  }

  // What drives it.

  private void send(long targets, TransferPlan plan) {
    for (int rank = 0; rank < ranks.size(); rank++) {
      if ((targets >>> rank & 1) != 0) {
        ranks.get(rank).send(plan);
      }
    }
  }

  private void drive() {
    ranks.forEach(Rank::drive);
  }

  private int pollOnce() {
    for (var rank : ranks) {
      rank.work();
    }
    takeRestored();
    for (var rank : ranks) {
      rank.takeReports(ledger::apply);
      var loss = rank.loss();
      if (loss != null && !rank.hasReports() && ledger.rankLost(rank.hello().rank())) {
        unread |= !restored.isOver(); // it has no more to tell
        endRestoring();
        LOG.error("rank {} is lost: {}", rank.hello().rank(), loss);
      }
    }
    int completed = ledger.finish();
    if (closed) {
      return completed; // in answer to a result
    }
    int forgotten = index.releaseForgottenLeases();
    if (forgotten > 0) {
      LOG.warn("{} leases were never closed; what they held is let go", forgotten);
    }
    if (ledger.sendFloor() + ledger.probeRetired() + ledger.scrub() > 0) {
      drive();
    }
    eraseForgotten();
    if (keepsRecords && nanoClock.getAsLong() - usesToldAt > USES_NANOS) {
      tellUses();
    }
    sayWhatIsLost();
    return completed;
  }

  /**
   * Takes in a bounded part of what ranks find of an earlier process, before the endings of what
   * may have taken the place of it.
   */
  private void takeRestored() {
    if (restored.isOver()) {
      if (!inOrder) {
        inOrder = index.orderRestored();
      }
      ranks.forEach(rank -> discardRestored(rank));
      return;
    }
    for (int rank = 0; rank < ranks.size(); rank++) {
      while (!restored.hasAhead(rank, RUNS_AHEAD)) {
        var run = ranks.get(rank).nextRestored();
        if (run == null) {
          break;
        }
        restored.add(rank, run);
      }
    }
    var agreed = restored.next(); // one at a call: some milliseconds where memory is cold
    if (agreed != null) {
      restore(agreed);
    }
    if (restored.isOver()) {
      index.restoring().end();
      unread = restored.isCutOff();
      nameForgotten(!unread);
      LOG.info("{} blocks of earlier processes are found again", index.restoring().restored());
    }
  }

  /** A reset came first, or a rank has fewer slots than others. */
  private static void discardRestored(Rank rank) {
    while (rank.hasRestored()) {
      rank.nextRestored();
    }
  }

  private void endRestoring() {
    if (!restored.isOver()) {
      restored.end();
      index.restoring().end();
      nameForgotten(false);
    }
  }

  private void nameForgotten(boolean all) {
    var named = List.copyOf(forgetLater);
    forgetLater.clear();
    named.forEach(later -> later.forgetting().named(all));
  }

  private void restore(RestoredBlocks run) {
    var counts = index.slotCount(run.group());
    for (int i = 0; i < run.size(); i++) {
      boolean found =
          run.slot(i) < counts
              && index.restore(
                  run.group(),
                  run.slot(i),
                  run.high(i),
                  run.low(i),
                  run.generation(i),
                  run.tenant(i),
                  run.depth(i),
                  run.lastUse(i));
      displaced += found ? 0 : 1;
      if (!forgetLater.isEmpty() && run.slot(i) < counts) {
        forgetRestored(run, i, found);
      }
    }
  }

  private void forgetRestored(RestoredBlocks run, int at, boolean found) {
    for (var later : forgetLater) {
      if (later.isNamed().test(run, at)) {
        index.lookAtRestored(
            index.entry(run.group(), run.slot(at)),
            found,
            run.high(at),
            run.low(at),
            entry -> ledger.forget(entry, later.forgetting()),
            entry -> ledger.awaitOverwriting(entry, later.forgetting()));
      }
    }
  }

  /**
   * Waits until what an earlier process has stored is found again, or the time has passed; lookups
   * need not wait for it.
   *
   * @return whether all is found
   */
  public boolean awaitRestored(Duration bound) {
    long until = nanoClock.getAsLong() + bound.toNanos();
    while (!(restored.isOver() && inOrder)) {
      if (until - nanoClock.getAsLong() <= 0) {
        return false;
      }
      poll();
      if (closed) {
        return false; // in answer to a result
      }
      if (!restored.isReady()) {
        sleep(NAP);
      }
    }
    return true;
  }

  private void tellUses() {
    usesToldAt = nanoClock.getAsLong();
    ledger.tellUses();
  }

  /** Slots that are out for good, when there is a first and whenever they have doubled. */
  private void sayWhatIsLost() {
    int lost = index.lostCount();
    if (lost >= lostToSay) {
      lostToSay = 2 * lost;
      LOG.warn(
          "{} slots have failed {} times and are out of service until the next open; {} are left",
          lost,
          BlockIndex.RETIREMENTS_MAX,
          index.slotCount() - lost);
    }
  }

  private void sleep(Duration bound) {
    if (!threads) {
      var rank = ranks.get(0);
      if (!hasNews(rank)) { // what was sent last may have brought some, and the engine has no more
        rank.await(bound);
      }
      return;
    }
    // Nobody wakes us when a lease lapses.
    var within = hasRemote && rankLease.compareTo(bound) < 0 ? rankLease : bound;
    waker.sleep(within, () -> ranks.stream().anyMatch(this::hasNews));
  }

  private boolean hasNews(Rank rank) {
    return rank.hasReports()
        || (!restored.isOver() && (restored.isReady() || rank.hasRestored()))
        || (rank.loss() != null && !ledger.isLost(rank.hello().rank()));
  }

  // Refusals.

  private void checkOwner() {
    var thread = Thread.currentThread();
    var known = owner;
    if (known == null || !known.isAlive()) {
      owner = thread;
    } else if (known != thread) {
      throw new IllegalStateException(
          "called by thread %s; this Spillway belongs to thread %s"
              .formatted(thread.getName(), known.getName()));
    }
  }

  private void checkOpen() {
    if (closed) {
      throw new IllegalStateException("this Spillway is closed");
    }
  }

  private void checkEngine() {
    checkOpen();
    if (ledger.engineHasFailed()) {
      var cause =
          ranks.stream().map(Rank::engineFailure).filter(text -> !text.isEmpty()).findFirst();
      throw new EngineFailedException(cause.orElse("unknown"));
    }
  }

  /** A moment must mean something where the blocks lie. */
  private void checkEvent(DeviceEvent event) {
    Objects.requireNonNull(event, "event; DeviceEvent.NOW would be right for no waiting");
    if (hasRemote && !event.isStep() && !event.isNow()) {
      throw new IllegalArgumentException(
          "event at address 0x%x with ranks in other processes; DeviceEvent.ofStep would be right"
              .formatted(event.address()));
    }
    if (event.isCuda() && !hasCuda) {
      throw new IllegalArgumentException(
          "a CUDA event or stream at 0x%x for memory that is not on a CUDA device"
              .formatted(event.address()));
    }
    if (event.isCuda() && ranks.size() > 1) {
      throw new IllegalArgumentException(
          ("a CUDA event or stream at 0x%x for %d ranks, each with a device of its own;"
                  + " DeviceEvent.ofStep would be right")
              .formatted(event.address(), ranks.size()));
    }
  }

  private static void checkRequest(long request) {
    if (request == TransferLedger.NO_REQUEST) {
      throw new IllegalArgumentException(
          "request 0, which stands for none; any other number would be right");
    }
  }

  static void checkStep(long step) {
    if (step < 1) {
      throw new IllegalArgumentException("step " + step + "; at least 1 would be right");
    }
  }

  /** Whether a block is stored or being stored: for whoever would store it. */
  boolean isKnown(int group, long high, long low) {
    return index.findAny(group, high, low) >= 0;
  }

  private void checkRange(int group, BlockKeys keys, int from, int count) {
    int groups = mode.slotCounts().size();
    if (group < 0 || group >= groups) {
      throw new IllegalArgumentException(
          "group " + group + "; 0 to " + (groups - 1) + " are known");
    }
    if (from < 0 || count > TransferPlan.BLOCKS_MAX || from > keys.size() - count) {
      throw new IllegalArgumentException(
          "%d blocks from position %d of a prefix of %d keys; up to %d from there would be right"
              .formatted(
                  count,
                  from,
                  keys.size(),
                  Math.max(0, Math.min(TransferPlan.BLOCKS_MAX, keys.size() - from))));
    }
  }

  /** Checks the whole index and throws {@link AssertionError} where it is not whole: for tests. */
  void verify() {
    index.verify();
  }

  private void logMode(SpillwayConfig config) {
    LOG.info(
        "{} ranks of {} bytes on disk each, {} bytes in all",
        ranks.size(),
        config.capacityBytes(),
        ranks.size() * config.capacityBytes());
    for (var rank : ranks) {
      var how = rank.mode();
      LOG.info(
          "{}: {} engine{}, {}, alignment {}, depth {}, {} staging slots in {} pages{}, {} slots",
          how.path(),
          how.kind(),
          how.kindReason().isEmpty() ? "" : " (" + how.kindReason() + ")",
          how.direct() ? "direct I/O" : "buffered I/O",
          how.alignment(),
          how.queueDepth(),
          how.stagingSlots(),
          how.stagingPages(),
          how.registered() ? ", registered" : "",
          how.slotCounts());
      how.notices().forEach(LOG::warn);
    }
  }
}
