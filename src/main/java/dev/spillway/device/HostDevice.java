package dev.spillway.device;

import dev.spillway.block.KvLayout;
import dev.spillway.engine.NativeMemory;
import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * Device memory that is host memory: for engines that run on the processor, for the replay and for
 * tests. Tensors lie one after the other in one mapping of huge pages, each at a multiple of 64
 * bytes. Views may be used by any thread, subject to the transfers in flight.
 */
public final class HostDevice implements DeviceMemory, AutoCloseable {
  private static final long TENSOR_ALIGNMENT = 64;

  private final KvLayout layout;
  private final int[] blockCounts;
  private final long[][] offsets;
  private final NativeMemory memory;

  private HostDevice(KvLayout layout, int[] blockCounts) {
    this.layout = layout;
    this.blockCounts = blockCounts;
    offsets = new long[layout.groups().size()][];
    long at = 0;
    for (int group = 0; group < offsets.length; group++) {
      var pieces = layout.group(group).pieces();
      offsets[group] = new long[pieces.size()];
      for (int piece = 0; piece < pieces.size(); piece++) {
        offsets[group][piece] = at;
        long bytes = Math.multiplyExact(pieces.get(piece).stride(), (long) blockCounts[group]);
        at =
            Math.addExact(at, (bytes + TENSOR_ALIGNMENT - 1) / TENSOR_ALIGNMENT * TENSOR_ALIGNMENT);
      }
    }
    memory = NativeMemory.map(at);
  }

  /** Memory for {@code blockCount} blocks of every group, all zero. */
  public static HostDevice allocate(KvLayout layout, int blockCount) {
    var counts = new int[layout.groups().size()];
    Arrays.fill(counts, blockCount);
    return allocate(layout, counts);
  }

  /** Memory for so many blocks of each group. */
  public static HostDevice allocate(KvLayout layout, int[] blockCounts) {
    if (blockCounts.length != layout.groups().size()) {
      throw new IllegalArgumentException(
          blockCounts.length + " block counts for " + layout.groups().size() + " groups");
    }
    for (int count : blockCounts) {
      if (count < 1) {
        throw new IllegalArgumentException(
            "a block count of " + count + "; at least 1 would be right");
      }
    }
    return new HostDevice(layout, blockCounts.clone());
  }

  @Override
  public KvLayout layout() {
    return layout;
  }

  @Override
  public int blockCount(int group) {
    return blockCounts[group];
  }

  @Override
  public long pieceAddress(int group, int piece) {
    return memory.address() + offsets[group][piece];
  }

  /** The bytes of one block's piece, in the byte order of this machine. */
  public ByteBuffer piece(int group, int piece, int block) {
    if (block < 0 || block >= blockCounts[group]) {
      throw new IndexOutOfBoundsException("block " + block + " of " + blockCounts[group]);
    }
    var shape = layout.group(group).pieces().get(piece);
    return memory.view(
        offsets[group][piece] + block * shape.stride(), Math.toIntExact(shape.bytes()));
  }

  /** The bytes of a block of group 0 whose blocks are one piece. */
  public ByteBuffer block(int block) {
    return piece(0, 0, block);
  }

  @Override
  public void close() {
    memory.close();
  }
}
