package dev.spillway.testing;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * A real file system of the test's own, mounted for as long as it is open. Where mounting is not
 * permitted the test is skipped, with the reason.
 */
public final class Mount implements AutoCloseable {
  private final Path root;
  private final String loopDevice;

  private Mount(Path root, String loopDevice) {
    this.root = root;
    this.loopDevice = loopDevice;
  }

  /** A file system in an image of so many MiB, on a loop device with sectors of so many bytes. */
  public static Mount loop(Path directory, String type, int mebibytes, int sectorBytes) {
    var image = directory.resolve(type + ".img");
    var root = prepare(directory, type);
    must("truncate", "-s", mebibytes + "m", image.toString());
    var device =
        must("losetup", "-b", "" + sectorBytes, "-f", "--show", image.toString()).text().trim();
    try {
      must("mkfs." + type, "-q", device);
      must("mount", device, root.toString());
    } catch (RuntimeException e) {
      Commands.run("losetup", "-d", device);
      throw e;
    }
    return new Mount(root, device);
  }

  public static Mount tmpfs(Path directory, String options) {
    var root = prepare(directory, "tmpfs");
    must("mount", "-t", "tmpfs", "-o", options, "tmpfs", root.toString());
    return new Mount(root, "");
  }

  public static Mount overlay(Path directory) {
    var root = prepare(directory, "overlay");
    for (var layer : new String[] {"lower", "upper", "work"}) {
      prepare(directory, layer);
    }
    must(
        "mount",
        "-t",
        "overlay",
        "-o",
        "lowerdir=%1$s/lower,upperdir=%1$s/upper,workdir=%1$s/work".formatted(directory),
        "overlay",
        root.toString());
    return new Mount(root, "");
  }

  public Path root() {
    return root;
  }

  /** The loop device's name, without its directory. */
  public String deviceName() {
    return Path.of(loopDevice).getFileName().toString();
  }

  public void remountReadOnly() {
    must("mount", "-o", "remount,ro", root.toString());
  }

  private static Path prepare(Path directory, String name) {
    assumeTrue(Commands.isRoot(), "mounting a file system needs root");
    try {
      return Files.createDirectory(directory.resolve(name));
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  private static Commands.Output must(String... command) {
    var output = Commands.run(command);
    assumeTrue(output.code() == 0, () -> String.join(" ", command) + ": " + output.text());
    return output;
  }

  @Override
  public void close() {
    Commands.run("umount", root.toString());
    if (!loopDevice.isEmpty()) {
      Commands.run("losetup", "-d", loopDevice);
    }
  }
}
