package dev.spillway.cli;

import dev.spillway.EngineFailedException;
import dev.spillway.Spillway;
import dev.spillway.SpillwayConfig;
import dev.spillway.block.BlockKey;
import dev.spillway.block.KvLayout;
import dev.spillway.block.PrefixHasher;
import dev.spillway.device.BlockMemory;
import dev.spillway.engine.EngineOptions.Allocation;
import dev.spillway.engine.EngineOptions.EngineKind;
import dev.spillway.engine.FaultSpec;
import dev.spillway.policy.LoadFailurePolicy;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.jspecify.annotations.Nullable;

/**
 * A small scheduler over a real engine and a real disk: walks the requests of a trace, several at a
 * time, with host memory in the place of a GPU's, or with a GPU's. Every block that is loaded is
 * compared with what was computed under its key.
 */
final class Replay {
  /**
   * What to replay, and how.
   *
   * @param directory null for a temporary one that is unlinked as soon as it is open
   * @param deviceBlocks 0 for the largest request or a quarter of the capacity, 4 GiB at most
   * @param pace arrivals as in the trace, so many times as fast; 0 to start as soon as there is
   *     room
   */
  record Settings(
      @Nullable Path directory,
      KvLayout layout,
      long capacityBytes,
      int deviceBlocks,
      int concurrency,
      int queueDepth,
      EngineKind engine,
      DeviceChoice device,
      boolean directIo,
      double pace,
      int ranks,
      Trouble trouble) {
    /** The same elsewhere. */
    Settings in(@Nullable Path other) {
      return new Settings(
          other,
          layout,
          capacityBytes,
          deviceBlocks,
          concurrency,
          queueDepth,
          engine,
          device,
          directIo,
          pace,
          ranks,
          trouble);
    }
  }

  /**
   * What is done to the requests on purpose.
   *
   * @param seed decides who is aborted and preempted
   */
  record Trouble(
      FaultSpec faults, LoadFailurePolicy policy, double preemptRate, double abortRate, long seed) {
    static final Trouble NONE = new Trouble(FaultSpec.NONE, LoadFailurePolicy.recompute(), 0, 0, 1);
  }

  private static final Duration IDLE = Duration.ofMillis(100);
  private static final Duration QUIET_WAIT = Duration.ofSeconds(60);
  private static final int KEY_BYTES = 64;
  private static final long DEVICE_BYTES_MAX = 4L << 30;

  private final Settings settings;
  private final List<Request> requests;
  private final PrintStream out;
  private final boolean terminal;
  private final ReplayTally tally = new ReplayTally();
  private final Map<Long, BlockKey> keys = new HashMap<>();
  private final PrefixHasher hasher = new PrefixHasher("replay", "");
  private @Nullable ReplayProgress progressFile;
  private boolean encrypted;
  private boolean sparse;

  Replay(Settings settings, List<Request> requests, PrintStream out, boolean terminal) {
    this.settings = settings;
    this.requests = requests;
    this.out = out;
    this.terminal = terminal;
  }

  /** Goes on where an earlier replay was, and notes how far this one is. */
  void continueFrom(ReplayProgress progress) {
    progressFile = progress;
    progress.addTo(tally);
  }

  /** What lies on disk is encrypted, with a key that is drawn and thrown away. */
  void encrypt() {
    encrypted = true;
  }

  /** Nothing is reserved on disk: where it is full, older blocks give way. */
  void reserveNothing() {
    sparse = true;
  }

  private void noteProgress(Spillway spillway) {
    if (progressFile != null) {
      var restored = spillway.stats().restored();
      progressFile.note(tally, restored.blocks(), restored.stale());
    }
  }

  ReplayReport run() throws IOException {
    var given = settings.directory();
    boolean temporary = given == null;
    var directory = given == null ? temporaryDirectory() : given;
    int deviceBlocks = deviceBlocks();
    var devices = new ArrayList<BlockMemory>();
    try {
      for (int rank = 0; rank < settings.ranks(); rank++) {
        devices.add(settings.device().allocate(settings.layout(), deviceBlocks, rank));
      }
      return replay(directory, devices, deviceBlocks, temporary);
    } finally {
      devices.forEach(BlockMemory::close);
      if (temporary) {
        delete(directory);
      }
    }
  }

