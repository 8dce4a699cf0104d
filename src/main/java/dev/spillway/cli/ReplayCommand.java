package dev.spillway.cli;

import dev.spillway.block.KvLayout;
import dev.spillway.engine.EngineOptions.EngineKind;
import dev.spillway.engine.FaultSpec;
import dev.spillway.policy.LoadFailurePolicy;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;
import tools.jackson.databind.SerializationFeature;
import tools.jackson.databind.json.JsonMapper;

/** {@code spillway replay}: the main job. */
@Command(
    name = "replay",
    mixinStandardHelpOptions = true,
    showDefaultValues = true,
    description =
        "Replays a request trace through a small scheduler, a real engine and a real disk, and"
            + " compares every loaded block byte for byte.")
final class ReplayCommand implements Callable<Integer> {
  private static final int BUILT_IN_REQUESTS = 500;
  private static final int REQUESTS_MAX = 1_000_000;
  private static final int ROUNDS = 20;

  @Option(
      names = "--trace",
      paramLabel = "FILE",
      description =
          "Mooncake JSONL or an agentic session, plain, gzip or zstd. Without it: a built-in,"
              + " seeded workload of conversations.")
  private @Nullable Path trace;

  @Option(
      names = "--requests",
      paramLabel = "N",
      description = "Requests to replay at most. Default: the whole trace, 500 of the built-in.")
  private @Nullable Integer requests;

  @Option(names = "--seed", defaultValue = "1", description = "Seed of the built-in workload.")
  private long seed;

  @Option(
      names = "--dir",
      paramLabel = "DIR",
      description = "Where the blocks go. Default: a temporary directory, unlinked once open.")
  private @Nullable Path directory;

  @Option(
      names = "--capacity",
      paramLabel = "BYTES",
      defaultValue = "2GiB",
      converter = Bytes.class,
      description = "Bytes of slots on disk.")
  private long capacity;

  @Option(
      names = "--device-blocks",
      paramLabel = "N",
      defaultValue = "0",
      description = "Blocks of device memory; 0: the largest request, or a quarter of --capacity.")
  private int deviceBlocks;

  @Option(
      names = "--block-bytes",
      paramLabel = "BYTES",
      defaultValue = "256KiB",
      converter = Bytes.class,
      description = "Bytes of a block, 512 to 64MiB, aligned or not.")
  private long blockBytes;

  @Option(
      names = "--model",
      paramLabel = "NAME",
      description =
          "True block geometry of a model instead: MODEL[-tpN][-fp8], for example llama-3.1-8b,"
              + " gpt-oss-20b-tp8-fp8, deepseek-v3-fp8-scales, nemotron-h-8b-tp4.")
  private @Nullable String model;

  @Option(
      names = "--groups",
      paramLabel = "NAME",
      description =
          "Several KV groups of --block-bytes instead: full, window (full attention and a sliding"
              + " window), state-144, state-272, state-528 (and recurrent state of so many tokens a"
              + " block), mixed.")
  private @Nullable String groups;

  @Option(names = "--engine", defaultValue = "auto", description = "${COMPLETION-CANDIDATES}.")
  private EngineKind engine = EngineKind.AUTO;

  @Option(
      names = "--device",
      defaultValue = "host",
      description = "What holds the device blocks: ${COMPLETION-CANDIDATES}.")
  private DeviceChoice device = DeviceChoice.HOST;

  @Option(
      names = "--depth",
      paramLabel = "N",
      defaultValue = "32",
      description = "Requests in flight at the disk, a lane.")
  private int depth;

  @Option(
      names = "--concurrency",
      paramLabel = "N",
      defaultValue = "8",
      description = "Requests under way at a time.")
  private int concurrency;

  @Option(
      names = "--pace",
      paramLabel = "X",
      defaultValue = "0",
      description = "Let requests arrive as in the trace, X times as fast; 0: as fast as they go.")
  private double pace;

  @Option(
      names = "--faults",
      paramLabel = "SPEC",
      description =
          "Faults to make, KIND=RATE,…: for example"
              + " read-eio=1%%,short-read=1%%,write-enospc=0.5%%,corrupt=0.1%%.")
  private @Nullable String faults;

  @Option(
      names = "--fault-seed",
      paramLabel = "N",
      defaultValue = "1",
      description = "Seed of the faults, aborts and preemptions.")
  private long faultSeed;

