package dev.spillway.testing;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.spillway.block.KvLayout;
import dev.spillway.device.BlockMemory;
import dev.spillway.device.CudaDevice;
import dev.spillway.device.HostDevice;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;

/**
 * Device memory for tests, as {@code -Dspillway.device} says: {@code host} unless set, {@code
 * cuda-emulated}, or {@code cuda}, which is skipped where there is none.
 */
public final class TestDevices {
  private static final String KIND = System.getProperty("spillway.device", "host");

  private TestDevices() {}

  public static boolean areHost() {
    return KIND.equals("host");
  }

  /** Memory for so many blocks of every group, all zero. */
  public static BlockMemory allocate(KvLayout layout, int blocks) {
    var counts = new int[layout.groups().size()];
    Arrays.fill(counts, blocks);
    return switch (KIND) {
      case "host" -> HostDevice.allocate(layout, counts);
      case "cuda-emulated" -> CudaDevice.allocate(layout, counts, 0, emulatedLibrary().toString());
      case "cuda" -> {
        var found = CudaDevice.probe();
        assumeTrue(found.usable(), found.why());
        yield CudaDevice.allocate(layout, counts, 0);
      }
      default -> throw new IllegalArgumentException("spillway.device is " + KIND);
    };
  }

  /** The CUDA runtime that needs no GPU. */
  public static Path emulatedLibrary() {
    return Commands.tool("libcudart-emulated.so").toAbsolutePath();
  }

  /**
   * A copy of it in a directory, and so a machine of its own.
   *
   * @param configuration as {@code emulated_cuda.cc} describes it
   */
  public static String emulated(Path directory, String configuration) {
    try {
      var folder = Files.createTempDirectory(directory, "cuda-");
      var library = folder.resolve("libcudart.so");
      Files.copy(emulatedLibrary(), library);
      Files.writeString(folder.resolve("libcudart.so.conf"), configuration);
      return library.toString();
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }
}
