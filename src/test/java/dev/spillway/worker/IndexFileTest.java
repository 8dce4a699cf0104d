package dev.spillway.worker;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

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
import java.nio.channels.NonWritableChannelException;
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

  @Test
  void anInterruptedOwnerOpensNewAndOldRecords() throws IOException {
    for (int round = 0; round < 2; round++) {
      Thread.currentThread().interrupt();
      try (var file = open()) {
        file.begin(9 + round);
        assertThat(file.nextRun().isEnd()).as("there is nothing yet").isEqualTo(round == 0);
      }
      assertThat(Thread.interrupted()).as("it is still interrupted").isTrue();
    }
  }

  /** Who only looks, maybe beside an owner, does not write, also after an interrupt. */
  @Test
  void whatWasOpenedToLookAtStaysSoAfterAnInterrupt() throws Exception {
    open().close();
    var blocks = directory.resolve("rank-0-of-1.blocks");
    long identity = RestoreSpeedTest.mode(blocks, 64).identity();
    try (var file = IndexFile.look(blocks, identity, List.of(4096))) {
      var looking = new CompletableFuture<Boolean>();
      var looker = new Thread(() -> looking.completeAsync(() -> forceOften(file), Runnable::run));
      looker.start();
      while (!looking.isDone()) {
        looker.interrupt();
        LockSupport.parkNanos(1_000_000);
      }
      assertThat(looking.join()).isTrue();
      assertThatThrownBy(() -> file.write(ByteBuffer.allocate(64), 0))
          .isInstanceOf(NonWritableChannelException.class);
    }
  }

  private static boolean forceOften(IndexFile file) {
    try {
      for (int i = 0; i < FLOORS; i++) {
        file.force();
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return true;
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

  /** What lay there is gone; a record of it would only be found out by the next process. */
  @Test
  void aSlotWhoseSpaceWasGivenBackHasNoRecord() throws IOException {
    var engine = new MemoryEngine(16);
    engine.endAtOnce(BlockOutcome.STORED);
    var file = open();
    var worker = new TransferWorker(engine, 0, 4, file, () -> 1_700_000_000);
    worker.begin(9);
    doOnSlots(worker, Operation.STORE, 2, 3);
    doOnSlots(worker, Operation.PUNCH, 2);
    worker.close();
    var records = ByteBuffer.wrap(Files.readAllBytes(file.path()));
    assertThat(records.slice(4096 + 64 * 3, 64)).as("slot 3").isNotEqualTo(ByteBuffer.allocate(64));
    assertThat(records.slice(4096 + 64 * 2, 64)).as("slot 2").isEqualTo(ByteBuffer.allocate(64));
  }

  private static void doOnSlots(TransferWorker worker, Operation operation, int... slots) {
    var plan = new TransferPlan();
    plan.begin(1, operation, 0, DeviceEvent.NOW);
    for (int slot : slots) {
      plan.add(slot, slot, 9L << 32 | slot, 7, slot);
    }
    worker.offer(plan);
    worker.doWork();
    worker.doWork();
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
