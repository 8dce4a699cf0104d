package dev.spillway.benchmarks;

import dev.spillway.block.BlockOutcome;
import dev.spillway.block.DeviceEvent;
import dev.spillway.block.Operation;
import dev.spillway.block.TransferPlan;
import dev.spillway.block.KvLayout;
import dev.spillway.device.HostDevice;
import dev.spillway.engine.CipherKey;
import dev.spillway.engine.EngineOptions;
import dev.spillway.engine.EngineOptions.Allocation;
import dev.spillway.engine.EngineOptions.EngineKind;
import dev.spillway.engine.FaultSpec;
import dev.spillway.engine.NativeEngine;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
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
 * Question: what does a batch cost that crosses the JNI line twice, and does it allocate? The blocks
 * are small and lie in memory, so that crossing, queues and lanes are what is measured. Floor: the
 * same call with nothing to do ({@link #emptyCrossing}). With {@code -prof gc}, bytes a block are
 * (gc.alloc.rate.norm at batch 256 - at batch 1) / 255.
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Fork(1)
@Warmup(iterations = 3, time = 1)
@Measurement(iterations = 5, time = 1)
public class JniLineBenchmark {
  private static final int BLOCKS = 256;
  private static final Duration BOUND = Duration.ofSeconds(1);

  @Param({"1", "32", "256"})
  private int batch;

  private Path directory;
  private HostDevice device;
  private final TransferPlan plan = new TransferPlan();
  private NativeEngine engine;

  @Setup
  public void open() throws IOException {
    directory = Files.createTempDirectory(Path.of("/dev/shm"), "spillway-bench-");
    device = HostDevice.allocate(KvLayout.ofBlockBytes(512, 16), BLOCKS);
    engine =
        NativeEngine.open(
            new EngineOptions(
                directory,
                "benchmark",
                device.layout(),
                0,
                1,
                BLOCKS * 4096L,
                64L << 20,
                32,
                EngineKind.AUTO,
                true,
                0,
                Allocation.PREALLOCATE,
                4096,
                0,
                List.of(List.of(device.pieceAddress(0, 0))),
                List.of(BLOCKS),
                -1,
                "",
                CipherKey.NONE,
                EngineOptions.Keeping.DEFAULT,
                FaultSpec.NONE));
    plan.begin(0, Operation.STORE, 0, DeviceEvent.NOW);
    for (int i = 0; i < BLOCKS; i++) {
      plan.add(i, i, 0, 7, i);
    }
  }

  @TearDown
  public void close() throws IOException {
    engine.close();
    device.close();
    Files.delete(directory.resolve("rank-0-of-1.blocks"));
    Files.delete(directory);
  }

  /** A batch down, all its endings up. */
  @Benchmark
  public int storeBatch() {
    for (int i = 0; i < batch; i++) {
      engine.add(i, plan, i, 7, 0);
    }
    engine.submit();
    int well = 0;
    for (int ended = 0; ended < batch; ) {
      int count = engine.poll();
      for (int i = 0; i < count; i++) {
        well += engine.outcome(i) == BlockOutcome.STORED ? 1 : 0;
      }
      ended += count;
      if (count == 0) {
        engine.await(BOUND);
      }
    }
    if (well != batch) {
      throw new IllegalStateException(well + " of " + batch + " blocks stored");
    }
    return well;
  }

  @Benchmark
  public int emptyCrossing() {
    return engine.poll();
  }
}
