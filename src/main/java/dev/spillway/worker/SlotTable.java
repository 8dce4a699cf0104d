package dev.spillway.worker;

import dev.spillway.block.RestoredBlocks;
import dev.spillway.block.TransferPlan;
import java.util.List;

/**
 * What one rank knows of the content of its slots: generation and checksum of the payload that was
 * written last, and what its record says besides. Checksums differ from rank to rank, so they live
 * here and not in the index. Owned by the worker's thread.
 */
final class SlotTable {
  private final int[] bases; // of each group among all slots
  private final long[] generations;
  private final long[] checksums;
  private final long[] highs;
  private final long[] lows;
  private final long[] tenants;
  private final int[] depths;
  private final int[] lastUses;

  /**
   * @param keepsKeys whether there is a record file, for which keys are kept
   */
  SlotTable(List<Long> slotCounts, boolean keepsKeys) {
    bases = new int[slotCounts.size()];
    int count = 0;
    for (int group = 0; group < bases.length; group++) {
      bases[group] = count;
      count = Math.addExact(count, Math.toIntExact(slotCounts.get(group)));
    }
    generations = new long[count];
    checksums = new long[count];
    int kept = keepsKeys ? count : 0;
    highs = new long[kept];
    lows = new long[kept];
    tenants = new long[kept];
    depths = new int[kept];
    lastUses = new int[kept];
  }

  /** The number of a slot among all slots of all groups, which is that of its record. */
  int entry(int group, int slot) {
    return bases[group] + slot;
  }

  /** A block of a plan is written. */
  void put(TransferPlan plan, int index, long checksum, int now) {
    int entry = entry(plan.group(), plan.slot(index));
    generations[entry] = plan.generation(index);
    checksums[entry] = checksum;
    if (highs.length > 0) {
      highs[entry] = plan.high(index);
      lows[entry] = plan.low(index);
      tenants[entry] = plan.tenant(index);
      depths[entry] = plan.depth(index);
      lastUses[entry] = now;
    }
  }

  /** Nothing is in the slot, nor will a record that is read yet say otherwise. */
  void clear(int group, int slot) {
    generations[entry(group, slot)] = -1;
  }

  /** An earlier process stored it; what this one has written since counts more. */
  void restore(RestoredBlocks run) {
    for (int i = 0; i < run.size(); i++) {
      int entry = entry(run.group(), run.slot(i));
      if (generations[entry] != 0) {
        continue;
      }
      generations[entry] = run.generation(i);
      checksums[entry] = run.checksum(i);
      highs[entry] = run.high(i);
      lows[entry] = run.low(i);
      tenants[entry] = run.tenant(i);
      depths[entry] = run.depth(i);
      lastUses[entry] = run.lastUse(i);
    }
  }

  /** Whether the slot was used at another second than this. */
  boolean touch(int entry, int now) {
    if (lastUses[entry] == now) {
      return false;
    }
    lastUses[entry] = now;
    return true;
  }

  /** Whether the slot holds what was written under this generation. */
  boolean holds(int group, int slot, long generation) {
    return generations[entry(group, slot)] == generation;
  }

  long checksum(int group, int slot) {
    return checksums[entry(group, slot)];
  }

  long generation(int entry) {
    return generations[entry];
  }

  long checksum(int entry) {
    return checksums[entry];
  }

  long high(int entry) {
    return highs[entry];
  }

  long low(int entry) {
    return lows[entry];
  }

  long tenant(int entry) {
    return tenants[entry];
  }

  int depth(int entry) {
    return depths[entry];
  }

  int lastUse(int entry) {
    return lastUses[entry];
  }
}
