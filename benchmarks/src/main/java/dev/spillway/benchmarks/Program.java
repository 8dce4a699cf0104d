package dev.spillway.benchmarks;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** Contenders that are programs of their own: fio at its best here, and the bare ring. */
final class Program {
  private static final ObjectMapper JSON = new ObjectMapper();

  private Program() {}

  /** Direct I/O, fixed buffers in huge pages, one file, one job; "randrw" is half of each. */
  static Contender fio(Setting setting, String pattern) {
    boolean writes = pattern.contains("write");
    boolean mixes = pattern.equals("randrw");
    return new Contender() {
      @Override
      public String name() {
        return "fio";
      }

      private List<String> arguments(double seconds, long seed) {
        return List.of(
            "fio",
            "--name=x",
            "--filename=" + (writes ? setting.writeFile() : setting.file()),
            "--rw=" + pattern,
            "--bs=" + setting.blockBytes(),
            "--offset=" + (writes ? 0 : setting.offset()),
            "--size=" + setting.bytes(),
            "--ioengine=io_uring",
            "--iodepth=" + setting.depth(),
            "--direct=1",
            "--fixedbufs=1",
            "--registerfiles=1",
            "--mem=mmaphuge",
            "--norandommap",
            "--randseed=" + seed,
            "--time_based",
            "--runtime=" + Math.round(seconds * 1000) + "ms",
            "--thread",
            "--output-format=json");
      }

      @Override
      public String command() {
        return told(setting, arguments(1, 1));
      }

      @Override
      public Sample run(double seconds, long seed) throws IOException, InterruptedException {
        var job = json(arguments(seconds, seed)).get("jobs").get(0);
        var side = job.get(writes ? "write" : "read");
        double ran = side.get("runtime").asDouble() / 1000;
        long bytes =
            side.get("io_bytes").asLong() + (mixes ? job.get("write").get("io_bytes").asLong() : 0);
        double share = job.get("usr_cpu").asDouble() + job.get("sys_cpu").asDouble();
        return new Sample(bytes, ran, share / 100 * ran);
      }
    };
  }

  /** A hundred lines of C++ over one ring; its head says what each mode does. */
  static Contender bareRing(Setting setting, String mode) {
    return bareRing("bare " + mode, setting, mode, setting.depth());
  }

  /**
   * One block a call, as a first version is written.
   *
   * @param slots buffers that it goes round
   */
  static Contender loop(Setting setting, int slots) {
    return bareRing("pread loop in C++, " + slots + " slots", setting, "pairs", slots);
  }

  private static Contender bareRing(String name, Setting setting, String mode, int depth) {
    boolean writes = mode.equals("write") || mode.equals("store");
    return new Contender() {
      @Override
      public String name() {
        return name;
      }

      private List<String> arguments(double seconds, long seed) {
        return List.of(
            setting.tools().resolve("bare-ring").toString(),
            mode,
            (writes ? setting.writeFile() : setting.file()).toString(),
            "" + (writes ? 0 : setting.offset()),
            "" + setting.slots(),
            "" + setting.blockBytes(),
            "" + depth,
            String.format(Locale.ROOT, "%.3f", seconds),
            "" + seed);
      }

      @Override
      public String command() {
        return told(setting, arguments(1, 1));
      }

      @Override
      public Sample run(double seconds, long seed) throws IOException, InterruptedException {
        var told = json(arguments(seconds, seed));
        return new Sample(
            told.get("bytes").asLong(),
            told.get("seconds").asDouble(),
            told.get("cpuSeconds").asDouble());
      }
    };
  }

  /**
   * Our engine without Java, with all of its work or a part; its head says which there are. Its
   * files lie in {@code directory}, and are made by a run of mode "fill".
   */
  static Contender engineLanes(Setting setting, Path directory, String mode, String work) {
    return new Contender() {
      @Override
      public String name() {
        return "engine " + mode + ", work: " + work;
      }

      private List<String> arguments(double seconds, long seed) {
        return List.of(
            setting.tools().resolve("engine-lanes").toString(),
            mode,
            work,
            directory.toString(),
            "" + setting.slots(),
            "" + setting.blockBytes(),
            "" + setting.depth(),
            String.format(Locale.ROOT, "%.3f", seconds),
            "" + seed);
      }

      @Override
      public String command() {
        return String.join(" ", arguments(1, 1)).replace(directory.toString(), "DIR");
      }

      @Override
      public Sample run(double seconds, long seed) throws IOException, InterruptedException {
        var told = json(arguments(seconds, seed));
        return new Sample(
            told.get("bytes").asLong(),
            told.get("seconds").asDouble(),
            told.get("cpuSeconds").asDouble(),
            told.get("depth").asDouble(),
            told.get("enters").asDouble());
      }
    };
  }

  private static String told(Setting setting, List<String> arguments) {
    return String.join(" ", arguments)
        .replace(setting.file().toString(), "FILE")
        .replace(setting.writeFile().toString(), "FILE");
  }

  static JsonNode json(List<String> command) throws IOException, InterruptedException {
    var text = text(command);
    return JSON.readTree(text.substring(Math.max(0, text.indexOf('{')))); // fio may warn before it
  }

  static String text(List<String> command) throws IOException, InterruptedException {
    var process = new ProcessBuilder(new ArrayList<>(command)).redirectErrorStream(true).start();
    var text = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    if (process.waitFor() != 0) {
      throw new IOException(command + " ended with " + process.exitValue() + ": " + text);
    }
    return text;
  }
}
