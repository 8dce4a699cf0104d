package dev.spillway.block;

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
