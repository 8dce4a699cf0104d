package dev.spillway.block;

/**
 * A moment on the device. Either a step of the computation, which whoever computes announces to its
 * rank; that works across processes, whose addresses differ. Or a word of memory: the word at
 * {@code address} has reached {@code value}. For host memory it is a 64-bit sequence word that
 * whoever computes raises with release order; a store's copy begins only then (its source is
 * whole), and so does a load's (its destination may be overwritten).
 *
 * @param address of an aligned 64-bit word that outlives the transfer; 0 for now
 * @param value what the word must reach, unsigned
 */
public record DeviceEvent(long address, long value) {
  private static final long STEP = -8;

  /** No waiting. */
  public static final DeviceEvent NOW = new DeviceEvent(0, 0);

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
    return new DeviceEvent(STEP, step);
  }

  public boolean isStep() {
    return address == STEP;
  }

  public DeviceEvent {
    if (address % Long.BYTES != 0) {
      throw new IllegalArgumentException(
          "event address 0x%x is not a multiple of 8".formatted(address));
    }
  }
}
