package dev.spillway.cli;

import dev.spillway.block.KvLayout;
import dev.spillway.device.BlockMemory;
import dev.spillway.device.CudaDevice;
import dev.spillway.device.HostDevice;
import java.util.Arrays;
import java.util.Locale;

/** What the device memory of a replay is. */
enum DeviceChoice {
  /** Host memory in its place. */
  HOST,
  /** A GPU's; several ranks take one GPU after the other. */
  CUDA,
  /** Host memory behind a CUDA runtime that needs no GPU and is late on purpose. */
  CUDA_EMULATED;

  private static final String EMULATED = "spillway.cuda.emulated";

  /**
   * Memory for so many blocks of every group.
   *
   * @throws IllegalArgumentException where there is no such device, with the reason
   */
  BlockMemory allocate(KvLayout layout, int blocks, int rank) {
    var counts = new int[layout.groups().size()];
    Arrays.fill(counts, blocks);
    return switch (this) {
      case HOST -> HostDevice.allocate(layout, counts);
      case CUDA -> onCuda(layout, counts, rank, "");
      case CUDA_EMULATED -> onCuda(layout, counts, rank, emulatedLibrary());
    };
  }

  private BlockMemory onCuda(KvLayout layout, int[] counts, int rank, String library) {
    var found = CudaDevice.probe(library);
    if (!found.usable()) {
      throw new IllegalArgumentException(
          "--device %s: %s; --device host would be right here".formatted(this, found.why()));
    }
    return CudaDevice.allocate(layout, counts, rank % found.devices().size(), library);
  }

  private static String emulatedLibrary() {
    var library = System.getProperty(EMULATED, "");
    if (library.isEmpty()) {
      throw new IllegalArgumentException(
          "--device cuda-emulated in a JAR alone; ./spillway replay, which builds the emulated"
              + " runtime, or its path in -D"
              + EMULATED
              + " would be right");
    }
    return library;
  }

  @Override
  public String toString() {
    return name().toLowerCase(Locale.ROOT).replace('_', '-');
  }
}
