package dev.spillway.testing;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.spillway.Spillway;
import dev.spillway.SpillwayConfig;
import dev.spillway.block.BlockKeys;
import dev.spillway.block.KvLayout;
import dev.spillway.block.TransferResult;
import dev.spillway.device.BlockMemory;
import dev.spillway.engine.EngineOptions.EngineKind;
import dev.spillway.engine.NativeEngine;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.function.UnaryOperator;

/**
 * A Spillway over a real engine and a real disk, with device memory whose blocks carry a number in
 * every word. Closing it checks that nothing is held and nothing was lost.
 */
public final class SpillwayFixture implements AutoCloseable {
  public final BlockMemory device;
  public final Spillway spillway;

  public SpillwayFixture(
      Path directory,
      KvLayout layout,
      int deviceBlocks,
      UnaryOperator<SpillwayConfig.Builder> options) {
    this(directory, TestDevices.allocate(layout, deviceBlocks), options);
  }

  /** The same over device memory that is closed with it. */
  public SpillwayFixture(
      Path directory, BlockMemory device, UnaryOperator<SpillwayConfig.Builder> options) {
    this.device = device;
    try {
      spillway =
          Spillway.open(
              options.apply(SpillwayConfig.builder(directory, device).nameSpace("test")).build());
    } catch (RuntimeException | Error e) {
      device.close();
      throw e;
    }
  }

  /** 32 device blocks of 16 KiB and 64 slots. */
  public static SpillwayFixture small(
      Path directory, UnaryOperator<SpillwayConfig.Builder> options) {
    return new SpillwayFixture(
        directory,
        KvLayout.ofBlockBytes(16384, 16),
        32,
        builder -> options.apply(builder.capacityBytes(64 * 16384)));
  }

  public static SpillwayFixture small(Path directory) {
    return small(directory, UnaryOperator.identity());
  }

  /** Skips the test where the machine refuses this engine. */
  public static void assumeAllowed(EngineKind kind) {
    var refusal = NativeEngine.uringRefusal();
    assumeTrue(kind != EngineKind.URING || refusal.isEmpty(), refusal);
  }

  public static UnaryOperator<SpillwayConfig.Builder> engine(EngineKind kind, boolean thread) {
    return builder -> builder.engine(kind).workerThread(thread);
  }

  /** Keys number {@code first} and on. */
  public static BlockKeys keys(long first, int count) {
    var keys = new BlockKeys();
    for (int i = 0; i < count; i++) {
      keys.add(first + i, ~(first + i));
    }
    return keys;
  }

  public static int[] range(int first, int count) {
    var numbers = new int[count];
    for (int i = 0; i < count; i++) {
      numbers[i] = first + i;
    }
    return numbers;
  }

  /** Writes a number's pattern into every byte of a block, all groups and pieces. */
  public void fill(int block, long number) {
    eachByte(block, number, true);
  }

  /** Whether every byte of the block is that of the number's pattern. */
  public boolean holds(int block, long number) {
    return eachByte(block, number, false);
  }

  private boolean eachByte(int block, long number, boolean write) {
    var layout = device.layout();
    for (int group = 0; group < layout.groups().size(); group++) {
      for (int piece = 0; piece < layout.group(group).pieces().size(); piece++) {
        var bytes =
            ByteBuffer.allocateDirect((int) layout.group(group).pieces().get(piece).bytes());
        if (!write) {
          device.read(group, piece, block, bytes);
        }
        for (int at = 0; at < bytes.capacity(); at++) {
          byte expected =
              (byte) ((number + 1) * 31 + group * 17L + piece * 7L + at * 5L + (at >> 8));
          if (write) {
            bytes.put(at, expected);
          } else if (bytes.get(at) != expected) {
            return false;
          }
        }
        if (write) {
          device.write(group, piece, block, bytes);
        }
      }
    }
    return true;
  }

  /** Fills blocks with the numbers of their keys and stores them. */
  public TransferResult store(long firstKey, int firstBlock, int count) {
    for (int i = 0; i < count; i++) {
      fill(firstBlock + i, firstKey + i);
    }
    return spillway.await(spillway.store(keys(firstKey, count), 0, range(firstBlock, count)));
  }

  /** Loads what a look-up finds of these keys. */
  public TransferResult load(long firstKey, int count, int firstBlock) {
    try (var lease = spillway.lookup(keys(firstKey, count))) {
      return spillway.await(spillway.load(lease, range(firstBlock, lease.size())));
    }
  }

  public int hits(long firstKey, int count) {
    try (var lease = spillway.lookup(keys(firstKey, count))) {
      return lease.size();
    }
  }

  @Override
  public void close() {
    spillway.close();
    var stats = spillway.stats();
    device.close();
    if (stats.heldBlocks() != 0 || stats.blocksInFlight() != 0) {
      throw new AssertionError("held or in flight after close: " + stats);
    }
    if (stats.unknownEndings() != 0 || stats.doubleEndings() != 0) {
      throw new AssertionError("endings that fit no block: " + stats);
    }
    if (stats.engine().load().strays() + stats.engine().store().strays() != 0) {
      throw new AssertionError("stray completions: " + stats);
    }
  }
}
