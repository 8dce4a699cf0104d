package dev.spillway.device;

import dev.spillway.block.KvLayout;
import java.nio.ByteBuffer;

/**
 * Where the tensors of a layout lie in one allocation: one after the other, each at a multiple of
 * 64 bytes. Immutable.
 */
final class TensorPlaces {
  private static final long TENSOR_ALIGNMENT = 64;

  private final KvLayout layout;
  private final int[] blockCounts;
  private final long[][] offsets;
  private final long bytes;

  TensorPlaces(KvLayout layout, int[] blockCounts) {
    if (blockCounts.length != layout.groups().size()) {
      throw new IllegalArgumentException(
          blockCounts.length + " block counts for " + layout.groups().size() + " groups");
    }
    this.layout = layout;
    this.blockCounts = blockCounts.clone();
    offsets = new long[blockCounts.length][];
    long at = 0;
    for (int group = 0; group < offsets.length; group++) {
      if (blockCounts[group] < 1) {
        throw new IllegalArgumentException(
            "a block count of " + blockCounts[group] + "; at least 1 would be right");
      }
      var pieces = layout.group(group).pieces();
      offsets[group] = new long[pieces.size()];
      for (int piece = 0; piece < pieces.size(); piece++) {
        offsets[group][piece] = at;
        long size = Math.multiplyExact(pieces.get(piece).stride(), (long) blockCounts[group]);
        at = Math.addExact(at, (size + TENSOR_ALIGNMENT - 1) / TENSOR_ALIGNMENT * TENSOR_ALIGNMENT);
      }
    }
    bytes = at;
  }

  KvLayout layout() {
    return layout;
  }

  int blockCount(int group) {
    return blockCounts[group];
  }

  /** Of all tensors. */
  long bytes() {
    return bytes;
  }

  long offset(int group, int piece) {
    return offsets[group][piece];
  }

  long offset(int group, int piece, int block) {
    if (block < 0 || block >= blockCounts[group]) {
      throw new IndexOutOfBoundsException("block " + block + " of " + blockCounts[group]);
    }
    return offsets[group][piece] + block * layout.group(group).pieces().get(piece).stride();
  }

  /** Refuses a buffer that is not just as large as a block's piece. */
  void checkSize(int group, int piece, ByteBuffer buffer) {
    long size = layout.group(group).pieces().get(piece).bytes();
    if (buffer.remaining() != size) {
      throw new IllegalArgumentException(
          "a buffer of %d bytes for a piece of %d".formatted(buffer.remaining(), size));
    }
  }
}
