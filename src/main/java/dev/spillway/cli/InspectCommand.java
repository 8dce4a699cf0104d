package dev.spillway.cli;

import dev.spillway.Spillway;
import dev.spillway.SpillwayStats.StoredFile;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import tools.jackson.databind.SerializationFeature;
import tools.jackson.databind.json.JsonMapper;

/** {@code spillway inspect} and {@code spillway verify}: what lies in a directory. */
final class InspectCommand {
  private InspectCommand() {}

  /** What files say of themselves. */
  @Command(
      name = "inspect",
      mixinStandardHelpOptions = true,
      description =
          "Says what the block files and records in a directory hold: superblocks, records, ages,"
              + " groups, fragmentation. Reads only, and may run beside an owner.")
  static final class Inspect implements Callable<Integer> {
    @Parameters(index = "0", paramLabel = "DIR", description = "Where the block files are.")
    private Path directory = Path.of(".");

    @Option(names = "--json", description = "Print JSON instead of a table.")
    private boolean json;

    @Override
    public Integer call() throws IOException {
      return print(directory, Spillway.inspect(directory), json, false);
    }
  }

  /** Whether the blocks are what the records say. */
  @Command(
      name = "verify",
      mixinStandardHelpOptions = true,
      showDefaultValues = true,
      description =
          "Reads every block in a directory that nobody has open and compares its checksum. Ends"
              + " with 1 where one is bad.")
  static final class Verify implements Callable<Integer> {
    @Parameters(index = "0", paramLabel = "DIR", description = "Where the block files are.")
    private Path directory = Path.of(".");

    @Option(names = "--json", description = "Print JSON instead of a table.")
    private boolean json;

    @Option(
        names = "--rate",
        paramLabel = "BYTES",
        defaultValue = "1TiB",
        converter = Bytes.class,
        description = "Bytes a second at most.")
    private long rate;

    @Override
    public Integer call() throws IOException {
      return print(directory, Spillway.verify(directory, rate), json, true);
    }
  }

  private static int print(Path directory, List<StoredFile> files, boolean json, boolean verified)
      throws IOException {
    if (json) {
      System.out.println(
          JsonMapper.builder()
              .enable(SerializationFeature.INDENT_OUTPUT)
              .build()
              .writeValueAsString(files));
    } else if (files.isEmpty()) {
      System.out.println("no block files in " + directory);
    } else {
      files.forEach(file -> System.out.print(table(file, verified)));
    }
    boolean bad =
        files.stream().anyMatch(file -> file.badBlocks() > 0 || !file.trouble().isEmpty());
    boolean unreadable = files.stream().anyMatch(file -> !file.isReadable());
    return unreadable || (verified && bad) ? 1 : 0;
  }

  private static String table(StoredFile file, boolean verified) {
    var text = new StringBuilder();
    text.append(file.path()).append(System.lineSeparator());
    if (!file.isReadable()) {
      row(text, "unreadable", "%s", file.trouble());
      return text.toString();
    }
    row(text, "name space", "%s", file.nameSpace());
    row(text, "rank", "%d of %d", file.rank(), file.rankCount());
    row(
        text,
        "format, layout",
        "version %d, fingerprint %s, alignment %d",
        file.formatVersion(),
        file.fingerprint(),
        file.alignment());
    row(
        text,
        "content",
        "identity %s, epoch %d, last opened by pid %d",
        file.identity(),
        file.epoch(),
        file.ownerPid());
    for (int group = 0; group < file.groups().size(); group++) {
      var slots = file.groups().get(group);
      row(
          text,
          "group " + group,
          "%,d of %,d slots in use, blocks of %s and %d tokens, from byte %,d on",
          slots.records(),
          slots.slots(),
          Bytes.format(slots.blockBytes()),
          slots.blockTokens(),
          slots.offset());
    }
    if (!file.trouble().isEmpty()) {
      row(text, "records", "%s", file.trouble());
      return text.toString();
    }
    row(
        text,
        "records",
        "%,d (%s), %,d torn, %,d void",
        file.records(),
        Bytes.format(file.storedBytes()),
        file.torn(),
        file.voided());
    if (file.records() > 0) {
      row(text, "last used", "%s to %s ago", age(file.oldestUse()), age(file.newestUse()));
      row(text, "tenants", "%,d", file.tenants());
      row(
          text,
          "fragmentation",
          "%,d runs of neighbouring slots, %.1f blocks each",
          file.runs(),
          (double) file.records() / file.runs());
    }
    if (verified) {
      row(text, "verified", "%,d good, %,d bad", file.goodBlocks(), file.badBlocks());
      file.firstBad().forEach(block -> row(text, "", "%s", block));
    }
    return text.toString();
  }

  private static String age(long second) {
    var age = Duration.between(Instant.ofEpochSecond(second), Instant.now());
    if (age.toDays() > 0) {
      return age.toDays() + " d";
    }
    if (age.toHours() > 0) {
      return age.toHours() + " h";
    }
    return age.toMinutes() > 0 ? age.toMinutes() + " min" : Math.max(0, age.toSeconds()) + " s";
  }

  private static void row(StringBuilder text, String name, String format, Object... values) {
    text.append(String.format(Locale.ROOT, "  %-16s", name));
    text.append(String.format(Locale.ROOT, format, values)).append(System.lineSeparator());
  }
}
