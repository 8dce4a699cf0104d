package dev.spillway.block;

import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * What a rank finds in a run of its slots when it opens: records of blocks that an earlier process
 * stored. Each says what should be in its slot; only the checksum of the bytes can say that it is.
 * A run is the same slots on every rank, so that runs can be laid side by side. Filled by one
 * thread, then read by another.
 */
public final class RestoredBlocks {
  /** Slots of a run; the last of a group may have fewer. */
  public static final int SLOTS_MAX = 8192;

  private static final int HEAD_BYTES = 6 * Integer.BYTES;
  private static final int BLOCK_BYTES = 44;
  private static final int END = -1;
  private static final int CUT_OFF = -2;

  private int group;
  private int from;
  private int scanned;
  private int torn;
  private int voided;
  private int size;
  private int[] slots = new int[64];
  private long[] highs = new long[64];
  private long[] lows = new long[64];
  private long[] generations = new long[64];
  private long[] tenants = new long[64];
  private int[] depths = new int[64];
  private int[] lastUses = new int[64];
  private long[] checksums = new long[64]; // of this rank; they do not travel

  /** Begins a run of slots of a group. */
  public RestoredBlocks(int group, int from, int scanned) {
    this.group = group;
    this.from = from;
    this.scanned = scanned;
  }

  /** After the last run: there are no more slots. */
  public static RestoredBlocks end() {
    return new RestoredBlocks(END, 0, 0);
  }

  /** In the place of the end: there may be more, which cannot be read. */
  public static RestoredBlocks cutOff() {
    return new RestoredBlocks(CUT_OFF, 0, 0);
  }

  public boolean isEnd() {
    return group < 0;
  }

  public boolean isCutOff() {
    return group == CUT_OFF;
  }

  /**
   * Adds a record, in the order of the slots.
   *
   * @param lastUse seconds since 1970
   */
  public void add(
      int slot,
      long high,
      long low,
      long generation,
      long checksum,
      long tenant,
      int depth,
      int lastUse) {
    if (size == slots.length) {
      grow(2 * size);
    }
    slots[size] = slot;
    highs[size] = high;
    lows[size] = low;
    generations[size] = generation;
    checksums[size] = checksum;
    tenants[size] = tenant;
    depths[size] = depth;
    lastUses[size] = lastUse;
    size++;
  }

  private void grow(int capacity) {
    slots = Arrays.copyOf(slots, capacity);
    highs = Arrays.copyOf(highs, capacity);
    lows = Arrays.copyOf(lows, capacity);
    generations = Arrays.copyOf(generations, capacity);
    checksums = Arrays.copyOf(checksums, capacity);
    tenants = Arrays.copyOf(tenants, capacity);
    depths = Arrays.copyOf(depths, capacity);
    lastUses = Arrays.copyOf(lastUses, capacity);
  }

  /** A record whose own check is wrong. */
  public void countTorn() {
    torn++;
  }

  /** A whole record that does not count: of before a reset, or of another file. */
  public void countVoided() {
    voided++;
  }

  public int group() {
    return group;
  }

  /** The first slot of the run. */
  public int from() {
    return from;
  }

  /** Slots of the run. */
  public int scanned() {
    return scanned;
  }

  public int torn() {
    return torn;
  }

  public int voided() {
    return voided;
  }

  public int size() {
    return size;
  }

  public int slot(int index) {
    return slots[index];
  }

  public long high(int index) {
    return highs[index];
  }

  public long low(int index) {
    return lows[index];
  }

  public long generation(int index) {
    return generations[index];
  }

  public long checksum(int index) {
    return checksums[index];
  }

  public long tenant(int index) {
    return tenants[index];
  }

  public int depth(int index) {
    return depths[index];
  }

  /** Seconds since 1970. */
  public int lastUse(int index) {
    return lastUses[index];
  }

  /** What {@link #writeTo} takes, bytes. */
  public int encodedBytes() {
    return HEAD_BYTES + size * BLOCK_BYTES;
  }

  /** For a scheduler in another process, in the byte order of the buffer. */
  public void writeTo(ByteBuffer target) {
    target.putInt(group).putInt(from).putInt(scanned).putInt(torn).putInt(voided).putInt(size);
    for (int i = 0; i < size; i++) {
      target.putInt(slots[i]).putLong(highs[i]).putLong(lows[i]).putLong(generations[i]);
      target.putLong(tenants[i]).putInt(depths[i]).putInt(lastUses[i]);
    }
  }

  /**
   * What {@link #writeTo} has written.
   *
   * @throws IllegalArgumentException where it cannot be a run
   */
  public static RestoredBlocks readFrom(ByteBuffer source) {
    var run = new RestoredBlocks(source.getInt(), source.getInt(), source.getInt());
    run.torn = source.getInt();
    run.voided = source.getInt();
    int count = source.getInt();
    boolean right = run.from >= 0 && run.from <= Integer.MAX_VALUE - SLOTS_MAX;
    right &= run.scanned >= 0 && run.scanned <= SLOTS_MAX;
    if (!right || count < 0 || count > run.scanned || source.remaining() != count * BLOCK_BYTES) {
      throw new IllegalArgumentException(
          "a run of %d records in %d slots from %d on".formatted(count, run.scanned, run.from));
    }
    for (int i = 0; i < count; i++) {
      int slot = source.getInt();
      if (slot < run.from || slot >= run.from + run.scanned) {
        throw new IllegalArgumentException("slot " + slot + " in a run from " + run.from);
      }
      run.add(
          slot,
          source.getLong(),
          source.getLong(),
          source.getLong(),
          0,
          source.getLong(),
          source.getInt(),
          source.getInt());
    }
    return run;
  }
}
