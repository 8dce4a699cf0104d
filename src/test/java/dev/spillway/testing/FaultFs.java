package dev.spillway.testing;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;

/**
 * A real file system of the test's own in user space that fails where it is told to: the kernel
 * hands its answers to the engine as it would a disk's. Where it cannot be mounted the test is
 * skipped, with the reason.
 */
public final class FaultFs implements AutoCloseable {
  private final Path root;

  private FaultFs(Path root) {
    this.root = root;
  }

  public static FaultFs mount(Path directory) {
    assumeTrue(Commands.isRoot(), "mounting a file system needs root");
    assumeTrue(Files.exists(Path.of("/dev/fuse")), "/dev/fuse is not there");
    var program = Commands.tool("fault-fs");
    var backing = created(directory.resolve("backing"));
    var root = created(directory.resolve("faulty"));
    var output =
        Commands.run(
            program.toString(),
            backing.toString(),
            root.toString(),
            "-o",
            "allow_other,attr_timeout=0,auto_unmount");
    assumeTrue(output.code() == 0, () -> program + ": " + output.text());
    return new FaultFs(root);
  }

  public Path root() {
    return root;
  }

  /**
   * Adds a rule.
   *
   * @param operation read, write or sync
   * @param offset first byte of a file that it covers
   * @param length how many, 0 for all behind it
   * @param action errno N, short N, hang MS, corrupt N or lost 0
   * @param count how often, 0 for ever
   */
  public void rule(String operation, long offset, long length, String action, int count) {
    control("%s * %d %d %s %d\n".formatted(operation, offset, length, action, count));
  }

  public void clear() {
    control("clear\n");
  }

  /** How often rules of this operation and action have struck, as in {@code read errno}. */
  public long hits(String operationAndAction) {
    try {
      return Files.readString(root.resolve("ctl"))
          .lines()
          .filter(line -> line.startsWith(operationAndAction + " "))
          .mapToLong(line -> Long.parseLong(line.substring(operationAndAction.length() + 1)))
          .sum();
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  /** Ends the file system under its users, as a device that is pulled out. */
  public void kill() {
    Commands.run("pkill", "-KILL", "-f", "fault-fs .* " + root);
    for (int i = 0; i < 100 && Files.exists(root.resolve("ctl")); i++) {
      pause();
    }
  }

  private void control(String line) {
    try {
      Files.writeString(root.resolve("ctl"), line);
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  private static Path created(Path directory) {
    try {
      return Files.createDirectory(directory);
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  private static void pause() {
    try {
      TimeUnit.MILLISECONDS.sleep(10);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  @Override
  public void close() {
    // The kernel lets go of a closed ring's file a little later.
    for (int i = 0; i < 200 && Commands.run("umount", root.toString()).code() != 0; i++) {
      pause();
    }
    Commands.run("umount", "-l", root.toString());
  }
}
