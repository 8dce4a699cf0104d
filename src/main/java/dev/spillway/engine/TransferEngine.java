package dev.spillway.engine;

import dev.spillway.block.BlockOutcome;
import dev.spillway.block.BlockStage;
import dev.spillway.block.Operation;
import dev.spillway.block.TransferPlan;
import java.time.Duration;

/**
 * Moves blocks for one rank; the seam behind which the simulation puts its own. Submissions and
 * endings are columns of a batch that is filled and read in place, so nothing is allocated for a
 * block. All calls belong to one thread at a time, except {@link #wake}, {@link #mode} and {@link
 * #stats}.
 */
public interface TransferEngine extends AutoCloseable {

  /** How many blocks may be added to the batch before it is submitted. */
  int batchCapacity();

  /**
   * Adds a block of a plan to the batch, a store, a load or a probe. The ticket comes back with
   * what is told of it.
   *
   * @param seed of the checksum, with the rank mixed in
   * @param checksum that a load's bytes must have
   */
  void add(long ticket, TransferPlan plan, int index, long seed, long checksum);

  /**
   * Adds a cancel or a drain of all blocks submitted before whose ticket agrees with this one in
   * the bits of the mask.
   */
  void command(Operation operation, long ticket, long mask);

  /** Sends the batch and empties it. The caller keeps to the blocks in flight agreed at open. */
  void submit();

  /** Takes up what there is to tell; answers how many entries can now be read, by index. */
  int poll();

  long ticket(int index);

  /** What the entry tells, as flags of {@link dev.spillway.block.RankReport}. */
  int flags(int index);

  /** How the block ended, where the entry tells that. */
  BlockOutcome outcome(int index);

  BlockStage stage(int index);

  int errno(int index);

  int bytesDone(int index);

  /** Of the payload, as stored or as read. */
  long checksum(int index);

  /** From acceptance to ending. */
  long nanos(int index);

  /**
   * Announces the end of a step of the computation and of all before it, for which copies wait; any
   * thread.
   */
  void stepDone(long step);

  /** Sleeps until something has ended, {@link #wake} is called, or the time has passed. */
  void await(Duration bound);

  /** Ends the sleep of another thread in {@link #await}. */
  void wake();

  EngineMode mode();

  /**
   * Raises the epoch on disk, before the first submit.
   *
   * @throws OpenRefusedException where it cannot be written
   */
  void raiseEpoch(long epoch);

  /**
   * Gives back what a slot takes up on disk, where the file system can do that; nothing may be on
   * its way to or from the slot.
   *
   * @return 0, or the kernel's error number
   */
  int punch(int group, int slot);

  /** Counters of the store lane and of the load lane. */
  EngineStats stats();

  /** The first cause of the engine's end, or empty while it lives. */
  String failure();

  /**
   * Cancels what has not started and waits for the rest; the endings can still be polled.
   *
   * @return false where kernel or device still owned memory after {@code bound}: memory, ring, file
   *     and lock are then kept until the process ends
   */
  boolean drain(Duration bound);

  /** The file, where this open has made it, is gone after close. */
  default void discard() {}

  /** Releases everything that {@link #drain} left. */
  @Override
  void close();
}
