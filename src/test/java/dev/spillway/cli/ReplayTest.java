package dev.spillway.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.spillway.block.KvLayout;
import dev.spillway.engine.EngineOptions.EngineKind;
import dev.spillway.engine.FaultSpec;
import dev.spillway.engine.NativeEngine;
import dev.spillway.policy.LoadFailurePolicy;
import dev.spillway.testing.Mount;
import dev.spillway.testing.TestDevices;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import tools.jackson.databind.json.JsonMapper;

class ReplayTest {
  private static final DeviceChoice DEVICE =
      TestDevices.areHost() ? DeviceChoice.HOST : DeviceChoice.CUDA_EMULATED;

  @TempDir private Path directory;

  private final ByteArrayOutputStream printed = new ByteArrayOutputStream();

  private Replay.Settings settings(KvLayout layout, long capacity, EngineKind engine) {
    return new Replay.Settings(
        directory, layout, capacity, 0, 8, 32, engine, DEVICE, true, 0, 1, Replay.Trouble.NONE);
  }

  private ReplayReport replay(Replay.Settings settings, List<Request> requests) throws IOException {
    var out = new PrintStream(printed, true, StandardCharsets.UTF_8);
    return new Replay(settings, requests, out, false).run();
  }

  private static Path traces() {
    var given = System.getenv("SPILLWAY_TRACES");
    return Path.of(given == null ? "../shared/traces" : given);
  }

  private static List<Request> trace(String name, int limit) throws IOException {
    var file = traces().resolve(name);
    assumeTrue(Files.exists(file), file + " is not there: set SPILLWAY_TRACES to replay it");
    return TraceFile.read(file, limit);
  }

  /** What an exact LRU cache of so many blocks would serve of these requests, one by one. */
  private static double usableHitRate(List<Request> requests, int capacity) {
    Map<Long, Boolean> cache =
        new LinkedHashMap<>(16, 0.75f, true) {
          private static final long serialVersionUID = 1L;

          @Override
          protected boolean removeEldestEntry(Map.Entry<Long, Boolean> eldest) {
            return size() > capacity;
          }
        };
    long references = 0;
    long usable = 0;
    for (var request : requests) {
      boolean prefix = true;
      for (long id : request.blockIds()) {
        prefix &= cache.containsKey(id);
        usable += prefix ? 1 : 0;
        references++;
      }
      for (int i = request.blockIds().length - 1; i >= 0; i--) {
        cache.put(request.blockIds()[i], true);
      }
    }
    return (double) usable / references;
  }

  private static void assertRight(ReplayReport report, List<Request> requests) {
    assertThat(report.wrongBlocks()).isZero();
    assertThat(report.faults()).isEmpty();
    assertThat(report.requests()).isEqualTo(requests.size());
    assertThat(report.blocksVerified()).isEqualTo(report.blocksLoaded());
    assertThat(report.promptTokens())
        .isEqualTo(report.deviceTokens() + report.diskTokens() + report.recomputedTokens())
        .isEqualTo(requests.stream().mapToLong(Request::inputTokens).sum());
  }

  @ParameterizedTest
  @CsvSource({"URING", "THREADS"})
  void theBuiltInWorkloadIsServedLikeAnExactCacheWould(EngineKind engine) throws IOException {
    assumeTrue(engine != EngineKind.URING || NativeEngine.uringRefusal().isEmpty());
    var requests = ConversationWorkload.generate(300, 7);
    int slots = 1500;
    var report = replay(settings(KvLayout.ofBlockBytes(4096, 16), slots * 4096L, engine), requests);
    assertRight(report, requests);
    assertThat(report.blocksLoaded()).isPositive();
    assertThat(report.evictions()).isPositive();
    assertThat(report.usablePrefixHitRate())
        .isBetween(usableHitRate(requests, slots) - 0.01, usableHitRate(requests, slots) + 0.02);
  }

