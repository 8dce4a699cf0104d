package dev.spillway.sim;

import dev.spillway.block.BlockKeys;
import dev.spillway.block.BlockOutcome;
import dev.spillway.block.DeviceEvent;
import dev.spillway.block.KvLayout;
import dev.spillway.block.TransferResult;
import dev.spillway.index.BlockIndex;
import dev.spillway.index.Lease;
import dev.spillway.ledger.TransferLedger;
import dev.spillway.worker.TransferWorker;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/**
 * One seed: a scheduler that stores, loads, aborts, preempts and resets as the dice say, over ranks
 * whose blocks end in every order and with faults. After each step the index is whole; a loaded
 * block has its own word on every rank; a device block that was given back is never touched again;
 * at the end nothing is held and every transfer has ended once.
 */
final class Simulation {
  static final int TRANSFERS = 200;
  private static final int SLOTS = 24;
  private static final int DEVICE_BLOCKS = 48;
  private static final int PREFIXES = 6;
  private static final int PREFIX_BLOCKS = 8;
  private static final int STEPS_MAX = 200_000;

  @SuppressWarnings("ArrayRecordComponent") // never compared
  private record Running(
      long request,
      boolean load,
      int prefix,
      int from,
      int[] blocks,
      CompletableFuture<TransferResult> result) {}

  private final Random random;
  private final int rankCount;
  private final boolean rankDies;
  private final List<SimulatedEngine> engines = new ArrayList<>();
  private final List<TransferWorker> workers = new ArrayList<>();
  private final BlockIndex index = new BlockIndex(List.of((long) SLOTS), 1, 50);
  private final TransferLedger ledger;
  private final List<Running> running = new ArrayList<>();
  private final List<Running> ended = new ArrayList<>();
  private final ArrayDeque<Integer> free = new ArrayDeque<>();
  private final Set<Long> resetRequests = new HashSet<>();
  private final Set<Integer> begunSinceReset = new HashSet<>();
  private final List<CompletableFuture<Void>> fences = new ArrayList<>();
  private final Map<String, Long> coverage;
  private long nanos;
  private long requests;
  private boolean dead;

  /**
   * @param coverage how often each kind of ending met each event of a transfer's life
   */
  Simulation(long seed, Map<String, Long> coverage) {
    this.coverage = coverage;
    random = new Random(seed);
    rankCount = 1 + random.nextInt(3);
    rankDies = random.nextInt(8) == 0;
    double faultRate = random.nextInt(4) * 0.02;
    for (int rank = 0; rank < rankCount; rank++) {
      var engine = new SimulatedEngine(DEVICE_BLOCKS, SLOTS, random, faultRate);
      engines.add(engine);
      workers.add(new TransferWorker(engine, rank, TransferLedger.transfersMax(64)));
    }
    for (int block = 0; block < DEVICE_BLOCKS; block++) {
      giveBack(block);
    }
    ledger =
        new TransferLedger(
            index,
            KvLayout.ofBlockBytes(4096, 16),
            new int[] {DEVICE_BLOCKS},
            rankCount,
            64,
            () -> nanos,
            0,
            (ranks, plan) -> {
              for (int rank = 0; rank < rankCount; rank++) {
                if ((ranks >>> rank & 1) != 0) {
                  workers.get(rank).offer(plan);
                }
              }
            });
  }

  void run() {
    int transfers = 0;
    for (int step = 0; transfers < TRANSFERS || !running.isEmpty(); step++) {
      require(step < STEPS_MAX, "no progress after " + step + " steps");
      nanos++;
      transfers += act(transfers < TRANSFERS);
      check();
    }
    quiesce();
  }

  /** One thing happens; answers how many transfers it began. */
  private int act(boolean mayBegin) {
    int draw = random.nextInt(100);
    if (mayBegin && draw < 12) {
      return random.nextBoolean() ? store() : load();
    }
    if (draw < 14 && !running.isEmpty()) {
      long request = running.get(random.nextInt(running.size())).request();
      count(draw == 12 ? "abort" : "drain");
      fences.add(draw == 12 ? ledger.abort(request) : ledger.drain(request, request + 1));
    } else if (draw == 14 && random.nextInt(20) == 0) {
      count("reset");
      fences.add(ledger.reset());
      require(index.storedCount() == 0, "a reset left something to be found");
      running.forEach(transfer -> resetRequests.add(transfer.request()));
      begunSinceReset.clear();
    } else if (draw == 15 && rankDies && !dead && random.nextInt(30) == 0) {
      die();
    } else if (draw < 40) {
      work(random.nextInt(rankCount));
    } else {
      engines.get(random.nextInt(rankCount)).step();
    }
    return 0;
  }

  private void die() {
    dead = true;
    int rank = random.nextInt(rankCount);
    count("rank dies");
    engines.get(rank).fail();
    if (random.nextBoolean()) {
      ledger.rankLost(rank); // before its own last words, which then come late
      ledger.finish();
      collect();
    }
  }

  private void work(int rank) {
    var worker = workers.get(rank);
    worker.doWork();
    for (var report = worker.nextReport(); report != null; report = worker.nextReport()) {
      ledger.apply(report);
      worker.giveBack(report);
    }
    ledger.finish();
    ledger.probeRetired();
    collect();
  }

