package dev.spillway.benchmarks;

import dev.spillway.Spillway;
import dev.spillway.SpillwayConfig;
import dev.spillway.block.BlockKeys;
import dev.spillway.block.KvLayout;
import dev.spillway.block.TransferResult;
import dev.spillway.device.HostDevice;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import org.HdrHistogram.Histogram;

/**
 * Question: how long does a load of one block take, alone, among others, and under a store flood?
 * Loads come at random moments at a rate, and count from the moment that they were to begin, so that
 * one that waits for its turn is not forgotten. Not a JMH benchmark: the percentiles are the point.
 *
 * <pre>
 * java -cp benchmarks/target/benchmarks.jar dev.spillway.benchmarks.Latency DIRECTORY SECONDS ROUNDS FOLDER WORDS
 * </pre>
 */
public final class Latency implements AutoCloseable {
  private static final int BLOCK_BYTES = 262_144;
  private static final int BLOCKS = 4096;
  private static final int LINES = 256; // device blocks for loads, and as many for stores
  private static final int STORE_BATCH = 32;
  private static final double NANOS = 1e9;

  private final Path directory;
  private final HostDevice device;
  private final Spillway spillway;
  private final ArrayDeque<Integer> freeBlocks = new ArrayDeque<>();
  private final ArrayDeque<Integer> freeStoreLines = new ArrayDeque<>();
  private final SplittableRandom random = new SplittableRandom(1);
  private long nextKey;
  private long storedBlocks;

  private Latency(Path root) throws IOException {
    directory = Files.createTempDirectory(root, "spillway-latency-");
    device = HostDevice.allocate(KvLayout.ofBlockBytes(BLOCK_BYTES, 16), 2 * LINES);
    spillway =
        Spillway.open(
            SpillwayConfig.builder(directory, device)
                .capacityBytes(2L * BLOCKS * BLOCK_BYTES)
                .build());
    for (int i = 0; i < LINES; i++) {
      freeBlocks.add(i);
    }
    for (int i = 0; i < LINES / STORE_BATCH; i++) {
      freeStoreLines.add(i);
    }
    while (nextKey < BLOCKS) {
      spillway.await(beginStore(0));
    }
  }

  /** What a way of loading came to. */
  private record Outcome(Histogram latency, double loadsPerSecond, double storesPerSecond) {
    double micros(double percentile) {
      return latency.getValueAtPercentile(percentile) / 1000.0;
    }
  }

  public static void main(String[] arguments) throws IOException {
    var root = Path.of(arguments[0]);
    double seconds = Double.parseDouble(arguments[1]);
    int rounds = Integer.parseInt(arguments[2]);
    var folder = Path.of(arguments[3]);
    var names =
        List.of("alone, one at a time", "at 50 % of the most", "at 90 % of the most", "one at a time under a store flood");
    var outcomes = new ArrayList<List<Outcome>>();
    var mostRates = new ArrayList<Double>();
    var storeRates = new ArrayList<Double>();
    names.forEach(name -> outcomes.add(new ArrayList<>()));
    try (var latency = new Latency(root)) {
      latency.oneAtATime(seconds, false); // warms up
      latency.most(seconds);
      for (int round = 0; round < rounds; round++) {
        double most = latency.most(seconds);
        mostRates.add(most);
        storeRates.add(latency.storesAlone(seconds));
        outcomes.get(0).add(latency.oneAtATime(seconds, false));
        outcomes.get(1).add(latency.atRate(0.5 * most, seconds));
        outcomes.get(2).add(latency.atRate(0.9 * most, seconds));
        outcomes.get(3).add(latency.oneAtATime(seconds, true));
        System.err.printf("latency: round %d of %d%n", round + 1, rounds);
      }
    }
    var text = page(names, outcomes, mostRates, storeRates, seconds, rounds, arguments[4]);
    Files.writeString(folder.resolve("latency.md"), text);
    System.out.println(text);
  }

  private static String page(
      List<String> names,
      List<List<Outcome>> outcomes,
      List<Double> mostRates,
      List<Double> storeRates,
      double seconds,
      int rounds,
      String words) {
    var text = new StringBuilder("## Latency of a load\n\n");
    text.append(
        String.format(
            Locale.ROOT,
            "%s; 256 KiB blocks, depth 32, %d rounds of %.0f s each way in turns, through the Java API from the moment a load was to begin to its result; "
                + "microseconds, all rounds together. The most is %.0f loads a second, the stores alone %.0f blocks a second. Command: "
                + "`java -cp benchmarks/target/benchmarks.jar dev.spillway.benchmarks.Latency DIR %.0f %d FOLDER WORDS`.%n%n",
            words,
            rounds,
            seconds,
            median(mostRates),
            median(storeRates),
            seconds,
            rounds));
    text.append("| loads | a second | p50 | p90 | p99 | p99.9 | p99.99 | stores a second |\n");
    text.append("| --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (int i = 0; i < names.size(); i++) {
      var all = new Histogram(3);
      outcomes.get(i).forEach(each -> all.add(each.latency()));
      var whole = new Outcome(all, 0, 0);
      text.append(
          String.format(
              Locale.ROOT,
              "| %s | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f |%n",
              names.get(i),
              median(outcomes.get(i).stream().map(Outcome::loadsPerSecond).toList()),
              whole.micros(50),
              whole.micros(90),
              whole.micros(99),
              whole.micros(99.9),
              whole.micros(99.99),
              median(outcomes.get(i).stream().map(Outcome::storesPerSecond).toList())));
    }
    var ratios = new double[rounds];
    var shares = new double[rounds];
    for (int round = 0; round < rounds; round++) {
      var flooded = outcomes.get(3).get(round);
      ratios[round] = flooded.micros(99) / outcomes.get(0).get(round).micros(99);
      shares[round] = flooded.storesPerSecond() / storeRates.get(round);
    }
    var ratio = Ratios.of(ratios);
    var share = Ratios.of(shares);
    text.append(
        "\nGate: p99 under the flood over p99 alone is %s, to be at most 2, while stores keep %s of their own rate, to be at least 0.30: %s.\n"
            .formatted(
                ratio.told(),
                share.told(),
                ratio.median() <= 2 && share.median() >= 0.3 ? "met" : "**not met**"));
    return text.toString();
  }

