package dev.spillway.block;

import java.nio.ByteBuffer;

/**
 * What there is to tell of blocks, as one rank reports them. Filled by the worker, read by the
 * scheduler's side, then handed back to be filled again; primitive arrays, so nothing is allocated
 * for a block.
 */
public final class RankReport {
  public static final int CAPACITY = 256;

  /** The outcome is known: once for each block. */
  public static final int ENDED = 1;

  /** Neither kernel nor device can touch the block's memory any more: once for each block. */
  public static final int QUIET = 2;

  /** The slot on disk is to blame. */
  public static final int MEDIUM = 4;

  /** The device block of a store is copied. */
  public static final int COPIED = 8;

  /** The file system is full, over its quota or takes no writes. */
  public static final int NO_ROOM = 16;

  private static final int ENTRY_BYTES = 34;
  private static final BlockOutcome[] OUTCOMES = BlockOutcome.values();
  private static final BlockStage[] STAGES = BlockStage.values();

  private final long[] transferIds = new long[CAPACITY];
  private final int[] positions = new int[CAPACITY];
  private final BlockOutcome[] outcomes = new BlockOutcome[CAPACITY];
  private final BlockStage[] stages = new BlockStage[CAPACITY];
  private final int[] errnos = new int[CAPACITY];
  private final int[] bytesDone = new int[CAPACITY];
  private final long[] nanos = new long[CAPACITY];
  private final int[] flags = new int[CAPACITY];
  private int size;
  private int rank;

  public void begin(int newRank) {
    rank = newRank;
    size = 0;
  }

  /**
   * Adds what there is to tell of a block.
   *
   * @param told which of the flags above
   * @param outcome where it has ended
   * @param spentNanos from submission to ending
   */
  public void add(
      long transferId,
      int position,
      int told,
      BlockOutcome outcome,
      BlockStage stage,
      int errno,
      int bytes,
      long spentNanos) {
    transferIds[size] = transferId;
    positions[size] = position;
    outcomes[size] = outcome;
    stages[size] = stage;
    errnos[size] = errno;
    bytesDone[size] = bytes;
    nanos[size] = spentNanos;
    flags[size] = told;
    size++;
  }

  /** What {@link #writeTo} takes, bytes. */
  public int encodedBytes() {
    return 2 * Integer.BYTES + size * ENTRY_BYTES;
  }

  /** For a scheduler in another process, in the byte order of the buffer. */
  @SuppressWarnings("EnumOrdinal") // both ends have the same version
  public void writeTo(ByteBuffer target) {
    target.putInt(rank).putInt(size);
    for (int i = 0; i < size; i++) {
      target
          .putLong(transferIds[i])
          .putInt(positions[i])
          .putInt(flags[i])
          .put((byte) outcomes[i].ordinal())
          .put((byte) stages[i].ordinal())
          .putInt(errnos[i])
          .putInt(bytesDone[i])
          .putLong(nanos[i]);
    }
  }

  /**
   * Takes in what {@link #writeTo} has written.
   *
   * @throws IllegalArgumentException where it cannot be a report
   */
  public void readFrom(ByteBuffer source) {
    begin(source.getInt());
    int count = source.getInt();
    if (count < 0 || count > CAPACITY || source.remaining() != count * ENTRY_BYTES) {
      throw new IllegalArgumentException(
          "a report of %d entries in %d bytes".formatted(count, source.remaining()));
    }
    for (int i = 0; i < count; i++) {
      long id = source.getLong();
      int position = source.getInt();
      int told = source.getInt();
      int outcome = source.get();
      int stage = source.get();
      if (position < 0) {
        throw new IllegalArgumentException("a report of position " + position);
      }
      if (outcome < 0 || outcome >= OUTCOMES.length || stage < 0 || stage >= STAGES.length) {
        throw new IllegalArgumentException(
            "a report with outcome %d and stage %d".formatted(outcome, stage));
      }
      add(
          id,
          position,
          told,
          OUTCOMES[outcome],
          STAGES[stage],
          source.getInt(),
          source.getInt(),
          source.getLong());
    }
  }

  public boolean isFull() {
    return size == CAPACITY;
  }

  public int size() {
    return size;
  }

  public int rank() {
    return rank;
  }

  public long transferId(int index) {
    return transferIds[index];
  }

  public int position(int index) {
    return positions[index];
  }

  public BlockOutcome outcome(int index) {
    return outcomes[index];
  }

  public BlockStage stage(int index) {
    return stages[index];
  }

  public int errno(int index) {
    return errnos[index];
  }

  public int bytesDone(int index) {
    return bytesDone[index];
  }

  /** Whether the entry tells all of these. */
  public boolean tells(int index, int told) {
    return (flags[index] & told) == told;
  }

  public int flags(int index) {
    return flags[index];
  }

  public long nanos(int index) {
    return nanos[index];
  }
}
