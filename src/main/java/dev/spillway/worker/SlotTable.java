package dev.spillway.worker;

import java.util.List;

/**
 * What one rank knows of the content of its slots: generation and checksum of the payload that was
 * written last. Checksums differ from rank to rank, so they live here and not in the index. Owned
 * by the worker's thread.
 */
final class SlotTable {
  private final long[][] generations;
  private final long[][] checksums;

  SlotTable(List<Long> slotCounts) {
    generations = new long[slotCounts.size()][];
    checksums = new long[slotCounts.size()][];
    for (int group = 0; group < slotCounts.size(); group++) {
      int count = Math.toIntExact(slotCounts.get(group));
      generations[group] = new long[count];
      checksums[group] = new long[count];
    }
  }

  void put(int group, int slot, long generation, long checksum) {
    generations[group][slot] = generation;
    checksums[group][slot] = checksum;
  }

  /** Whether the slot holds what was written under this generation. */
  boolean holds(int group, int slot, long generation) {
    return generations[group][slot] == generation;
  }

  long checksum(int group, int slot) {
    return checksums[group][slot];
  }
}
