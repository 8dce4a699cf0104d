package dev.spillway.sim;

import dev.spillway.EngineFailedException;
import dev.spillway.SimulatedRank;
import dev.spillway.Spillway;
import dev.spillway.SpillwayConfig;
import dev.spillway.block.BlockKeys;
import dev.spillway.block.BlockOutcome;
import dev.spillway.block.DeviceEvent;
import dev.spillway.block.KvLayout;
import dev.spillway.block.KvLayout.Attention;
import dev.spillway.block.KvLayout.Group;
import dev.spillway.block.KvLayout.Piece;
import dev.spillway.block.LoadResult;
import dev.spillway.block.TransferResult;
import dev.spillway.engine.EngineOptions.Allocation;
import dev.spillway.index.PrefixRule;
import dev.spillway.policy.LoadFailurePolicy;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.function.LongConsumer;
import org.jspecify.annotations.Nullable;

/**
 * One seed: a scheduler that stores, loads, aborts, preempts, resets and closes as the dice say,
 * over ranks whose blocks end in every order and with faults, in one KV group or two. After each
 * step the index is whole; a loaded block has its own word on every rank; a request is told of its
 * own failed blocks and of no other's, and of the prefix that is valid in every group; a device
 * block that was given back is never touched again; at the end nothing is held and every transfer
 * has ended once.
 */
final class Simulation {
  static final int TRANSFERS = 200;
  private static final int MORE_TO_DIE_IN = 40;
  private static final int PREFIXES = 6;
  private static final int IN_FLIGHT_MAX = 64;
  private static final long CLOSE_STEP_NANOS = 2_000_000_000;
  private static final int STEPS_MAX = 200_000;

  /** The KV groups of a seed, the tokens of its prefixes, and room for less than all of them. */
  @SuppressWarnings("ArrayRecordComponent") // never compared
  private record Shape(
      KvLayout layout, String name, int prefixTokens, int[] slots, int[] deviceBlocks) {}

  private static final List<Shape> SHAPES =
      List.of(
          shape("one group", 128, new int[] {24}, Attention.FULL),
          shape("window beside it", 128, new int[] {30, 15}, Attention.FULL, Attention.sliding(64)),
          shape("state beside it", 144, new int[] {30, 9}, Attention.FULL, Attention.RECURRENT));

  /** Blocks of one transfer: those of a group from a position on. */
  @SuppressWarnings("ArrayRecordComponent") // never compared
  private record Part(int group, int from, int[] blocks) {}

  /** Blocks of a prefix that are to be on no disk, and the stores of each that had begun. */
  private record Forgotten(
      int prefix, int group, List<Integer> begun, CompletableFuture<Integer> answer) {}

  private record Running(
      long request,
      int prefix,
      int fromTokens,
      List<Part> parts,
      CompletableFuture<List<TransferResult>> results,
      @Nullable CompletableFuture<LoadResult> load,
      boolean recomputes) {}

  private final Random random;
  private final Shape shape;
  private final int groups;
  private final PrefixRule rule;
  private final int rankCount;
  private final boolean rankDies;
  private final boolean closesEarly;
  private final boolean ordered;
  private final List<SimulatedEngine> engines = new ArrayList<>();
  private final List<SimulatedRank> ranks = new ArrayList<>();
  private final Spillway spillway;
  private final List<Running> running = new ArrayList<>();
  private final List<Running> ended = new ArrayList<>();
  private final List<ArrayDeque<Integer>> free = new ArrayList<>();
  private final Set<Long> resetRequests = new HashSet<>();
  private final Set<Long> begunSinceReset = new HashSet<>();
  private final List<CompletableFuture<Void>> fences = new ArrayList<>();
  private final List<Forgotten> forgotten = new ArrayList<>();
  private final Map<Long, Integer> storesBegun = new HashMap<>(); // of each block
  private final Map<Long, String> events = new HashMap<>(); // the last that met a request
  private final Map<String, long[]> coverage;
  private long nanos;
  private long requests;
  private boolean dead;
  private boolean refused;
  private boolean leaks;

