package dev.spillway.block;

/** What is asked for a block. */
public enum Operation {
  /** Device to disk. */
  STORE,
  /** Disk to device. */
  LOAD
}