  @ParameterizedTest
  @CsvSource({"URING", "THREADS"})
  void theConversationTraceIsServedLikeAnExactCacheWould(EngineKind engine) throws IOException {
    assumeTrue(engine != EngineKind.URING || NativeEngine.uringRefusal().isEmpty());
    var requests = trace("mooncake_conversation.jsonl.zst", 1000);
    var report =
        replay(settings(KvLayout.ofBlockBytes(16384, 16), 8192L * 16384, engine), requests);
    assertRight(report, requests);
    assertThat(report.usablePrefixHitRate())
        .isBetween(usableHitRate(requests, 8192) - 0.005, usableHitRate(requests, 8192) + 0.005);
  }

  @ParameterizedTest
  @CsvSource({"URING", "THREADS"})
  void theAgenticTraceIsServedLikeAnExactCacheWould(EngineKind engine) throws IOException {
    assumeTrue(engine != EngineKind.URING || NativeEngine.uringRefusal().isEmpty());
    var requests = trace("agentic_small.jsonl.zst", 200);
    var report = replay(settings(KvLayout.ofBlockBytes(4096, 16), 32768L * 4096, engine), requests);
    assertRight(report, requests);
    assertThat(report.usablePrefixHitRate())
        .isBetween(usableHitRate(requests, 32768) - 0.005, usableHitRate(requests, 32768) + 0.005);
  }

  private static final List<String> MODELS =
      List.of("llama-3.1-8b", "gpt-oss-20b-tp8-fp8", "deepseek-v3-fp8-scales", "nemotron-h-8b-tp4");

  @Test
  void trueGeometriesRoundTripOnTheRootFileSystem() throws IOException {
    trueGeometriesRoundTrip(directory);
  }

  @Test
  void trueGeometriesRoundTripOnADiskOf4KSectors() throws IOException {
    try (var mount = Mount.loop(directory, "ext4", 600, 4096)) {
      trueGeometriesRoundTrip(mount.root());
    }
  }

  @Test
  void trueGeometriesRoundTripOnXfs() throws IOException {
    try (var mount = Mount.loop(directory, "xfs", 600, 512)) {
      trueGeometriesRoundTrip(mount.root());
    }
  }

  @Test
  void trueGeometriesRoundTripOnTmpfs() throws IOException {
    try (var mount = Mount.tmpfs(directory, "size=600m")) {
      trueGeometriesRoundTrip(mount.root());
    }
    assertThat(printed.toString(StandardCharsets.UTF_8)).contains("in memory, not on a disk");
  }

  /** Two turns of three conversations, over a device pool that cannot hold them all. */
  private void trueGeometriesRoundTrip(Path root) throws IOException {
    var requests = new ArrayList<Request>();
    for (int turn = 1; turn <= 2; turn++) {
      for (int session = 0; session < 3; session++) {
        var ids = new long[3 * turn];
        for (int i = 0; i < ids.length; i++) {
          ids[i] = session * 100L + i;
        }
        requests.add(new Request(0, ids.length * 512L, ids));
      }
    }
    for (var model : MODELS) {
      var layout = ModelGeometry.of(model);
      long blockBytes = layout.groups().stream().mapToLong(KvLayout.Group::blockBytes).sum();
      var settings =
          new Replay.Settings(
              root,
              layout,
              20 * (blockBytes + 8192),
              6,
              1,
              32,
              EngineKind.AUTO,
              DEVICE,
              true,
              0,
              1,
              Replay.Trouble.NONE);
      var report = replay(settings, requests);
      assertRight(report, requests);
      // Three blocks of each session come back, but for those that are on the device still.
      assertThat(report.blocksLoaded())
          .as(model)
          .isGreaterThanOrEqualTo(6L * layout.groups().size());
      assertThat(root.resolve("rank-0-of-1.blocks").toFile().delete()).isTrue();
    }
  }

