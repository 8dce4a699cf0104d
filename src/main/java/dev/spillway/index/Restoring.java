package dev.spillway.index;

import java.util.Arrays;
import java.util.BitSet;
import java.util.concurrent.CompletableFuture;
import java.util.function.IntConsumer;
import org.jspecify.annotations.Nullable;

/**
 * What is known of entries that were restored from records: which of them nothing has verified yet,
 * which slots this process took before their records were read, and in which order they were last
 * used. Owned by the scheduler's thread.
 */
public final class Restoring {
  private static final int ENTRY_BITS = 28;
  private static final int DEPTH_BITS = 16;
  private static final int AGE_BITS = 19;
  private static final int DEPTH_MAX = (1 << DEPTH_BITS) - 1;
  private static final int AT_ONCE = 1 << 14;
  private static final int INLINE_MAX = 1 << 16;

  private final BitSet unverified = new BitSet();
  private @Nullable BitSet taken = new BitSet(); // while records are being read
  private @Nullable BitSet unused = new BitSet(); // until they are in order
  private long[] uses = new long[0];
  private int useCount;
  private char[] depths = new char[0];
  private long newest;
  private @Nullable CompletableFuture<long[]> sorted;
  private int ordered;
  private long restored;
  private long stale;

  // What the index says.

  void onTaken(int entry) {
    if (taken != null) {
      taken.set(entry);
    }
  }

  boolean isTaken(int entry) {
    return taken != null && taken.get(entry);
  }

  boolean isUnverified(int entry) {
    return unverified.get(entry);
  }

  void onRestored(int entry, int depth, int lastUse) {
    restored++;
    unverified.set(entry);
    if (unused == null) {
      return;
    }
    unused.set(entry);
    if (useCount == uses.length) {
      uses = Arrays.copyOf(uses, Math.max(1024, 2 * useCount));
      depths = Arrays.copyOf(depths, uses.length);
    }
    uses[useCount] = (long) lastUse << 32 | entry;
    depths[useCount] = (char) Math.min(depth, DEPTH_MAX);
    useCount++;
    newest = Math.max(newest, Integer.toUnsignedLong(lastUse));
  }

  void onUsed(int entry) {
    if (unused != null) {
      unused.clear(entry);
    }
  }

  void onVerified(int entry) {
    unverified.clear(entry);
  }

  /** The bytes were not what the record said. */
  void onStale() {
    stale++;
  }

  void onGone(int entry) {
    unverified.clear(entry);
    onUsed(entry);
  }

  // What the face asks.

  /** No more records will come. */
  public void end() {
    taken = null;
    if (useCount == 0) {
      unused = null;
    }
  }

  /** Blocks that were found again. */
  public long restored() {
    return restored;
  }

  /** Of those, blocks whose bytes turned out to be others. */
  public long stale() {
    return stale;
  }

  /**
   * Hands over the entries that nothing has used yet, the youngest first, a part at a call: of two
   * that were used at the same second, the one nearer to the root of its prefix is the younger.
   *
   * @return whether that is done
   */
  boolean order(IntConsumer next) {
    if (unused == null) {
      return true;
    }
    if (sorted == null) {
      sorted =
          useCount <= INLINE_MAX
              ? CompletableFuture.completedFuture(inOrder())
              : CompletableFuture.supplyAsync(this::inOrder);
    }
    if (!sorted.isDone()) {
      return false;
    }
    var order = sorted.join();
    int until = Math.min(order.length, ordered + AT_ONCE);
    for (; ordered < until; ordered++) {
      int entry = (int) (order[ordered] & (1L << ENTRY_BITS) - 1);
      if (unused.get(entry)) {
        unused.clear(entry);
        next.accept(entry);
      }
    }
    if (ordered < order.length) {
      return false;
    }
    unused = null;
    uses = new long[0];
    depths = new char[0];
    sorted = null;
    return true;
  }

  /** Ages in seconds, or in units of some where they span more than a week. */
  private long[] inOrder() {
    long oldest = newest;
    for (int i = 0; i < useCount; i++) {
      oldest = Math.min(oldest, uses[i] >>> 32);
    }
    int shift = Math.max(0, Long.SIZE - Long.numberOfLeadingZeros(newest - oldest) - AGE_BITS);
    var keys = new long[useCount];
    for (int i = 0; i < useCount; i++) {
      long age = (newest - (uses[i] >>> 32)) >>> shift;
      long entry = uses[i] & 0xffff_ffffL;
      keys[i] = age << (DEPTH_BITS + ENTRY_BITS) | (long) depths[i] << ENTRY_BITS | entry;
    }
    Arrays.sort(keys);
    return keys;
  }
}
