package dev.spillway.benchmarks;

import dev.spillway.Spillway;
import dev.spillway.SpillwayConfig;
import dev.spillway.block.BlockKeys;
import dev.spillway.block.KvLayout;
import dev.spillway.block.TransferResult;
import dev.spillway.device.HostDevice;
import dev.spillway.engine.EngineStats;
import dev.spillway.engine.LaneStats;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.function.ToLongFunction;
import org.jspecify.annotations.Nullable;

/**
 * Ours, open once for a size: every load is verified and copied, every store checksummed. Prefixes
 * of {@value #BATCH} blocks, whose blocks lie scattered over the file, so that reads are as random
 * as those of the others; several prefixes are on their way at a time.
 */
final class SpillwaySide implements AutoCloseable {
  static final int BATCH = 32;
  private static final int LINES = 8;

  private final Path directory;
  private final HostDevice device;
  private final Spillway spillway;
  private final int prefixes;
  private long nextKey;

  SpillwaySide(Path root, int blockBytes, long slots, int depth) throws IOException {
    directory = Files.createTempDirectory(root, "spillway-bench-");
    device = HostDevice.allocate(KvLayout.ofBlockBytes(blockBytes, 16), BATCH * LINES);
    spillway =
        Spillway.open(
            SpillwayConfig.builder(directory, device)
                .capacityBytes(slots * blockBytes)
                .queueDepth(depth)
                .warmRestart(true)
                .build());
    prefixes = (int) (slots / BATCH);
    fill();
  }

  Path file() {
    return directory.resolve("rank-0-of-1.blocks");
  }

  /** Position by position over prefixes in a random order, which scatters them over the slots. */
  private void fill() {
    var order = new ArrayList<Integer>();
    for (int prefix = 0; prefix < prefixes; prefix++) {
      order.add(prefix);
    }
    for (int position = 0; position < BATCH; position++) {
      Collections.shuffle(order, new Random(position));
      var results = new ArrayList<CompletableFuture<TransferResult>>();
      for (int prefix : order) {
        int block = results.size();
        results.add(spillway.store(keys(prefix), position, new int[] {block}));
        if (results.size() == BATCH * LINES) {
          awaitAll(results);
        }
      }
      awaitAll(results);
    }
    nextKey = prefixes;
  }

  private static BlockKeys keys(long prefix) {
    var keys = new BlockKeys();
    for (int i = 0; i < BATCH; i++) {
      keys.add(prefix * BATCH + i, ~prefix);
    }
    return keys;
  }

  private void awaitAll(List<CompletableFuture<TransferResult>> results) {
    for (var result : results) {
      well(spillway.await(result));
    }
    results.clear();
  }

  private static TransferResult well(TransferResult result) {
    if (!result.isWell()) {
      throw new IllegalStateException(result.toString());
    }
    return result;
  }

  private static int[] blocks(int line) {
    var blocks = new int[BATCH];
    for (int i = 0; i < BATCH; i++) {
      blocks[i] = line * BATCH + i;
    }
    return blocks;
  }

  /** Random prefixes of those that are there. */
  Contender load() {
    return new Side("Spillway load") {
      @Override
      CompletableFuture<TransferResult> begin(int line, Random random) {
        long prefix = nextKey - prefixes + random.nextInt(prefixes);
        try (var lease = spillway.lookup(keys(prefix))) {
          return spillway.load(lease, blocks(line));
        }
      }
    };
  }

  /** New prefixes, for which the oldest give way; put back afterwards by {@link #fill}. */
  Contender store() {
    return new Side("Spillway store") {
      @Override
      CompletableFuture<TransferResult> begin(int line, Random random) {
        return spillway.store(keys(nextKey++), 0, blocks(line));
      }
    };
  }

  /** Both at once, half of each; loads are of the younger half, which stores do not push out. */
  Contender both() {
    return new Side("Spillway both") {
      @Override
      CompletableFuture<TransferResult> begin(int line, Random random) {
        if (line % 2 == 0) {
          return spillway.store(keys(nextKey++), 0, blocks(line));
        }
        long prefix = nextKey - LINES - random.nextInt(prefixes / 2);
        try (var lease = spillway.lookup(keys(prefix))) {
          return spillway.load(lease, blocks(line));
        }
      }
    };
  }

  /** Keeps so many prefixes on their way for a while. */
  private abstract class Side implements Contender {
    private final String name;

    Side(String name) {
      this.name = name;
    }

    abstract CompletableFuture<TransferResult> begin(int line, Random random);

    @Override
    public String name() {
      return name;
    }

    @Override
    public String command() {
      return "SpillwaySide in this program";
    }

    @Override
    public Sample run(double seconds, long seed) {
      var random = new Random(seed);
      var lines = new ArrayList<@Nullable CompletableFuture<TransferResult>>();
      for (int i = 0; i < LINES; i++) {
        lines.add(null);
      }
      long blocks = 0;
      var before = spillway.stats().engine();
      double cpu = Contender.cpuSeconds();
      long begun = System.nanoTime();
      long until = begun + (long) (seconds * 1e9);
      for (int turn = 0; ; turn++) {
        int line = turn % LINES;
        var last = lines.get(line);
        if (last != null) {
          blocks += well(spillway.await(last)).moved();
        }
        boolean goesOn = System.nanoTime() < until;
        lines.set(line, goesOn ? begin(line, random) : null);
        if (!goesOn && lines.stream().allMatch(each -> each == null)) {
          break;
        }
      }
      double took = (System.nanoTime() - begun) * 1e-9;
      long bytes = blocks * device.layout().group(0).blockBytes();
      cpu = Contender.cpuSeconds() - cpu;
      var now = spillway.stats().engine();
      return new Sample(bytes, took, cpu, depth(before, now), enters(before, now) / blocks);
    }
  }

  private static double depth(EngineStats before, EngineStats now) {
    double inFlight = of(now, LaneStats::inFlightNanos) - of(before, LaneStats::inFlightNanos);
    double stores = now.store().busyNanos() - before.store().busyNanos();
    double loads = now.load().busyNanos() - before.load().busyNanos();
    return inFlight / Math.max(stores, loads);
  }

  private static double enters(EngineStats before, EngineStats now) {
    return of(now, LaneStats::enters) - of(before, LaneStats::enters);
  }

  private static double of(EngineStats stats, ToLongFunction<LaneStats> what) {
    return what.applyAsLong(stats.store()) + what.applyAsLong(stats.load());
  }

  @Override
  public void close() throws IOException {
    spillway.close();
    device.close();
    try (var files = Files.list(directory)) {
      for (var file : files.toList()) {
        Files.delete(file);
      }
    }
    Files.delete(directory);
  }
}
