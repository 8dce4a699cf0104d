package dev.spillway.engine;

import dev.spillway.block.DeviceEvent;
import org.bytedeco.cuda.cudart.CUevent_st;
import org.bytedeco.cuda.cudart.CUstream_st;
import org.bytedeco.javacpp.Pointer;

/**
 * What callers hold in the types of the JavaCPP CUDA presets, as Spillway takes it. The presets are
 * an optional dependency, needed by this class alone, which nothing else in Spillway loads. Memory
 * and handles stay the caller's.
 */
public final class CudaInterop {
  private CudaInterop() {}

  /** The address of a tensor, where its pointer's position is. */
  public static long address(Pointer tensor) {
    if (tensor.isNull()) {
      throw new IllegalArgumentException(
          "a tensor at address 0; its device address would be right");
    }
    return tensor.address() + tensor.position() * tensor.sizeof();
  }

  /** See {@link DeviceEvent#ofCudaEvent(long)}. */
  public static DeviceEvent event(CUevent_st event) {
    return DeviceEvent.ofCudaEvent(event.address());
  }

  /** See {@link DeviceEvent#ofCudaStream(long)}. */
  public static DeviceEvent stream(CUstream_st stream) {
    return DeviceEvent.ofCudaStream(stream.address());
  }
}
