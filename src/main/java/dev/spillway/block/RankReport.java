package dev.spillway.block;

/**
 * Endings of blocks, as one rank reports them. Filled by the worker, read by the scheduler's side,
 * then handed back to be filled again; primitive arrays, so nothing is allocated for a block.
 */
public final class RankReport {
  public static final int CAPACITY = 256;

  private final long[] transferIds = new long[CAPACITY];
  private final int[] positions = new int[CAPACITY];
  private final BlockOutcome[] outcomes = new BlockOutcome[CAPACITY];
  private final BlockStage[] stages = new BlockStage[CAPACITY];
  private final int[] errnos = new int[CAPACITY];
  private final int[] bytesDone = new int[CAPACITY];
  private final long[] nanos = new long[CAPACITY];
  private final boolean[] medium = new boolean[CAPACITY];
  private int size;
  private int rank;

  public void begin(int newRank) {
    rank = newRank;
    size = 0;
  }

  /**
   * Adds an ending.
   *
   * @param spentNanos from submission to ending
   * @param blamesMedium whether the slot on disk is to blame
   */
  public void add(
      long transferId,
      int position,
      BlockOutcome outcome,
      BlockStage stage,
      int errno,
      int bytes,
      long spentNanos,
      boolean blamesMedium) {
    transferIds[size] = transferId;
    positions[size] = position;
    outcomes[size] = outcome;
    stages[size] = stage;
    errnos[size] = errno;
    bytesDone[size] = bytes;
    nanos[size] = spentNanos;
    medium[size] = blamesMedium;
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

  public boolean blamesMedium(int index) {
    return medium[index];
  }

  public long nanos(int index) {
    return nanos[index];
  }
}
