package dev.spillway.engine;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.bytedeco.javacpp.BytePointer;
import org.bytedeco.javacpp.Pointer;

/**
 * Host memory outside the Java heap, in huge pages where the kernel has them. It backs the doubles
 * of device memory in the replay and the tests. May be used by any thread; {@link #close} by one.
 */
public final class NativeMemory implements AutoCloseable {
  private final long address;
  private final long bytes;
  private boolean closed;

  private NativeMemory(long address, long bytes) {
    this.address = address;
    this.bytes = bytes;
  }

  /**
   * Maps and touches {@code bytes}, all zero.
   *
   * @throws OutOfMemoryError with the bytes asked and available, where there are not that many
   */
  public static NativeMemory map(long bytes) {
    if (bytes <= 0) {
      throw new IllegalArgumentException("bytes is " + bytes + "; at least 1 would be right");
    }
    NativeLibrary.load();
    long address = KvEngineNative.mapHostMemory(bytes);
    if (address == 0) {
      throw new OutOfMemoryError(KvEngineNative.memoryFailure());
    }
    return new NativeMemory(address, bytes);
  }

  public long address() {
    if (closed) {
      throw new IllegalStateException("the memory was unmapped");
    }
    return address;
  }

  public long bytes() {
    return bytes;
  }

  /**
   * A view of a part of the memory, in the byte order of this machine. It must not be used after
   * {@link #close}.
   */
  public ByteBuffer view(long offset, int viewBytes) {
    if (offset < 0 || viewBytes < 0 || offset > bytes - viewBytes) {
      throw new IndexOutOfBoundsException(
          "bytes %d to %d of %d".formatted(offset, offset + viewBytes, bytes));
    }
    if (closed) {
      throw new IllegalStateException("the memory was unmapped");
    }
    return viewOf(address + offset, viewBytes);
  }

  /** A view of memory that somebody else owns. */
  public static ByteBuffer viewOf(long address, int viewBytes) {
    return new Window(address, viewBytes).asByteBuffer().order(ByteOrder.nativeOrder());
  }

  @Override
  public void close() {
    if (!closed) {
      closed = true;
      KvEngineNative.unmapHostMemory(address, bytes);
    }
  }

  /**
   * JavaCPP makes byte buffers of its pointers; this one points where it is told to and owns
   * nothing.
   */
  private static final class Window extends BytePointer {
    Window(long address, int viewBytes) {
      super((Pointer) null);
      this.address = address;
      this.limit = viewBytes;
      this.capacity = viewBytes;
    }
  }
}
