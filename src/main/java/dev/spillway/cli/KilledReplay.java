package dev.spillway.cli;

import java.io.IOException;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.TimeUnit;

/**
 * A replay in a process of its own that is killed again and again, and goes on each time over what
 * it finds on disk. Its hit rate is set beside that of a replay that nobody kills.
 */
final class KilledReplay {
  private static final Duration START_MAX = Duration.ofMinutes(2);
  private static final long LOOK_MILLIS = 20;

  /**
   * What came of it.
   *
   * @param kills that found the replay alive
   * @param restoredBlocks found again, all restarts together
   * @param staleBlocks of those that turned out to be others
   */
  record Outcome(
      int kills,
      int requests,
      long blocksVerified,
      long wrongBlocks,
      long restoredBlocks,
      long staleBlocks,
      double hitRate,
      double uninterruptedHitRate) {
    String toTable() {
      return String.format(
          Locale.ROOT,
          "  %-24s%,d, killed %d times%n  %-24s%.3f; uninterrupted %.3f, %+.1f points%n"
              + "  %-24s%,d in all restarts, of which %,d were others%n  %-24s%,d of %,d verified%n",
          "requests",
          requests,
          kills,
          "usable prefix hit rate",
          hitRate,
          uninterruptedHitRate,
          100 * (hitRate - uninterruptedHitRate),
          "blocks found again",
          restoredBlocks,
          staleBlocks,
          "wrong blocks",
          wrongBlocks,
          blocksVerified);
    }
  }

  private final List<String> arguments;
  private final Duration every;
  private final int rounds;
  private final int requests;
  private final PrintStream out;

  /**
   * @param arguments of the replay, without those that say where it goes and that it is killed
   * @param every after how long it is killed
   * @param rounds how many times at most
   */
  KilledReplay(List<String> arguments, Duration every, int rounds, int requests, PrintStream out) {
    this.arguments = List.copyOf(arguments);
    this.every = every;
    this.rounds = rounds;
    this.requests = requests;
    this.out = out;
  }

  /** Runs it over a directory, whose blocks stay there. */
  Outcome run(Path directory, Path state, double uninterruptedHitRate)
      throws IOException, InterruptedException {
    int kills = 0;
    while (kills < rounds && runOnce(directory, state, every)) {
      kills++;
      out.printf(
          "killed %d times, %,d of %,d requests done%n",
          kills, new ReplayProgress(state).doneCount(), requests);
    }
    if (new ReplayProgress(state).doneCount() < requests) {
      runOnce(directory, state, Duration.ofDays(1));
    }
    var progress = new ReplayProgress(state);
    if (progress.doneCount() < requests) {
      throw new IOException(
          "the replay has done %d of %d requests; its own words: %s"
              .formatted(
                  progress.doneCount(),
                  requests,
                  Files.readString(state.resolveSibling("output"))));
    }
    long hits = progress.count("deviceHitBlocks") + progress.count("diskHitBlocks");
    return new Outcome(
        kills,
        requests,
        progress.count("blocksVerified"),
        progress.count("wrongBlocks"),
        progress.count("restoredBlocks"),
        progress.count("staleBlocks"),
        (double) hits / Math.max(1, progress.count("blockReferences")),
        uninterruptedHitRate);
  }

  /** Answers whether it had to be killed. */
  private boolean runOnce(Path directory, Path state, Duration life)
      throws IOException, InterruptedException {
    var process =
        new ProcessBuilder(command(directory, state))
            .redirectErrorStream(true)
            .redirectOutput(state.resolveSibling("output").toFile())
            .start();
    long modified = Files.exists(state) ? Files.getLastModifiedTime(state).toMillis() : 0;
    long until = System.nanoTime() + START_MAX.toNanos();
    while (process.isAlive()
        && System.nanoTime() < until
        && (!Files.exists(state) || Files.getLastModifiedTime(state).toMillis() == modified)) {
      Thread.sleep(LOOK_MILLIS); // it starts, and takes over the file
    }
    if (process.waitFor(life.toMillis(), TimeUnit.MILLISECONDS)) {
      return false;
    }
    process.destroyForcibly().waitFor();
    return true;
  }

  private List<String> command(Path directory, Path state) {
    var command = new ArrayList<String>();
    command.add(ProcessHandle.current().info().command().orElse("java"));
    ManagementFactory.getRuntimeMXBean().getInputArguments().stream()
        .filter(argument -> !argument.startsWith("-javaagent") && !argument.startsWith("-agent"))
        .forEach(command::add);
    command.addAll(
        List.of("-cp", System.getProperty("java.class.path"), Main.class.getName(), "replay"));
    command.addAll(arguments);
    command.addAll(List.of("--dir", directory.toString(), "--progress", state.toString()));
    return command;
  }
}
