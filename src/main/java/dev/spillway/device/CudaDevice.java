package dev.spillway.device;

import dev.spillway.block.KvLayout;
import dev.spillway.engine.CudaMemory;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * Memory of a CUDA device that Spillway has allocated: for the replay, for tests and for callers
 * without tensors of their own; those who have some give their addresses, {@link KvTensors}. The
 * CUDA runtime is looked for when it is asked for; nothing of CUDA is needed otherwise.
 */
public final class CudaDevice implements BlockMemory {
  private final int device;
  private final String library;
  private final TensorPlaces places;
  private final CudaMemory memory;

  private CudaDevice(TensorPlaces places, int device, String library) {
    this.places = places;
    this.device = device;
    this.library = library;
    memory = CudaMemory.allocate(library, device, places.bytes());
  }

  /** What was found of CUDA on this machine, or why nothing was. Never throws. */
  public static Findings probe() {
    return probe("");
  }

  /**
   * The same with the CUDA runtime at a path.
   *
   * @param library path of a {@code libcudart}, empty to look for one
   */
  public static Findings probe(String library) {
    return Findings.parse(CudaMemory.describe(library));
  }

  /** Memory for so many blocks of each group, all zero, on a device. */
  public static CudaDevice allocate(KvLayout layout, int[] blockCounts, int device) {
    return allocate(layout, blockCounts, device, "");
  }

  /**
   * The same with the CUDA runtime at a path.
   *
   * @throws IllegalStateException where there is no runtime, no such device or no room, with what
   *     CUDA says
   */
  public static CudaDevice allocate(
      KvLayout layout, int[] blockCounts, int device, String library) {
    return new CudaDevice(new TensorPlaces(layout, blockCounts), device, library);
  }

  @Override
  public KvLayout layout() {
    return places.layout();
  }

  @Override
  public int blockCount(int group) {
    return places.blockCount(group);
  }

  @Override
  public long pieceAddress(int group, int piece) {
    return memory.address() + places.offset(group, piece);
  }

  @Override
  public int cudaDevice() {
    return device;
  }

  @Override
  public String cudaLibrary() {
    return library;
  }

  @Override
  public void read(int group, int piece, int block, ByteBuffer target) {
    places.checkSize(group, piece, target);
    memory.read(places.offset(group, piece, block), target);
  }

  @Override
  public void write(int group, int piece, int block, ByteBuffer source) {
    places.checkSize(group, piece, source);
    memory.write(places.offset(group, piece, block), source);
  }

  @Override
  public void close() {
    memory.close();
  }

  /**
   * What was found of CUDA.
   *
   * @param usable whether there is a runtime and a device
   * @param why why not, empty where there is
   * @param library the runtime's name or path, empty where none was found
   * @param runtimeVersion as CUDA counts: 13000 for 13.0
   * @param driverVersion the newest CUDA that the driver supports, counted so, 0 without a driver
   * @param batchCopy whether many ranges can be copied in one call
   * @param devices one by one
   */
  public record Findings(
      boolean usable,
      String why,
      String library,
      int runtimeVersion,
      int driverVersion,
      boolean batchCopy,
      List<Gpu> devices) {
    public Findings {
      devices = List.copyOf(devices);
    }

    /**
     * One device.
     *
     * @param name the driver's for it, empty where the system does not say
     * @param freeBytes of its memory now
     * @param link speed and width of its PCIe link now, empty where the system does not say
     */
    public record Gpu(String name, long freeBytes, long totalBytes, String link) {}

    static Findings parse(String text) {
      Map<String, String> values = new HashMap<>();
      text.lines()
          .forEach(
              line -> {
                int at = Math.max(0, line.indexOf('=')); // a text of CUDA's may have more lines
                values.put(line.substring(0, at), line.substring(at + 1));
              });
      var devices = new ArrayList<Gpu>();
      for (int i = 0; values.containsKey("device." + i + ".link"); i++) {
        var name = "device." + i + ".";
        devices.add(
            new Gpu(
                values.getOrDefault(name + "name", ""),
                Long.parseLong(values.getOrDefault(name + "freeBytes", "0")),
                Long.parseLong(values.getOrDefault(name + "totalBytes", "0")),
                values.getOrDefault(name + "link", "")));
      }
      return new Findings(
          "1".equals(values.get("usable")),
          values.getOrDefault("why", ""),
          values.getOrDefault("library", ""),
          Integer.parseInt(values.getOrDefault("runtime", "0")),
          Integer.parseInt(values.getOrDefault("driver", "0")),
          "1".equals(values.get("batchCopy")),
          devices);
    }

    @Override
    public String toString() {
      if (!usable) {
        return "none: " + why;
      }
      return "%d device(s)%s, %s %s, driver %s%s"
          .formatted(
              devices.size(),
              devices.stream()
                  .map(gpu -> gpu.name().isEmpty() ? "" : " " + gpu.name())
                  .collect(Collectors.joining()),
              library,
              version(runtimeVersion),
              version(driverVersion),
              batchCopy ? ", batch copies" : "");
    }

    private static String version(int number) {
      return number / 1000 + "." + number % 1000 / 10;
    }
  }
}
