package dev.spillway.worker;

import static org.assertj.core.api.Assertions.assertThat;

import dev.spillway.engine.EngineMode;
import dev.spillway.index.BlockIndex;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * How long it takes to find blocks again. {@code -Drestore.records=10000000} for the figure that is
 * published; a small number with the other tests, where only a gross loss of speed is an error.
 */
class RestoreSpeedTest {
  private static final int BATCH = 8192;

  @TempDir private Path directory;

  static EngineMode mode(Path blocks, int slots) {
    return new EngineMode(
        "none",
        "",
        false,
        false,
        false,
        false,
        1,
        "none",
        blocks.toString(),
        0,
        2,
        77,
        1,
        1,
        1,
        "small",
        "none",
        "none",
        "host",
        List.of((long) slots),
        List.of(4096),
        List.of(65536L),
        List.of());
  }

  @Test
  void recordsAreReadAndTakenInAtSomeMillionsASecond() throws IOException {
    int slots = Integer.getInteger("restore.records", 200_000);
    var mode = mode(Files.createFile(directory.resolve("rank-0-of-1.blocks")), slots);
    try (var file = IndexFile.open(mode, 0, 1, 5, List.of(4096), false)) {
      fill(file, slots);
    }
    try (var file = IndexFile.open(mode, 0, 1, 5, List.of(4096), false)) {
      file.begin(9);
      long begun = System.nanoTime();
      int read = 0;
      for (var run = file.nextRun(); !run.isEnd(); run = file.nextRun()) {
        assertThat(run.torn() + run.voided()).isZero();
        read += run.size();
      }
      long readNanos = System.nanoTime() - begun;
      assertThat(read).isEqualTo(slots);
      System.out.printf("read %,d records in %.2f s%n", slots, readNanos / 1e9);
      assertThat(readNanos / slots).as("ns a record").isLessThan(2000);
    }
    try (var file = IndexFile.open(mode, 0, 1, 5, List.of(4096), false)) {
      file.begin(10);
      var index = new BlockIndex(List.of((long) slots), 10);
      long begun = System.nanoTime();
      for (var run = file.nextRun(); !run.isEnd(); run = file.nextRun()) {
        for (int i = 0; i < run.size(); i++) {
          index.restore(
              0,
              run.slot(i),
              run.high(i),
              run.low(i),
              run.generation(i),
              run.tenant(i),
              run.depth(i),
              run.lastUse(i));
        }
      }
      index.restoring().end();
      long taken = System.nanoTime() - begun;
      while (!index.orderRestored()) {
        Thread.onSpinWait();
      }
      long ordered = System.nanoTime() - begun;
      System.out.printf(
          "read and taken in after %.2f s, in order after %.2f s%n", taken / 1e9, ordered / 1e9);
      assertThat(index.storedCount()).isEqualTo(slots);
      assertThat(ordered / slots).as("ns a record").isLessThan(5000);
    }
  }

  private void fill(IndexFile file, int slots) throws IOException {
    var checker = new IndexRecord.Checker(file.identity());
    var records =
        ByteBuffer.allocateDirect(BATCH * IndexRecord.BYTES).order(ByteOrder.LITTLE_ENDIAN);
    for (int from = 0; from < slots; from += BATCH) {
      int count = Math.min(BATCH, slots - from);
      records.clear();
      for (int i = 0; i < count; i++) {
        int at = i * IndexRecord.BYTES;
        int slot = from + i;
        records
            .putLong(at + IndexRecord.HIGH, slot * 0x9e3779b97f4a7c15L)
            .putLong(at + IndexRecord.LOW, ~(long) slot)
            .putLong(at + IndexRecord.GENERATION, 1L << 32 | slot)
            .putInt(at + IndexRecord.LENGTH, 4096)
            .putInt(at + IndexRecord.DEPTH, slot % 100)
            .putInt(at + IndexRecord.LAST_USE, 1_700_000_000 + (slot * 7919) % 100_000);
        records.putLong(at + IndexRecord.CHECK, checker.check(records, at, slot));
      }
      records.limit(count * IndexRecord.BYTES).position(0);
      file.write(records, from);
    }
    try (var whole = new RandomAccessFile(file.path().toFile(), "r")) {
      assertThat(whole.length()).isEqualTo(4096L + 64L * slots);
    }
  }
}