  /**
   * @param coverage how often each ending met each event of a request's life, by count of ranks
   */
  Simulation(long seed, Map<String, long[]> coverage) {
    this.coverage = coverage;
    random = new Random(seed);
    shape = SHAPES.get(random.nextInt(SHAPES.size()));
    groups = shape.layout().groups().size();
    rule = new PrefixRule(shape.layout());
    rankCount = 1 + random.nextInt(3);
    rankDies = random.nextInt(8) == 0;
    closesEarly = random.nextInt(4) == 0;
    ordered = random.nextInt(4) == 0;
    double faultRate = random.nextInt(4) * 0.02;
    for (int rank = 0; rank < rankCount; rank++) {
      var engine = new SimulatedEngine(shape.deviceBlocks(), shape.slots(), random, faultRate);
      engines.add(engine);
      ranks.add(new SimulatedRank(engine, rank, rankCount, shape.layout(), IN_FLIGHT_MAX, random));
    }
    for (int group = 0; group < groups; group++) {
      free.add(new ArrayDeque<>());
      for (int block = 0; block < shape.deviceBlocks()[group]; block++) {
        giveBack(group, block);
      }
    }
    var config =
        SpillwayConfig.remote(shape.layout(), shape.deviceBlocks())
            .blocksInFlightMax(IN_FLIGHT_MAX)
            .operationBound(Duration.ZERO)
            .probeInterval(Duration.ofNanos(50))
            .orderedResults(ordered)
            .scrubBytesPerSecond(random.nextInt(3) == 0 ? 1L << 42 : 0)
            .allocation(random.nextInt(4) == 0 ? Allocation.PREALLOCATE : Allocation.SPARSE)
            .build();
    spillway = SimulatedRank.open(config, ranks, this::clock);
  }

  /** More than the longest time that stores are put off where there is no room. */
  private static final long STORE_PAUSE_NANOS = 10_000_000_000L;

  private static Shape shape(String name, int prefixTokens, int[] slots, Attention... attention) {
    int[] blockTokens = {16, prefixTokens == 128 ? 32 : 48};
    var groups = new ArrayList<Group>();
    for (int group = 0; group < attention.length; group++) {
      var pieces = List.of(Piece.dense(4096));
      groups.add(new Group("group-" + group, blockTokens[group], pieces, attention[group]));
    }
    var deviceBlocks = Arrays.copyOf(new int[] {48, 24}, attention.length);
    return new Shape(new KvLayout(groups), name, prefixTokens, slots, deviceBlocks);
  }

  /** A close that waits lets time pass, and the engines go on meanwhile. */
  private long clock() {
    if (closing) {
      nanos += CLOSE_STEP_NANOS;
      engines.forEach(SimulatedEngine::step);
    }
    return nanos;
  }

  void run() {
    int wanted = rankDies ? TRANSFERS + MORE_TO_DIE_IN : TRANSFERS;
    int transfers = 0;
    for (int step = 0; transfers < wanted || (!closesEarly && !running.isEmpty()); step++) {
      require(step < STEPS_MAX, "no progress after " + step + " steps");
      nanos++;
      if (spillway.stats().noRoom().isPresent() && random.nextInt(10) == 0) {
        nanos += STORE_PAUSE_NANOS;
      }
      transfers += act(transfers < wanted, transfers >= TRANSFERS);
      check();
      if (refused) {
        transfers = wanted; // an engine that has failed takes nothing on
      }
    }
    count("seeds with " + shape.name());
    if (closesEarly) {
      close();
    } else {
      quiesce();
      spillway.close();
    }
  }

  /** One thing happens; answers how many transfers it began. */
  private int act(boolean mayBegin, boolean mayDie) {
    int draw = random.nextInt(100);
    if (mayBegin && draw < 12) {
      return begin();
    }
    if (draw < 14 && !running.isEmpty()) {
      boolean aborts = draw == 12;
      long request = running.get(random.nextInt(running.size())).request();
      events.put(request, aborts ? "abort" : "drain");
      if (!aborts) {
        events.put(request + 1, "drain");
      }
      fences.add(aborts ? spillway.abort(request) : spillway.drain(request, request + 1));
    } else if (draw == 14 && random.nextInt(20) == 0) {
      reset();
      require(spillway.stats().storedBlocks() == 0, "a reset left something to be found");
    } else if (draw == 15 && rankDies && mayDie && !dead) {
      die();
    } else if (draw == 16 && random.nextInt(8) == 0) {
      forget(random.nextInt(PREFIXES), random.nextInt(groups));
    } else if (draw < 40) {
      spillway.poll();
      collect();
    } else {
      for (int i = 0; i < rankCount; i++) {
        engines.get(random.nextInt(rankCount)).step();
      }
    }
    return 0;
  }

