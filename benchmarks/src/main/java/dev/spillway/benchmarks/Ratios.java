package dev.spillway.benchmarks;

import java.util.Arrays;
import java.util.Locale;
import java.util.Random;
import java.util.stream.DoubleStream;

/**
 * The median of rounds, and its own 95 % interval by resampling the rounds.
 *
 * @param low lower bound of the interval
 * @param high upper bound
 */
record Ratios(double median, double low, double high) {
  private static final int RESAMPLES = 10_000;

  static Ratios of(double[] values) {
    var random = new Random(1);
    var medians = new double[RESAMPLES];
    for (int i = 0; i < RESAMPLES; i++) {
      medians[i] =
          median(random.ints(values.length, 0, values.length).mapToDouble(at -> values[at]));
    }
    Arrays.sort(medians);
    return new Ratios(
        median(Arrays.stream(values)),
        medians[RESAMPLES / 40],
        medians[RESAMPLES - 1 - RESAMPLES / 40]);
  }

  String told() {
    return String.format(Locale.ROOT, "%.2f (%.2f to %.2f)", median, low, high);
  }

  static double median(DoubleStream values) {
    var sorted = values.sorted().toArray();
    int middle = sorted.length / 2;
    return sorted.length % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  }
}
