package dev.spillway.device;

import dev.spillway.block.KvLayout;

/**
 * The caller's device memory: where the blocks of a layout lie. Spillway reads and writes it during
 * transfers and owns none of it; it must outlive the engine.
 */
public interface DeviceMemory {
  KvLayout layout();

  /** Blocks of a group; their numbers are 0 to this. */
  int blockCount(int group);

  /** Address of block 0 of a piece's tensor. */
  long pieceAddress(int group, int piece);

  /** Ordinal of the CUDA device that the memory is on, or negative: memory of the host. */
  default int cudaDevice() {
    return -1;
  }

  /** Path of the CUDA runtime to use, or empty: the one that is loaded already, else installed. */
  default String cudaLibrary() {
    return "";
  }
}