  private ReplayReport replay(
      Path directory, List<BlockMemory> devices, int deviceBlocks, boolean temporary)
      throws IOException {
    try (var spillway = Spillway.open(config(directory, devices))) {
      if (temporary) {
        delete(directory);
      }
      announce(spillway, deviceBlocks, temporary);
      return replay(spillway, devices, deviceBlocks);
    }
  }

  private SpillwayConfig config(Path directory, List<BlockMemory> devices) {
    var builder = SpillwayConfig.builder(directory, devices.get(0));
    devices.subList(1, devices.size()).forEach(builder::addRank);
    if (encrypted) {
      var key = new byte[KEY_BYTES];
      new SecureRandom().nextBytes(key);
      builder.encryptionKey(key);
    }
    return builder
        .nameSpace("replay")
        .warmRestart(settings.directory() != null)
        .capacityBytes(settings.capacityBytes())
        .allocation(sparse ? Allocation.SPARSE : Allocation.PREALLOCATE)
        .queueDepth(settings.queueDepth())
        .engine(settings.engine())
        .directIo(settings.directIo())
        .blocksInFlightMax(65536)
        .faults(settings.trouble().faults())
        .build();
  }

  private ReplayReport replay(Spillway spillway, List<BlockMemory> devices, int deviceBlocks) {
    var pool = new DevicePool(deviceBlocks);
    var context =
        new ReplayRequest.Context(
            spillway,
            pool,
            new BlockPattern(devices),
            new GroupTables(settings.layout()),
            blockTokens(requests),
            settings.trouble().policy(),
            settings.trouble().preemptRate(),
            settings.trouble().abortRate(),
            new Random(settings.trouble().seed()));
    var progress = new ProgressLine(out, terminal, requests.size(), System::nanoTime);
    long startedAt = System.nanoTime();
    var running = new ArrayList<ReplayRequest>();
    int next = 0;
    String failure = "";
    try {
      while (next < requests.size() || !running.isEmpty()) {
        int started = startRequests(context, running, next, startedAt);
        next += started;
        boolean stepped = step(running);
        if (spillway.poll() == 0 && !stepped && started == 0) {
          spillway.poll(IDLE);
        }
        noteProgress(spillway);
        if (progress.isDue()) {
          progress.show(tally, spillway.stats());
        }
      }
    } catch (EngineFailedException e) {
      failure = String.valueOf(e.getMessage());
    }
    double wallSeconds = (System.nanoTime() - startedAt) / 1e9;
    progress.clear();
    if (progressFile != null) {
      var restored = spillway.stats().restored();
      progressFile.write(tally, restored.blocks(), restored.stale());
    }
    if (failure.isEmpty()) {
      checkQuiet(spillway, pool);
    } else {
      out.println("the engine has failed, and no request goes on: " + failure);
      spillway.awaitIdle(QUIET_WAIT);
    }
    return ReplayReport.of(tally, spillway.stats(), wallSeconds, failure);
  }

  /** Starts requests in order while there is room; answers how many. */
  private int startRequests(
      ReplayRequest.Context context, List<ReplayRequest> running, int next, long startedAt) {
    int started = 0;
    while (next + started < requests.size() && running.size() < settings.concurrency()) {
      if (progressFile != null && progressFile.isDone(next + started)) {
        started++;
        continue;
      }
      var request = requests.get(next + started);
      if (!hasArrived(request, startedAt)) {
        break;
      }
      var candidate =
          new ReplayRequest(context, tally, request, next + started + 1L, keysOf(request));
      if (!candidate.start()) {
        if (running.isEmpty()) {
          throw new IllegalArgumentException(
              "a request of %d blocks and a device pool of %d; --device-blocks %d would be right"
                  .formatted(
                      request.blockIds().length,
                      context.pool().blockCount(),
                      request.blockIds().length));
        }
        break;
      }
      running.add(candidate);
      started++;
    }
    return started;
  }

