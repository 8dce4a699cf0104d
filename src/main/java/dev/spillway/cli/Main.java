package dev.spillway.cli;

import picocli.CommandLine;
import picocli.CommandLine.Command;

/** The command line: {@code spillway replay} and {@code spillway doctor}. */
@Command(
    name = "spillway",
    mixinStandardHelpOptions = true,
    version = "spillway 0.1.0",
    description = "Keeps blocks of an LLM's KV cache on disk, and checks every byte.",
    subcommands = {ReplayCommand.class, DoctorCommand.class})
public final class Main {
  private Main() {}

  public static void main(String[] args) {
    // The report says what the engine would log; errors still show.
    System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "error");
    System.exit(run(args));
  }

  /** Runs a command line; 0 when all went well, 1 when it did not, 2 for a wrong argument. */
  public static int run(String... args) {
    return new CommandLine(new Main())
        .setCaseInsensitiveEnumValuesAllowed(true)
        .setExecutionExceptionHandler(Main::report)
        .execute(args);
  }

  /** What a user can act on is said in one line; the rest with where it happened. */
  private static int report(Exception failure, CommandLine command, CommandLine.ParseResult ignored)
      throws Exception {
    if (failure instanceof dev.spillway.engine.OpenRefusedException
        || failure instanceof IllegalArgumentException
        || failure instanceof java.io.IOException) {
      command.getErr().println("spillway: " + failure.getMessage());
      return 1;
    }
    throw failure;
  }
}
