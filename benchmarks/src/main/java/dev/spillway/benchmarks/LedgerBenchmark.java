package dev.spillway.benchmarks;

import dev.spillway.Spillway;
import dev.spillway.SpillwayConfig;
import dev.spillway.block.BlockKeys;
import dev.spillway.block.DeviceEvent;
import dev.spillway.block.KvLayout;
import dev.spillway.block.TransferResult;
import dev.spillway.device.HostDevice;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/**
 * Question: what does a scheduler's step cost when many requests are on their way? They wait for a
 * step that does not come, so that none ends. Floor: the same with none on its way.
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.Throughput)
@OutputTimeUnit(TimeUnit.SECONDS)
@Fork(1)
@Warmup(iterations = 3, time = 1)
@Measurement(iterations = 5, time = 1)
public class LedgerBenchmark {
  private static final int BLOCKS_A_REQUEST = 4;
  private static final long NEVER = Long.MAX_VALUE;

  @Param({"0", "1000"})
  private int requests;

  private Path directory;
  private HostDevice device;
  private Spillway spillway;
  private final List<CompletableFuture<TransferResult>> open = new ArrayList<>();
  private final BlockKeys none = new BlockKeys();

  @Setup
  public void begin() throws IOException {
    directory = Files.createTempDirectory(Path.of("/dev/shm"), "spillway-bench-");
    int blocks = (requests + 1) * BLOCKS_A_REQUEST;
    device = HostDevice.allocate(KvLayout.ofBlockBytes(512, 16), blocks);
    spillway =
        Spillway.open(
            SpillwayConfig.builder(directory, device).capacityBytes(blocks * 4096L).build());
    for (int request = 0; request < requests; request++) {
      var keys = new BlockKeys();
      var deviceBlocks = new int[BLOCKS_A_REQUEST];
      for (int i = 0; i < BLOCKS_A_REQUEST; i++) {
        keys.add(request, i);
        deviceBlocks[i] = request * BLOCKS_A_REQUEST + i;
      }
      open.add(
          spillway.store(request + 1, 0, keys, 0, deviceBlocks, DeviceEvent.ofStep(NEVER)));
    }
    none.add(-1, -1);
  }

  @TearDown
  public void end() throws IOException {
    spillway.close();
    device.close();
    try (var files = Files.list(directory)) {
      for (var file : files.toList()) {
        Files.delete(file);
      }
    }
    Files.delete(directory);
  }

  /** What a step does when there is nothing for it: one look-up and one poll. */
  @Benchmark
  public int step() {
    try (var lease = spillway.lookup(none)) {
      return lease.size() + spillway.poll();
    }
  }
}
