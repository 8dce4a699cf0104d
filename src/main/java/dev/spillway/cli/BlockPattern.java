package dev.spillway.cli;

import dev.spillway.block.BlockKey;
import dev.spillway.device.HostDevice;
import java.nio.ByteBuffer;

/**
 * The bytes that stand for a block's KV in the replay: a function of its key, group, piece and
 * place, so that any other block's bytes, and any part of them in another place, differ.
 */
final class BlockPattern {
  private final HostDevice device;

  BlockPattern(HostDevice device) {
    this.device = device;
  }

  /** "Computes" a block. */
  void fill(int group, int block, BlockKey key) {
    int pieces = device.layout().group(group).pieces().size();
    for (int piece = 0; piece < pieces; piece++) {
      long word = first(key, group, piece);
      var bytes = device.piece(group, piece, block);
      int at = 0;
      for (; at + Long.BYTES <= bytes.capacity(); at += Long.BYTES) {
        bytes.putLong(at, word);
        word = next(word);
      }
      for (; at < bytes.capacity(); at++) {
        bytes.put(at, (byte) word);
        word >>>= Byte.SIZE;
      }
    }
  }

  /** Compares a block byte for byte with what was computed under its key. */
  boolean matches(int group, int block, BlockKey key) {
    int pieces = device.layout().group(group).pieces().size();
    for (int piece = 0; piece < pieces; piece++) {
      if (!matches(device.piece(group, piece, block), first(key, group, piece))) {
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

  private static long first(BlockKey key, int group, int piece) {
    long mixed = key.high() ^ Long.rotateLeft(key.low(), 17);
    return mixed + group * 0x9e3779b97f4a7c15L + piece * 0xc2b2ae3d27d4eb4fL;
  }

  /** Weyl sequence with a shift mixed in: one multiplication-free step a word. */
  private static long next(long word) {
    return (word ^ (word >>> 29)) + 0x9e3779b97f4a7c15L;
  }
}
