package dev.spillway.benchmarks;

import dev.spillway.benchmarks.Contender.Sample;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.function.ToDoubleFunction;
import java.util.stream.IntStream;
import tools.jackson.databind.SerializationFeature;
import tools.jackson.databind.json.JsonMapper;

/**
 * What a run of {@link Compare} has measured, as it is kept in JSON.
 *
 * @param target what the file lay on
 * @param seconds of a turn
 * @param bytes of the file
 */
record Results(
    Machine machine,
    String target,
    double seconds,
    long bytes,
    List<Experiment> experiments) {
  private static final JsonMapper JSON =
      JsonMapper.builder().enable(SerializationFeature.INDENT_OUTPUT).build();

  record Machine(
      String commit,
      String date,
      String kernel,
      String processor,
      int processors,
      String java,
      String fio) {
    static Machine here(String commit) throws IOException, InterruptedException {
      var processor =
          Files.readAllLines(Path.of("/proc/cpuinfo")).stream()
              .filter(line -> line.startsWith("model name"))
              .map(line -> line.substring(line.indexOf(':') + 1).strip())
              .findFirst()
              .orElse("unknown");
      return new Machine(
          commit,
          Instant.now().truncatedTo(ChronoUnit.SECONDS).toString(),
          Program.text(List.of("uname", "-sr")).strip(),
          processor,
          Runtime.getRuntime().availableProcessors(),
          Runtime.version().toString(),
          Program.text(List.of("fio", "--version")).strip());
    }

    String told() {
      return "%s, %d processors (%s), Java %s, %s; commit %s, %s"
          .formatted(kernel, processors, processor, java, fio, commit, date);
    }
  }

  /**
   * Contenders that took turns.
   *
   * @param kind one of {@link Compare}'s
   * @param series ours first
   */
  record Experiment(String kind, int blockBytes, int depth, List<Series> series) {
    Series ours() {
      return series.get(0);
    }

    boolean isOfTheSame(Experiment other) {
      return kind.equals(other.kind) && blockBytes == other.blockBytes && depth == other.depth;
    }
  }

  /** A contender's turns, in the order of the rounds. */
  record Series(String name, String command, List<Sample> turns) {
    double median(ToDoubleFunction<Sample> what) {
      return Ratios.median(turns.stream().mapToDouble(what));
    }

    /** This one's speed over another's, round by round. */
    Ratios beside(Series other) {
      return Ratios.of(
          IntStream.range(0, turns.size())
              .mapToDouble(
                  i ->
                      turns.get(i).gigabytesPerSecond()
                          / other.turns.get(i).gigabytesPerSecond())
              .toArray());
    }
  }

  static Results read(Path file) {
    return JSON.readValue(file.toFile(), Results.class);
  }

  void write(Path file) {
    JSON.writeValue(file.toFile(), this);
  }

  static void writeJson(Path file, Object value) {
    JSON.writeValue(file.toFile(), value);
  }

  static <T> T readJson(Path file, Class<T> type) {
    return JSON.readValue(file.toFile(), type);
  }
}
