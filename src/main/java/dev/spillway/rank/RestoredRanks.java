package dev.spillway.rank;

import dev.spillway.block.RestoredBlocks;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Lays side by side what the ranks find in the same slots: a block counts where every rank has it
 * there under the same key and generation. Ranks may have different numbers of slots; the smallest
 * counts. Owned by the scheduler's thread.
 */
public final class RestoredRanks {
  private final List<ArrayDeque<RestoredBlocks>> queues = new ArrayList<>();
  private boolean over;
  private boolean cutOff;
  private long scanned;
  private long torn;
  private long voided;
  private long incomplete;

  public RestoredRanks(int rankCount) {
    for (int rank = 0; rank < rankCount; rank++) {
      queues.add(new ArrayDeque<>());
    }
  }

  /** Takes in the next run of a rank. */
  public void add(int rank, RestoredBlocks run) {
    if (over) {
      return;
    }
    queues.get(rank).add(run);
    torn += run.torn();
    voided += run.voided();
  }

  /** Whether a rank has given so much that others must catch up first. */
  public boolean hasAhead(int rank, int runs) {
    return queues.get(rank).size() >= runs;
  }

  /**
   * The next run in which all ranks agree, as rank 0 has it where there is one; null where a rank
   * has not got so far, or all is over.
   */
  public @Nullable RestoredBlocks next() {
    while (isReady()) {
      if (queues.stream().anyMatch(queue -> queue.peek().isEnd())) {
        cutOff = queues.stream().anyMatch(queue -> queue.peek().isCutOff());
        end();
        return null;
      }
      var furthest =
          queues.stream().map(ArrayDeque::peek).max(RestoredRanks::compare).orElseThrow();
      boolean level = true;
      for (var queue : queues) {
        if (compare(queue.peek(), furthest) < 0) {
          queue.poll(); // slots that another rank does not have
          level = false;
        }
      }
      if (level) {
        return agreed();
      }
    }
    return null;
  }

  /** Whether every rank has given something that {@link #next} can look at. */
  public boolean isReady() {
    return !over && queues.stream().noneMatch(ArrayDeque::isEmpty);
  }

  private static int compare(RestoredBlocks one, RestoredBlocks other) {
    return one.group() != other.group()
        ? Integer.compare(one.group(), other.group())
        : Integer.compare(one.from(), other.from());
  }

  private RestoredBlocks agreed() {
    var first = queues.get(0).poll();
    scanned += first.scanned();
    if (queues.size() == 1) {
      return first;
    }
    var others = queues.subList(1, queues.size()).stream().map(ArrayDeque::poll).toList();
    var places = new int[others.size()];
    var agreed = new RestoredBlocks(first.group(), first.from(), first.scanned());
    for (int i = 0; i < first.size(); i++) {
      boolean everywhere = true;
      for (int rank = 0; rank < places.length; rank++) {
        var other = others.get(rank);
        while (places[rank] < other.size() && other.slot(places[rank]) < first.slot(i)) {
          places[rank]++;
        }
        everywhere &= places[rank] < other.size() && same(first, i, other, places[rank]);
      }
      if (everywhere) {
        agreed.add(
            first.slot(i),
            first.high(i),
            first.low(i),
            first.generation(i),
            0,
            first.tenant(i),
            first.depth(i),
            first.lastUse(i));
      } else {
        incomplete++;
      }
    }
    return agreed;
  }

  private static boolean same(RestoredBlocks one, int i, RestoredBlocks other, int j) {
    return one.slot(i) == other.slot(j)
        && one.high(i) == other.high(j)
        && one.low(i) == other.low(j)
        && one.generation(i) == other.generation(j);
  }

  /** Nothing more is taken in: all is restored, or a reset came. */
  public void end() {
    over = true;
    queues.forEach(ArrayDeque::clear);
  }

  public boolean isOver() {
    return over;
  }

  /** Whether it ended where a rank could not read on: records may name more than was told. */
  public boolean isCutOff() {
    return cutOff;
  }

  /** Slots whose records were looked at, on all ranks. */
  public long scanned() {
    return scanned;
  }

  public long torn() {
    return torn;
  }

  public long voided() {
    return voided;
  }

  /** Records of rank 0 that some other rank does not have. */
  public long incomplete() {
    return incomplete;
  }
}
