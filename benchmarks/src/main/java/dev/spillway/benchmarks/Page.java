package dev.spillway.benchmarks;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.stream.IntStream;
import java.util.stream.StreamSupport;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/**
 * Makes the page of the results: tables of medians, ratios with their intervals, and a plot for each
 * target, from the JSON files that {@link Compare} has written.
 *
 * <pre>
 * Page FOLDER                    writes FOLDER/README.md and its plots
 * Page --compare OLD.json NEW    says which ratios to fio have become worse; ends with 1 if any
 * </pre>
 */
public final class Page {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int PLOT_HEIGHT = 240;
  private static final int BAR_WIDTH = 16;
  private static final List<String> COLOURS =
      List.of(
          "#0b6e4f", "#333333", "#777777", "#a0a0a0", "#c4572e", "#d9a441", "#7a9cc6", "#b7c9e2");

  private Page() {}

  public static void main(String[] arguments) throws IOException {
    if (arguments.length == 3 && arguments[0].equals("--compare")) {
      System.exit(compare(read(Path.of(arguments[1])), read(Path.of(arguments[2]))) ? 1 : 0);
    }
    write(Path.of(arguments[0]));
  }

  private static JsonNode read(Path file) throws IOException {
    return JSON.readTree(Files.readString(file));
  }

  private static void write(Path folder) throws IOException {
    var text = new StringBuilder();
    text.append(
        """
        # Measured

        Made by `benchmarks/compare`; do not edit. Loads are verified and copied, stores checksummed. A ratio is ours over theirs, the median over
        the rounds of one run in which all took turns on the same file, with the 95 % interval of that median; above 1 ours is faster. CPU is
        processor seconds of all threads for a GB moved. fio runs with direct I/O, fixed buffers in huge pages and registered files.
        """);
    try (var files = Files.list(folder)) {
      for (var file : files.filter(each -> each.toString().endsWith(".json")).sorted().toList()) {
        var name = file.getFileName().toString().replace(".json", "");
        section(text, read(file), name, folder);
      }
    }
    Files.writeString(folder.resolve("README.md"), text);
  }

  private static void section(StringBuilder text, JsonNode result, String name, Path folder)
      throws IOException {
    text.append("\n## ").append(result.get("target").asString()).append("\n\n");
    text.append(
        "%s, %s, %s processors (%s), Java %s, %s; commit %s, %s; %d rounds of %s s a turn, depth %d, a file of %.1f GB. Raw: [%s.json](%s.json).\n"
            .formatted(
                result.get("kernel").asString(),
                result.get("target").asString(),
                result.get("processors").asString(),
                result.get("processor").asString(),
                result.get("java").asString(),
                result.get("fio").asString(),
                result.get("commit").asString(),
                result.get("date").asString(),
                result.get("rounds").asInt(),
                result.get("seconds").asString(),
                result.get("depth").asInt(),
                result.get("bytes").asLong() / 1e9,
                name,
                name));
    for (var direction : List.of("load", "store")) {
      var series =
          StreamSupport.stream(result.get("series").spliterator(), false)
              .filter(each -> each.get("direction").asString().equals(direction))
              .toList();
      if (series.isEmpty()) {
        continue;
      }
      var plot = name + "-" + direction + ".svg";
      Files.writeString(folder.resolve(plot), plot(series));
      text.append("\n![%s](%s)\n\n".formatted(direction, plot));
      text.append("| %s | block | GB/s | CPU s/GB | ours / theirs | ours / theirs, CPU |\n".formatted(direction));
      text.append("| --- | --- | --- | --- | --- | --- |\n");
      series.forEach(each -> text.append(row(each, oursBeside(each, series))));
    }
    text.append("\nThe commands of the last size:\n\n```\n");
    int last = 0;
    for (var each : result.get("series")) {
      last = Math.max(last, each.get("blockBytes").asInt());
    }
    for (var each : result.get("series")) {
      if (each.get("blockBytes").asInt() == last) {
        text.append(each.get("command").asString()).append('\n');
      }
    }
    text.append("```\n");
  }

  private static JsonNode oursBeside(JsonNode other, List<JsonNode> series) {
    return series.stream()
        .filter(each -> each.get("name").asString().startsWith("Spillway"))
        .filter(each -> each.get("blockBytes").asInt() == other.get("blockBytes").asInt())
        .findFirst()
        .orElseThrow();
  }

  private static double speed(JsonNode turn) {
    return turn.get("bytes").asDouble() / turn.get("seconds").asDouble() / 1e9;
  }

  private static double cpu(JsonNode turn) {
    return turn.get("cpuSeconds").asDouble() / turn.get("bytes").asDouble() * 1e9;
  }

  private static List<JsonNode> turns(JsonNode series) {
    return StreamSupport.stream(series.get("turns").spliterator(), false).toList();
  }

  private static Ratios ratios(JsonNode ours, JsonNode other) {
    var mine = turns(ours);
    var theirs = turns(other);
    return Ratios.of(
        IntStream.range(0, mine.size())
            .mapToDouble(i -> speed(mine.get(i)) / speed(theirs.get(i)))
            .toArray());
  }

