package dev.spillway.worker;

import java.nio.ByteBuffer;
import java.util.zip.CRC32;
import java.util.zip.CRC32C;

/**
 * One record of an index file: what should be in one slot. 64 bytes, little endian, as {@code
 * docs/FORMAT.md} has it; all zero where the slot is empty. Its check covers the record, its place
 * and the identity of the block file, so that a record which was torn, or is not where it was
 * written, or belongs to another file, does not count.
 */
final class IndexRecord {
  static final int BYTES = 64;

  static final int HIGH = 0;
  static final int LOW = 8;
  static final int GENERATION = 16;
  static final int CHECKSUM = 24;
  static final int LENGTH = 32;
  static final int GROUP = 36;
  static final int FLAGS = 38;
  static final int DEPTH = 40;
  static final int LAST_USE = 44;
  static final int TENANT = 48;
  static final int CHECK = 56;

  private IndexRecord() {}

  /** Whether the slot is empty: nothing was ever written here, or it was erased. */
  static boolean isEmpty(ByteBuffer records, int at) {
    for (int word = 0; word < BYTES; word += Long.BYTES) {
      if (records.getLong(at + word) != 0) {
        return false;
      }
    }
    return true;
  }

  static void write(ByteBuffer records, int at, SlotTable slots, int entry, int group, int length) {
    records
        .putLong(at + HIGH, slots.high(entry))
        .putLong(at + LOW, slots.low(entry))
        .putLong(at + GENERATION, slots.generation(entry))
        .putLong(at + CHECKSUM, slots.checksum(entry))
        .putInt(at + LENGTH, length)
        .putShort(at + GROUP, (short) group)
        .putShort(at + FLAGS, (short) 0)
        .putInt(at + DEPTH, slots.depth(entry))
        .putInt(at + LAST_USE, slots.lastUse(entry))
        .putLong(at + TENANT, slots.tenant(entry));
  }

  static void erase(ByteBuffer records, int at) {
    for (int word = 0; word < BYTES; word += Long.BYTES) {
      records.putLong(at + word, 0);
    }
  }

  /** Computes checks. Not thread-safe. */
  static final class Checker {
    private final CRC32C low = new CRC32C();
    private final CRC32 high = new CRC32();
    private final ByteBuffer place = ByteBuffer.allocate(2 * Long.BYTES);
    private final long identity;

    Checker(long identity) {
      this.identity = identity;
    }

    /** CRC-32C in the low half, CRC-32 in the high one, of identity, slot and the record. */
    long check(ByteBuffer records, int at, int slot) {
      place.clear().putLong(Long.reverseBytes(identity)).putLong(Long.reverseBytes(slot));
      var bytes = records.duplicate().limit(at + CHECK).position(at);
      low.reset();
      low.update(place.flip());
      low.update(bytes);
      high.reset();
      high.update(place.flip());
      high.update(bytes.position(at));
      return high.getValue() << 32 | low.getValue();
    }
  }
}
