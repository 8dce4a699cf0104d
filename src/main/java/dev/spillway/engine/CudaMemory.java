package dev.spillway.engine;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;

/**
 * Memory of a CUDA device, for the replay, for tests and for callers without an allocator of their
 * own. {@link #read} and {@link #write} wait for their copy. May be used by any thread; {@link
 * #close} by one.
 */
public final class CudaMemory implements AutoCloseable {
  private final byte[] library;
  private final int device;
  private final long address;
  private final long bytes;
  private volatile boolean closed;

  private CudaMemory(byte[] library, int device, long address, long bytes) {
    this.library = library;
    this.device = device;
    this.address = address;
    this.bytes = bytes;
  }

  /**
   * Allocates {@code bytes}, all zero.
   *
   * @param library path of the CUDA runtime, empty to look for one
   * @throws IllegalStateException where there is no runtime, no such device or no room, with what
   *     CUDA says
   */
  public static CudaMemory allocate(String library, int device, long bytes) {
    if (bytes <= 0 || device < 0) {
      throw new IllegalArgumentException(
          "%d bytes on device %d; at least 1 on device 0 or another would be right"
              .formatted(bytes, device));
    }
    byte[] path = pathOf(library);
    long address = KvEngineNative.cudaAllocate(path, device, bytes);
    if (address == 0) {
      throw new IllegalStateException(
          "%d bytes on CUDA device %d: %s"
              .formatted(bytes, device, KvEngineNative.memoryFailure()));
    }
    return new CudaMemory(path, device, address, bytes);
  }

  /**
   * What was found of CUDA on this machine, as lines {@code key=value} that {@code
   * device/CudaRuntime.cpp} writes.
   *
   * @param library path of the CUDA runtime, empty to look for one
   */
  public static String describe(String library) {
    return KvEngineNative.cudaText(pathOf(library));
  }

  private static byte[] pathOf(String library) {
    NativeLibrary.load();
    return CudaPresets.library(library);
  }

  public long address() {
    checkOpen();
    return address;
  }

  /** Copies {@code target.remaining()} bytes from the device into a direct buffer. */
  public void read(long offset, ByteBuffer target) {
    check(offset, target);
    if (target.isReadOnly()) {
      throw new IllegalArgumentException("a buffer that is read-only; another would be right");
    }
    int error;
    try {
      error =
          KvEngineNative.cudaRead(
              library,
              device,
              address + offset,
              KvEngineNative.addressOf(target),
              target.remaining());
    } finally {
      Reference.reachabilityFence(target);
    }
    checkWell(error, "read");
  }

  /** Copies {@code source.remaining()} bytes of a direct buffer to the device. */
  public void write(long offset, ByteBuffer source) {
    check(offset, source);
    int error;
    try {
      error =
          KvEngineNative.cudaWrite(
              library,
              device,
              address + offset,
              KvEngineNative.addressOf(source),
              source.remaining());
    } finally {
      Reference.reachabilityFence(source);
    }
    checkWell(error, "write");
  }

  private void check(long offset, ByteBuffer buffer) {
    checkOpen();
    if (!buffer.isDirect()) {
      throw new IllegalArgumentException("a buffer on the Java heap; a direct one would be right");
    }
    if (offset < 0 || offset > bytes - buffer.remaining()) {
      throw new IndexOutOfBoundsException(
          "bytes %d to %d of %d".formatted(offset, offset + buffer.remaining(), bytes));
    }
  }

  private void checkOpen() {
    if (closed) {
      throw new IllegalStateException("the memory was freed");
    }
  }

  private void checkWell(int error, String what) {
    if (error != 0) {
      throw new IllegalStateException(
          "%s on CUDA device %d: %s".formatted(what, device, KvEngineNative.memoryFailure()));
    }
  }

  @Override
  public void close() {
    if (!closed) {
      closed = true;
      checkWell(KvEngineNative.cudaRelease(library, device, address), "free");
    }
  }
}
