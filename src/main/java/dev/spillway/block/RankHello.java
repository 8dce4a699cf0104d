package dev.spillway.block;

import java.nio.ByteBuffer;
import java.util.ArrayList;
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

  /** For a scheduler in another process, in the byte order of the buffer. */
  public void writeTo(ByteBuffer target) {
    target.putInt(rank).putInt(rankCount).putInt(alignment).putLong(fingerprint).putLong(epoch);
    target.putInt(slotCounts.size());
    slotCounts.forEach(target::putLong);
  }

  /**
   * What {@link #writeTo} has written.
   *
   * @throws IllegalArgumentException where it cannot be a hello
   */
  public static RankHello readFrom(ByteBuffer source) {
    int rank = source.getInt();
    int rankCount = source.getInt();
    int alignment = source.getInt();
    long fingerprint = source.getLong();
    long epoch = source.getLong();
    int groups = source.getInt();
    if (groups < 1 || groups > KvLayout.GROUPS_MAX) {
      throw new IllegalArgumentException("a hello of " + groups + " groups");
    }
    var slotCounts = new ArrayList<Long>();
    for (int i = 0; i < groups; i++) {
      slotCounts.add(source.getLong());
    }
    return new RankHello(rank, rankCount, slotCounts, alignment, fingerprint, epoch);
  }
}
