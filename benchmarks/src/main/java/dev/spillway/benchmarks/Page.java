package dev.spillway.benchmarks;

import dev.spillway.benchmarks.Contender.Sample;
import dev.spillway.benchmarks.Results.Experiment;
import dev.spillway.benchmarks.Results.Series;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * Makes the page of the results from the JSON files in a folder: tables of medians, ratios with
 * their intervals, and plots.
 *
 * <pre>
 * Page FOLDER                        writes FOLDER/README.md and its plots
 * Page --compare OLD.json NEW.json   says which ratios to fio have become worse; ends with 1 if any
 * </pre>
 */
public final class Page {
  private static final List<String> TARGETS = List.of("ram", "disk");

  private final Path folder;
  private final StringBuilder text = new StringBuilder();

  private Page(Path folder) {
    this.folder = folder;
  }

  public static void main(String[] arguments) throws IOException {
    if (arguments.length == 3 && arguments[0].equals("--compare")) {
      var before = Results.read(Path.of(arguments[1]));
      System.exit(compare(before, Results.read(Path.of(arguments[2]))) ? 1 : 0);
    }
    new Page(Path.of(arguments[0])).write();
  }

  private void write() throws IOException {
    text.append(
        """
        # Measured

        Made by `benchmarks/compare`; do not edit. Loads are verified and copied, stores copied and checksummed, unless a line says otherwise; so do
        all rivals, but for fio and `bare read` and `bare write`, which only move bytes. GB/s and CPU are medians of the rounds; CPU is processor
        seconds of all threads for a GB moved (fio's own figure for fio; kernel threads are nobody's). A ratio is ours over theirs, the median over the
        rounds of one run in which all took turns on the same file, with the 95 % interval of that median; above 1 ours is faster. fio runs with direct
        I/O, fixed buffers in huge pages and registered files, and all read at random. Depth is the mean of requests in flight, calls are system calls
        of the ring a block.
        """);
    for (var name : TARGETS) {
      var file = folder.resolve(name + ".json");
      if (Files.exists(file)) {
        target(Results.read(file), name);
      }
    }
    appendIfThere("latency.md");
    appendIfThere("goodput.md");
    appendIfThere("cost.md");
    Files.writeString(folder.resolve("README.md"), text);
  }

  /** A section that another program has written. */
  private void appendIfThere(String name) throws IOException {
    var file = folder.resolve(name);
    if (Files.exists(file)) {
      text.append("\n").append(Files.readString(file));
    }
  }

  private void target(Results results, String name) throws IOException {
    text.append("\n## ").append(results.target()).append("\n\n");
    text.append(
        String.format(
            Locale.ROOT,
            "%s; %s s a turn (twice that at the gate), a file of %.1f GB. Raw: [%s.json](%s.json).%n",
            results.machine().told(),
            results.seconds(),
            results.bytes() / 1e9,
            name,
            name));
    gates(Gates.of(results, name.equals("ram")));
    for (var kind : Compare.Kind.values()) {
      var all =
          results.experiments().stream().filter(each -> each.kind().equals(kind.name)).toList();
      if (!all.isEmpty()) {
        section(kind, all, name);
      }
    }
  }

  private void gates(List<Gates.Gate> gates) {
    text.append("\n| gate | must be | is | |\n| --- | --- | --- | --- |\n");
    for (var gate : gates) {
      text.append(
          String.format(
              Locale.ROOT,
              "| %s | %s %.2f | %s | %s |%n",
              gate.what(),
              gate.atMost() ? "at most" : "lower bound at least",
              gate.bound(),
              gate.measured(),
              gate.isMet() ? "met" : "**not met**"));
    }
  }

  private void section(Compare.Kind kind, List<Experiment> all, String name) throws IOException {
    text.append("\n### ").append(kind.question).append("\n\n");
    var plot = name + "-" + kind.name + ".svg";
    Files.writeString(folder.resolve(plot), new BarPlot(labels(kind, all), all).svg());
    text.append("![%s](%s)\n\n".formatted(kind.question, plot));
    text.append("| block, depth | | GB/s | CPU s/GB | depth | calls | ours / theirs | CPU |\n");
    text.append("| --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (var experiment : all) {
      experiment.series().forEach(each -> text.append(row(experiment, each)));
    }
    var last = all.get(all.size() - 1);
    text.append(
        "\n<details><summary>%d rounds; the commands at %d KiB</summary>\n\n```\n"
            .formatted(last.ours().turns().size(), last.blockBytes() / 1024));
    last.series().stream().map(Series::command).distinct().forEach(c -> text.append(c).append('\n'));
    text.append("```\n</details>\n");
  }

  private static List<String> labels(Compare.Kind kind, List<Experiment> all) {
    return all.stream()
        .map(
            each ->
                kind == Compare.Kind.DEPTHS
                    ? "depth " + each.depth()
                    : each.blockBytes() / 1024 + " KiB")
        .toList();
  }

