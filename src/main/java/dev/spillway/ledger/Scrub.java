package dev.spillway.ledger;

import dev.spillway.block.BlockOutcome;
import dev.spillway.index.BlockIndex;

/**
 * The round of the stored blocks that are read and compared though nobody asks for them: which is
 * next, and when. It keeps to a rate, and of what it did not get to read in time it makes up for no
 * more than may be in flight. Owned by the scheduler's thread.
 */
final class Scrub {
  static final int IN_FLIGHT_MAX = 4;

  /** So many slots are there at least for each that is read, which no store can have meanwhile. */
  private static final int SLOTS_A_READ = 32;

  private static final int SCAN_MAX = 1 << 16;
  private static final double NANOS_A_SECOND = 1e9;

  private final BlockIndex index;
  private final long bytesPerSecond;
  private final int openMax;
  private int next;
  private long dueAt;
  private boolean begun;
  private int open;
  private long blocks;
  private long bytes;
  private long bad;
  private long rounds;

  /**
   * @param bytesPerSecond at most, on each rank; 0 for no scrub
   */
  Scrub(BlockIndex index, long bytesPerSecond) {
    this.index = index;
    this.bytesPerSecond = bytesPerSecond;
    int fewest = index.slotCount();
    for (int group = 0; group < index.groupCount(); group++) {
      fewest = Math.min(fewest, index.slotCount(group));
    }
    openMax = Math.max(1, Math.min(IN_FLIGHT_MAX, fewest / SLOTS_A_READ));
  }

  /** The entry that is to be read now, or -1. */
  int next(long now) {
    if (bytesPerSecond == 0 || open >= openMax || (begun && now - dueAt < 0)) {
      return -1;
    }
    if (index.storedCount() == 0) {
      return -1;
    }
    int entry = scan();
    if (entry < 0 && next == index.slotCount()) {
      rounds++;
      next = 0;
      entry = scan();
    }
    return entry;
  }

  /** Looks at a bounded part of the slots. */
  private int scan() {
    int to = Math.min(index.slotCount(), next + SCAN_MAX);
    int entry = index.nextStored(next, to);
    next = entry < 0 ? to : entry + 1;
    return entry;
  }

  /** A block is on its way. */
  void begin(int blockBytes, long now) {
    open++;
    long nanos = Math.max(1, (long) (blockBytes * NANOS_A_SECOND / bytesPerSecond));
    long from = begun ? Math.max(dueAt, now - openMax * nanos) : now;
    begun = true;
    dueAt = from + nanos;
  }

  /** No rank is at it any more. */
  void end(BlockOutcome outcome, int blockBytes) {
    open--;
    if (outcome == BlockOutcome.LOADED) {
      blocks++;
      bytes += blockBytes;
    } else if (outcome.invalidatesEntry() || outcome == BlockOutcome.REJECTED) {
      bad++; // the latter where it was restored, and its record was wrong
    }
  }

  int open() {
    return open;
  }

  Counters counters() {
    return new Counters(blocks, bytes, bad, rounds);
  }

  /** As {@code SpillwayStats.Scrubbed} tells them. */
  public record Counters(long blocks, long bytes, long bad, long rounds) {}
}
