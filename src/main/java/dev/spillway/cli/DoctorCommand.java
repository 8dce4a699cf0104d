package dev.spillway.cli;

import dev.spillway.Spillway;
import dev.spillway.SpillwayConfig;
import dev.spillway.block.BlockKeys;
import dev.spillway.block.KvLayout;
import dev.spillway.block.TransferResult;
import dev.spillway.device.CudaDevice;
import dev.spillway.device.HostDevice;
import dev.spillway.engine.EngineMode;
import dev.spillway.engine.NativeEngine;
import dev.spillway.engine.OpenRefusedException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.function.LongSupplier;
import picocli.CommandLine.Command;
import picocli.CommandLine.Parameters;

/** {@code spillway doctor}: what this machine offers, and what to change to get more of it. */
@Command(
    name = "doctor",
    mixinStandardHelpOptions = true,
    description =
        "Says what this machine and a directory on it offer, which engine would be chosen, how fast"
            + " it reads and writes, and what to change to get a better one.")
final class DoctorCommand implements Callable<Integer> {
  private static final int BLOCK_BYTES = 256 << 10;
  private static final int BLOCKS = 512;
  private static final int BATCH = 64;
  private static final Duration MEASURE = Duration.ofMillis(2500);

  @Parameters(
      index = "0",
      arity = "0..1",
      paramLabel = "DIR",
      defaultValue = ".",
      description = "Where blocks would go. Default: ${DEFAULT-VALUE}")
  private Path directory = Path.of(".");

  private final List<String> advice = new ArrayList<>();
  private long nextKey = BLOCKS;

  @Override
  public Integer call() throws IOException {
    reportMachine();
    int code = reportDirectory();
    System.out.println();
    if (advice.isEmpty()) {
      System.out.println("Nothing to change.");
    }
    advice.forEach(line -> System.out.println("To change: " + line));
    return code;
  }

  private void reportMachine() {
    say("system", "Linux %s, %s", System.getProperty("os.version"), System.getProperty("os.arch"));
    say("java", "%s", Runtime.version());
    var refusal = NativeEngine.uringRefusal();
    say("io_uring", "%s", refusal.isEmpty() ? "allowed" : "not usable: " + refusal);
    if (!refusal.isEmpty()) {
      advice.add("io_uring: " + refusal);
    }
    say("locked memory", "%s", lockedMemoryLimit());
    say(
        "huge pages",
        "%s reserved, %s free, transparent: %s",
        memInfo("HugePages_Total"),
        memInfo("HugePages_Free"),
        firstLine("/sys/kernel/mm/transparent_hugepage/enabled"));
    say("CUDA", "%s", CudaDevice.probe());
  }

  private int reportDirectory() throws IOException {
    if (!Files.isDirectory(directory)) {
      System.out.println("spillway: " + directory + " is no directory; give one that exists");
      return 1;
    }
    var root = directory.toRealPath();
    say("directory", "%s, %s free", root, Bytes.format(Files.getFileStore(root).getUsableSpace()));
    var trial = Files.createTempDirectory(root, ".spillway-doctor-");
    var layout = KvLayout.ofBlockBytes(BLOCK_BYTES, 16);
    try (var device = HostDevice.allocate(layout, BLOCKS)) {
      measure(trial, device);
      return 0;
    } catch (OpenRefusedException e) {
      say("engine", "none: %s", String.valueOf(e.getMessage()));
      advice.add(String.valueOf(e.getMessage()));
      return 1;
    } finally {
      Files.delete(trial);
    }
  }

  private void measure(Path trial, HostDevice device) {
    var config =
        SpillwayConfig.builder(trial, device)
            .nameSpace("doctor")
            .warmRestart(false)
            .capacityBytes((long) BLOCKS * BLOCK_BYTES)
            .build();
    try (var spillway = Spillway.open(config)) {
      reportMode(spillway.stats().mode());
      double write = gigabytesPerSecond(() -> storeBatches(spillway));
      double read = gigabytesPerSecond(() -> loadBatches(spillway));
      var lanes = spillway.stats().engine();
      say(
          "measured",
          "write %.2f GB/s, read %.2f GB/s in 5 s, blocks of 256 KiB, %.0f and %.0f in flight",
          write,
          read,
          lanes.store().inFlightMean(),
          lanes.load().inFlightMean());
    }
  }