  /** A wrong byte on the device must be seen: the comparison itself is tested by breaking it. */
  @Test
  void oneWrongByteIsAWrongBlock() {
    try (var device = dev.spillway.device.HostDevice.allocate(KvLayout.ofLayers(2, 1031, 16), 4)) {
      var pattern = new BlockPattern(List.of(device));
      var key = new dev.spillway.block.BlockKey(1, 2);
      pattern.fill(0, 1, key);
      assertThat(pattern.matches(0, 1, key)).isTrue();
      assertThat(pattern.matches(0, 1, new dev.spillway.block.BlockKey(2, 1))).isFalse();
      var last = device.piece(0, 3, 1);
      last.put(1030, (byte) (last.get(1030) ^ 1));
      assertThat(pattern.matches(0, 1, key)).isFalse();
      pattern.fill(0, 1, key);
      var first = device.piece(0, 0, 1);
      first.put(0, (byte) (first.get(0) ^ 0x80));
      assertThat(pattern.matches(0, 1, key)).isFalse();
    }
  }

  @Test
  void theReportIsJsonWithStableNames() throws IOException {
    var requests = ConversationWorkload.generate(20, 1);
    var report =
        replay(settings(KvLayout.ofBlockBytes(4096, 16), 1 << 22, EngineKind.AUTO), requests);
    var json = new JsonMapper().readTree(report.toJson());
    for (var name :
        List.of(
            "requests",
            "blocksStored",
            "blocksLoaded",
            "blocksVerified",
            "wrongBlocks",
            "usablePrefixHitRate",
            "storedBytes",
            "loadedBytes",
            "loadGBps",
            "storeGBps",
            "wallSeconds",
            "faults")) {
      assertThat(json.has(name)).as(name).isTrue();
    }
    for (var name : List.of("p50", "p90", "p99", "max")) {
      assertThat(json.get("loadLatencyMicros").has(name)).as(name).isTrue();
    }
    for (var name :
        List.of(
            "kind",
            "direct",
            "registered",
            "alignment",
            "queueDepth",
            "inFlightMean",
            "inFlightMax")) {
      assertThat(json.get("engine").has(name)).as(name).isTrue();
    }
    assertThat(report.toTable()).contains("usable prefix hit rate").contains("wrong blocks");
  }

  @Test
  void aPoolTooSmallForARequestIsRefusedWithWhatWouldDo() {
    var requests = List.of(new Request(0, 512 * 9, new long[9]));
    var settings =
        new Replay.Settings(
            directory,
            KvLayout.ofBlockBytes(4096, 16),
            1 << 20,
            4,
            8,
            32,
            EngineKind.AUTO,
            DEVICE,
            true,
            0,
            1,
            Replay.Trouble.NONE);
    assertThatThrownBy(() -> replay(settings, requests))
        .hasMessage(
            "a request of 9 blocks and a device pool of 4; --device-blocks 9 would be right");
  }

  @Test
  void theWorkloadLooksLikeTheConversationTrace() {
    var requests = ConversationWorkload.generate(12_031, 1);
    var lengths =
        requests.stream().mapToInt(request -> request.blockIds().length).sorted().toArray();
    assertThat(lengths[lengths.length / 2]).isBetween(12, 16);
    assertThat(lengths[lengths.length * 9 / 10]).isBetween(46, 60);
    assertThat(lengths[lengths.length * 99 / 100]).isBetween(125, 190);
    assertThat(lengths[lengths.length - 1]).isLessThanOrEqualTo(247);
    assertThat(reuse(requests.subList(0, 1000))).isBetween(0.17, 0.26);
    assertThat(reuse(requests)).isBetween(0.34, 0.46);
    assertThat(requests.get(requests.size() - 1).millis()).isBetween(3_300_000L, 3_900_000L);
    assertThat(Replay.blockTokens(requests)).isEqualTo(512);
    var again = ConversationWorkload.generate(100, 1);
    for (int i = 0; i < again.size(); i++) {
      assertThat(again.get(i).blockIds()).isEqualTo(requests.get(i).blockIds());
    }
  }

