package dev.spillway.cli;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.BitSet;
import java.util.Properties;

/**
 * How far a replay is, in a file that is whole at every moment: for a replay that is killed, and
 * for the next one that goes on where it was. Owned by the replay's thread.
 */
final class ReplayProgress {
  private static final long DUE_NANOS = 50_000_000;

  private final Path file;
  private final BitSet done = new BitSet();
  private final Properties found = new Properties();
  private long writtenAt;

  /** Goes on from what the file says, or from the beginning where there is none. */
  ReplayProgress(Path file) throws IOException {
    this.file = file;
    if (Files.exists(file)) {
      try (var reader = Files.newBufferedReader(file, StandardCharsets.UTF_8)) {
        found.load(reader);
      }
      long[] words =
          found.getProperty("done", "").lines().flatMapToLong(ReplayProgress::words).toArray();
      done.or(BitSet.valueOf(words));
    }
  }

  private static java.util.stream.LongStream words(String line) {
    return java.util.Arrays.stream(line.split(",", -1))
        .filter(word -> !word.isEmpty())
        .mapToLong(word -> Long.parseUnsignedLong(word, 16));
  }

  boolean isDone(int request) {
    return done.get(request);
  }

  void done(int request) {
    done.set(request);
  }

  int doneCount() {
    return done.cardinality();
  }

  /** A count that earlier replays have left. */
  long count(String name) {
    return Long.parseLong(found.getProperty(name, "0"));
  }

  /** Takes over what earlier replays have counted. */
  void addTo(ReplayTally tally) {
    tally.blockReferences += count("blockReferences");
    tally.deviceHitBlocks += count("deviceHitBlocks");
    tally.diskHitBlocks += count("diskHitBlocks");
    tally.blocksVerified += count("blocksVerified");
    tally.wrongBlocks += count("wrongBlocks");
  }

  /** Writes where it is, some times a second. */
  void note(ReplayTally tally, long restoredBlocks, long staleBlocks) {
    long now = System.nanoTime();
    if (writtenAt != 0 && now - writtenAt < DUE_NANOS) {
      return;
    }
    writtenAt = now;
    write(tally, restoredBlocks, staleBlocks);
  }

  void write(ReplayTally tally, long restoredBlocks, long staleBlocks) {
    var text = new StringBuilder("done=");
    for (long word : done.toLongArray()) {
      text.append(Long.toHexString(word)).append(',');
    }
    line(text, "blockReferences", tally.blockReferences);
    line(text, "deviceHitBlocks", tally.deviceHitBlocks);
    line(text, "diskHitBlocks", tally.diskHitBlocks);
    line(text, "blocksVerified", tally.blocksVerified);
    line(text, "wrongBlocks", tally.wrongBlocks);
    line(text, "restoredBlocks", count("restoredBlocks") + restoredBlocks);
    line(text, "staleBlocks", count("staleBlocks") + staleBlocks);
    try {
      var fresh = file.resolveSibling(file.getFileName() + ".new");
      Files.writeString(fresh, text, StandardCharsets.UTF_8);
      Files.move(fresh, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    } catch (IOException e) {
      throw new IllegalStateException(file + " cannot be written", e);
    }
  }

  private static void line(StringBuilder text, String name, long value) {
    text.append('\n').append(name).append('=').append(value);
  }
}
