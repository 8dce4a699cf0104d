package dev.spillway.testing;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** Runs other programs: file system tools, and Java programs in another JVM. */
public final class Commands {
  private Commands() {}

  /** What a program printed, on both channels, and its exit code. */
  public record Output(int code, String text) {}

  public static Output run(List<String> command) {
    try {
      var process = new ProcessBuilder(command).redirectErrorStream(true).start();
      var text = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      if (!process.waitFor(120, TimeUnit.SECONDS)) {
        process.destroyForcibly();
        throw new AssertionError(command + " did not end in 120 s: " + text);
      }
      return new Output(process.exitValue(), text);
    } catch (IOException e) {
      return new Output(127, e.toString());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new AssertionError(e);
    }
  }

  public static Output run(String... command) {
    return run(List.of(command));
  }

  /** The command line of another JVM of this kind with this class path. */
  public static List<String> java(List<String> options, Class<?> main, String... arguments) {
    var command = new ArrayList<String>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.add("-XX:+IgnoreUnrecognizedVMOptions");
    command.add("--enable-native-access=ALL-UNNAMED");
    command.addAll(options);
    command.add("-cp");
    command.add(classPath());
    command.add(main.getName());
    command.addAll(List.of(arguments));
    return command;
  }

  private static String classPath() {
    // Surefire may hide the class path in a manifest; it gives the real one in this property.
    var real = System.getProperty("surefire.test.class.path");
    return real == null ? System.getProperty("java.class.path") : real;
  }

  /** A program that cppbuild.sh makes for the tests; where it is missing the test is skipped. */
  public static Path tool(String name) {
    try (var files = Files.walk(Path.of("cppbuild"), 3)) {
      var tool = files.filter(file -> file.endsWith(name)).findFirst();
      assumeTrue(tool.isPresent(), "cppbuild.sh has not built " + name);
      return tool.orElseThrow();
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  public static boolean isRoot() {
    return run("id", "-u").text().trim().equals("0");
  }
}
