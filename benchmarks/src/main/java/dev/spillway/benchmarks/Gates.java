package dev.spillway.benchmarks;

import dev.spillway.benchmarks.Contender.Sample;
import dev.spillway.benchmarks.Results.Experiment;
import dev.spillway.benchmarks.Results.Series;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;

/** What the figures of a target must come to, and what they come to. */
final class Gates {
  /**
   * @param what in words
   * @param bound that the measured value must reach, or must not exceed where {@code atMost}
   * @param value a ratio's lower bound of the 95 % interval, for at-most gates a ratio of medians
   */
  record Gate(String what, double bound, boolean atMost, double value, String measured) {
    boolean isMet() {
      return atMost ? value <= bound : value >= bound;
    }
  }

  private final List<Experiment> experiments;
  private final List<Gate> gates = new ArrayList<>();

  private Gates(List<Experiment> experiments) {
    this.experiments = experiments;
  }

  static List<Gate> of(Results results, boolean steady) {
    var gates = new Gates(results.experiments());
    for (int size : List.of(65536, 262144, 1048576)) {
      gates.ofSize(size, steady);
    }
    return gates.gates;
  }

  private void ofSize(int size, boolean steady) {
    double limit = steady ? 0.90 : 0.85;
    var pairs = find("gate", size);
    pairs.ifPresent(
        each -> {
          ratio(each, "load beside fio", limit, each.ours(), "fio");
          ratio(each, "load beside the bare ring that works alike", limit, each.ours(), "bare load");
        });
    var load = find("load", size);
    load.ifPresent(
        each -> {
          if (pairs.isEmpty()) {
            ratio(each, "load beside fio", limit, each.ours(), "fio");
          }
          if (size == 262144) {
            ratio(each, "load beside the pread loop", 2.0, each.ours(), "pread loop in C++, 2");
          }
          if (steady) {
            var best = bestOfJava(each);
            ratio(
                each,
                "load beside the best in Java (" + best.name() + ")",
                size == 65536 ? 1.15 : 1.0,
                each.ours(),
                best.name());
            cpu(each, "CPU of a load beside the best in Java", 0.85, best.name());
          }
        });
    find("store", size)
        .ifPresent(each -> ratio(each, "store beside fio", limit, each.ours(), "fio"));
    find("both", size)
        .ifPresent(each -> ratio(each, "both at once beside fio", limit, each.ours(), "fio"));
    find("parts", size)
        .ifPresent(
            each -> {
              ratio(each, "transfers alone beside fio", limit, each.ours(), "fio");
              depth(each);
            });
  }

  private static Series bestOfJava(Experiment load) {
    return load.series().stream()
        .filter(
            each ->
                List.of("FileChannel", "mapped", "LWJGL", "RocksDB").stream()
                    .anyMatch(each.name()::startsWith))
        .max(
            (one, other) ->
                Double.compare(
                    one.median(Sample::gigabytesPerSecond),
                    other.median(Sample::gigabytesPerSecond)))
        .orElseThrow();
  }

  private Optional<Experiment> find(String kind, int size) {
    return experiments.stream()
        .filter(each -> each.kind().equals(kind) && each.blockBytes() == size)
        .findFirst();
  }

  private static Series named(Experiment experiment, String start) {
    return experiment.series().stream()
        .filter(each -> each.name().startsWith(start))
        .findFirst()
        .orElseThrow();
  }

  private void ratio(Experiment in, String what, double bound, Series ours, String other) {
    var ratio = ours.beside(named(in, other));
    gates.add(
        new Gate(
            what + ", " + in.blockBytes() / 1024 + " KiB",
            bound,
            false,
            ratio.low(),
            ratio.told()));
  }

  private void cpu(Experiment in, String what, double bound, String other) {
    double ratio =
        in.ours().median(Sample::cpuSecondsPerGigabyte)
            / named(in, other).median(Sample::cpuSecondsPerGigabyte);
    gates.add(
        new Gate(
            what + ", " + in.blockBytes() / 1024 + " KiB",
            bound,
            true,
            ratio,
            String.format(Locale.ROOT, "%.2f", ratio)));
  }

  private void depth(Experiment parts) {
    double mean = parts.ours().median(Sample::depth) / parts.depth();
    gates.add(
        new Gate(
            "mean depth of what was configured, " + parts.blockBytes() / 1024 + " KiB",
            0.9,
            false,
            mean,
            String.format(Locale.ROOT, "%.2f", mean)));
  }
}
