package dev.spillway.ledger;

import dev.spillway.block.BlockFault.NoRoom;
import java.util.Optional;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Whether stores are tried. A file system without room stays so for a while: no store is tried,
 * loads go on, then stores try again and the first that succeeds ends it. Owned by the scheduler's
 * thread.
 *
 * <pre>
 * stores go on → paused (0.1 s, doubled to 10 s) → trying again → stores go on, or paused
 * </pre>
 */
final class StorePause {
  private static final Logger LOG = LoggerFactory.getLogger(StorePause.class);
  private static final long MIN_NANOS = 100_000_000;
  private static final long MAX_NANOS = 10_000_000_000L;

  private final LongSupplier nanoClock;
  private @Nullable NoRoom cause;
  private long until;
  private long nanos = MIN_NANOS;
  private long count;

  StorePause(LongSupplier nanoClock) {
    this.nanoClock = nanoClock;
  }

  /** Whether no store is tried now. */
  boolean isOn() {
    return cause != null && nanoClock.getAsLong() - until < 0;
  }

  /** A store was refused; those that were on their way at the time change nothing. */
  void onNoRoom(NoRoom found) {
    if (cause == null) {
      LOG.warn("stores pause, loads go on: the file system is {}", found);
    }
    if (!isOn()) {
      count++;
      until = nanoClock.getAsLong() + nanos;
      nanos = Math.min(2 * nanos, MAX_NANOS);
    }
    cause = found;
  }

  /** A store has succeeded, which says something if it was begun after the pause. */
  void onStored(long startedAt) {
    if (cause != null && startedAt - until >= 0) {
      LOG.info("stores go on: the file system is no more {}", cause);
      cause = null;
      nanos = MIN_NANOS;
    }
  }

  /** Why, until a store has succeeded again. */
  Optional<NoRoom> cause() {
    return Optional.ofNullable(cause);
  }

  long count() {
    return count;
  }
}