  private void forget(int prefix, int group) {
    for (var transfer : running) {
      if (transfer.prefix() == prefix) {
        events.put(transfer.request(), "forget");
      }
    }
    var keys = keys(prefix, group);
    var begun = new ArrayList<Integer>();
    for (int at = 0; at < keys.size(); at++) {
      begun.add(storesBegun.getOrDefault(place(prefix, group, at), 0));
    }
    forgotten.add(new Forgotten(prefix, group, begun, spillway.forget(group, keys)));
    for (int at = 0; at < keys.size(); at++) {
      require(!isFound(prefix, group, at), "block " + at + " is found after it was forgotten");
    }
  }

  /** What was forgotten, and could be overwritten, is on no disk unless it was stored again. */
  private void look(Forgotten forgotten) {
    count("forgotten, " + (forgotten.answer().join() == 0 ? "all" : "some are left"));
    for (int at = 0; at < forgotten.begun().size() && forgotten.answer().join() == 0; at++) {
      long place = place(forgotten.prefix(), forgotten.group(), at);
      for (int rank = 0; rank < rankCount; rank++) {
        long word = word(forgotten.prefix(), forgotten.group(), at, rank);
        boolean there =
            Arrays.stream(engines.get(rank).disk[forgotten.group()]).anyMatch(it -> it == word);
        require(
            !there || storesBegun.getOrDefault(place, 0) > forgotten.begun().get(at),
            "block %d of prefix %d, group %d, was forgotten and lies on the disk of rank %d"
                .formatted(at, forgotten.prefix(), forgotten.group(), rank));
      }
    }
  }

  private void reset() {
    for (var transfer : running) {
      resetRequests.add(transfer.request());
      events.put(transfer.request(), "reset");
    }
    begunSinceReset.clear();
    fences.add(spillway.reset());
  }

  private int begin() {
    try {
      if (random.nextBoolean()) {
        return random.nextBoolean() ? storePrefix() : storeSome();
      }
      return load();
    } catch (EngineFailedException e) {
      require(dead, "an engine that lives has failed: " + e.getMessage());
      count("refused since the engine had failed");
      refused = true;
      return 0;
    }
  }

  private void die() {
    dead = true;
    running.forEach(transfer -> events.put(transfer.request(), "rank dies"));
    int rank = random.nextInt(rankCount);
    engines.get(rank).fail();
    if (random.nextBoolean()) {
      ranks.get(rank).lose(); // before its own last words, which then come late
    }
  }

  // What is stored and loaded.

  private int blockTokens(int group) {
    return shape.layout().group(group).blockTokens();
  }

  private BlockKeys keys(int prefix, int group) {
    var keys = new BlockKeys();
    for (int i = 0; i < shape.prefixTokens() / blockTokens(group); i++) {
      keys.add(1 + prefix, 1000L * group + 100L * prefix + i);
    }
    return keys;
  }

  private static long word(int prefix, int group, int position, int rank) {
    return (prefix + 1) * 1_000_003L + group * 10_007L + position * 101L + rank * 7L + 1;
  }

  private static long garbage(int group, int block) {
    return -1L - (((long) group << 16) + block);
  }

  private static long place(int prefix, int group, int position) {
    return (long) prefix << 32 | (long) group << 16 | position;
  }

  /** All groups up to a common length, as a request stores that has computed so much. */
  private int storePrefix() {
    int prefix = random.nextInt(PREFIXES);
    int tokens = rule.unitTokens() * (1 + random.nextInt(shape.prefixTokens() / rule.unitTokens()));
    long request = ++requests;
    int begun = 0;
    for (int group = 0; group < groups; group++) {
      begun += store(request, prefix, group, 0, tokens / blockTokens(group));
    }
    return begun;
  }