  private static double reuse(List<Request> requests) {
    var seen = new HashMap<Long, Boolean>();
    long references = 0;
    for (var request : requests) {
      references += request.blockIds().length;
      Arrays.stream(request.blockIds()).forEach(id -> seen.put(id, true));
    }
    return 1 - (double) seen.size() / references;
  }

  @Test
  void theCommandLineSaysWhatIsWrongAndFails() {
    assertThat(Main.run("replay", "--capacity", "lots")).isEqualTo(2);
    assertThat(Main.run("replay", "--model", "gpt-9")).isEqualTo(2);
    assertThat(Main.run("replay", "--trace", directory + "/absent")).isEqualTo(1);
    assertThat(Main.run("replay", "--concurrency", "0")).isEqualTo(2);
    assertThat(Main.run("replay", "--json", directory + "/absent/report.json")).isEqualTo(2);
    var arguments =
        new String[] {
          "replay",
          "--requests",
          "10",
          "--block-bytes",
          "4KiB",
          "--capacity",
          "4MiB",
          "--json",
          directory.resolve("report.json").toString()
        };
    assertThat(Main.run(arguments)).isZero();
    assertThat(directory.resolve("report.json")).exists();
  }

  @Test
  void theDoctorExaminesADirectory() {
    assertThat(Main.run("doctor", directory.toString())).isZero();
    assertThat(directory).isEmptyDirectory();
    assertThat(Main.run("doctor", directory + "/absent")).isEqualTo(1);
  }

  /** Shows: F11 F22 F26 F30 F31 F35 V27 V203 V206, case36 case68 in a whole scheduler. */
  @Test
  void underFaultsAbortsAndPreemptionsNothingIsWrongNothingLeaksAndTheBooksAddUp()
      throws Exception {
    for (boolean fail : new boolean[] {false, true}) {
      var trouble =
          new Replay.Trouble(
              FaultSpec.parse(
                  "read-eio=3%,short-read=3%,zero-read=1%,write-eio=1%,corrupt=3%,eagain=1%,"
                      + "delay-read=1%,reorder=1,copy-late=5%",
                  7),
              fail ? LoadFailurePolicy.fail() : LoadFailurePolicy.recompute(),
              0.05,
              0.05,
              7);
      var settings =
          new Replay.Settings(
              null,
              KvLayout.ofBlockBytes(10_000, 16),
              256L << 20,
              400,
              8,
              32,
              EngineKind.AUTO,
              DEVICE,
              true,
              0,
              fail ? 1 : 2,
              trouble);
      var report = replay(settings, ConversationWorkload.generate(1_200, 5));
      assertThat(report.wrongBlocks()).isZero();
      assertThat(report.leaks()).isZero();
      assertThat(report.addsUp()).as(report.toTable()).isTrue();
      assertThat(report.injected().keySet())
          .contains("READ_ERROR", "CORRUPT", "WRITE_ERROR", "SHORT", "TRANSIENT");
      assertThat(report.injected()).isEqualTo(report.seenByRing());
      assertThat(report.abortedRequests()).isPositive();
      assertThat(report.preemptions()).isPositive();
      assertThat(report.failedRequests()).isBetween(0L, fail ? report.affectedRequests() : 0);
      assertThat(report.affectedRequests()).isPositive();
      assertThat(fail ? report.failedRequests() : report.lostTokens()).isPositive();
    }
  }

