package dev.spillway.cli;

import static org.assertj.core.api.Assertions.assertThat;

import dev.spillway.block.BlockFault;
import dev.spillway.block.KvLayout;
import dev.spillway.engine.EngineOptions.EngineKind;
import dev.spillway.testing.FaultFs;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** A replay whose disk is full, over its quota or read-only for a while. */
class RoomlessReplayTest {
  private static final int READS = 2000;
  private static final int WRITES = 200;

  @TempDir private Path directory;

  /** Shows: F34, case38 case45 case46 case48: loads go on at their rate; stores come back. */
  @ParameterizedTest
  @CsvSource({"28,false", "28,true", "122,false", "30,false"})
  @Timeout(120)
  void loadsGoOnWhileThereIsNoRoomAndStoresComeBackByThemselves(int errno, boolean sparse)
      throws Exception {
    try (var disk = FaultFs.mount(directory)) {
      count(disk);
      var replay = CompletableFuture.supplyAsync(() -> replay(disk.root(), sparse));
      double before = readsASecond(disk, replay);
      disk.clear();
      disk.rule("write", 0, 0, "errno " + errno, 0);
      disk.rule("read", 0, 0, "hang 0", 0);
      double meanwhile = readsASecond(disk, replay);
      long refused = disk.hits("write errno");
      disk.clear();
      count(disk);
      awaitHits(disk, "write hang", disk.hits("write hang") + WRITES, replay);
      var report = replay.get();
      System.out.printf(
          "errno %d: %,.0f reads a second before, %,.0f while stores are refused%n",
          errno, before, meanwhile);
      assertThat(report.wrongBlocks()).isZero();
      assertThat(report.leaks()).isZero();
      assertThat(report.addsUp()).isTrue();
      assertThat(refused).as("stores were refused").isPositive();
      assertThat(report.storePauses()).isPositive();
      assertThat(refused).as("and then not tried").isLessThan(report.rejected());
      assertThat(report.noRoom()).as("why, in the end").isEmpty();
      assertThat(meanwhile).as("%s", BlockFault.noRoom(errno)).isGreaterThan(before / 2);
    }
  }

  /** Every operation passes and is counted. */
  private static void count(FaultFs disk) {
    disk.rule("read", 0, 0, "hang 0", 0);
    disk.rule("write", 0, 0, "hang 0", 0);
  }

  private static double readsASecond(FaultFs disk, CompletableFuture<ReplayReport> replay)
      throws Exception {
    long from = disk.hits("read hang");
    long startedAt = System.nanoTime();
    awaitHits(disk, "read hang", from + READS, replay);
    return (disk.hits("read hang") - from) * 1e9 / (System.nanoTime() - startedAt);
  }

  private static void awaitHits(
      FaultFs disk, String what, long count, CompletableFuture<ReplayReport> replay)
      throws Exception {
    while (disk.hits(what) < count) {
      if (replay.isDone()) {
        throw new AssertionError(
            "over after %d of %d: %s; %s".formatted(disk.hits(what), count, what, replay.get()));
      }
      TimeUnit.MILLISECONDS.sleep(5);
    }
  }

  /** Of 200 prompts more than half are on disk at any time, and hardly any on the device. */
  private static List<Request> requests() {
    var random = new Random(7);
    var requests = new ArrayList<Request>();
    for (int i = 0; i < 2500; i++) {
      long prompt = random.nextInt(200);
      var ids = LongStream.range(0, 12).map(block -> 1 + prompt * 12 + block).toArray();
      requests.add(new Request(i, 12 * 16, ids));
    }
    return requests;
  }

  private static ReplayReport replay(Path root, boolean sparse) {
    var layout = KvLayout.ofBlockBytes(16384, 16);
    var settings =
        new Replay.Settings(
            root,
            layout,
            1500L * 16384,
            200,
            8,
            32,
            EngineKind.AUTO,
            DeviceChoice.HOST,
            true,
            0,
            1,
            Replay.Trouble.NONE);
    var silence = new PrintStream(OutputStream.nullOutputStream(), true, StandardCharsets.UTF_8);
    var replay = new Replay(settings, requests(), silence, false);
    if (sparse) {
      replay.reserveNothing();
    }
    try {
      return replay.run();
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }
}
