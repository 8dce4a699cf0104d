package dev.spillway;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.spillway.block.BlockOutcome;
import dev.spillway.engine.OpenRefusedException;
import dev.spillway.testing.Commands;
import dev.spillway.testing.SpillwayFixture;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * A JVM that stores and loads is killed at a random moment, again and again over the same files.
 * What the next process finds is what was stored, or a miss. {@code -Dkill.rounds=N} for a soak.
 */
class KillTest {
  private static final int SLOT = 16384;
  private static final int BLOCKS = 8; // a store

  @TempDir private Path directory;

  private static SpillwayFixture open(Path directory, int slots) {
    return SpillwayFixture.small(
        directory, builder -> builder.capacityBytes((long) slots * SLOT).workerThread(true));
  }

  /** Stores prefixes of new keys, loads some of those before, and says what is stored. */
  static final class Child {
    public static void main(String[] args) throws InterruptedException {
      long key = Long.parseLong(args[1]);
      int slots = Integer.parseInt(args[2]);
      long pause = Long.parseLong(args[3]);
      var random = new Random(key);
      try (var test = open(Path.of(args[0]), slots)) {
        long first = key;
        while (true) {
          var result = test.store(key, 0, BLOCKS);
          int stored = 0;
          while (stored < BLOCKS && result.outcome(stored) == BlockOutcome.STORED) {
            stored++;
          }
          System.out.println(key + " " + stored);
          key += BLOCKS;
          if (random.nextInt(4) == 0) {
            long earlier = first + BLOCKS * random.nextLong((key - first) / BLOCKS);
            test.load(earlier, BLOCKS, 16);
          }
          Thread.sleep(pause);
        }
      }
    }
  }

  /** A block that the child has told of, and when that was heard. */
  private record Told(long key, long nanos) {}

  /** What happens between a child's first word and its end. */
  @FunctionalInterface
  private interface Meanwhile {
    void run(Process child) throws Exception;
  }

  /** Runs a child for so long after its first word, kills it, and answers what it has told. */
  private List<Told> killed(long firstKey, int slots, long pauseMillis, long lifeMillis)
      throws Exception {
    return killed(firstKey, slots, pauseMillis, child -> Thread.sleep(lifeMillis));
  }

  private List<Told> killed(long firstKey, int slots, long pauseMillis, Meanwhile meanwhile)
      throws Exception {
    var command =
        Commands.java(
            List.of("-XX:TieredStopAtLevel=1", "-Xshare:auto"),
            Child.class,
            directory.toString(),
            "" + firstKey,
            "" + slots,
            "" + pauseMillis);
    var process = new ProcessBuilder(command).redirectErrorStream(true).start();
    var told = new ArrayList<Told>();
    var others = new StringBuilder();
    var begun = new CountDownLatch(1);
    var reader = new Thread(() -> read(process.inputReader(), told, others, begun));
    reader.start();
    assertThat(begun.await(60, TimeUnit.SECONDS)).as("%s", others).isTrue();
    meanwhile.run(process);
    assertThat(process.isAlive()).as("%s", others).isTrue();
    process.destroyForcibly().waitFor();
    reader.join();
    return told;
  }

  private static void read(
      BufferedReader lines, List<Told> told, StringBuilder others, CountDownLatch begun) {
    try (lines) {
      for (var line = lines.readLine(); line != null; line = lines.readLine()) {
        var words = line.split(" ", 2);
        if (words.length != 2 || !words[0].matches("\\d+")) {
          others.append(line).append('\n');
          continue;
        }
        for (int i = 0; i < Integer.parseInt(words[1]); i++) {
          told.add(new Told(Long.parseLong(words[0]) + i, System.nanoTime()));
        }
        begun.countDown();
      }
    } catch (IOException e) {
      others.append(e);
    } finally {
      begun.countDown();
    }
  }

  /** Loads a block where it is found: whether its bytes are there, which must be the right ones. */
  private static boolean isThere(SpillwayFixture test, long key) {
    test.fill(20, -7);
    var result = test.load(key, 1, 20);
    if (result.size() == 0) {
      return false;
    }
    if (result.isWell()) {
      assertThat(test.holds(20, key)).as("the bytes of key %d", key).isTrue();
      return true;
    }
    assertThat(result.outcome(0)).as("key %d", key).isEqualTo(BlockOutcome.REJECTED);
    assertThat(test.holds(20, -7)).as("nothing is copied of key %d", key).isTrue();
    return false;
  }

  /** Case 77. The cache is small, so that slots are written over and over all the while. */
  @Test
  void case77KilledAtAnyMomentNoBlockIsEverWrong() throws Exception {
    int rounds = Integer.getInteger("kill.rounds", 100);
    var random = new Random(77);
    var known = new ArrayList<Long>();
    long found = 0;
    for (int round = 0; round < rounds; round++) {
      var told = killed(1 + 1_000_000L * round, 256, 0, random.nextInt(120));
      told.forEach(block -> known.add(block.key()));
      var recent = known.subList(Math.max(0, known.size() - 400), known.size());
      try (var test = open(directory, 256)) {
        assertThat(test.spillway.awaitRestored(Duration.ofSeconds(10))).isTrue();
        for (long key : recent) {
          found += isThere(test, key) ? 1 : 0;
        }
        var restored = test.spillway.stats().restored();
        assertThat(restored.torn()).as("a kill tears no record: the kernel has it").isZero();
        assertThat(restored.trouble()).isEmpty();
      }
    }
    assertThat(found).isGreaterThan(20L * rounds);
  }

  /** Case 62: two JVMs, one directory, the same keys. */
  @Test
  void case62ASecondProcessIsRefusedByThePidOfTheFirstAndNothingIsHarmed() throws Exception {
    var told =
        killed(
            1,
            256,
            1,
            child -> {
              for (int attempt = 0; attempt < 5; attempt++) {
                assertThatThrownBy(() -> open(directory, 256))
                    .isInstanceOf(OpenRefusedException.class)
                    .hasMessageContaining("is locked: pid " + child.pid() + ", since 20")
                    .hasMessageContaining("one engine a rank and directory");
              }
            });
    assertThat(told).as("the first goes on").hasSizeGreaterThan(2 * BLOCKS);
    try (var test = open(directory, 256)) {
      assertThat(test.spillway.awaitRestored(Duration.ofSeconds(10))).isTrue();
      long there = told.stream().filter(block -> isThere(test, block.key())).count();
      assertThat(there).isPositive();
    }
  }

  @Test
  void whatWasReportedASecondBeforeAKillIsFoundAgain() throws Exception {
    int old = 0;
    int found = 0;
    for (int round = 0; round < 3; round++) {
      var told = killed(1 + 1_000_000L * round, 16384, 2, 2500);
      long killedAt = told.get(told.size() - 1).nanos();
      try (var test = open(directory, 16384)) {
        assertThat(test.spillway.awaitRestored(Duration.ofSeconds(10))).isTrue();
        for (var block : told) {
          if (killedAt - block.nanos() > 1_000_000_000L) {
            old++;
            found += isThere(test, block.key()) ? 1 : 0;
          }
        }
      }
    }
    assertThat(old).isGreaterThan(500);
    assertThat(found).isGreaterThanOrEqualTo((int) Math.ceil(0.99 * old));
  }
}