  private static String row(Experiment experiment, Series series) {
    var ours = experiment.ours();
    double cpu = series.median(Sample::cpuSecondsPerGigabyte);
    boolean same = ours == series;
    return String.format(
        Locale.ROOT,
        "| %d KiB, %d | %s | %.2f | %.3f | %s | %s | %s | %s |%n",
        experiment.blockBytes() / 1024,
        experiment.depth(),
        series.name(),
        series.median(Sample::gigabytesPerSecond),
        cpu,
        orNothing(series.median(Sample::depth), "%.1f"),
        orNothing(series.median(Sample::enters), "%.2f"),
        same ? "" : ours.beside(series).told(),
        same ? "" : orNothing(ours.median(Sample::cpuSecondsPerGigabyte) / cpu, "%.2f"));
  }

  private static String orNothing(double value, String format) {
    return value > 0 && Double.isFinite(value) ? String.format(Locale.ROOT, format, value) : "";
  }

  /** A ratio to fio counts as worse where the new interval lies below the old one. */
  private static boolean compare(Results before, Results now) {
    var worse = new ArrayList<String>();
    for (var experiment : now.experiments()) {
      for (var old : before.experiments()) {
        if (old.isOfTheSame(experiment) && besideFio(old) != null && besideFio(experiment) != null) {
          var then = besideFio(old);
          var today = besideFio(experiment);
          boolean isWorse = today.high() < then.low();
          String line =
              "%-6s %5d KiB, depth %d: ours / fio was %s, is %s%s"
                  .formatted(
                      experiment.kind(),
                      experiment.blockBytes() / 1024,
                      experiment.depth(),
                      then.told(),
                      today.told(),
                      isWorse ? "  WORSE" : "");
          System.out.println(line);
          if (isWorse) {
            worse.add(line);
          }
        }
      }
    }
    return !worse.isEmpty();
  }

  private static @org.jspecify.annotations.Nullable Ratios besideFio(Experiment experiment) {
    return experiment.series().stream()
        .filter(each -> each.name().equals("fio"))
        .findFirst()
        .map(fio -> experiment.ours().beside(fio))
        .orElse(null);
  }

  /** Bars of medians, one group for each experiment. */
  private record BarPlot(List<String> labels, List<Experiment> experiments) {
    private static final int HEIGHT = 240;
    private static final int BAR = 12;
    private static final int LEFT = 60;
    private static final int LEGEND = 230;
    private static final List<String> COLOURS =
        List.of(
            "#0b6e4f", "#333333", "#777777", "#a0a0a0", "#c4572e", "#e39a7c", "#d9a441", "#f0d59a",
            "#7a9cc6", "#4a6c96", "#24466e", "#8e6bb0", "#b7569a", "#5aa897");

    String svg() {
      var names =
          experiments.stream()
              .flatMap(each -> each.series().stream().map(Series::name))
              .distinct()
              .toList();
      double top =
          experiments.stream()
              .flatMap(each -> each.series().stream())
              .mapToDouble(each -> each.median(Sample::gigabytesPerSecond))
              .max()
              .orElse(1);
      int group = (names.size() + 2) * BAR;
      int right = LEFT + Math.max(group * experiments.size(), 200);
      var svg = new StringBuilder();
      svg.append(
          "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' font-family='sans-serif' font-size='11'>\n"
              .formatted(right + LEGEND, Math.max(HEIGHT + 60, 40 + names.size() * 18)));
      svg.append("<rect width='100%' height='100%' fill='white'/>\n");
      svg.append("<text x='8' y='14'>GB/s</text>\n");
      double step = Math.max(0.5, Math.ceil(top / 5 * 2) / 2);
      for (double tick = 0; tick <= top; tick += step) {
        svg.append(
            String.format(
                Locale.ROOT,
                "<line x1='50' x2='%d' y1='%d' y2='%d' stroke='#dddddd'/><text x='8' y='%d'>%.1f</text>%n",
                right,
                y(tick, top),
                y(tick, top),
                y(tick, top) + 4,
                tick));
      }
      for (int i = 0; i < experiments.size(); i++) {
        for (var series : experiments.get(i).series()) {
          int name = names.indexOf(series.name());
          int y = y(series.median(Sample::gigabytesPerSecond), top);
          svg.append(
              "<rect x='%d' y='%d' width='%d' height='%d' fill='%s'/>\n"
                  .formatted(
                      LEFT + i * group + name * BAR, y, BAR - 2, HEIGHT + 20 - y, colour(name)));
        }
        svg.append(
            "<text x='%d' y='%d'>%s</text>\n"
                .formatted(LEFT + i * group, HEIGHT + 38, labels.get(i)));
      }
      for (int i = 0; i < names.size(); i++) {
        svg.append(
            "<rect x='%d' y='%d' width='10' height='10' fill='%s'/><text x='%d' y='%d'>%s</text>\n"
                .formatted(
                    right + 10, 20 + i * 18, colour(i), right + 25, 29 + i * 18, names.get(i)));
      }
      return svg.append("</svg>\n").toString();
    }

    private static String colour(int name) {
      return COLOURS.get(name % COLOURS.size());
    }

    private static int y(double value, double top) {
      return 20 + (int) Math.round(HEIGHT * (1 - value / top));
    }
  }
}