  private int storeSome() {
    int group = random.nextInt(groups);
    int blocks = shape.prefixTokens() / blockTokens(group);
    int from = random.nextInt(blocks);
    int prefix = random.nextInt(PREFIXES);
    return store(++requests, prefix, group, from, 1 + random.nextInt(blocks - from));
  }

  private int store(long request, int prefix, int group, int from, int count) {
    var blocks = take(group, count);
    if (blocks == null) {
      return 0;
    }
    for (int i = 0; i < count; i++) {
      if (random.nextInt(16) == 0) { // the caller has it no more
        giveBack(group, blocks[i]);
        blocks[i] = Spillway.NULL_BLOCK;
        continue;
      }
      begunSinceReset.add(place(prefix, group, from + i));
      storesBegun.merge(place(prefix, group, from + i), 1, Integer::sum);
      for (int rank = 0; rank < rankCount; rank++) {
        engines.get(rank).device[group][blocks[i]] = word(prefix, group, from + i, rank);
      }
    }
    try {
      var result =
          spillway.store(request, group, keys(prefix, group), from, blocks, DeviceEvent.NOW);
      var parts = List.of(new Part(group, from, blocks));
      running.add(new Running(request, prefix, 0, parts, result.thenApply(List::of), null, false));
      pollInAnswer(result);
      return 1;
    } catch (EngineFailedException e) {
      giveBack(group, blocks);
      throw e;
    }
  }

  private int load() {
    int prefix = random.nextInt(PREFIXES);
    int units = shape.prefixTokens() / rule.unitTokens();
    int from = rule.unitTokens() * random.nextInt(units);
    var chains = new ArrayList<BlockKeys>();
    for (int group = 0; group < groups; group++) {
      chains.add(keys(prefix, group));
    }
    var lease = spillway.lookup(chains, from, shape.prefixTokens());
    try {
      var parts =
          lease.isEmpty()
              ? null
              : partsOf(
                  lease.groups().stream()
                      .map(each -> new int[] {each.group(), each.from(), each.size()})
                      .toList());
      if (parts == null) {
        return 0;
      }
      long request = ++requests;
      boolean recomputes = random.nextBoolean();
      var policy = recomputes ? LoadFailurePolicy.recompute() : LoadFailurePolicy.fail();
      try {
        var result =
            spillway.load(
                request,
                lease,
                parts.stream().map(Part::blocks).toList(),
                DeviceEvent.NOW,
                Duration.ZERO,
                policy);
        var results = result.thenApply(LoadResult::groups);
        running.add(new Running(request, prefix, from, parts, results, result, recomputes));
        pollInAnswer(result);
        return 1;
      } catch (EngineFailedException e) {
        parts.forEach(part -> giveBack(part.group(), part.blocks()));
        throw e;
      }
    } finally {
      if (random.nextInt(400) == 0) {
        reset(); // with the lease open
      }
      lease.close();
    }
  }

  /** Blocks for as many as each group wants, or null where one has too few. */
  private @Nullable List<Part> partsOf(List<int[]> wanted) {
    var parts = new ArrayList<Part>();
    for (var want : wanted) {
      var blocks = take(want[0], want[2]);
      if (blocks == null) {
        parts.forEach(part -> giveBack(part.group(), part.blocks()));
        return null;
      }
      parts.add(new Part(want[0], want[1], blocks));
    }
    return parts;
  }

  /** A caller may do in answer to a result whatever it may do elsewhere. */
  private void pollInAnswer(CompletableFuture<?> result) {
    if (random.nextInt(20) == 0) {
      var unused = result.thenRun(() -> ifOpen(request -> spillway.poll()));
    } else if (random.nextInt(20) == 0) {
      var unused = result.thenRun(() -> ifOpen(request -> fences.add(spillway.abort(request))));
    }
  }

  private boolean closing;

  private void ifOpen(LongConsumer action) {
    if (!closing) {
      action.accept(requests);
    }
  }

  private int @Nullable [] take(int group, int count) {
    if (free.get(group).size() < count) {
      return null;
    }
    var blocks = new int[count];
    for (int i = 0; i < count; i++) {
      blocks[i] = free.get(group).remove();
      for (int rank = 0; rank < rankCount; rank++) {
        require(
            engines.get(rank).device[group][blocks[i]] == garbage(group, blocks[i]),
            "device block " + blocks[i] + " of rank " + rank + " was written after it was quiet");
      }
    }
    return blocks;
  }

