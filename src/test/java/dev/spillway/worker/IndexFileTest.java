package dev.spillway.worker;

import static org.assertj.core.api.Assertions.assertThat;

import dev.spillway.block.BlockOutcome;
import dev.spillway.block.DeviceEvent;
import dev.spillway.block.Operation;
import dev.spillway.block.RankReport;
import dev.spillway.block.TransferPlan;
import dev.spillway.testing.MemoryEngine;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class IndexFileTest {
  private static final int FLOOR_AT = 40;
  private static final int FLOORS = 20_000;

  @TempDir private Path directory;

  private IndexFile open() throws IOException {
    var blocks = directory.resolve("rank-0-of-1.blocks");
    if (!Files.exists(blocks)) {
      Files.createFile(blocks);
    }
    return IndexFile.open(RestoreSpeedTest.mode(blocks, 64), 0, 1, 5, List.of(4096), false);
  }

  /**
   * An interrupt closes a file channel under every thread that uses it; an owner in inline mode may
   * be interrupted at any time, and what is to be forgotten must not come back for that.
   */
  @Test
  void anInterruptLosesNoRecordAndStaysSet() throws Exception {
    Path path;
    try (var file = open()) {
      path = file.path();
      file.begin(9);
      var writing = new CompletableFuture<Boolean>();
      var writer = new Thread(() -> writing.completeAsync(() -> raiseFloors(file), Runnable::run));
      writer.start();
      while (!writing.isDone()) {
        writer.interrupt();
        LockSupport.parkNanos(20_000);
      }
      assertThat(writing.join()).as("it is still interrupted").isTrue();
      file.force();
    }
    var header = ByteBuffer.wrap(Files.readAllBytes(path)).order(ByteOrder.LITTLE_ENDIAN);
    assertThat(header.getLong(FLOOR_AT)).isEqualTo(FLOORS);
  }

  private static boolean raiseFloors(IndexFile file) {
    for (int floor = 1; floor <= FLOORS; floor++) {
      try {
        file.raiseFloor(floor);
      } catch (IOException e) {
        throw new UncheckedIOException("floor " + floor, e);
      }
    }
    return Thread.currentThread().isInterrupted();
  }

  /** The rank must say so: what was to be forgotten may come back at the next open. */
  @Test
  void aFloorThatCannotBeWrittenIsToldAsAWriteErrorAndNotAsWritten() throws IOException {
    var engine = new MemoryEngine(16);
    var file = open();
    var worker = new TransferWorker(engine, 0, 4, file, () -> 0);
    assertThat(outcomeOfFloor(worker, 100)).isEqualTo(BlockOutcome.STORED);
    file.close();
    assertThat(outcomeOfFloor(worker, 101)).isEqualTo(BlockOutcome.WRITE_ERROR);
  }

  private static BlockOutcome outcomeOfFloor(TransferWorker worker, long generation) {
    var plan = new TransferPlan();
    plan.begin(1, Operation.FORGET, 0, DeviceEvent.NOW);
    plan.add(0, 0, generation, 7, 0);
    worker.offer(plan);
    RankReport report = null;
    while (report == null || report.size() == 0) {
      worker.doWork();
      report = worker.nextReport();
    }
    return report.outcome(0);
  }
}