  @Option(
      names = "--ranks",
      paramLabel = "N",
      defaultValue = "1",
      description = "Ranks, each with a block file and device memory of its own, 1 to 64.")
  private int ranks;

  private enum Policy {
    FAIL,
    RECOMPUTE
  }

  @Option(
      names = "--policy",
      defaultValue = "recompute",
      description = "What becomes of a request that lost a block: ${COMPLETION-CANDIDATES}.")
  private Policy policy = Policy.RECOMPUTE;

  @Option(
      names = "--preempt",
      paramLabel = "RATE",
      defaultValue = "0",
      description = "Share of requests that are preempted, at each of two moments: 0.02 or 2%%.")
  private String preempt = "0";

  @Option(
      names = "--abort",
      paramLabel = "RATE",
      defaultValue = "0",
      description = "Share of requests that are aborted, at each of two moments.")
  private String abort = "0";

  @Option(
      names = "--encrypt",
      description = "Encrypt what lies on disk, with a key that is drawn and thrown away.")
  private boolean encrypt;

  @Option(
      names = "--sparse",
      description = "Reserve nothing on disk; where it is full, older blocks give way.")
  private boolean sparse;

  @Option(names = "--page-cache", description = "Use the page cache instead of direct I/O.")
  private boolean pageCache;

  @Option(
      names = "--kill-every",
      paramLabel = "TIME",
      description =
          "Replay in a process of its own that is killed so long after it has begun, 5s or 500ms,"
              + " and goes on over what it finds on disk; its hit rate is set beside that of a"
              + " replay that nobody kills.")
  private @Nullable String killEvery;

  @Option(
      names = "--rounds",
      paramLabel = "N",
      description = "Kills at most, with --kill-every. Default: " + ROUNDS + ".")
  private @Nullable Integer rounds;

  @Option(names = "--progress", hidden = true)
  private @Nullable Path progress;

  @Spec private @Nullable CommandSpec spec;

  @Option(
      names = "--json",
      paramLabel = "FILE",
      description = "Write the report here as JSON, too.")
  private @Nullable Path json;

  @Override
  public Integer call() throws IOException {
    check(concurrency >= 1, "--concurrency is " + concurrency + "; at least 1 would be right");
    check(pace >= 0, "--pace is " + pace + "; 0 or more would be right");
    check(deviceBlocks >= 0, "--device-blocks is " + deviceBlocks + "; 0 or more would be right");
    check(requests == null || requests >= 1, "--requests is " + requests + "; at least 1 is right");
    check(
        requests == null || requests <= REQUESTS_MAX,
        "--requests is " + requests + "; at most " + REQUESTS_MAX + " is right");
    check(depth >= 1 && depth <= 4096, "--depth is " + depth + "; 1 to 4096 would be right");
    check(ranks >= 1 && ranks <= 64, "--ranks is " + ranks + "; 1 to 64 would be right");
    var report = json == null ? null : json.toAbsolutePath().getParent();
    check(report == null || Files.isDirectory(report), "--json: " + report + " is no directory");
    check(json == null || !Files.isDirectory(json), "--json: " + json + " is a directory");
    double both = rate("--preempt", preempt) + rate("--abort", abort);
    check(
        both <= 1,
        "--preempt and --abort are %.0f %% together; 100 %% at most".formatted(100 * both));
    check(model == null || groups == null, "--model and --groups; one of them would be right");
    var settings =
        new Replay.Settings(
            directory,
            layout(),
            capacity,
            deviceBlocks,
            concurrency,
            depth,
            engine,
            device,
            !pageCache,
            pace,
            ranks,
            trouble());
    check(
        !encrypt || (directory == null && killEvery == null),
        "--encrypt draws a key for one replay; it goes with neither --dir nor --kill-every");
    check(rounds == null || killEvery != null, "--rounds is of --kill-every; both would be right");
    if (killEvery != null) {
      return replayKilled(settings, duration(killEvery), rounds == null ? ROUNDS : rounds);
    }
    var replay = new Replay(settings, readRequests(), System.out, isTerminal());
    if (encrypt) {
      replay.encrypt();
    }
    if (sparse) {
      replay.reserveNothing();
    }
    if (progress != null) {
      replay.continueFrom(new ReplayProgress(progress));
    }
    var result = replay.run();
    System.out.print(result.toTable());
    if (json != null) {
      Files.writeString(json, result.toJson() + System.lineSeparator(), StandardCharsets.UTF_8);
    }
    boolean lives =
        result.engineFailure().isEmpty() && !result.faults().containsKey("ENGINE_FAILED");
    return result.wrongBlocks() == 0 && lives && result.addsUp() && result.leaks() == 0 ? 0 : 1;
  }

