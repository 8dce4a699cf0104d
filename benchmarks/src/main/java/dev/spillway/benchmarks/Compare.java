package dev.spillway.benchmarks;

import dev.spillway.benchmarks.Contender.Sample;
import dev.spillway.benchmarks.Results.Experiment;
import dev.spillway.benchmarks.Results.Series;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.stream.IntStream;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/**
 * Question: how near are verified loads and checksummed stores to the device, and how far from what
 * one would write instead? All take turns on one file, so that a disk which swings swings for all;
 * the first of each list is ours. Not a JMH benchmark: the turns are the point.
 */
@Command(name = "compare", description = "Measures Spillway beside fio, a bare ring and rivals.")
public final class Compare implements Runnable {
  /** What is measured, and against what; its page says the same. */
  enum Kind {
    PAIRS("gate", "Ours beside itself (for the noise), fio and the bare ring that works alike."),
    LOAD("load", "Verified and copied, beside the floor and what one would write instead."),
    STORE("store", "Copied and checksummed, beside the floor and what one would write instead."),
    BOTH("both", "Loads and stores at once, half of each, beside fio's mixed run."),
    SIZES("sizes", "Loads of blocks small and large."),
    DEPTHS("depths", "Loads at depths small and large."),
    PARTS("parts", "The engine without Java: its transfers, checksum and copy alone and together.");

    final String name;
    final String question;

    Kind(String name, String question) {
      this.name = name;
      this.question = question;
    }
  }

  @Option(names = "--dir", required = true, description = "where the files lie")
  private Path directory = Path.of("");

  @Option(names = "--target", required = true, description = "what it lies on, for the page")
  private String target = "";

  @Option(names = "--rounds", description = "turns of each; default: ${DEFAULT-VALUE}")
  private int rounds = 10;

  @Option(names = "--pairs", description = "turns at the gate; default: ${DEFAULT-VALUE}")
  private int pairs = 40;

  @Option(names = "--seconds", description = "a turn, twice that at the gate; default: 1")
  private double seconds = 1;

  @Option(names = "--bytes", description = "of the file; default: ${DEFAULT-VALUE}")
  private long bytes = 2L << 30;

  @Option(names = "--depth", description = "default: ${DEFAULT-VALUE}")
  private int depth = 32;

  @Option(names = "--sizes", split = ",", description = "of blocks; default: 64, 256, 1024 KiB")
  private List<Integer> sizes = List.of(65536, 262144, 1048576);

  @Option(names = "--only", split = ",", description = "${COMPLETION-CANDIDATES}; default: all")
  private List<Kind> only = List.of(Kind.values());

  @Option(names = "--tools", required = true, description = "folder of bare-ring, engine-lanes")
  private Path tools = Path.of("");

  @Option(names = "--commit", description = "of Spillway")
  private String commit = "unknown";

  @Option(names = "--out", required = true, description = "the JSON file to write")
  private Path out = Path.of("");

  private final List<Experiment> experiments = new ArrayList<>();

  public static void main(String[] arguments) {
    System.exit(
        new CommandLine(new Compare())
            .setCaseInsensitiveEnumValuesAllowed(true)
            .execute(arguments));
  }