  /** Shows: V55 V122 V131, case102: several groups with blocks of their own sizes. */
  @ParameterizedTest
  @CsvSource({"window,false", "state-144,true", "state-272,false", "state-528,true", "mixed,true"})
  void severalGroupsAreServedAndUnderFaultsNothingIsWrong(String groups, boolean faults)
      throws Exception {
    var trouble =
        new Replay.Trouble(
            FaultSpec.parse("read-eio=2%,short-read=2%,write-eio=1%,corrupt=1%,eagain=1%", 7),
            LoadFailurePolicy.recompute(),
            0.05,
            0.05,
            7);
    var settings =
        new Replay.Settings(
            null,
            ModelGeometry.groups(groups, 8192),
            128L << 20,
            900,
            8,
            32,
            EngineKind.AUTO,
            DEVICE,
            true,
            0,
            1,
            faults ? trouble : Replay.Trouble.NONE);
    var report = replay(settings, ConversationWorkload.generate(300, 5));
    assertThat(report.wrongBlocks()).isZero();
    assertThat(report.leaks()).isZero();
    assertThat(report.addsUp()).as(report.toTable()).isTrue();
    assertThat(report.requests()).isEqualTo(300);
    assertThat(report.blocksStored()).isPositive();
    if (faults) { // which of the loads they hit is a matter of chance
      assertThat(report.injected().values()).anyMatch(count -> count > 0);
    } else {
      assertThat(report.affectedRequests()).isZero();
      assertThat(report.diskTokens()).isPositive();
    }
  }

  @Test
  void unknownGroupsAreRefusedWithWhatWouldBeRight() {
    assertThatThrownBy(() -> ModelGeometry.groups("state-100", 8192))
        .hasMessageContaining("no groups 'state-100'")
        .hasMessageContaining("state-144");
  }

  /** Shows: F52 F53: an engine that fails is a report with its cause, not a stack trace. */
  @Test
  void anEngineThatFailsIsInTheReport() throws IOException {
    var report = directory.resolve("report.json");
    int code =
        Main.run(
            "replay",
            "--requests",
            "50",
            "--block-bytes",
            "16KiB",
            "--faults",
            "copy-fail=5%",
            "--json",
            report.toString());
    assertThat(code).isEqualTo(1);
    assertThat(Files.readString(report))
        .contains("\"engineFailure\" : \"a copy failed, as asked for by the fault plan")
        .contains("\"wrongBlocks\" : 0");
  }

  /** Case 77 in a whole scheduler: killed while it serves, and serving again. */
  @Test
  void case77KilledAgainAndAgainNothingIsWrongAndTheHitRateStays() throws IOException {
    assumeTrue(TestDevices.areHost(), "the emulated device is late on purpose");
    var json = directory.resolve("killed.json");
    var blocks = directory.resolve("blocks");
    int code =
        Main.run(
            "replay",
            "--kill-every",
            "400ms",
            "--rounds",
            "4",
            "--requests",
            "3000",
            "--block-bytes",
            "32KiB",
            "--capacity=256MiB",
            "--dir",
            blocks.toString(),
            "--json",
            json.toString());
    assertThat(code).isZero();
    var report = JsonMapper.builder().build().readTree(json.toFile());
    assertThat(report.get("kills").asInt()).isPositive();
    assertThat(report.get("wrongBlocks").asLong()).isZero();
    assertThat(report.get("blocksVerified").asLong()).isPositive();
    assertThat(report.get("restoredBlocks").asLong()).isPositive();
    assertThat(report.get("hitRate").asDouble())
        .isGreaterThan(report.get("uninterruptedHitRate").asDouble() - 0.03);
    assertThat(blocks.resolve("rank-0-of-1.blocks")).exists();
    assertThat(Main.run("replay", "--kill-every", "soon")).isEqualTo(2);
    assertThat(Main.run("replay", "--kill-every", "5s", "--rounds", "0")).isEqualTo(2);
    assertThat(Main.run("replay", "--rounds", "3")).isEqualTo(2);
  }

  @Test
  void encryptedItIsTheSameReplay() {
    assertThat(Main.run("replay", "--requests", "200", "--block-bytes", "16KiB", "--encrypt"))
        .isZero();
    assertThat(Main.run("replay", "--encrypt", "--dir", directory.toString())).isEqualTo(2);
  }

  @Test
  void ratesNameTheirOption() {
    assertThat(Main.run("replay", "--abort", "200%")).isEqualTo(2);
    assertThat(Main.run("replay", "--abort", "60%", "--preempt", "60%")).isEqualTo(2);
    assertThat(Main.run("replay", "--json", directory.toString())).isEqualTo(2);
  }
}