  private void reportMode(EngineMode mode) {
    say(
        "file system",
        "%s, %s, alignment %d",
        mode.fileSystem(),
        mode.direct() ? "direct I/O" : "buffered",
        mode.alignment());
    say(
        "engine",
        "%s%s, %s, %s, %s, staging in %s pages, checksum %s",
        mode.kind(),
        mode.kindReason().isEmpty() ? "" : " (" + mode.kindReason() + ")",
        mode.registeredFile() ? "registered file" : "plain file",
        mode.registered() ? "registered buffers" : "plain buffers",
        mode.deferTaskrun() ? "deferred task work" : "no deferred task work",
        mode.stagingPages(),
        mode.checksum());
    advice.addAll(mode.notices());
    if (mode.stagingPages().equals("small")) {
      advice.add("enable transparent huge pages (madvise) or reserve some (vm.nr_hugepages)");
    }
    if (mode.kind().equals("uring") && !mode.deferTaskrun()) {
      advice.add("kernel 6.1 or newer lets the lane reap its own completions");
    }
  }

  /** Bytes that one round moves, divided by the time, for as long as a measurement lasts. */
  private static double gigabytesPerSecond(LongSupplier round) {
    long startedAt = System.nanoTime();
    long bytes = 0;
    while (System.nanoTime() - startedAt < MEASURE.toNanos()) {
      bytes += round.getAsLong();
    }
    return (double) bytes / (System.nanoTime() - startedAt);
  }

  /** Every round stores new keys, so that old ones make room. */
  private long storeBatches(Spillway spillway) {
    var results = new ArrayList<CompletableFuture<TransferResult>>();
    for (int from = 0; from < BLOCKS; from += BATCH) {
      results.add(spillway.store(keys(nextKey + from), 0, range(from, BATCH)));
    }
    nextKey += BLOCKS;
    return bytesMoved(spillway, results);
  }

  private long loadBatches(Spillway spillway) {
    var results = new ArrayList<CompletableFuture<TransferResult>>();
    for (int from = 0; from < BLOCKS; from += BATCH) {
      try (var lease = spillway.lookup(keys(nextKey - BLOCKS + from))) {
        results.add(spillway.load(lease, range(from, lease.size())));
      }
    }
    return bytesMoved(spillway, results);
  }

  private static long bytesMoved(
      Spillway spillway, List<CompletableFuture<TransferResult>> results) {
    return results.stream().mapToLong(result -> spillway.await(result).moved()).sum() * BLOCK_BYTES;
  }

  private static BlockKeys keys(long first) {
    var keys = new BlockKeys();
    for (int i = 0; i < BATCH; i++) {
      keys.add(0, first + i);
    }
    return keys;
  }

  private static int[] range(int from, int count) {
    var numbers = new int[count];
    for (int i = 0; i < count; i++) {
      numbers[i] = from + i;
    }
    return numbers;
  }

  private String lockedMemoryLimit() {
    var line = lineStarting("/proc/self/limits", "Max locked memory");
    var fields = line.split("\\s+", -1);
    var limit = fields.length > 3 ? fields[3] : "unknown";
    if (limit.equals("unlimited") || limit.equals("unknown")) {
      return limit;
    }
    return Bytes.format(Long.parseLong(limit))
        + " (not enforced for root; the engine pins up to 512 MiB, and works unpinned below)";
  }

  private static String memInfo(String name) {
    return lineStarting("/proc/meminfo", name + ":").replaceAll("[^0-9]", "");
  }

  private static String firstLine(String file) {
    return lineStarting(file, "");
  }

  private static String lineStarting(String file, String prefix) {
    try (var lines = Files.lines(Path.of(file))) {
      return lines.filter(line -> line.startsWith(prefix)).findFirst().orElse("unknown");
    } catch (IOException e) {
      return "unknown"; // a kernel without this file; the report says so
    }
  }

  private static void say(String name, String format, Object... values) {
    System.out.printf(Locale.ROOT, "  %-16s%s%n", name, String.format(Locale.ROOT, format, values));
  }
}
