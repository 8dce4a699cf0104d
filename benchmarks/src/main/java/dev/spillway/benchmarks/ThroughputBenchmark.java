package dev.spillway.benchmarks;

import com.sun.nio.file.ExtendedOpenOption;
import dev.spillway.Spillway;
import dev.spillway.SpillwayConfig;
import dev.spillway.block.BlockKeys;
import dev.spillway.block.KvLayout;
import dev.spillway.block.TransferResult;
import dev.spillway.device.HostDevice;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.AuxCounters;
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
 * Question: how many bytes a second come verified from the disk to the device, and go the other way?
 * Rival in the same run: one direct {@link FileChannel} read at a time with a copy, the loop that
 * one would write first. Disks are shared and noisy: only ratios of one run mean something.
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.Throughput)
@OutputTimeUnit(TimeUnit.SECONDS)
@Fork(1)
@Warmup(iterations = 2, time = 1)
@Measurement(iterations = 5, time = 2)
public class ThroughputBenchmark {
  private static final int BLOCKS = 1024;
  private static final int BATCH = 64;

  @Param({"65536", "262144", "1048576"})
  private int blockBytes;

  @Param({"/var/tmp"})
  private String root;

  private final Random random = new Random(5);
  private final int[][] deviceBlocks = new int[BLOCKS / BATCH][BATCH];
  private Path directory;
  private HostDevice device;
  private Spillway spillway;
  private FileChannel channel;
  private ByteBuffer buffer;
  private long nextKey;

  /** Bytes moved: JMH shows them a second. */
  @State(Scope.Thread)
  @AuxCounters(AuxCounters.Type.OPERATIONS)
  public static class Moved {
    public long bytes;
  }

  @Setup
  public void open() throws IOException {
    directory = Files.createTempDirectory(Path.of(root), "spillway-bench-");
    device = HostDevice.allocate(KvLayout.ofBlockBytes(blockBytes, 16), BLOCKS);
    spillway =
        Spillway.open(
            SpillwayConfig.builder(directory, device)
                .capacityBytes((long) BLOCKS * blockBytes)
                .build());
    for (int i = 0; i < BLOCKS; i++) {
      deviceBlocks[i / BATCH][i % BATCH] = i;
    }
    storeAll();
    channel =
        FileChannel.open(
            directory.resolve("rank-0-of-1.blocks"),
            StandardOpenOption.READ,
            ExtendedOpenOption.DIRECT);
    buffer = ByteBuffer.allocateDirect(blockBytes + 4096).alignedSlice(4096).limit(blockBytes);
  }

  @TearDown
  public void close() throws IOException {
    channel.close();
    spillway.close();
    device.close();
    Files.delete(directory.resolve("rank-0-of-1.blocks"));
    Files.delete(directory.resolve("rank-0-of-1.index"));
    Files.delete(directory);
  }

  private void storeAll() {
    var results = new ArrayList<CompletableFuture<TransferResult>>();
    for (int[] blocks : deviceBlocks) {
      results.add(spillway.store(keys(nextKey), 0, blocks));
      nextKey += BATCH;
    }
    await(results);
  }

  private static BlockKeys keys(long first) {
    var keys = new BlockKeys();
    for (int i = 0; i < BATCH; i++) {
      keys.add(first + i, 0);
    }
    return keys;
  }

  private void await(List<CompletableFuture<TransferResult>> results) {
    for (var result : results) {
      if (!spillway.await(result).isWell()) {
        throw new IllegalStateException(result.join().toString());
      }
    }
  }

  /** Every block once, in an order of batches that differs from round to round. */
  @Benchmark
  public void load(Moved moved) {
    var results = new ArrayList<CompletableFuture<TransferResult>>();
    int first = random.nextInt(deviceBlocks.length);
    for (int i = 0; i < deviceBlocks.length; i++) {
      int batch = (first + i) % deviceBlocks.length;
      try (var lease = spillway.lookup(keys(nextKey - BLOCKS + (long) batch * BATCH))) {
        results.add(spillway.load(lease, deviceBlocks[batch]));
      }
    }
    await(results);
    moved.bytes += (long) BLOCKS * blockBytes;
  }

  @Benchmark
  public void store(Moved moved) {
    storeAll();
    moved.bytes += (long) BLOCKS * blockBytes;
  }

  @Benchmark
  public void rivalOneChannelReadAtATime(Moved moved) throws IOException {
    for (int i = 0; i < BATCH; i++) {
      int slot = random.nextInt(BLOCKS);
      buffer.clear().limit(blockBytes);
      if (channel.read(buffer, 65536 + (long) slot * blockBytes) != blockBytes) {
        throw new IOException("short read");
      }
      device.block(i).put(buffer.flip());
    }
    moved.bytes += (long) BATCH * blockBytes;
  }
}
