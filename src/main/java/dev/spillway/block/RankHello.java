package dev.spillway.block;

import java.util.List;

/**
 * What a rank says of itself when it opens. The scheduler's side takes the smallest slot count of
 * all ranks, and refuses ranks that do not belong together.
 *
 * @param rank this rank, from 0
 * @param rankCount how many there are
 * @param slotCounts slots on disk, by group
 * @param alignment of direct I/O on this rank's device, bytes
 * @param fingerprint of the layout
 * @param epoch of the block file, raised at every open
 */
public record RankHello(
    int rank, int rankCount, List<Long> slotCounts, int alignment, long fingerprint, long epoch) {
  public RankHello {
    slotCounts = List.copyOf(slotCounts);
  }
}
