package dev.spillway.sim;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;

/**
 * Runs seeds: 10,000 unless {@code -Dsim.seeds=N} says otherwise, from {@code -Dsim.first=SEED} on.
 * A seed that fails is named, and fails again by itself.
 */
class SimulationTest {
  /** Shows: F22 F26 F27 F37 F40 F41 F43 F44 F48 V35 V82 V109 V115 V142 V144 */
  @Test
  void everyEndingInEveryOrderLeavesEveryBlockRightAndNothingHeld() {
    long seeds = Long.getLong("sim.seeds", 10_000);
    long first = Long.getLong("sim.first", 1);
    long startedAt = System.nanoTime();
    Map<String, long[]> coverage = new ConcurrentHashMap<>();
    LongStream.range(first, first + seeds)
        .parallel()
        .forEach(
            seed -> {
              try {
                var mine = Simulation.newCoverage();
                new Simulation(seed, mine).run();
                mine.forEach((event, counts) -> coverage.merge(event, counts, SimulationTest::sum));
              } catch (RuntimeException | AssertionError e) {
                throw new AssertionError(
                    "seed " + seed + " fails; ./spillway sim --seeds 1 --first " + seed, e);
              }
            });
    System.out.printf(
        "%,d seeds from %d, %d transfers each, in %.1f s%n",
        seeds, first, Simulation.TRANSFERS, (System.nanoTime() - startedAt) / 1e9);
    System.out.printf("  %-34s %,12d %12d %12d ranks%n", "ending, event", 1, 2, 3);
    coverage.entrySet().stream()
        .sorted(Map.Entry.comparingByKey())
        .forEach(
            entry -> {
              var counts = entry.getValue();
              System.out.printf(
                  "  %-34s %,12d %,12d %,12d%n", entry.getKey(), counts[0], counts[1], counts[2]);
            });
    if (seeds >= 10_000) {
      for (var ending : List.of("STORED", "LOADED", "CORRUPT", "WRITE_ERROR", "CANCELLED")) {
        for (var event : List.of("undisturbed", "drain", "rank dies")) {
          assertIsCovered(coverage, ending + ", " + event);
        }
      }
      for (var event : List.of("abort", "reset", "close", "close, hung")) {
        assertIsCovered(coverage, "CANCELLED, " + event);
      }
      assertIsCovered(coverage, "ENGINE_FAILED, rank dies");
      assertIsCovered(coverage, "EXPIRED, abort");
      assertIsCovered(coverage, "seeds with state beside it");
    }
  }

  private static long[] sum(long[] one, long[] other) {
    var sum = new long[one.length];
    Arrays.setAll(sum, i -> one[i] + other[i]);
    return sum;
  }

  private static void assertIsCovered(Map<String, long[]> coverage, String cell) {
    assertThat(coverage.getOrDefault(cell, new long[3]))
        .as("what the seeds must have met with 1, 2 and 3 ranks: " + cell)
        .doesNotContain(0L);
  }
}
