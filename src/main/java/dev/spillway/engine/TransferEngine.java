package dev.spillway.engine;

import dev.spillway.block.BlockOutcome;
import dev.spillway.block.BlockStage;
import dev.spillway.block.Operation;
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

  /** Adds a store to the batch. The ticket comes back with the ending. */
  void addStore(
      long ticket,
      int group,
      int deviceBlock,
      int slot,
      long seed,
      long eventAddress,
      long eventValue);

  /** Adds a load to the batch; its bytes must have the checksum given. */
  void addLoad(
      long ticket,
      int group,
      int deviceBlock,
      int slot,
      long seed,
      long checksum,
      long eventAddress,
      long eventValue);

  /** Sends the batch and empties it. The caller keeps to the blocks in flight agreed at open. */
  void submit();

  /** Takes up what has ended; answers how many endings can now be read, by index. */
  int poll();

  long ticket(int index);

  Operation operation(int index);

  BlockOutcome outcome(int index);

  BlockStage stage(int index);

  int errno(int index);

  int bytesDone(int index);

  /** Of the payload, as stored or as read. */
  long checksum(int index);

  /** Whether the slot on disk is to blame, so that it should not be used again. */
  boolean blamesMedium(int index);

  /** From acceptance to ending. */
  long nanos(int index);

  /** Sleeps until something has ended, {@link #wake} is called, or the time has passed. */
  void await(Duration bound);

  /** Ends the sleep of another thread in {@link #await}. */
  void wake();

  EngineMode mode();

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

  /** Releases everything that {@link #drain} left. */
  @Override
  void close();
}
