package dev.spillway.worker;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Writes records behind the blocks, in batches, on a thread of its own: the worker never waits for
 * the file. It gathers records without a lock and hands them over once a round; the writer is woken
 * once for many, a short time after the first. Where it cannot keep up, or the file fails, records
 * are dropped and counted: their slots keep older ones, which the checksum gives away once the
 * bytes are others.
 */
final class RecordWriter implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(RecordWriter.class);

  private static final int GATHERED_MAX = 1024;
  private static final int PENDING_MAX = 16_384;
  private static final long GATHER_NANOS = 20_000_000;
  private static final long PAUSE_MIN_NANOS = 100_000_000;
  private static final long PAUSE_MAX_NANOS = 10_000_000_000L;

  /** Records of some slots. */
  private static final class Batch {
    final long[] entries;
    final int[] slots;
    final ByteBuffer records;
    int size;

    Batch(int capacity) {
      entries = new long[capacity];
      slots = new int[capacity];
      records =
          ByteBuffer.allocateDirect(capacity * IndexRecord.BYTES).order(ByteOrder.LITTLE_ENDIAN);
    }

    int room() {
      return entries.length - size;
    }

    void add(long entry, int slot) {
      entries[size] = entry;
      slots[size] = slot;
      size++;
    }

    /** Takes over as many records as there is room for. */
    void take(Batch other) {
      int count = Math.min(room(), other.size);
      System.arraycopy(other.entries, 0, entries, size, count);
      System.arraycopy(other.slots, 0, slots, size, count);
      records.put(
          size * IndexRecord.BYTES, other.records, 0, count * IndexRecord.BYTES); // absolute
      size += count;
    }
  }

  private final IndexFile file;
  private final IndexRecord.Checker checker;
  private final Batch gathered = new Batch(GATHERED_MAX); // the worker's
  private final Thread thread;
  private final Object lock = new Object();
  private Batch pending; // under the lock
  private Batch writing; // the writer's
  private long pauseNanos = PAUSE_MIN_NANOS; // the writer's
  private long lost; // under the lock
  private volatile boolean asleep;
  private volatile boolean closing;
  private volatile @Nullable String failure;

  RecordWriter(IndexFile file, int rank) {
    this.file = file;
    checker = new IndexRecord.Checker(file.identity());
    int pendingMax = (int) Math.max(GATHERED_MAX, Math.min(PENDING_MAX, file.slots()));
    pending = new Batch(pendingMax);
    writing = new Batch(pendingMax);
    thread = new Thread(this::run, "spillway-records-" + rank);
    thread.setDaemon(true);
    thread.start();
  }

  // The worker's thread.

  /** The record of a slot as the table has it now. */
  void put(SlotTable table, int group, int slot) {
    int at = gathered.size * IndexRecord.BYTES;
    int entry = table.entry(group, slot);
    IndexRecord.write(gathered.records, at, table, entry, group, file.payloadBytes(group));
    add(entry, slot);
  }

  /** Nothing is in this slot. */
  void erase(SlotTable table, int group, int slot) {
    IndexRecord.erase(gathered.records, gathered.size * IndexRecord.BYTES);
    add(table.entry(group, slot), -1);
  }

  private void add(long entry, int slot) {
    gathered.add(entry, slot);
    if (gathered.room() == 0) {
      flush();
    }
  }

  /** Hands over what was gathered: once a round. */
  void flush() {
    if (gathered.size == 0) {
      return;
    }
    synchronized (lock) {
      lost += Math.max(0, gathered.size - pending.room());
      pending.take(gathered);
    }
    gathered.size = 0;
    if (asleep) {
      LockSupport.unpark(thread);
    }
  }

  /** What is wrong, for any thread; empty where nothing is. */
  String trouble() {
    var why = failure;
    if (why != null) {
      return why;
    }
    synchronized (lock) {
      return lost == 0 ? "" : lost + " records were dropped: the file does not keep up";
    }
  }

  // The writer's thread.

  private void run() {
    while (true) {
      boolean last = closing;
      if (writing.size > 0 || swap()) {
        writeOrWait(last);
      } else if (last) {
        return;
      } else {
        sleep();
      }
    }
  }

  /**
   * What cannot be written is tried again, later and later: a full disk has room again some day.
   */
  private void writeOrWait(boolean last) {
    try {
      write(writing);
      writing.size = 0;
      if (failure != null) {
        LOG.info("{} is written again", file.path());
        failure = null;
      }
      pauseNanos = PAUSE_MIN_NANOS;
    } catch (IOException e) {
      if (failure == null) {
        LOG.warn(
            "{} cannot be written; blocks stored from now on may not be restored", file.path());
      }
      failure = file.path() + " cannot be written: " + e.getMessage();
      if (last) {
        writing.size = 0;
      } else {
        LockSupport.parkNanos(this, pauseNanos);
        pauseNanos = Math.min(2 * pauseNanos, PAUSE_MAX_NANOS);
      }
    }
  }

  private void sleep() {
    asleep = true;
    if (isIdle()) {
      LockSupport.park(this);
    }
    asleep = false;
    if (!closing) {
      LockSupport.parkNanos(this, GATHER_NANOS);
    }
  }

  private boolean isIdle() {
    synchronized (lock) {
      return pending.size == 0 && !closing;
    }
  }

  private boolean swap() {
    synchronized (lock) {
      var empty = writing;
      writing = pending;
      pending = empty;
    }
    return writing.size > 0;
  }

  /** Records of neighbouring slots go in one write. */
  private void write(Batch batch) throws IOException {
    for (int i = 0; i < batch.size; i++) {
      int at = i * IndexRecord.BYTES;
      if (batch.slots[i] >= 0) {
        batch.records.putLong(
            at + IndexRecord.CHECK, checker.check(batch.records, at, batch.slots[i]));
      }
    }
    try {
      int from = 0;
      for (int i = 1; i <= batch.size; i++) {
        if (i == batch.size || batch.entries[i] != batch.entries[i - 1] + 1) {
          batch.records.limit(i * IndexRecord.BYTES).position(from * IndexRecord.BYTES);
          file.write(batch.records, batch.entries[from]);
          from = i;
        }
      }
    } finally {
      batch.records.clear();
    }
  }

  /** Writes what was gathered, and has it on disk. */
  @Override
  public void close() {
    flush();
    closing = true;
    LockSupport.unpark(thread);
    WorkerThread.join(thread);
    if (failure == null) {
      try {
        file.force();
      } catch (IOException e) {
        LOG.warn("{} could not be synced", file.path(), e);
      }
    }
  }
}