  private boolean hasArrived(Request request, long startedAt) {
    long sinceFirst = request.millis() - requests.get(0).millis();
    return settings.pace() == 0
        || (System.nanoTime() - startedAt) / 1e6 * settings.pace() >= sinceFirst;
  }

  private boolean step(List<ReplayRequest> running) {
    boolean worked = false;
    for (var request : running) {
      worked |= request.doWork();
    }
    int before = running.size();
    if (progressFile != null) {
      for (var request : running) {
        if (request.isDone()) {
          progressFile.done((int) request.id() - 1);
        }
      }
    }
    running.removeIf(ReplayRequest::isDone);
    tally.requests += before - running.size();
    return worked;
  }

  /** An id names a block and all before it, so its hash is a key as it is. */
  private List<BlockKey> keysOf(Request request) {
    var list = new ArrayList<BlockKey>(request.blockIds().length);
    for (long id : request.blockIds()) {
      list.add(
          keys.computeIfAbsent(
              id,
              name -> hasher.hash(new int[] {(int) (name >>> 32), (int) (long) name}, 2).get(0)));
    }
    return list;
  }

  /** Tokens a block, which traces do not say: the smallest power of two that fits every request. */
  static int blockTokens(List<Request> requests) {
    long most = 1;
    for (var request : requests) {
      int blocks = Math.max(1, request.blockIds().length);
      most = Math.max(most, (request.inputTokens() + blocks - 1) / blocks);
    }
    return Math.toIntExact(Long.highestOneBit(2 * most - 1));
  }

  private int deviceBlocks() {
    if (settings.deviceBlocks() > 0) {
      return settings.deviceBlocks();
    }
    int largest = requests.stream().mapToInt(request -> request.blockIds().length).max().orElse(1);
    long blockBytes =
        settings.layout().groups().stream().mapToLong(KvLayout.Group::blockBytes).sum();
    long quarter = settings.capacityBytes() / 4 / blockBytes;
    return (int) Math.max(largest, Math.min(quarter, DEVICE_BYTES_MAX / blockBytes));
  }

  private void announce(Spillway spillway, int deviceBlocks, boolean temporary) {
    var mode = spillway.stats().mode();
    long blockBytes =
        settings.layout().groups().stream().mapToLong(KvLayout.Group::blockBytes).sum();
    out.printf(
        "%,d requests; blocks of %s; %s on disk in %s%s; %,d device blocks (%s); %s engine%s%s%n",
        requests.size(),
        Bytes.format(blockBytes),
        Bytes.format(settings.capacityBytes()),
        mode.path(),
        temporary ? " (temporary, unlinked)" : "",
        deviceBlocks,
        Bytes.format(deviceBlocks * blockBytes),
        mode.kind(),
        mode.kindReason().isEmpty() ? "" : ": " + mode.kindReason(),
        mode.device().equals("host") ? "" : "; " + mode.device());
    mode.notices().forEach(notice -> out.println("note: " + notice));
  }

  private static void checkQuiet(Spillway spillway, DevicePool pool) {
    long until = System.nanoTime() + QUIET_WAIT.toNanos();
    while (spillway.stats().blocksInFlight() > 0 && System.nanoTime() < until) {
      spillway.poll(IDLE); // trials of retired slots, too
    }
    var stats = spillway.stats();
    if (stats.heldBlocks() > 0 || stats.blocksInFlight() > 0 || !pool.isQuiet()) {
      throw new IllegalStateException(
          "%d entries held and %d blocks in flight after the last request"
              .formatted(stats.heldBlocks(), stats.blocksInFlight()));
    }
  }

  private static Path temporaryDirectory() throws IOException {
    return Files.createTempDirectory(large(), "spillway-");
  }

  /** Where there is room for temporary files, mostly on a disk. */
  static Path large() {
    var large = Path.of("/var/tmp");
    return Files.isWritable(large) ? large : Path.of(System.getProperty("java.io.tmpdir", "/tmp"));
  }

  static void delete(Path directory) throws IOException {
    if (!Files.exists(directory)) {
      return;
    }
    try (var entries = Files.list(directory)) {
      for (var entry : entries.toList()) {
        Files.delete(entry);
      }
    }
    Files.delete(directory);
  }
}