  private static BlockKeys keys(int prefix) {
    var keys = new BlockKeys();
    for (int i = 0; i < PREFIX_BLOCKS; i++) {
      keys.add(1 + prefix, 100L * prefix + i);
    }
    return keys;
  }

  private static long word(int prefix, int position, int rank) {
    return (prefix + 1) * 1_000_003L + position * 101L + rank * 7L + 1;
  }

  private int store() {
    int prefix = random.nextInt(PREFIXES);
    int from = random.nextInt(PREFIX_BLOCKS);
    var blocks = take(1 + random.nextInt(PREFIX_BLOCKS - from));
    if (blocks == null) {
      return 0;
    }
    for (int i = 0; i < blocks.length; i++) {
      begunSinceReset.add(100 * prefix + from + i);
      for (int rank = 0; rank < rankCount; rank++) {
        engines.get(rank).device[blocks[i]] = word(prefix, from + i, rank);
      }
    }
    long request = ++requests;
    var result = ledger.store(request, 0, keys(prefix), from, blocks, DeviceEvent.NOW);
    running.add(new Running(request, false, prefix, from, blocks, result));
    return 1;
  }

  private int load() {
    int prefix = random.nextInt(PREFIXES);
    int from = random.nextInt(PREFIX_BLOCKS);
    try (var lease = Lease.take(index, 0, keys(prefix), from)) {
      var blocks = lease.isEmpty() ? null : take(lease.size());
      if (blocks == null) {
        return 0;
      }
      long request = ++requests;
      var result = ledger.load(request, lease, blocks, DeviceEvent.NOW, 0);
      running.add(new Running(request, true, prefix, from, blocks, result));
      return 1;
    }
  }

  private int @Nullable [] take(int count) {
    if (free.size() < count) {
      return null;
    }
    var blocks = new int[count];
    for (int i = 0; i < count; i++) {
      blocks[i] = free.remove();
      for (int rank = 0; rank < rankCount; rank++) {
        require(
            engines.get(rank).device[blocks[i]] == garbage(blocks[i]),
            "device block " + blocks[i] + " of rank " + rank + " was written after it was quiet");
      }
    }
    return blocks;
  }

  private static long garbage(int block) {
    return -1L - block;
  }

  /** The caller reuses a block at once: it holds something else now. */
  private void giveBack(int block) {
    for (var engine : engines) {
      engine.device[block] = garbage(block);
    }
    free.add(block);
  }

  /** Looks at what has ended, and takes back the blocks of what is quiet. */
  private void collect() {
    for (var transfer : List.copyOf(running)) {
      if (transfer.result().isDone()) {
        running.remove(transfer);
        look(transfer, transfer.result().join());
        ended.add(transfer);
      }
    }
    ended.removeIf(
        transfer -> {
          boolean quiet = transfer.result().join().quiet().toCompletableFuture().isDone();
          if (quiet) {
            for (int block : transfer.blocks()) {
              giveBack(block);
            }
          }
          return quiet;
        });
  }

  private void look(Running transfer, TransferResult result) {
    for (int i = 0; i < transfer.blocks().length; i++) {
      var outcome = result.outcome(i);
      // A block may have been stored before the reset came; it must not be found after it.
      var keys = keys(transfer.prefix());
      int at = transfer.from() + i;
      require(
          !resetRequests.contains(transfer.request())
              || begunSinceReset.contains(100 * transfer.prefix() + at)
              || index.find(0, keys.high(at), keys.low(at)) < 0,
          "block " + i + " of request " + transfer.request() + " is found after a reset");
      count(outcome + " with " + rankCount + (rankCount == 1 ? " rank" : " ranks"));
      if (outcome != BlockOutcome.LOADED) {
        continue;
      }
      for (int rank = 0; rank < rankCount; rank++) {
        require(
            engines.get(rank).device[transfer.blocks()[i]]
                == word(transfer.prefix(), transfer.from() + i, rank),
            "request "
                + transfer.request()
                + " got wrong bytes in block "
                + i
                + " of rank "
                + rank);
      }
    }
  }

  private void check() {
    index.verify();
    // A late word of a rank that was given up is dropped and counted; any other is a fault of ours.
    var counters = ledger.counters();
    require(
        dead || counters.unknownEndings() + counters.doubleEndings() == 0,
        "endings that fit no block");
  }

  private void quiesce() {
    for (int round = 0;
        !ledger.isIdle() || !engines.stream().allMatch(SimulatedEngine::isQuiet);
        round++) {
      require(round < 10_000, "never quiet: " + ledger.blocksInFlight() + " blocks in flight");
      for (int rank = 0; rank < rankCount; rank++) {
        engines.get(rank).settle();
        work(rank);
      }
    }
    require(ended.isEmpty(), ended.size() + " transfers are not quiet");
    require(free.size() == DEVICE_BLOCKS, "device blocks are lost");
    require(index.heldCount() == 0, index.heldCount() + " entries are held");
    require(fences.stream().allMatch(CompletableFuture::isDone), "a fence never opened");
  }

  private void count(String event) {
    coverage.merge(event, 1L, Long::sum);
  }

  private static void require(boolean right, String message) {
    if (!right) {
      throw new AssertionError(message);
    }
  }

  static Map<String, Long> newCoverage() {
    return new TreeMap<>();
  }
}
