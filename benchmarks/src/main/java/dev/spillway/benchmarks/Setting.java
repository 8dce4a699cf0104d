package dev.spillway.benchmarks;

import java.nio.file.Path;

/**
 * What all contenders of a size share.
 *
 * @param file of Spillway's own slots, which the others read too
 * @param writeFile of the same size, written in full, for those that write
 * @param offset of the first slot
 * @param tools folder with bare-ring and engine-lanes
 */
record Setting(
    Path file, Path writeFile, long offset, long slots, int blockBytes, int depth, Path tools) {
  long bytes() {
    return slots * blockBytes;
  }
}
