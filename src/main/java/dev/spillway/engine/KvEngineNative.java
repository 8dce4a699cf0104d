package dev.spillway.engine;

import java.nio.ByteBuffer;
import org.bytedeco.javacpp.annotation.Cast;
import org.bytedeco.javacpp.annotation.Name;
import org.bytedeco.javacpp.annotation.Namespace;
import org.bytedeco.javacpp.annotation.NoException;
import org.bytedeco.javacpp.annotation.Platform;

/**
 * The native calls, one for one those of {@code KvEngine.h}, where they are described. An engine is
 * a number and records are an address: the cheapest call that JNI has. JavaCPP generates the other
 * side; it links in the reverse of a linker's order, hence liburing first. Whoever calls has called
 * {@link NativeLibrary#load} before: a static initialiser would report a failure only once.
 */
@Platform(
    value = {"linux-x86_64", "linux-arm64"},
    include = "KvEngine.h",
    link = {"uring", "spillway"})
@Namespace("spillway")
@NoException
final class KvEngineNative {

  private KvEngineNative() {}

  static native long engineNew();

  static native void engineDelete(long engine);

  static native int engineOpen(
      long engine,
      @Cast("const char*") byte[] directory,
      @Cast("const char*") byte[] nameSpace,
      @Cast("const char*") byte[] cudaLibrary,
      long record);

  static native String engineMessage(long engine);

  static native int engineError(long engine);

  static native int engineRaiseEpoch(long engine, long epoch);

  static native int enginePunch(long engine, int group, int slot);

  static native void engineDiscard(long engine);

  static native int engineSubmit(long engine, long records, int count);

  static native int enginePoll(long engine, long target, int capacity);

  static native void engineAwait(long engine, long nanos);

  static native void engineWake(long engine);

  static native int engineBroken(long engine);

  static native String engineDescribe(long engine);

  static native void engineCounters(long engine, long target);

  static native int engineClose(long engine, long nanos);

  static native void recordLayout(long target, int count);

  static native long addressOf(@Cast("const void*") ByteBuffer buffer);

  static native @Cast("int64_t") long checksumOf(long address, long bytes, long seed);

  static native int fileReserve(@Cast("const char*") byte[] path, long bytes);

  @Name("uringRefusalText")
  static native String uringRefusal();

  static native String cudaText(@Cast("const char*") byte[] cudaLibrary);

  static native long cudaAllocate(@Cast("const char*") byte[] cudaLibrary, int device, long bytes);

  static native int cudaRelease(@Cast("const char*") byte[] cudaLibrary, int device, long address);

  static native int cudaRead(
      @Cast("const char*") byte[] cudaLibrary, int device, long address, long target, long bytes);

  static native int cudaWrite(
      @Cast("const char*") byte[] cudaLibrary, int device, long address, long source, long bytes);

  static native long mapHostMemory(long bytes);

  static native void unmapHostMemory(long address, long bytes);

  static native String memoryFailure();
}
