package dev.spillway.device;

import java.nio.ByteBuffer;

/**
 * Device memory that Spillway has allocated and that can be looked into, wherever it is: for the
 * replay, for tests and for first steps. Reading and writing wait for their copy.
 */
public interface BlockMemory extends DeviceMemory, AutoCloseable {
  /** Copies the bytes of one block's piece into a direct buffer that has room for just these. */
  void read(int group, int piece, int block, ByteBuffer target);

  /** Copies a direct buffer of just that size into one block's piece. */
  void write(int group, int piece, int block, ByteBuffer source);

  @Override
  void close();
}
