package dev.spillway.block;

import java.nio.ByteBuffer;

/**
 * The name of a block's content: 128 bits of a hash over everything that decides its bytes.
 *
 * @param high the first eight bytes, big endian
 * @param low the last eight
 */
public record BlockKey(long high, long low) {
  public static final int BYTES = 16;

  /** The key whose 16 bytes these are. */
  public static BlockKey of(byte[] bytes) {
    if (bytes.length != BYTES) {
      throw new IllegalArgumentException(
          "a key of " + bytes.length + " bytes; " + BYTES + " would be right");
    }
    var buffer = ByteBuffer.wrap(bytes);
    return new BlockKey(buffer.getLong(), buffer.getLong());
  }

  @Override
  public String toString() {
    return "%016x%016x".formatted(high, low);
  }
}
