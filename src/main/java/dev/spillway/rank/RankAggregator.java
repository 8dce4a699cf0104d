package dev.spillway.rank;

import dev.spillway.block.BlockOutcome;
import java.util.Arrays;

/**
 * Collects what each rank says of the blocks of one transfer. One rank's failure decides for a
 * block, but the block is over only when the last rank has spoken: until then its memory may still
 * be read or written there. One object serves transfer after transfer. Owned by the scheduler's
 * thread.
 */
public final class RankAggregator {
  public static final int RANKS_MAX = 64;

  /** What a report changed. */
  public enum Answer {
    /** Other ranks have yet to speak. */
    WAITING,
    /** The last rank has spoken: the block is over. */
    OVER,
    /** This rank had spoken already; nothing changed. */
    DOUBLE
  }

  private final long allRanks;
  private long[] spoken = new long[16];
  private BlockOutcome[] outcomes = new BlockOutcome[16];

  public RankAggregator(int rankCount) {
    if (rankCount < 1 || rankCount > RANKS_MAX) {
      throw new IllegalArgumentException(
          rankCount + " ranks; 1 to " + RANKS_MAX + " would be right");
    }
    allRanks = rankCount == RANKS_MAX ? -1L : (1L << rankCount) - 1;
  }

  /** Forgets the last transfer and waits for the blocks of another. */
  public void begin(int blockCount) {
    if (blockCount > spoken.length) {
      int capacity = Integer.highestOneBit(blockCount - 1) << 1;
      spoken = new long[capacity];
      outcomes = new BlockOutcome[capacity];
    }
    Arrays.fill(spoken, 0, blockCount, 0);
  }

  /** Takes in one rank's ending of a block. The first failure stays. */
  public Answer report(int rank, int block, BlockOutcome outcome) {
    long bit = 1L << rank;
    if ((spoken[block] & bit) != 0) {
      return Answer.DOUBLE;
    }
    if (spoken[block] == 0 || outcomes[block].isWell()) {
      outcomes[block] = outcome;
    }
    spoken[block] |= bit;
    return spoken[block] == allRanks ? Answer.OVER : Answer.WAITING;
  }

  /** What the ranks that have spoken make of a block: well only if all say so. */
  public BlockOutcome outcome(int block) {
    return outcomes[block];
  }

  public boolean isOver(int block) {
    return spoken[block] == allRanks;
  }
}
