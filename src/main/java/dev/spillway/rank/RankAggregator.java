package dev.spillway.rank;

import dev.spillway.block.BlockOutcome;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * Collects what each rank says of the blocks of one transfer. One rank's failure decides for a
 * block, but the block is over only when the last rank has spoken: until then its memory may still
 * be read or written there. Besides its ending each rank tells when it has let go of the block:
 * quiet, and, of a store's device block, copied. One object serves transfer after transfer. Owned
 * by the scheduler's thread.
 */
public final class RankAggregator {
  public static final int RANKS_MAX = 64;

  /** What a report changed. */
  public enum Answer {
    /** Other ranks have yet to speak. */
    WAITING,
    /** The last rank has spoken: the block is over. */
    OVER,
    /** This rank had spoken already, or was not asked; nothing changed. */
    DOUBLE
  }

  private final long allRanks;
  private long[] spoken = new long[16];
  private long[] quiet = new long[16];
  private long[] copied = new long[16];
  private @Nullable BlockOutcome[] outcomes = new BlockOutcome[16];

  public RankAggregator(int rankCount) {
    if (rankCount < 1 || rankCount > RANKS_MAX) {
      throw new IllegalArgumentException(
          rankCount + " ranks; 1 to " + RANKS_MAX + " would be right");
    }
    allRanks = rankCount == RANKS_MAX ? -1L : (1L << rankCount) - 1;
  }

  /** Forgets the last transfer; no block of the next is asked for yet. */
  public void begin(int blockCount) {
    if (blockCount > spoken.length) {
      int capacity = Integer.highestOneBit(blockCount - 1) << 1;
      spoken = new long[capacity];
      quiet = new long[capacity];
      copied = new long[capacity];
      outcomes = new BlockOutcome[capacity];
    }
    Arrays.fill(spoken, 0, blockCount, allRanks);
    Arrays.fill(quiet, 0, blockCount, allRanks);
    Arrays.fill(copied, 0, blockCount, allRanks);
  }

  /** Asks every rank for a block. */
  public void expect(int block) {
    expect(block, allRanks);
  }

  /** Asks these ranks for a block, bit by bit. */
  public void expect(int block, long ranks) {
    spoken[block] = allRanks & ~ranks;
    quiet[block] = spoken[block];
    copied[block] = spoken[block];
    outcomes[block] = null;
  }

  /** Takes in one rank's ending of a block. The first failure stays. */
  public Answer report(int rank, int block, BlockOutcome outcome) {
    long bit = 1L << rank;
    if ((spoken[block] & bit) != 0) {
      return Answer.DOUBLE;
    }
    var known = outcomes[block];
    if (known == null || known.isWell()) {
      outcomes[block] = outcome;
    }
    spoken[block] |= bit;
    return isOver(block) ? Answer.OVER : Answer.WAITING;
  }

  /** Whether a rank was asked for a block and has not spoken. */
  public boolean awaits(int rank, int block) {
    return (spoken[block] & 1L << rank) == 0;
  }

  /** A rank has let go of a block. Answers whether it was the last, once. */
  public boolean quiet(int rank, int block) {
    boolean was = isQuiet(block);
    quiet[block] |= 1L << rank;
    copied[block] |= 1L << rank;
    return !was && isQuiet(block);
  }

  /** A rank has copied a store's device block; so has one that is quiet. */
  public void copied(int rank, int block) {
    copied[block] |= 1L << rank;
  }

  /** What the ranks that have spoken make of a block: well only if all say so. */
  public BlockOutcome outcome(int block) {
    var outcome = outcomes[block];
    if (outcome == null) {
      throw new IllegalStateException("no rank has spoken of block " + block);
    }
    return outcome;
  }

  /** Whether every rank that was asked for the block has spoken. */
  public boolean isOver(int block) {
    return spoken[block] == allRanks;
  }

  /** Whether no rank's kernel or device can touch the block's memory any more. */
  public boolean isQuiet(int block) {
    return quiet[block] == allRanks;
  }

  /** Whether no rank will read the device block of a store any more. */
  public boolean isCopied(int block) {
    return copied[block] == allRanks;
  }
}
