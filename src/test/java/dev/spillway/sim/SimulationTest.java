package dev.spillway.sim;

import static org.assertj.core.api.Assertions.assertThat;

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
    Map<String, Long> coverage = new ConcurrentHashMap<>();
    LongStream.range(first, first + seeds)
        .parallel()
        .forEach(
            seed -> {
              try {
                var mine = Simulation.newCoverage();
                new Simulation(seed, mine).run();
                mine.forEach((event, count) -> coverage.merge(event, count, Long::sum));
              } catch (RuntimeException | AssertionError e) {
                throw new AssertionError(
                    "seed " + seed + " fails; ./spillway sim --seeds 1 --first " + seed, e);
              }
            });
    System.out.printf(
        "%,d seeds from %d, %d transfers each, in %.1f s%n",
        seeds, first, Simulation.TRANSFERS, (System.nanoTime() - startedAt) / 1e9);
    coverage.entrySet().stream()
        .sorted(Map.Entry.comparingByKey())
        .forEach(entry -> System.out.printf("  %-34s %,d%n", entry.getKey(), entry.getValue()));
    if (seeds >= 1000) {
      assertThat(coverage.keySet())
          .as("what the seeds must have met")
          .contains("abort", "drain", "reset", "rank dies", "CORRUPT with 2 ranks")
          .contains("EXPIRED with 3 ranks", "WRITE_ERROR with 3 ranks", "CANCELLED with 2 ranks");
    }
  }
}
