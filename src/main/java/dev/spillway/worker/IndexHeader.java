package dev.spillway.worker;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;

/**
 * The first 4096 bytes of an index file, little endian, as {@code docs/FORMAT.md} has them.
 *
 * @param version of the format
 * @param identity of the block file that the records are of
 * @param epoch of the last open
 * @param floor generations up to this one are void: they were of before a reset
 * @param slotCounts of each group
 * @param regionOffsets where each group's slots begin in the block file
 */
record IndexHeader(
    int version,
    long identity,
    long epoch,
    long floor,
    int rank,
    int rankCount,
    long fingerprint,
    List<Long> slotCounts,
    List<Long> regionOffsets) {
  static final int BYTES = 4096;
  static final int VERSION = 1;

  private static final long MAGIC = 0x58444e494c4c5053L; // "SPLLINDX" as bytes
  private static final int AT_VERSION = 8;
  private static final int AT_HEADER_BYTES = 12;
  private static final int AT_RECORD_BYTES = 16;
  private static final int AT_GROUP_COUNT = 20;
  private static final int AT_IDENTITY = 24;
  private static final int AT_EPOCH = 32;
  private static final int AT_FLOOR = 40;
  private static final int AT_RANK = 48;
  private static final int AT_RANK_COUNT = 52;
  private static final int AT_FINGERPRINT = 56;
  private static final int AT_GROUPS = 64;
  private static final int GROUP_BYTES = 16;
  private static final int AT_CHECK = BYTES - Long.BYTES;
  private static final int GROUPS_MAX = 16;
  private static final long SLOTS_MAX = 1L << 30;
  private static final long EPOCH_MAX = 0xfffffffdL; // the high half of a generation

  IndexHeader {
    slotCounts = List.copyOf(slotCounts);
    regionOffsets = List.copyOf(regionOffsets);
  }

  /** Why bytes are no header. */
  static final class Unreadable extends Exception {
    private static final long serialVersionUID = 1L;

    Unreadable(String message) {
      super(message);
    }
  }

  /** The version that a header says, or null where it is none or its check is wrong. */
  static @Nullable Integer versionOf(ByteBuffer bytes) {
    boolean right =
        bytes.remaining() == BYTES
            && bytes.getLong(0) == MAGIC
            && bytes.getLong(AT_CHECK) == checkOf(bytes);
    return right ? bytes.getInt(AT_VERSION) : null;
  }

  static ByteBuffer bytesOf(FileChannel file) throws IOException {
    var bytes = ByteBuffer.allocate(BYTES).order(ByteOrder.LITTLE_ENDIAN);
    while (bytes.hasRemaining() && file.read(bytes, bytes.position()) >= 0) {
      // until the header is whole or the file ends
    }
    return bytes.flip();
  }

  static IndexHeader read(ByteBuffer bytes) throws Unreadable {
    if (bytes.remaining() < BYTES) {
      throw new Unreadable("it is cut off after " + bytes.remaining() + " bytes");
    }
    if (versionOf(bytes) == null) {
      int said = bytes.getLong(0) == MAGIC ? bytes.getInt(AT_VERSION) : VERSION;
      throw new Unreadable(
          "its header is damaged"
              + (said == VERSION ? "" : ", or of format version %d".formatted(said)));
    }
    int version = bytes.getInt(AT_VERSION);
    if (version != VERSION) {
      throw new Unreadable(
          "it is of format version %d; this library reads %d".formatted(version, VERSION));
    }
    int groups = bytes.getInt(AT_GROUP_COUNT);
    bound("groups", groups, 1, GROUPS_MAX);
    bound("bytes a record", bytes.getInt(AT_RECORD_BYTES), IndexRecord.BYTES, IndexRecord.BYTES);
    bound("epoch", bytes.getLong(AT_EPOCH), 0, EPOCH_MAX);
    var counts = new ArrayList<Long>();
    var offsets = new ArrayList<Long>();
    for (int group = 0; group < groups; group++) {
      long count = bytes.getLong(AT_GROUPS + group * GROUP_BYTES);
      bound("slots of group " + group, count, 0, SLOTS_MAX);
      counts.add(count);
      offsets.add(bytes.getLong(AT_GROUPS + group * GROUP_BYTES + Long.BYTES));
    }
    return new IndexHeader(
        bytes.getInt(AT_VERSION),
        bytes.getLong(AT_IDENTITY),
        bytes.getLong(AT_EPOCH),
        bytes.getLong(AT_FLOOR),
        bytes.getInt(AT_RANK),
        bytes.getInt(AT_RANK_COUNT),
        bytes.getLong(AT_FINGERPRINT),
        counts,
        offsets);
  }

  /** A check that is right is no proof: whoever may write the file can make one. */
  private static void bound(String field, long value, long min, long max) throws Unreadable {
    if (value < min || value > max) {
      throw new Unreadable(
          "its header says %d %s; %d to %d are right".formatted(value, field, min, max));
    }
  }

  ByteBuffer bytes() {
    var bytes = ByteBuffer.allocate(BYTES).order(ByteOrder.LITTLE_ENDIAN);
    bytes
        .putLong(0, MAGIC)
        .putInt(AT_VERSION, version)
        .putInt(AT_HEADER_BYTES, BYTES)
        .putInt(AT_RECORD_BYTES, IndexRecord.BYTES)
        .putInt(AT_GROUP_COUNT, slotCounts.size())
        .putLong(AT_IDENTITY, identity)
        .putLong(AT_EPOCH, epoch)
        .putLong(AT_FLOOR, floor)
        .putInt(AT_RANK, rank)
        .putInt(AT_RANK_COUNT, rankCount)
        .putLong(AT_FINGERPRINT, fingerprint);
    for (int group = 0; group < slotCounts.size(); group++) {
      bytes
          .putLong(AT_GROUPS + group * GROUP_BYTES, slotCounts.get(group))
          .putLong(AT_GROUPS + group * GROUP_BYTES + Long.BYTES, regionOffsets.get(group));
    }
    return bytes.putLong(AT_CHECK, checkOf(bytes));
  }

  private static long checkOf(ByteBuffer bytes) {
    var covered = bytes.duplicate().limit(AT_CHECK).position(0);
    var low = new CRC32C();
    low.update(covered);
    var high = new CRC32();
    high.update(covered.position(0));
    return high.getValue() << 32 | low.getValue();
  }

  IndexHeader withEpoch(long newEpoch) {
    return new IndexHeader(
        version,
        identity,
        newEpoch,
        floor,
        rank,
        rankCount,
        fingerprint,
        slotCounts,
        regionOffsets);
  }

  IndexHeader withFloor(long newFloor) {
    return new IndexHeader(
        version,
        identity,
        epoch,
        newFloor,
        rank,
        rankCount,
        fingerprint,
        slotCounts,
        regionOffsets);
  }

  long slots() {
    return slotCounts.stream().mapToLong(Long::longValue).sum();
  }

  long fileBytes() {
    return BYTES + slots() * IndexRecord.BYTES;
  }

  /** Where a group's records begin in the index file. */
  long recordsOf(int group) {
    long before = slotCounts.subList(0, group).stream().mapToLong(Long::longValue).sum();
    return BYTES + before * IndexRecord.BYTES;
  }
}