  private static double median(List<Double> values) {
    return Ratios.median(values.stream().mapToDouble(Double::doubleValue));
  }

  /** Loads a second with all of the lane's depth in use. */
  private double most(double seconds) {
    long begun = System.nanoTime();
    var outcome = atRate(Double.POSITIVE_INFINITY, seconds);
    return outcome.latency().getTotalCount() * NANOS / (System.nanoTime() - begun);
  }

  private double storesAlone(double seconds) {
    long before = storedBlocks;
    long begun = System.nanoTime();
    while (System.nanoTime() - begun < seconds * NANOS) {
      flood();
      spillway.poll(Duration.ofMillis(1));
    }
    double rate = (storedBlocks - before) * NANOS / (System.nanoTime() - begun);
    spillway.awaitIdle(Duration.ofMinutes(1));
    return rate;
  }

  private Outcome oneAtATime(double seconds, boolean underFlood) {
    var latency = new Histogram(3);
    long stored = storedBlocks;
    long begun = System.nanoTime();
    while (System.nanoTime() - begun < seconds * NANOS) {
      if (underFlood) {
        flood();
      }
      long at = System.nanoTime();
      var result = beginLoad(at, latency);
      spillway.await(result);
    }
    double took = (System.nanoTime() - begun) / NANOS;
    double stores = (storedBlocks - stored) / took;
    spillway.awaitIdle(Duration.ofMinutes(1));
    return new Outcome(latency, latency.getTotalCount() / took, stores);
  }

  /** At random moments, so many a second on average; without a bound as many as there is room for. */
  private Outcome atRate(double rate, double seconds) {
    var latency = new Histogram(3);
    long begun = System.nanoTime();
    long until = begun + (long) (seconds * NANOS);
    double next = begun;
    while (next < until) {
      long now = System.nanoTime();
      while (next <= now && next < until && !freeBlocks.isEmpty()) {
        beginLoad(Double.isInfinite(rate) ? now : (long) next, latency);
        next =
            Double.isInfinite(rate) ? now : next - Math.log(1 - random.nextDouble()) / rate * NANOS;
      }
      if (Double.isInfinite(rate)) {
        next = now;
      }
      long left = Math.max(0, (long) next - System.nanoTime());
      // The poller's sleep ends with the first load that does; a short one is not worth a sleep.
      if (freeBlocks.isEmpty() || left > 50_000) {
        spillway.poll(Duration.ofNanos(freeBlocks.isEmpty() ? 1_000_000 : left - 50_000));
      } else {
        spillway.poll();
      }
    }
    double took = (System.nanoTime() - begun) / NANOS;
    spillway.awaitIdle(Duration.ofMinutes(1));
    return new Outcome(latency, latency.getTotalCount() / took, 0);
  }

  private CompletableFuture<TransferResult> beginLoad(long intended, Histogram latency) {
    int block = freeBlocks.pop();
    long key = nextKey - LINES - 1 - random.nextLong(BLOCKS - LINES - 1);
    try (var lease = spillway.lookup(keys(key, 1))) {
      var result = spillway.load(lease, new int[] {block});
      result.thenAccept(
          done -> {
            if (done.moved() != 1) {
              throw new IllegalStateException(done.toString());
            }
            latency.recordValue(System.nanoTime() - intended);
            freeBlocks.push(block);
          });
      return result;
    }
  }

  /** Keeps all store lines on their way; the oldest blocks give way. */
  private void flood() {
    while (!freeStoreLines.isEmpty()) {
      beginStore(freeStoreLines.pop());
    }
  }

  private CompletableFuture<TransferResult> beginStore(int line) {
    freeStoreLines.remove(line);
    var blocks = new int[STORE_BATCH];
    for (int i = 0; i < STORE_BATCH; i++) {
      blocks[i] = LINES + line * STORE_BATCH + i;
    }
    long first = nextKey;
    nextKey += STORE_BATCH;
    var result = spillway.store(keys(first, STORE_BATCH), 0, blocks);
    result.thenAccept(
        done -> {
          storedBlocks += done.moved();
          freeStoreLines.push(line);
        });
    return result;
  }

  private static BlockKeys keys(long first, int count) {
    var keys = new BlockKeys();
    for (int i = 0; i < count; i++) {
      keys.add(first + i, 0);
    }
    return keys;
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
