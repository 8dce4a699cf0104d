package dev.spillway.cli;

import dev.spillway.engine.OpenRefusedException;
import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import picocli.CommandLine;
import picocli.CommandLine.Command;

/** The command line: {@code spillway replay} and what goes with it. */
@Command(
    name = "spillway",
    mixinStandardHelpOptions = true,
    version = "spillway 0.1.0",
    description = "Keeps blocks of an LLM's KV cache on disk, and checks every byte.",
    subcommands = {
      ReplayCommand.class,
      DoctorCommand.class,
      InspectCommand.Inspect.class,
      InspectCommand.Verify.class
    })
public final class Main {
  private Main() {}

  public static void main(String[] args) {
    // The report says what the engine would log; errors still show.
    System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "error");
    System.exit(run(args));
  }

  /** Runs a command line; 0 when all went well, 1 when it did not, 2 for a wrong argument. */
  public static int run(String... args) {
    var command =
        new CommandLine(new Main())
            .setCaseInsensitiveEnumValuesAllowed(true)
            .setExecutionExceptionHandler(Main::report);
    try {
      return command.execute(args);
    } catch (LinkageError | OutOfMemoryError e) {
      // Said by the loader and by the memory map in words that a user can act on.
      command.getErr().println("spillway: " + e.getMessage());
      return 1;
    }
  }

  /** What a user can act on is said in one line; the rest with where it happened. */
  private static int report(Exception failure, CommandLine command, CommandLine.ParseResult ignored)
      throws Exception {
    if (failure instanceof IllegalArgumentException) {
      command.getErr().println("spillway: " + failure.getMessage());
      return 2;
    }
    if (failure instanceof OpenRefusedException || failure instanceof IOException) {
      command.getErr().println("spillway: " + inWords(failure));
      return 1;
    }
    throw failure;
  }

  /** The exceptions of java.nio.file carry a path and leave the reason to their name. */
  private static String inWords(Exception failure) {
    if (failure instanceof NoSuchFileException missing) {
      return missing.getFile() + ": no such file or directory";
    }
    if (failure instanceof AccessDeniedException denied) {
      return denied.getFile() + ": permission denied";
    }
    if (failure instanceof NotDirectoryException file) {
      return file.getFile() + ": not a directory";
    }
    return String.valueOf(failure.getMessage());
  }
}