  private void giveBack(int group, int[] blocks) {
    for (int block : blocks) {
      if (block != Spillway.NULL_BLOCK) {
        giveBack(group, block);
      }
    }
  }

  /** The caller reuses a block at once: it holds something else now. */
  private void giveBack(int group, int block) {
    for (var engine : engines) {
      engine.device[group][block] = garbage(group, block);
    }
    free.get(group).add(block);
  }

  // What has ended.

  /** Looks at what has ended, and takes back the blocks of what is quiet. */
  private void collect() {
    forgotten.removeIf(
        each -> {
          if (each.answer().isDone()) {
            look(each);
          }
          return each.answer().isDone();
        });
    var waits = new boolean[2]; // whether an earlier store, or load, is still under way
    for (var transfer : List.copyOf(running)) {
      boolean load = transfer.load() != null;
      if (!transfer.results().isDone()) {
        waits[load ? 1 : 0] = true;
      } else {
        require(
            !ordered || !waits[load ? 1 : 0],
            "request " + transfer.request() + " is told before one that was begun before it");
        running.remove(transfer);
        look(transfer);
        ended.add(transfer);
      }
    }
    ended.removeIf(
        transfer -> {
          boolean quiet =
              transfer.results().join().stream()
                  .map(result -> result.quiet().toCompletableFuture())
                  .allMatch(future -> future.isDone() && !future.isCompletedExceptionally());
          if (quiet) {
            transfer.parts().forEach(part -> giveBack(part.group(), part.blocks()));
          }
          return quiet;
        });
  }

  private void look(Running transfer) {
    var results = transfer.results().join();
    for (int i = 0; i < transfer.parts().size(); i++) {
      for (int at = 0; at < transfer.parts().get(i).blocks().length; at++) {
        look(transfer, transfer.parts().get(i), at, results.get(i).outcome(at));
      }
    }
    if (transfer.load() != null) {
      look(transfer, transfer.load().join());
    }
  }

  private void look(Running transfer, Part part, int at, BlockOutcome outcome) {
    int prefix = transfer.prefix();
    int position = part.from() + at;
    count(outcome + ", " + events.getOrDefault(transfer.request(), "undisturbed"));
    // A block may have been stored before the reset came; it must not be found after it.
    require(
        closing
            || !resetRequests.contains(transfer.request())
            || begunSinceReset.contains(place(prefix, part.group(), position))
            || !isFound(prefix, part.group(), position),
        "block " + position + " of request " + transfer.request() + " is found after a reset");
    if (transfer.load() == null) {
      return;
    }
    int block = part.blocks()[at];
    boolean failedOnDisk = false;
    for (var engine : engines) {
      failedOnDisk |= engine.hasFailedLoad(part.group(), block);
    }
    String what = "block " + position + " of request " + transfer.request() + " is " + outcome;
    require(failedOnDisk || !outcome.isOfDisk(), what + " and no disk has failed it");
    require(!failedOnDisk || !outcome.isWell(), what + " and a disk has failed it");
    for (int rank = 0; rank < rankCount && outcome == BlockOutcome.LOADED; rank++) {
      require(
          engines.get(rank).device[part.group()][block]
              == word(prefix, part.group(), position, rank),
          what + " with wrong bytes on rank " + rank);
    }
  }

  private boolean isFound(int prefix, int group, int position) {
    try (var lease = spillway.lookup(group, keys(prefix, group), position)) {
      return !lease.isEmpty();
    }
  }

  private void look(Running transfer, LoadResult result) {
    String what = "request " + transfer.request();
    boolean isWell = result.causes().isEmpty();
    require(result.isWell() == isWell, what + " is well and has causes");
    int valid = validTokens(transfer, result);
    require(
        result.validTokens() == valid,
        what + ": valid are " + valid + " tokens and " + result.validTokens() + " are told");
    boolean late = result.causes().stream().allMatch(BlockOutcome::isLateMiss);
    require(
        result.fails() == (!isWell && !transfer.recomputes() && !late),
        what + " fails: " + result.fails() + " for " + result.causes());
    for (var part : transfer.parts()) {
      for (int at = 0; at < part.blocks().length; at++) {
        boolean told = result.failedBlocks(part.group()).contains(part.from() + at);
        boolean failed = !result.groups().get(part.group()).outcome(at).isWell();
        require(told == failed, what + ": block " + at + " is told wrongly");
      }
    }
  }