  private int replayKilled(Replay.Settings settings, Duration every, int rounds)
      throws IOException {
    check(rounds >= 1, "--rounds is " + rounds + "; at least 1 would be right");
    var all = readRequests();
    System.out.println("uninterrupted first, then killed every " + killEvery);
    var whole = new Replay(settings.in(null), all, System.out, isTerminal()).run();
    var state = Files.createTempDirectory("spillway-killed-");
    var given = settings.directory();
    var blocks = given == null ? Files.createTempDirectory(Replay.large(), "spillway-") : given;
    try {
      var killed =
          new KilledReplay(ownArguments(), every, rounds, all.size(), System.out)
              .run(blocks, state.resolve("progress"), whole.usablePrefixHitRate());
      System.out.print(killed.toTable());
      if (killed.kills() < rounds) {
        System.out.printf(
            "  it was over after %d of %d kills: more requests, or a shorter --kill-every%n",
            killed.kills(), rounds);
      }
      if (json != null) {
        Files.writeString(
            json,
            JsonMapper.builder()
                    .enable(SerializationFeature.INDENT_OUTPUT)
                    .build()
                    .writeValueAsString(killed)
                + System.lineSeparator(),
            StandardCharsets.UTF_8);
      }
      return killed.wrongBlocks() + whole.wrongBlocks() == 0 ? 0 : 1;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted", e);
    } finally {
      Replay.delete(state);
      if (given == null) {
        Replay.delete(blocks);
      }
    }
  }

  /** As given, but for those that say where it goes and that it is killed. */
  private List<String> ownArguments() {
    var given = Objects.requireNonNull(spec).commandLine().getParseResult().originalArgs();
    var own = new ArrayList<String>();
    for (int i = given.get(0).equals("replay") ? 1 : 0; i < given.size(); i++) {
      var name = given.get(i).replaceFirst("=.*", "");
      if (List.of("--kill-every", "--rounds", "--json", "--dir").contains(name)) {
        i += given.get(i).contains("=") ? 0 : 1;
      } else {
        own.add(given.get(i));
      }
    }
    return own;
  }

  private static Duration duration(String text) {
    var match = Pattern.compile("(\\d+)(ms|s|m)").matcher(text);
    check(match.matches(), "--kill-every is '" + text + "'; 5s or 500ms would be right");
    long number = Long.parseLong(match.group(1));
    return switch (match.group(2)) {
      case "ms" -> Duration.ofMillis(number);
      case "s" -> Duration.ofSeconds(number);
      default -> Duration.ofMinutes(number);
    };
  }

  private KvLayout layout() {
    if (groups != null) {
      return ModelGeometry.groups(groups, blockBytes);
    }
    return model == null ? KvLayout.ofBlockBytes(blockBytes, 16) : ModelGeometry.of(model);
  }

  private Replay.Trouble trouble() {
    return new Replay.Trouble(
        faults == null ? FaultSpec.NONE : FaultSpec.parse(faults, faultSeed),
        policy == Policy.FAIL ? LoadFailurePolicy.fail() : LoadFailurePolicy.recompute(),
        rate("--preempt", preempt),
        rate("--abort", abort),
        faultSeed);
  }

  private static double rate(String option, String text) {
    try {
      return FaultSpec.rate(text);
    } catch (IllegalArgumentException e) {
      throw new IllegalArgumentException(option + ": " + e.getMessage(), e);
    }
  }

  /**
   * Whether standard output is a terminal: Java's own answer changed its meaning with version 22.
   */
  private static boolean isTerminal() {
    try {
      var target = Path.of("/proc/self/fd/1").toRealPath().toString();
      return target.startsWith("/dev/pts/") || target.startsWith("/dev/tty");
    } catch (IOException e) {
      return false; // a pipe has no path
    }
  }

  private List<Request> readRequests() throws IOException {
    if (trace == null) {
      return ConversationWorkload.generate(requests == null ? BUILT_IN_REQUESTS : requests, seed);
    }
    return TraceFile.read(trace, requests == null ? Integer.MAX_VALUE : requests);
  }

  private static void check(boolean right, String message) {
    if (!right) {
      throw new IllegalArgumentException(message);
    }
  }
}
