package dev.spillway.worker;

import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * Drives a worker in a thread of its own, asleep while there is nothing to do. A fault of the code
 * itself ends the thread and is kept; the scheduler's side asks for it at every poll.
 */
public final class WorkerThread implements AutoCloseable {
  private static final Duration SLEEP = Duration.ofSeconds(1);

  private final TransferWorker worker;
  private final Runnable onReports;
  private final Thread thread;
  private volatile boolean stopping;
  private volatile @Nullable Throwable failure;

  /**
   * @param onReports called on the worker's thread after it has published reports
   */
  public WorkerThread(TransferWorker worker, int rank, Runnable onReports) {
    this.worker = worker;
    this.onReports = onReports;
    thread = new Thread(this::run, "spillway-rank-" + rank);
    thread.setDaemon(true);
    thread.start();
  }

  /** What ended the thread before its time, or null. */
  public @Nullable Throwable failure() {
    return failure;
  }

  private void run() {
    try {
      while (!stopping) {
        if (worker.doWork() == 0) {
          worker.await(SLEEP);
        }
        if (worker.hasReports() || worker.hasRestored()) {
          onReports.run();
        }
      }
    } catch (RuntimeException | Error e) {
      failure = e;
      onReports.run();
    }
  }

  /** Stops after the round that runs now. */
  @Override
  public void close() {
    stopping = true;
    worker.wake();
    join(thread);
  }

  /** Waits for a thread's end, whoever interrupts. */
  public static void join(Thread thread) {
    boolean interrupted = false;
    while (thread.isAlive()) {
      try {
        thread.join();
      } catch (InterruptedException e) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
