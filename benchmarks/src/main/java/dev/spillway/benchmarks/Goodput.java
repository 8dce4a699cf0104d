package dev.spillway.benchmarks;

import dev.spillway.Spillway;
import dev.spillway.SpillwayConfig;
import dev.spillway.block.BlockKeys;
import dev.spillway.block.KvLayout;
import dev.spillway.block.TransferResult;
import dev.spillway.device.HostDevice;
import dev.spillway.engine.FaultSpec;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/**
 * Question: what do faults cost those whom they do not hit? Verified bytes a second of the same
 * loads with shares of the reads failing, beside none, in turns, and none beside none for the
 * noise. Not a JMH benchmark: the turns are the point.
 *
 * <pre>
 * java -cp benchmarks/target/benchmarks.jar dev.spillway.benchmarks.Goodput [DIRECTORY [ROUNDS [FOLDER [WORDS]]]]
 * </pre>
 */
public final class Goodput implements AutoCloseable {
  private static final int BLOCK_BYTES = 262_144;
  private static final int BATCH = 64;
  private static final int BATCHES = 16;
  private static final List<String> SHARES = List.of("0", "0.1", "1", "5"); // per cent
  private static final long ROUND_NANOS = 2_000_000_000;

  private final Path directory;
  private final HostDevice device;
  private final Spillway spillway;

  private Goodput(Path root, FaultSpec faults) throws IOException {
    directory = Files.createTempDirectory(root, "spillway-goodput-");
    device = HostDevice.allocate(KvLayout.ofBlockBytes(BLOCK_BYTES, 16), BATCH * BATCHES);
    spillway =
        Spillway.open(
            SpillwayConfig.builder(directory, device)
                .capacityBytes(2L * BATCH * BATCHES * BLOCK_BYTES)
                .faults(faults)
                .build());
  }

  public static void main(String[] arguments) throws IOException {
    var root = Path.of(arguments.length > 0 ? arguments[0] : "/var/tmp");
    int rounds = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 10;
    var ratios = new double[SHARES.size()][rounds];
    // Faults retire slots, for good in the end, so each round has files of its own.
    for (int round = -1; round < rounds; round++) { // one to warm up
      double base = verifiedBytesPerSecond(root, FaultSpec.NONE);
      var hit = new double[SHARES.size()];
      for (int i = 0; i < SHARES.size(); i++) {
        hit[i] = verifiedBytesPerSecond(root, faults(SHARES.get(i), round));
      }
      double again = verifiedBytesPerSecond(root, FaultSpec.NONE);
      for (int i = 0; round >= 0 && i < SHARES.size(); i++) {
        ratios[i][round] = hit[i] / ((base + again) / 2);
      }
      System.err.printf("goodput: round %d of %d%n", round + 1, rounds);
    }
    var text = page(ratios, rounds, arguments.length > 3 ? arguments[3] : root.toString());
    System.out.println(text);
    if (arguments.length > 2) {
      Files.writeString(Path.of(arguments[2]).resolve("goodput.md"), text);
    }
  }

  private static FaultSpec faults(String share, int seed) {
    return share.equals("0") ? FaultSpec.NONE : FaultSpec.parse("read-eio=" + share + "%", seed);
  }

  private static String page(double[][] ratios, int rounds, String words) {
    var text = new StringBuilder("## Goodput under faults\n\n");
    text.append(
        "%s; verified bytes a second of the same loads with a share of the reads failing (EIO, seeded), over those with none, in turns: 256 KiB blocks, %d rounds of 2 s each way. "
            .formatted(words, rounds));
    text.append(
        "Blocks that were hit count for nothing. Command: `java -cp benchmarks/target/benchmarks.jar dev.spillway.benchmarks.Goodput DIR %d`.\n\n"
            .formatted(rounds));
    text.append("| reads that fail | goodput over none (95 % interval) | gate |\n| --- | --- | --- |\n");
    for (int i = 0; i < SHARES.size(); i++) {
      var ratio = Ratios.of(ratios[i]);
      boolean gated = SHARES.get(i).equals("1");
      text.append(
          "| %s %% | %s | %s |\n"
              .formatted(
                  SHARES.get(i),
                  ratio.told(),
                  gated ? (ratio.median() >= 0.95 ? "0.95: met" : "0.95: **not met**") : ""));
    }
    return text.toString();
  }

  private static double verifiedBytesPerSecond(Path root, FaultSpec faults) throws IOException {
    try (var goodput = new Goodput(root, faults)) {
      return goodput.verifiedBytesPerSecond();
    }
  }

  /** Passes over all blocks for two seconds; what faults took is stored again, untimed. */
  private double verifiedBytesPerSecond() {
    long blocks = 0;
    long nanos = 0;
    while (nanos < ROUND_NANOS) {
      storeAll();
      long begun = System.nanoTime();
      blocks += loadAll();
      nanos += System.nanoTime() - begun;
    }
    return blocks * (double) BLOCK_BYTES * 1e9 / nanos;
  }

  private void storeAll() {
    var results = new ArrayList<CompletableFuture<TransferResult>>();
    for (int batch = 0; batch < BATCHES; batch++) {
      results.add(spillway.store(keys(batch), 0, blocks(batch)));
    }
    results.forEach(spillway::await);
  }

  private long loadAll() {
    var results = new ArrayList<CompletableFuture<TransferResult>>();
    for (int batch = 0; batch < BATCHES; batch++) {
      try (var lease = spillway.lookup(keys(batch))) {
        results.add(spillway.load(lease, Arrays.copyOf(blocks(batch), lease.size())));
      }
    }
    return results.stream().mapToLong(result -> spillway.await(result).moved()).sum();
  }

  private static BlockKeys keys(int batch) {
    var keys = new BlockKeys();
    for (int i = 0; i < BATCH; i++) {
      keys.add((long) batch * BATCH + i, 0);
    }
    return keys;
  }

  private static int[] blocks(int batch) {
    var blocks = new int[BATCH];
    Arrays.setAll(blocks, i -> batch * BATCH + i);
    return blocks;
  }

  @Override
  public void close() {
    spillway.close();
    device.close();
    try {
      for (var path :
          List.of(
              directory.resolve("rank-0-of-1.blocks"),
              directory.resolve("rank-0-of-1.index"),
              directory)) {
        Files.delete(path);
      }
    } catch (IOException e) {
      throw new IllegalStateException(directory + " could not be deleted", e);
    }
  }
}
