package dev.spillway.block;

/**
 * A moment on the device: a store's copy begins only then (its source is whole), and so does a
 * load's (its destination may be overwritten). Either a step of the computation, which whoever
 * computes announces to its rank; that works across processes, whose addresses differ. Or a 64-bit
 * sequence word of host memory that whoever computes raises with release order. Or, for CUDA
 * memory, an event or a stream of the caller's.
 *
 * @param address of an aligned 64-bit word, an event or a stream that outlives the transfer; 0 for
 *     now
 * @param value what the word, or the step, must reach, unsigned
 */
public record DeviceEvent(Kind kind, long address, long value) {
  /** What the moment is told by. */
  public enum Kind {
    WORD,
    STEP,
    CUDA_EVENT,
    CUDA_STREAM
  }

  private static final long PER_THREAD_STREAM = 2;

  /** No waiting. */
  public static final DeviceEvent NOW = new DeviceEvent(0, 0);

  /** The word at {@code address} has reached {@code value}. */
  public DeviceEvent(long address, long value) {
    this(Kind.WORD, address, value);
  }

  public DeviceEvent {
    if (kind != Kind.CUDA_STREAM && address % Long.BYTES != 0) {
      throw new IllegalArgumentException(
          "event address 0x%x is not a multiple of 8".formatted(address));
    }
    if (kind == Kind.CUDA_EVENT && address == 0) {
      throw new IllegalArgumentException(
          "a CUDA event at address 0; DeviceEvent.NOW would be right for no waiting");
    }
    if (kind == Kind.CUDA_STREAM && address == PER_THREAD_STREAM) {
      throw new IllegalArgumentException(
          "the per-thread default stream, which is another in each thread; an event would be right");
    }
  }

  /**
   * The end of a step, and of all before it, as {@code Spillway.stepDone} and {@code
   * RankWorker.stepDone} announce it on each rank. A block whose step does not come is {@code
   * EXPIRED} in the end.
   *
   * @param step counted up by the caller, at least 1
   */
  public static DeviceEvent ofStep(long step) {
    if (step < 1) {
      throw new IllegalArgumentException("step " + step + "; at least 1 would be right");
    }
    return new DeviceEvent(Kind.STEP, 0, step);
  }

  /**
   * A CUDA event of the device that the blocks are on, which has been recorded before the call: the
   * copy waits for it on the device. It must stay as it is, neither recorded anew nor destroyed,
   * until the transfer's blocks are quiet.
   *
   * @param event the {@code cudaEvent_t}; CUDA does not check that it is one
   */
  public static DeviceEvent ofCudaEvent(long event) {
    return new DeviceEvent(Kind.CUDA_EVENT, event, 0);
  }

  /**
   * All that is in a CUDA stream of the device that the blocks are on by now; the copy may wait for
   * more, namely for what is put into it before the copy is begun. Not while the stream is
   * captured.
   *
   * @param stream the {@code cudaStream_t}, 0 for the default stream; CUDA does not check that it
   *     is one
   */
  public static DeviceEvent ofCudaStream(long stream) {
    return new DeviceEvent(Kind.CUDA_STREAM, stream, 0);
  }

  public boolean isStep() {
    return kind == Kind.STEP;
  }

  /** Whether only CUDA memory has such a moment. */
  public boolean isCuda() {
    return kind == Kind.CUDA_EVENT || kind == Kind.CUDA_STREAM;
  }

  /** Whether there is nothing to wait for. */
  public boolean isNow() {
    return kind == Kind.WORD && address == 0;
  }
}