  @Override
  public void run() {
    try {
      for (int size : sizes) {
        beside(size, depth, only);
      }
      if (only.contains(Kind.SIZES)) {
        for (int size : List.of(16384, 65536, 262144, 1048576, 4194304)) {
          beside(size, depth, List.of(Kind.SIZES));
        }
      }
      if (only.contains(Kind.DEPTHS)) {
        for (int each : List.of(1, 4, 16, 64)) {
          beside(262144, each, List.of(Kind.DEPTHS));
        }
      }
      new Results(Results.Machine.here(commit), target, seconds, bytes, experiments).write(out);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** All of one size and depth, on one pair of files. */
  private void beside(int size, int ringDepth, List<Kind> kinds)
      throws IOException, InterruptedException {
    boolean sweeps = kinds.contains(Kind.SIZES) || kinds.contains(Kind.DEPTHS);
    long slots = bytes / size / SpillwaySide.BATCH * SpillwaySide.BATCH;
    var writeFile = Files.createTempFile(directory, "bare-", ".data");
    try (var ours = new SpillwaySide(directory, size, slots, ringDepth)) {
      var setting = new Setting(ours.file(), writeFile, 65536, slots, size, ringDepth, tools);
      if (sweeps && kinds.size() == 1) {
        takeTurns(
            kinds.get(0),
            setting,
            List.of(
                ours.load(), Program.fio(setting, "randread"), Program.bareRing(setting, "load")));
        return;
      }
      fill(setting);
      if (kinds.contains(Kind.PAIRS)) {
        gate(setting, ours);
      }
      if (kinds.contains(Kind.LOAD)) {
        loads(setting, ours);
      }
      if (kinds.contains(Kind.STORE)) {
        stores(setting, ours);
      }
      if (kinds.contains(Kind.BOTH)) {
        takeTurns(
            Kind.BOTH, setting, List.of(ours.both(), Program.fio(setting, "randrw")));
      }
    } finally {
      Files.delete(writeFile);
    }
    if (kinds.contains(Kind.PARTS)) {
      parts(size, ringDepth, slots);
    }
  }

  private void gate(Setting setting, SpillwaySide ours) throws IOException, InterruptedException {
    takeTurns(
        Kind.PAIRS,
        setting,
        List.of(
            ours.load(),
            named(ours.load(), "Spillway load again"),
            Program.fio(setting, "randread"),
            Program.bareRing(setting, "load")));
  }

  private void loads(Setting setting, SpillwaySide ours) throws IOException, InterruptedException {
    takeTurns(
        Kind.LOAD,
        setting,
        List.of(
            ours.load(),
            Program.fio(setting, "randread"),
            Program.bareRing(setting, "read"),
            Program.bareRing(setting, "load"),
            Program.loop(setting, 2),
            Program.loop(setting, 8),
            ChannelRival.loop(setting, 2),
            ChannelRival.loop(setting, 8),
            ChannelRival.reads(setting, 4),
            ChannelRival.reads(setting, 16),
            ChannelRival.reads(setting, 32),
            new MappedRival(setting, 16),
            LwjglRival.reads(setting),
            new RocksRival(directory, setting, 16)));
  }

  private void stores(Setting setting, SpillwaySide ours) throws IOException, InterruptedException {
    takeTurns(
        Kind.STORE,
        setting,
        List.of(
            ours.store(),
            Program.fio(setting, "randwrite"),
            Program.bareRing(setting, "write"),
            Program.bareRing(setting, "store"),
            ChannelRival.writes(setting, 1),
            ChannelRival.writes(setting, 4),
            ChannelRival.writes(setting, 16),
            LwjglRival.writes(setting)));
  }

  private void parts(int size, int ringDepth, long slots)
      throws IOException, InterruptedException {
    var place = Files.createTempDirectory(directory, "engine-lanes-");
    var file = place.resolve("rank-0-of-1.blocks");
    var setting = new Setting(file, file, 65536, slots, size, ringDepth, tools);
    Program.engineLanes(setting, place, "fill", "all").run(0, 0);
    takeTurns(
        Kind.PARTS,
        setting,
        List.of(
            Program.engineLanes(setting, place, "load", "none"),
            Program.fio(setting, "randread"),
            Program.bareRing(setting, "read"),
            Program.bareRing(setting, "memcpy"),
            Program.bareRing(setting, "checksum"),
            Program.engineLanes(setting, place, "load", "copy"),
            Program.engineLanes(setting, place, "load", "checksum"),
            Program.engineLanes(setting, place, "load", "all"),
            Program.bareRing(setting, "load")));
    Files.delete(file);
    Files.delete(place);
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

  private static Contender named(Contender contender, String name) {
    return new Contender() {
      @Override
      public String name() {
        return name;
      }

      @Override
      public String command() {
        return contender.command();
      }

      @Override
      public Sample run(double runSeconds, long seed) throws IOException, InterruptedException {
        return contender.run(runSeconds, seed);
      }
    };
  }

  private void takeTurns(Kind kind, Setting setting, List<Contender> contenders)
      throws IOException, InterruptedException {
    var turns = new LinkedHashMap<Contender, List<Sample>>();
    contenders.forEach(contender -> turns.put(contender, new ArrayList<>()));
    int count = kind == Kind.PAIRS ? pairs : rounds;
    double length = kind == Kind.PAIRS ? 2 * seconds : seconds;
    for (int round = -1; round < count; round++) { // one to warm up
      for (int i = 0; i < contenders.size(); i++) {
        var contender = contenders.get((i + round + 1) % contenders.size());
        var sample = contender.run(length, 1000L * round + i + setting.blockBytes());
        if (round >= 0) {
          turns.get(contender).add(sample);
        }
      }
    }
    var series = new ArrayList<Series>();
    for (var contender : contenders) {
      series.add(new Series(contender.name(), contender.command(), turns.get(contender)));
      contender.close();
    }
    System.err.printf(
        "compare: %s, %d KiB, depth %d: %d rounds of %s%n",
        kind.name,
        setting.blockBytes() / 1024,
        setting.depth(),
        count,
        IntStream.range(0, series.size())
            .mapToObj(
                i ->
                    "%s %.2f"
                        .formatted(
                            series.get(i).name(), series.get(i).median(Sample::gigabytesPerSecond)))
            .toList());
    experiments.add(new Experiment(kind.name, setting.blockBytes(), setting.depth(), series));
  }
}
