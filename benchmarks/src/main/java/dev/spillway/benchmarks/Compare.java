package dev.spillway.benchmarks;

import dev.spillway.benchmarks.Contender.Sample;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import tools.jackson.databind.SerializationFeature;
import tools.jackson.databind.json.JsonMapper;

/**
 * Question: how near is Spillway to what the device gives, and how far from what one would write
 * instead? Floor: fio at its best and a bare ring that does the same work; rivals: one block a call
 * over two buffers, and Java's own channels with 1, 4 and 16 threads. All take turns on one file,
 * round after round, in an order that moves on; only ratios within a round are looked at.
 */
@Command(name = "compare", mixinStandardHelpOptions = true)
public final class Compare implements Runnable {
  @Option(names = "--dir", required = true, description = "where the files go")
  private Path directory = Path.of("");

  @Option(names = "--target", required = true, description = "what the directory is on, in words")
  private String target = "";

  @Option(names = "--rounds", description = "default: ${DEFAULT-VALUE}")
  private int rounds = 10;

  @Option(names = "--seconds", description = "a turn; default: ${DEFAULT-VALUE}")
  private double seconds = 1;

  @Option(names = "--bytes", description = "of the file; default: ${DEFAULT-VALUE}")
  private long bytes = 2L << 30;

  @Option(names = "--depth", description = "default: ${DEFAULT-VALUE}")
  private int depth = 32;

  @Option(names = "--sizes", split = ",", description = "of blocks; default: 64, 256, 1024 KiB")
  private List<Integer> sizes = List.of(65536, 262144, 1048576);

  @Option(names = "--tools", required = true, description = "folder of bare-ring")
  private Path tools = Path.of("");

  @Option(names = "--commit", description = "of Spillway")
  private String commit = "unknown";

  @Option(names = "--out", required = true, description = "the JSON file to write")
  private Path out = Path.of("");

  /** A size and a direction, each contender's turns in the order of the rounds. */
  record Series(int blockBytes, String direction, String name, String command, List<Sample> turns) {}

  public static void main(String[] arguments) {
    System.exit(new CommandLine(new Compare()).execute(arguments));
  }

  @Override
  public void run() {
    try {
      var series = new ArrayList<Series>();
      var depths = new LinkedHashMap<String, Double>();
      for (int size : sizes) {
        compare(size, series, depths);
      }
      write(series, depths);
    } catch (IOException e) {
      throw new java.io.UncheckedIOException(e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private void compare(int size, List<Series> series, Map<String, Double> depths)
      throws IOException, InterruptedException {
    long slots = bytes / size / SpillwaySide.BATCH * SpillwaySide.BATCH;
    var writeFile = Files.createTempFile(directory, "bare-", ".data");
    try (var ours = new SpillwaySide(directory, size, slots, depth)) {
      var setting = new Setting(ours.file(), writeFile, 65536, slots, size, depth, tools);
      fill(setting);
      var loads =
          List.of(
              ours.load(),
              Program.fio(setting, "randread"),
              Program.bareRing(setting, "read"),
              Program.bareRing(setting, "load"),
              Program.bareRing(setting, "pairs"),
              new ChannelRival(setting, 1),
              new ChannelRival(setting, 4),
              new ChannelRival(setting, 16));
      takeTurns(size, "load", loads, series);
      depths.put("load " + size, ours.loadDepth());
      var stores =
          List.of(
              ours.store(),
              Program.fio(setting, "write"),
              Program.bareRing(setting, "write"),
              Program.bareRing(setting, "store"));
      takeTurns(size, "store", stores, series);
      for (var contender : loads) {
        contender.close();
      }
    } finally {
      Files.delete(writeFile);
    }
  }

  /** Extents that were written to, as those of Spillway's file are. */
  private static void fill(Setting setting) throws IOException, InterruptedException {
    Program.text(
        List.of(
            "fio",
            "--name=fill",
            "--filename=" + setting.writeFile(),
            "--rw=write",
            "--bs=1M",
            "--size=" + setting.bytes(),
            "--ioengine=psync",
            "--direct=1",
            "--end_fsync=1"));
  }

  private void takeTurns(
      int size, String direction, List<Contender> contenders, List<Series> series)
      throws IOException, InterruptedException {
    var turns = new LinkedHashMap<Contender, List<Sample>>();
    contenders.forEach(contender -> turns.put(contender, new ArrayList<>()));
    for (int round = -1; round < rounds; round++) { // one to warm up
      for (int i = 0; i < contenders.size(); i++) {
        var contender = contenders.get((i + round + 1) % contenders.size());
        var sample = contender.run(seconds, 1000L * round + i + size);
        if (round >= 0) {
          turns.get(contender).add(sample);
        }
      }
      System.err.printf("%s of %d bytes: round %d of %d%n", direction, size, round + 1, rounds);
    }
    turns.forEach(
        (contender, samples) ->
            series.add(
                new Series(size, direction, contender.name(), contender.command(), samples)));
  }

  private void write(List<Series> series, Map<String, Double> depths)
      throws IOException, InterruptedException {
    var result = new LinkedHashMap<String, Object>();
    result.put("commit", commit);
    result.put("date", Instant.now().truncatedTo(ChronoUnit.SECONDS).toString());
    result.put("target", target);
    result.put("kernel", Program.text(List.of("uname", "-sr")).strip());
    result.put("processor", processor());
    result.put("processors", Runtime.getRuntime().availableProcessors());
    result.put("java", Runtime.version().toString());
    result.put("fio", Program.text(List.of("fio", "--version")).strip());
    result.put("rounds", rounds);
    result.put("seconds", seconds);
    result.put("bytes", bytes);
    result.put("depth", depth);
    result.put("meanDepth", depths);
    result.put("series", series.stream().map(Compare::plain).toList());
    var json = JsonMapper.builder().enable(SerializationFeature.INDENT_OUTPUT).build();
    json.writeValue(out.toFile(), result);
  }

  private static String processor() throws IOException {
    return Files.readAllLines(Path.of("/proc/cpuinfo")).stream()
        .filter(line -> line.startsWith("model name"))
        .map(line -> line.substring(line.indexOf(':') + 1).strip())
        .findFirst()
        .orElse("unknown");
  }

  private static Map<String, Object> plain(Series series) {
    var map = new LinkedHashMap<String, Object>();
    map.put("blockBytes", series.blockBytes());
    map.put("direction", series.direction());
    map.put("name", series.name());
    map.put("command", series.command());
    map.put("turns", series.turns());
    return map;
  }
}