  private static String row(JsonNode series, JsonNode ours) {
    double speed = Ratios.median(turns(series).stream().mapToDouble(Page::speed));
    double cpu = Ratios.median(turns(series).stream().mapToDouble(Page::cpu));
    double oursCpu = Ratios.median(turns(ours).stream().mapToDouble(Page::cpu));
    var ratio = ratios(ours, series);
    boolean same = ours == series;
    return String.format(
        Locale.ROOT,
        "| %s | %d KiB | %.2f | %.3f | %s | %s |%n",
        series.get("name").asString(),
        series.get("blockBytes").asInt() / 1024,
        speed,
        cpu,
        same
            ? ""
            : String.format(
                Locale.ROOT, "%.2f (%.2f to %.2f)", ratio.median(), ratio.low(), ratio.high()),
        same ? "" : String.format(Locale.ROOT, "%.2f", oursCpu / cpu));
  }

  /** Bars of medians, one group for each size. */
  private static String plot(List<JsonNode> series) {
    var sizes = series.stream().map(each -> each.get("blockBytes").asInt()).distinct().toList();
    var names = series.stream().map(each -> each.get("name").asString()).distinct().toList();
    double top =
        series.stream()
            .mapToDouble(each -> Ratios.median(turns(each).stream().mapToDouble(Page::speed)))
            .max()
            .orElse(1);
    int groupWidth = (names.size() + 2) * BAR_WIDTH;
    int width = 60 + groupWidth * sizes.size() + 180;
    var svg = new StringBuilder();
    svg.append(
        "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' font-family='sans-serif' font-size='11'>\n"
            .formatted(width, PLOT_HEIGHT + 60));
    svg.append("<rect width='100%' height='100%' fill='white'/>\n");
    double step = Math.max(0.5, Math.ceil(top / 5 * 2) / 2);
    for (double tick = 0; tick <= top; tick += step) {
      int y = y(tick, top);
      svg.append(
          "<line x1='50' x2='%d' y1='%d' y2='%d' stroke='#dddddd'/>%n<text x='8' y='%d'>%.1f</text>%n"
              .formatted(width - 180, y, y, y + 4, tick));
    }
    svg.append("<text x='8' y='14'>GB/s</text>\n");
    for (var each : series) {
      int name = names.indexOf(each.get("name").asString());
      int x =
          60
              + sizes.indexOf(each.get("blockBytes").asInt()) * groupWidth
              + name * BAR_WIDTH;
      double speed = Ratios.median(turns(each).stream().mapToDouble(Page::speed));
      svg.append(
          "<rect x='%d' y='%d' width='%d' height='%d' fill='%s'/>%n"
              .formatted(
                  x,
                  y(speed, top),
                  BAR_WIDTH - 2,
                  PLOT_HEIGHT + 20 - y(speed, top),
                  COLOURS.get(name % COLOURS.size())));
    }
    for (int i = 0; i < sizes.size(); i++) {
      svg.append(
          "<text x='%d' y='%d'>%d KiB</text>%n"
              .formatted(60 + i * groupWidth, PLOT_HEIGHT + 38, sizes.get(i) / 1024));
    }
    var labels = new ArrayList<String>();
    for (int i = 0; i < names.size(); i++) {
      labels.add(
          "<rect x='%d' y='%d' width='10' height='10' fill='%s'/><text x='%d' y='%d'>%s</text>"
              .formatted(
                  width - 170,
                  20 + i * 18,
                  COLOURS.get(i % COLOURS.size()),
                  width - 155,
                  29 + i * 18,
                  names.get(i)));
    }
    svg.append(String.join("\n", labels)).append("\n</svg>\n");
    return svg.toString();
  }

  private static int y(double value, double top) {
    return 20 + (int) Math.round(PLOT_HEIGHT * (1 - value / top));
  }

  /** A ratio to fio counts as worse where the new interval lies below the old one. */
  private static boolean compare(JsonNode before, JsonNode now) {
    boolean worse = false;
    var old = StreamSupport.stream(before.get("series").spliterator(), false).toList();
    var fresh = StreamSupport.stream(now.get("series").spliterator(), false).toList();
    for (var fio : fresh) {
      if (!fio.get("name").asString().equals("fio")) {
        continue;
      }
      var was =
          old.stream()
              .filter(each -> each.get("name").asString().equals("fio"))
              .filter(each -> isOfTheSame(each, fio))
              .findFirst();
      if (was.isEmpty()) {
        continue;
      }
      var then = ratios(sideBeside(was.orElseThrow(), old), was.orElseThrow());
      var today = ratios(sideBeside(fio, fresh), fio);
      boolean isWorse = today.high() < then.low();
      worse |= isWorse;
      System.out.printf(
          Locale.ROOT,
          "%-5s %5d KiB: ours / fio was %.2f (%.2f to %.2f), is %.2f (%.2f to %.2f)%s%n",
          fio.get("direction").asString(),
          fio.get("blockBytes").asInt() / 1024,
          then.median(),
          then.low(),
          then.high(),
          today.median(),
          today.low(),
          today.high(),
          isWorse ? "  WORSE" : "");
    }
    return worse;
  }

  private static boolean isOfTheSame(JsonNode one, JsonNode other) {
    return one.get("blockBytes").asInt() == other.get("blockBytes").asInt()
        && one.get("direction").asString().equals(other.get("direction").asString());
  }

  private static JsonNode sideBeside(JsonNode other, List<JsonNode> series) {
    return oursBeside(
        other, series.stream().filter(each -> isOfTheSame(each, other)).toList());
  }
}
