package dev.spillway.worker;

import dev.spillway.block.RestoredBlocks;
import java.io.IOException;
import java.util.Queue;
import java.util.concurrent.locks.LockSupport;
import org.jctools.queues.varhandle.SpscVarHandleArrayQueue;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads the records of an index file on a thread of its own, a bounded number of runs ahead of the
 * worker, which takes them when it comes by.
 */
final class RecordScan implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(RecordScan.class);
  private static final int RUNS = 16;
  private static final long FULL_NANOS = 200_000;

  private final IndexFile file;
  private final Runnable onRun;
  private final Queue<RestoredBlocks> runs = new SpscVarHandleArrayQueue<>(RUNS);
  private final Thread thread;
  private volatile boolean closing;

  /**
   * @param onRun called on the scan's thread where the worker may sleep
   */
  RecordScan(IndexFile file, int rank, Runnable onRun) {
    this.file = file;
    this.onRun = onRun;
    thread = new Thread(this::run, "spillway-restore-" + rank);
    thread.setDaemon(true);
    thread.start();
  }

  /** The next run, or null where there is none yet. */
  @Nullable RestoredBlocks poll() {
    return runs.poll();
  }

  private void run() {
    boolean end = false;
    while (!end && !closing) {
      var run = next();
      end = run.isEnd();
      while (!runs.offer(run) && !closing) {
        LockSupport.parkNanos(this, FULL_NANOS);
      }
      onRun.run();
    }
  }

  /** Records that cannot be read are not there, but what they name may be. */
  private RestoredBlocks next() {
    try {
      return file.nextRun();
    } catch (IOException e) {
      LOG.warn("{} cannot be read on; the rest is not restored", file.path(), e);
      return RestoredBlocks.cutOff();
    }
  }

  @Override
  public void close() {
    closing = true;
    WorkerThread.join(thread);
  }
}
