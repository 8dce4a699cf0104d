package dev.spillway.cli;

import dev.spillway.SpillwayStats;
import java.io.PrintStream;
import java.util.Locale;
import java.util.function.LongSupplier;

/** Tells how far a replay is: a bar that is redrawn on a terminal, plain lines elsewhere. */
final class ProgressLine {
  private static final int BAR = 24;
  private static final long TERMINAL_NANOS = 200_000_000L;
  private static final long PLAIN_NANOS = 5_000_000_000L;

  private final PrintStream out;
  private final boolean terminal;
  private final LongSupplier nanoClock;
  private final long total;
  private final long startedAt;
  private long shownAt;
  private long shownStored;
  private long shownLoaded;

  ProgressLine(PrintStream out, boolean terminal, long total, LongSupplier nanoClock) {
    this.out = out;
    this.terminal = terminal;
    this.total = total;
    this.nanoClock = nanoClock;
    startedAt = nanoClock.getAsLong();
    shownAt = startedAt;
  }

  /**
   * Whether it is time to show again: asked once a scheduler step, so the clock is all it costs.
   */
  boolean isDue() {
    return nanoClock.getAsLong() - shownAt >= (terminal ? TERMINAL_NANOS : PLAIN_NANOS);
  }

  void show(ReplayTally tally, SpillwayStats stats) {
    long now = nanoClock.getAsLong();
    double seconds = (now - shownAt) / 1e9;
    double done = (double) tally.requests / total;
    double hits = (double) (tally.deviceHitBlocks + tally.diskHitBlocks);
    var text =
        String.format(
            Locale.ROOT,
            "%s%,d/%,d requests  out %.2f GB/s  in %.2f GB/s  hits %.3f  ETA %s",
            terminal ? bar(done) + " " : "",
            tally.requests,
            total,
            (stats.storedBytes() - shownStored) / seconds / 1e9,
            (stats.loadedBytes() - shownLoaded) / seconds / 1e9,
            hits / Math.max(1, tally.blockReferences),
            eta(now, done));
    out.print(terminal ? "\r\033[K" + text : text + System.lineSeparator());
    out.flush();
    shownAt = now;
    shownStored = stats.storedBytes();
    shownLoaded = stats.loadedBytes();
  }

  void clear() {
    if (terminal) {
      out.print("\r\033[K");
      out.flush();
    }
  }

  private static String bar(double done) {
    int filled = (int) Math.round(done * BAR);
    return "[" + "#".repeat(filled) + ".".repeat(BAR - filled) + "]";
  }

  private String eta(long now, double done) {
    if (done == 0) {
      return "-";
    }
    long seconds = Math.round((now - startedAt) / 1e9 * (1 - done) / done);
    return String.format(Locale.ROOT, "%d:%02d", seconds / 60, seconds % 60);
  }
}
