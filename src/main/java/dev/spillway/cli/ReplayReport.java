package dev.spillway.cli;

import dev.spillway.SpillwayStats;
import dev.spillway.block.BlockOutcome;
import dev.spillway.engine.FaultCounts;
import dev.spillway.engine.LaneStats;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import org.HdrHistogram.Histogram;
import tools.jackson.databind.json.JsonMapper;

/**
 * What a replay came to: the table for people, and the same as JSON. The names of the components
 * are the names in the JSON, described in the README, and stay.
 */
record ReplayReport(
    long requests,
    long promptTokens,
    long deviceTokens,
    long diskTokens,
    long recomputedTokens,
    long blockReferences,
    long deviceHitBlocks,
    long diskHitBlocks,
    double usablePrefixHitRate,
    long blocksStored,
    long blocksLoaded,
    long blocksVerified,
    long wrongBlocks,
    long evictions,
    long storedBytes,
    long loadedBytes,
    double storeGBps,
    double loadGBps,
    double wallSeconds,
    Latency loadLatencyMicros,
    long rejected,
    long storePauses,
    String noRoom,
    Map<String, Long> faults,
    long affectedRequests,
    long failedRequests,
    long abortedRequests,
    long preemptions,
    long lostTokens,
    Map<String, Long> injected,
    Map<String, Long> seenByRing,
    Map<String, Long> recovered,
    Map<String, Long> ended,
    Map<String, Long> discarded,
    Map<String, Long> rankFaults,
    Map<String, Long> outcomes,
    long leaks,
    boolean addsUp,
    String engineFailure,
    Engine engine) {

  /** Of one request's load, from the call to the last block, in microseconds. */
  record Latency(long p50, long p90, long p99, long max) {
    static Latency of(Histogram micros) {
      return new Latency(
          micros.getValueAtPercentile(50),
          micros.getValueAtPercentile(90),
          micros.getValueAtPercentile(99),
          micros.getMaxValue());
    }
  }

  /** How the engine worked. */
  record Engine(
      String kind,
      String kindReason,
      boolean direct,
      boolean registered,
      int alignment,
      String fileSystem,
      int queueDepth,
      double inFlightMean,
      long inFlightMax,
      Lane store,
      Lane load) {}

  /** One lane. */
  record Lane(
      long ended,
      long faulted,
      long resumed,
      long retried,
      long strays,
      double inFlightMean,
      long inFlightMax,
      long enters) {
    static Lane of(LaneStats stats) {
      return new Lane(
          stats.ended(),
          stats.faulted(),
          stats.resumed(),
          stats.retried(),
          stats.strays(),
          rounded(stats.inFlightMean()),
          stats.inFlightMax(),
          stats.enters());
    }
  }

  static ReplayReport of(
      ReplayTally tally, SpillwayStats stats, double wallSeconds, String engineFailure) {
    long hits = tally.deviceHitBlocks + tally.diskHitBlocks;
    var lanes = stats.engine();
    var books = lanes.store().faults().plus(lanes.load().faults());
    return new ReplayReport(
        tally.requests,
        tally.promptTokens,
        tally.deviceTokens,
        tally.diskTokens,
        tally.promptTokens - tally.deviceTokens - tally.diskTokens,
        tally.blockReferences,
        tally.deviceHitBlocks,
        tally.diskHitBlocks,
        rounded((double) hits / Math.max(1, tally.blockReferences)),
        stats.count(BlockOutcome.STORED),
        stats.count(BlockOutcome.LOADED),
        tally.blocksVerified,
        tally.wrongBlocks,
        stats.evictions(),
        stats.storedBytes(),
        stats.loadedBytes(),
        gigabytesPerSecond(stats.storedBytes(), lanes.store().busyNanos()),
        gigabytesPerSecond(stats.loadedBytes(), lanes.load().busyNanos()),
        rounded(wallSeconds),
        Latency.of(tally.loadMicros),
        stats.count(BlockOutcome.REJECTED),
        stats.storePauses(),
        stats.noRoom().map(Enum::name).orElse(""),
        faults(stats),
        tally.affectedRequests,
        tally.failedRequests,
        tally.abortedRequests,
        tally.preemptions,
        tally.lostTokens,
        named(books.injected()),
        named(books.seen()),
        named(books.recovered()),
        named(books.ended()),
        named(books.discarded()),
        rankFaults(stats),
        outcomes(stats),
        stats.heldBlocks() + stats.blocksInFlight(),
        addsUp(books, stats),
        engineFailure,
        engine(stats));
  }

  private static Engine engine(SpillwayStats stats) {
    var mode = stats.mode();
    var store = stats.engine().store();
    var load = stats.engine().load();
    long busy = store.busyNanos() + load.busyNanos();
    double mean = busy == 0 ? 0 : (double) (store.inFlightNanos() + load.inFlightNanos()) / busy;
    return new Engine(
        mode.kind(),
        mode.kindReason(),
        mode.direct(),
        mode.registered(),
        mode.alignment(),
        mode.fileSystem(),
        mode.queueDepth(),
        rounded(mean),
        Math.max(store.inFlightMax(), load.inFlightMax()),
        Lane.of(store),
        Lane.of(load));
  }

  /**
   * What was injected was seen; what was seen was recovered, discarded or ended a block; and what
   * the lanes ended is what the ranks reported. A fault of the disk's own is seen and not injected.
   */
  private static boolean addsUp(FaultCounts books, SpillwayStats stats) {
    boolean injected = FaultCounts.total(books.injected()) > 0;
    boolean seen = !injected || books.injected().equals(books.seen());
    return seen && books.balances() && endedAsReported(books.ended(), stats.rankFaults());
  }

  /** Cause by cause; one that passes by itself ends a block as an error of its direction. */
  private static boolean endedAsReported(
      Map<FaultCounts.Cause, Long> ended, Map<BlockOutcome, Long> told) {
    boolean same = FaultCounts.total(ended) == told.values().stream().mapToLong(n -> n).sum();
    same &= of(ended, FaultCounts.Cause.SHORT) == of(told, BlockOutcome.SHORT);
    same &= of(ended, FaultCounts.Cause.CORRUPT) == of(told, BlockOutcome.CORRUPT);
    same &= of(ended, FaultCounts.Cause.READ_ERROR) <= of(told, BlockOutcome.READ_ERROR);
    same &= of(ended, FaultCounts.Cause.WRITE_ERROR) <= of(told, BlockOutcome.WRITE_ERROR);
    return same;
  }

  private static <K> long of(Map<K, Long> counts, K key) {
    return counts.getOrDefault(key, 0L);
  }

  private static Map<String, Long> named(Map<FaultCounts.Cause, Long> counts) {
    var named = new TreeMap<String, Long>();
    counts.forEach(
        (cause, count) -> {
          if (count > 0) {
            named.put(cause.name(), count);
          }
        });
    return named;
  }

  private static Map<String, Long> rankFaults(SpillwayStats stats) {
    var faults = new TreeMap<String, Long>();
    stats.rankFaults().forEach((outcome, count) -> faults.put(outcome.name(), count));
    faults.values().removeIf(count -> count == 0);
    return faults;
  }

  private static Map<String, Long> outcomes(SpillwayStats stats) {
    var outcomes = new TreeMap<String, Long>();
    stats
        .outcomes()
        .forEach(
            (outcome, count) -> {
              if (count > 0) {
                outcomes.put(outcome.name(), count);
              }
            });
    return outcomes;
  }

  private static Map<String, Long> faults(SpillwayStats stats) {
    var faults = new TreeMap<String, Long>();
    stats
        .outcomes()
        .forEach(
            (outcome, count) -> {
              boolean bound = outcome == BlockOutcome.REJECTED; // said on its own: nothing failed
              if (!outcome.isWell() && !bound && count > 0) {
                faults.put(outcome.name(), count);
              }
            });
    return faults;
  }

  String toJson() {
    return JsonMapper.builder()
        .enable(tools.jackson.databind.SerializationFeature.INDENT_OUTPUT)
        .build()
        .writeValueAsString(this);
  }

  String toTable() {
    var table = new StringBuilder();
    row(table, "requests", "%,d in %.1f s", requests, wallSeconds);
    row(table, "prompt tokens", "%,d", promptTokens);
    row(table, "  from device", "%,d (%s)", deviceTokens, share(deviceTokens));
    row(table, "  from disk", "%,d (%s)", diskTokens, share(diskTokens));
    row(table, "  recomputed", "%,d (%s)", recomputedTokens, share(recomputedTokens));
    row(
        table,
        "usable prefix hit rate",
        "%.3f (%,d of %,d blocks)",
        usablePrefixHitRate,
        deviceHitBlocks + diskHitBlocks,
        blockReferences);
    row(
        table,
        "stored",
        "%s in %,d blocks, %.2f GB/s while storing",
        Bytes.format(storedBytes),
        blocksStored,
        storeGBps);
    row(
        table,
        "loaded",
        "%s in %,d blocks, %.2f GB/s while loading",
        Bytes.format(loadedBytes),
        blocksLoaded,
        loadGBps);
    row(
        table,
        "load latency, us",
        "p50 %,d   p90 %,d   p99 %,d   max %,d",
        loadLatencyMicros.p50(),
        loadLatencyMicros.p90(),
        loadLatencyMicros.p99(),
        loadLatencyMicros.max());
    row(table, "evicted from disk", "%,d blocks", evictions);
    row(table, "rejected by a bound", "%,d blocks", rejected);
    if (storePauses > 0) {
      row(
          table,
          "stores were put off",
          "%,d times for want of room%s",
          storePauses,
          noRoom.isEmpty() ? "; they go on" : ", at the end, too: " + noRoom);
    }
    row(table, "faults", "%s", faults.isEmpty() ? "none" : faults);
    if (!seenByRing.isEmpty()) {
      row(table, "  injected", "%s", injected.isEmpty() ? "none" : injected);
      row(table, "  seen by the ring", "%s", seenByRing);
      row(table, "  recovered", "%s", recovered);
      row(table, "  came after a cancel", "%s", discarded);
      row(table, "  the books", "%s", addsUp ? "add up" : "DO NOT ADD UP");
    }
    if (affectedRequests + abortedRequests + preemptions > 0) {
      row(
          table,
          "requests affected",
          "%,d, of which %,d failed; %,d tokens to recompute",
          affectedRequests,
          failedRequests,
          lostTokens);
      row(table, "aborted, preempted", "%,d, %,d", abortedRequests, preemptions);
    }
    row(table, "leaks", "%,d", leaks);
    row(table, "wrong blocks", "%,d of %,d verified", wrongBlocks, blocksVerified);
    row(
        table,
        "engine",
        "%s%s, %s on %s, %s, alignment %d",
        engine.kind().equals("uring") ? "ring (io_uring)" : "threads",
        engine.kindReason().isEmpty() ? "" : " (" + engine.kindReason() + ")",
        engine.direct() ? "direct" : "buffered",
        engine.fileSystem(),
        engine.registered() ? "registered" : "not registered",
        engine.alignment());
    row(
        table,
        "in flight",
        "mean %.1f, max %d of %d",
        engine.inFlightMean(),
        engine.inFlightMax(),
        engine.queueDepth());
    return table.toString();
  }

  private String share(long tokens) {
    return String.format(Locale.ROOT, "%.1f %%", 100.0 * tokens / Math.max(1, promptTokens));
  }

  private static void row(StringBuilder table, String name, String format, Object... values) {
    table.append(String.format(Locale.ROOT, "  %-24s", name));
    table.append(String.format(Locale.ROOT, format, values)).append(System.lineSeparator());
  }

  private static double gigabytesPerSecond(long bytes, long nanos) {
    return nanos == 0 ? 0 : rounded((double) bytes / nanos);
  }

  private static double rounded(double value) {
    return Math.round(value * 1000) / 1000.0;
  }
}
