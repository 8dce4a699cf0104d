package dev.spillway;

import static dev.spillway.testing.SpillwayFixture.keys;
import static dev.spillway.testing.SpillwayFixture.range;
import static org.assertj.core.api.Assertions.assertThat;

import dev.spillway.block.BlockOutcome;
import dev.spillway.block.KvLayout;
import dev.spillway.block.TransferResult;
import dev.spillway.engine.EngineOptions.Allocation;
import dev.spillway.engine.EngineOptions.EngineKind;
import dev.spillway.engine.FaultSpec;
import dev.spillway.testing.Commands;
import dev.spillway.testing.SpillwayFixture;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Errors cost nothing that stays: no memory, no descriptor, no slot, no entry. */
class FailingTransfersTest {
  private static final int BATCH = 64;
  private static final int BATCHES = 32;
  private static final int ROUNDS = 80;

  @TempDir private Path directory;

  /**
   * Shows: case101 F33 V201: 100,000 blocks whose store or load fails, over engines that are opened
   * and closed again. In a JVM of its own, whose heap is all there from the start.
   */
  @ParameterizedTest
  @EnumSource(names = {"URING", "THREADS"})
  void case101AHundredThousandFailuresLeaveNothingBehind(EngineKind kind) {
    SpillwayFixture.assumeAllowed(kind);
    var options = List.of("-ea", "-Xms64m", "-Xmx64m", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC");
    var output =
        Commands.run(Commands.java(options, Rounds.class, directory.toString(), kind.name()));
    assertThat(output.code()).as(output.text()).isZero();
    var rounds =
        output.text().lines().filter(line -> line.startsWith("round ")).map(Round::parse).toList();
    assertThat(rounds).hasSize(ROUNDS);
    assertThat(rounds.stream().mapToLong(Round::failed).sum()).isGreaterThan(100_000L);
    var warm = rounds.get(ROUNDS / 2); // when all is compiled
    var last = rounds.get(ROUNDS - 1);
    // Rings let go of their descriptors a little later than the call that closes them.
    assertThat(last.files()).as("descriptors: " + rounds).isLessThan(warm.files() + 5);
    assertThat(last.residentKib() - warm.residentKib())
        .as("memory: " + rounds)
        .isLessThan(8 * 1024);
  }

  private record Round(long failed, long files, long residentKib) {
    static Round parse(String line) {
      var numbers = line.substring("round ".length()).split(" ", 3);
      return new Round(
          Long.parseLong(numbers[0]), Long.parseLong(numbers[1]), Long.parseLong(numbers[2]));
    }
  }

  /** The JVM that transfers; a line a round. */
  static final class Rounds {
    public static void main(String[] args) throws IOException {
      for (int round = 0; round < ROUNDS; round++) {
        long failed = runOnce(Path.of(args[0]), EngineKind.valueOf(args[1]), round);
        System.gc();
        System.out.println("round " + failed + " " + openFiles() + " " + residentKib());
      }
    }

    private static long openFiles() throws IOException {
      try (var files = Files.list(Path.of("/proc/self/fd"))) {
        return files.count();
      }
    }

    private static long residentKib() throws IOException {
      try (var lines = Files.lines(Path.of("/proc/self/status"))) {
        return lines
            .filter(line -> line.startsWith("VmRSS:"))
            .mapToLong(line -> Long.parseLong(line.replaceAll("[^0-9]", "")))
            .sum();
      }
    }
  }

  /** As many stores and loads as two batches of 32; answers how many failed. */
  private static long runOnce(Path directory, EngineKind kind, int round) {
    var faults =
        FaultSpec.parse(
            "write-eio=60%,zero-write=10%,read-eio=40%,corrupt=40%,zero-read=10%", round);
    try (var test =
        new SpillwayFixture(
            directory,
            KvLayout.ofBlockBytes(4096, 16),
            BATCH,
            builder ->
                builder
                    .engine(kind)
                    .allocation(Allocation.SPARSE)
                    .capacityBytes(BATCH * BATCHES * 4096L)
                    .stagingBytes(1 << 20)
                    .faults(faults))) {
      var loads = new ArrayList<CompletableFuture<TransferResult>>();
      for (int batch = 0; batch < BATCHES; batch++) {
        var keys = keys(1 + batch * BATCH, BATCH);
        test.spillway.await(test.spillway.store(keys, 0, range(0, BATCH)));
        for (int i = 0; i < BATCH; i++) {
          try (var lease = test.spillway.lookup(keys(1 + batch * BATCH + i, 1))) {
            loads.add(test.spillway.load(lease, range(i, lease.size())));
          }
        }
        assertThat(test.spillway.awaitIdle(Duration.ofSeconds(60))).isTrue();
        for (var load : loads) {
          assertThat(load.join().quiet().toCompletableFuture()).isCompleted();
        }
        loads.clear();
      }
      var stats = test.spillway.stats();
      assertThat(stats.heldBlocks()).isZero();
      assertThat(stats.openLeases()).isZero();
      assertThat(stats.freeSlots() + stats.retiredSlots() + stats.storedBlocks())
          .as("slots")
          .isEqualTo(BATCH * BATCHES);
      return stats.count(BlockOutcome.READ_ERROR)
          + stats.count(BlockOutcome.WRITE_ERROR)
          + stats.count(BlockOutcome.CORRUPT)
          + stats.count(BlockOutcome.SHORT);
    }
  }
}
