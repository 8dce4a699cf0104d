package dev.spillway.engine;

import java.nio.ByteBuffer;
import java.util.Arrays;

/** A key for the blocks on disk, which no log shows. Immutable. */
public final class CipherKey {
  /** Bytes of a key of AES-256-XTS: two keys of 32. */
  public static final int BYTES = 64;

  /** Blocks lie on disk as they are. */
  public static final CipherKey NONE = new CipherKey(new byte[0]);

  private final byte[] bytes;

  private CipherKey(byte[] bytes) {
    this.bytes = bytes;
  }

  /**
   * Copies a key.
   *
   * @throws IllegalArgumentException where it is none, with what would be right
   */
  public static CipherKey of(byte[] bytes) {
    if (bytes.length != BYTES) {
      throw new IllegalArgumentException(
          "a key of %d bytes; %d would be right".formatted(bytes.length, BYTES));
    }
    if (Arrays.equals(bytes, 0, BYTES / 2, bytes, BYTES / 2, BYTES)) {
      throw new IllegalArgumentException(
          "a key whose halves are the same; two different ones would be right");
    }
    return new CipherKey(bytes.clone());
  }

  boolean isNone() {
    return bytes.length == 0;
  }

  void writeTo(ByteBuffer target) {
    target.put(0, bytes);
  }

  @Override
  public String toString() {
    return isNone() ? "none" : "a key of " + BYTES + " bytes";
  }
}
