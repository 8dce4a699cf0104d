package dev.spillway.benchmarks;

import dev.spillway.block.BlockKeys;
import dev.spillway.index.BlockIndex;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.Warmup;

/**
 * Question: how many lookups a second does the index answer when it is full? Floor: a random read of
 * an array of as many longs ({@link #randomRead}), which is what one miss of the cache costs.
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.Throughput)
@OutputTimeUnit(TimeUnit.SECONDS)
@Fork(value = 1, jvmArgsAppend = "-Xmx4g")
@Warmup(iterations = 2, time = 1)
@Measurement(iterations = 5, time = 1)
public class IndexBenchmark {
  private static final int PREFIX = 64;
  private static final int PREFIXES = 4096; // drawn beforehand, in turns

  @Param({"1000000", "10000000"})
  private int blocks;

  private BlockIndex index;
  private long[] words;
  private final BlockKeys[] prefixes = new BlockKeys[PREFIXES];
  private final int[] entries = new int[PREFIX];
  private final SplittableRandom random = new SplittableRandom(3);
  private int turn;

  @Setup
  public void fill() {
    index = new BlockIndex(List.of((long) blocks), 1);
    words = new long[blocks];
    int parent = -1;
    for (int block = 0; block < blocks; block++) {
      parent = index.reserve(0, high(block), low(block), block % PREFIX == 0 ? -1 : parent);
      index.commit(parent);
      index.release(parent);
    }
    for (int i = 0; i < PREFIXES; i++) {
      prefixes[i] = new BlockKeys();
      int first = random.nextInt(blocks / PREFIX) * PREFIX;
      for (int block = first; block < first + PREFIX; block++) {
        prefixes[i].add(high(block), low(block));
      }
    }
  }

  private static long high(int block) {
    return block * 0x9e3779b97f4a7c15L;
  }

  private static long low(int block) {
    return Long.reverse(block * 0xbf58476d1ce4e5b9L);
  }

  /** One key of a random block. */
  @Benchmark
  public int find() {
    int block = random.nextInt(blocks);
    return index.find(0, high(block), low(block));
  }

  @Benchmark
  public int findNothing() {
    int block = random.nextInt(blocks);
    return index.find(0, ~high(block), low(block));
  }

  /** A prefix of 64 blocks held and let go, a block. */
  @Benchmark
  @OperationsPerInvocation(PREFIX)
  public int holdPrefix() {
    var keys = prefixes[turn++ % PREFIXES];
    int count = index.holdPrefix(0, keys, 0, entries);
    for (int i = 0; i < count; i++) {
      index.release(entries[i]);
    }
    return count;
  }

  @Benchmark
  public long randomRead() {
    return words[random.nextInt(blocks)];
  }
}
