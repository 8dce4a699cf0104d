package dev.spillway.cli;

import dev.spillway.block.BlockKey;
import dev.spillway.device.BlockMemory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The bytes that stand for a block's KV in the replay: a function of its key, group, piece and
 * place, so that any other block's bytes, and any part of them in another place, differ.
 */
final class BlockPattern {
  private final List<? extends BlockMemory> devices;
  private final Map<Integer, ByteBuffer> buffers = new HashMap<>(); // by size

  /**
   * @param devices of the ranks, which hold different bytes under one key
   */
  BlockPattern(List<? extends BlockMemory> devices) {
    this.devices = devices;
  }

  /** "Computes" a block. */
  void fill(int group, int block, BlockKey key) {
    for (int rank = 0; rank < devices.size(); rank++) {
      fill(rank, group, block, key);
    }
  }

  private void fill(int rank, int group, int block, BlockKey key) {
    var device = devices.get(rank);
    int pieces = device.layout().group(group).pieces().size();
    for (int piece = 0; piece < pieces; piece++) {
      long word = first(key, rank, group, piece);
      var bytes = buffer(device, group, piece);
      int at = 0;
      for (; at + Long.BYTES <= bytes.capacity(); at += Long.BYTES) {
        bytes.putLong(at, word);
        word = next(word);
      }
      for (; at < bytes.capacity(); at++) {
        bytes.put(at, (byte) word);
        word >>>= Byte.SIZE;
      }
      device.write(group, piece, block, bytes);
    }
  }

  private ByteBuffer buffer(BlockMemory device, int group, int piece) {
    int bytes = Math.toIntExact(device.layout().group(group).pieces().get(piece).bytes());
    return buffers.computeIfAbsent(
        bytes, size -> ByteBuffer.allocateDirect(size).order(ByteOrder.nativeOrder()));
  }

  /** Compares a block byte for byte with what was computed under its key. */
  boolean matches(int group, int block, BlockKey key) {
    for (int rank = 0; rank < devices.size(); rank++) {
      if (!matches(rank, group, block, key)) {
        return false;
      }
    }
    return true;
  }

  private boolean matches(int rank, int group, int block, BlockKey key) {
    var device = devices.get(rank);
    int pieces = device.layout().group(group).pieces().size();
    for (int piece = 0; piece < pieces; piece++) {
      var bytes = buffer(device, group, piece);
      device.read(group, piece, block, bytes);
      if (!matches(bytes, first(key, rank, group, piece))) {
        return false;
      }
    }
    return true;
  }

  private static boolean matches(ByteBuffer bytes, long word) {
    int at = 0;
    for (; at + Long.BYTES <= bytes.capacity(); at += Long.BYTES) {
      if (bytes.getLong(at) != word) {
        return false;
      }
      word = next(word);
    }
    for (; at < bytes.capacity(); at++) {
      if (bytes.get(at) != (byte) word) {
        return false;
      }
      word >>>= Byte.SIZE;
    }
    return true;
  }

  private static long first(BlockKey key, int rank, int group, int piece) {
    long mixed = key.high() ^ Long.rotateLeft(key.low(), 17);
    return mixed
        + rank * 0x165667b19e3779f9L
        + group * 0x9e3779b97f4a7c15L
        + piece * 0xc2b2ae3d27d4eb4fL;
  }

  /** Weyl sequence with a shift mixed in: one multiplication-free step a word. */
  private static long next(long word) {
    return (word ^ (word >>> 29)) + 0x9e3779b97f4a7c15L;
  }
}
