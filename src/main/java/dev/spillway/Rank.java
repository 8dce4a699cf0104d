package dev.spillway;

import dev.spillway.block.RankHello;
import dev.spillway.block.RankReport;
import dev.spillway.block.RestoredBlocks;
import dev.spillway.block.TransferPlan;
import dev.spillway.engine.EngineMode;
import dev.spillway.engine.EngineStats;
import java.time.Duration;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * One rank as the scheduler's side has it: in this process or in another. Plans go down, reports
 * come up. Owned by the scheduler's thread.
 */
interface Rank extends AutoCloseable {
  RankHello hello();

  EngineMode mode();

  EngineStats stats();

  /** Why the rank's engine has ended, or empty while it lives. */
  String engineFailure();

  /** Agrees on the epoch, before the first plan. */
  void begin(long epoch);

  void send(TransferPlan plan);

  /** Has the rank look at what was sent. */
  void drive();

  /** Does the rank's work where it has no thread for it. */
  void work();

  /** The next run of slots that an earlier process has stored blocks in, or null for now. */
  @Nullable RestoredBlocks nextRestored();

  boolean hasRestored();

  /** What is wrong with the records that a later process is to restore from, or empty. */
  String recordTrouble();

  void takeReports(Consumer<RankReport> target);

  boolean hasReports();

  /** Why nothing more will come of the rank, or null. It may still have reports. */
  @Nullable String loss();

  /** Announces the end of a step of the computation, where the device memory is of this process. */
  void stepDone(long step);

  /** Sleeps until there may be something to take, where the rank has no thread of its own. */
  void await(Duration bound);

  /** Tells the rank that {@link #drain} is next, so that all may begin at once. */
  void leave();

  /**
   * Cancels what has not started, waits for the rest and hands over what there is to tell.
   *
   * @return false where kernel or device may still own memory after the bound
   */
  boolean drain(Duration bound, Consumer<RankReport> target);

  /** Its file, where this open has made it, is gone after close: the open has failed. */
  default void discard() {}

  @Override
  void close();
}