  /** Token by token, what is left when the blocks that did not come are taken away. */
  private int validTokens(Running transfer, LoadResult result) {
    int valid = transfer.fromTokens();
    for (int tokens = transfer.fromTokens() + rule.unitTokens();
        tokens <= result.askedTokens();
        tokens += rule.unitTokens()) {
      boolean whole = true;
      for (var part : transfer.parts()) {
        var attention = shape.layout().group(part.group()).attention();
        int size = blockTokens(part.group());
        int first =
            switch (attention.kind()) {
              case FULL -> 0;
              case SLIDING -> Math.max(0, tokens - attention.windowTokens());
              case RECURRENT -> tokens - size;
            };
        for (int token = Math.max(first, transfer.fromTokens()); token < tokens; token++) {
          int at = token / size - part.from();
          whole &=
              at >= 0
                  && at < part.blocks().length
                  && result.groups().get(part.group()).outcome(at).isWell();
        }
      }
      if (whole) {
        valid = tokens;
      }
    }
    return valid;
  }

  // The end.

  private void check() {
    SimulatedRank.verify(spillway);
    // A late word of a rank that was given up is dropped and counted; any other is a fault of ours.
    var stats = spillway.stats();
    require(
        dead || stats.unknownEndings() + stats.doubleEndings() == 0, "endings that fit no block");
  }

  private void quiesce() {
    ranks.forEach(SimulatedRank::steady);
    for (int round = 0; isBusy(); round++) {
      require(round < 10_000, "never quiet: " + spillway.stats().blocksInFlight() + " in flight");
      engines.forEach(SimulatedEngine::settle);
      spillway.poll();
      collect();
    }
    checkNothingIsLeft();
    var stats = spillway.stats();
    long told = stats.rankFaults().values().stream().mapToLong(Long::longValue).sum();
    long made = engines.stream().mapToLong(engine -> engine.faults).sum();
    require(dead || told == made, made + " disk faults were made and " + told + " told");
  }

  private boolean isBusy() {
    return spillway.stats().blocksInFlight() > 0
        || !running.isEmpty()
        || !forgotten.isEmpty()
        || !ended.isEmpty()
        || !engines.stream().allMatch(SimulatedEngine::isQuiet);
  }

  /** In the midst of it all, and now and then with a kernel that does not let go. */
  private void close() {
    closing = true;
    leaks = random.nextInt(4) == 0;
    if (leaks) {
      engines.get(random.nextInt(rankCount)).hang();
    }
    running.forEach(transfer -> events.put(transfer.request(), leaks ? "close, hung" : "close"));
    spillway.close();
    collect();
    require(running.isEmpty(), running.size() + " results never came");
    require(forgotten.isEmpty(), forgotten.size() + " answers of forget never came");
    for (var transfer : ended) {
      require(leaks, "request " + transfer.request() + " is not quiet after a clean close");
      for (var result : transfer.results().join()) {
        require(result.quiet().toCompletableFuture().isDone(), "a quiet that never comes");
      }
    }
    if (!leaks) {
      checkNothingIsLeft();
    }
    require(fences.stream().allMatch(CompletableFuture::isDone), "a fence never opened");
  }

  private void checkNothingIsLeft() {
    require(ended.isEmpty(), ended.size() + " transfers are not quiet");
    for (int group = 0; group < groups; group++) {
      require(
          free.get(group).size() == shape.deviceBlocks()[group],
          "device blocks of group " + group + " are lost");
    }
    int held = spillway.stats().heldBlocks();
    require(held == 0, held + " entries are held");
    require(fences.stream().allMatch(CompletableFuture::isDone), "a fence never opened");
  }

  private void count(String event) {
    coverage.computeIfAbsent(event, key -> new long[3])[rankCount - 1]++;
  }

  private static void require(boolean right, String message) {
    if (!right) {
      throw new AssertionError(message);
    }
  }

  static Map<String, long[]> newCoverage() {
    return new TreeMap<>();
  }
}
