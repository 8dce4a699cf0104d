package dev.spillway.block;

/**
 * A moment on the device: the word at {@code address} has reached {@code value}. For host memory it
 * is a 64-bit sequence word that whoever computes raises with release order; a store's copy begins
 * only then (its source is whole), and so does a load's (its destination may be overwritten).
 *
 * @param address of an aligned 64-bit word that outlives the transfer; 0 for now
 * @param value what the word must reach, unsigned
 */
public record DeviceEvent(long address, long value) {
  /** No waiting. */
  public static final DeviceEvent NOW = new DeviceEvent(0, 0);

  public DeviceEvent {
    if (address % Long.BYTES != 0) {
      throw new IllegalArgumentException(
          "event address 0x%x is not a multiple of 8".formatted(address));
    }
  }
}
