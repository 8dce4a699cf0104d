package dev.spillway;

import dev.spillway.block.BlockKeys;
import dev.spillway.block.DeviceEvent;
import dev.spillway.block.TransferResult;
import java.util.Arrays;
import java.util.BitSet;
import org.jspecify.annotations.Nullable;

/**
 * Stores blocks when they near eviction from device memory instead of as soon as they are computed:
 * what is used again on the device costs no write. Once a step the scheduler shows its queue of
 * free blocks; the first so many of them, which it will give away next, are kept covered. Owned by
 * the thread of its Spillway.
 */
public final class LazyOffload {
  /** The scheduler's free blocks of one KV group, the next to be given away first. */
  public interface FreeQueue {
    int size();

    int deviceBlock(int place);

    /** The prefix that the block at this place belongs to, from its root; null for an empty one. */
    @Nullable BlockKeys prefix(int place);

    /** The block's position in that prefix. */
    int position(int place);
  }

  private final Spillway spillway;
  private final int group;
  private final int coveredMax;
  private final BitSet copying = new BitSet();
  private long[] storedHigh = new long[64]; // what each device block held when it was stored
  private long[] storedLow = new long[64];
  private final BitSet failed = new BitSet(); // the disk would not have them
  private int[] run = new int[16];

  /**
   * @param group KV group of the layout
   * @param blocksCovered how many blocks at the head of the queue are to be on disk; as many as the
   *     scheduler gives away in the time that a store takes
   */
  public LazyOffload(Spillway spillway, int group, int blocksCovered) {
    if (blocksCovered < 1) {
      throw new IllegalArgumentException(
          "blocksCovered is " + blocksCovered + "; at least 1 would be right");
    }
    this.spillway = spillway;
    this.group = group;
    coveredMax = blocksCovered;
  }

  /**
   * Walks the head of the queue and stores what is not covered yet, neighbours of one prefix in one
   * transfer. What a bound rejects is tried again at the next call.
   *
   * @param event after which the blocks are whole
   * @return blocks whose store has begun
   */
  public int cover(FreeQueue queue, DeviceEvent event) {
    int begun = 0;
    int end = Math.min(queue.size(), coveredMax);
    int place = 0;
    while (place < end) {
      var prefix = queue.prefix(place);
      if (prefix == null || isCovered(queue.deviceBlock(place), prefix, queue.position(place))) {
        place++;
        continue;
      }
      int from = queue.position(place);
      int count = 0;
      while (place < end
          && queue.prefix(place) == prefix
          && queue.position(place) == from + count
          && !isCovered(queue.deviceBlock(place), prefix, from + count)) {
        take(count++, queue.deviceBlock(place++));
      }
      store(prefix, from, Arrays.copyOf(run, count), event);
      begun += count;
    }
    return begun;
  }

  private void take(int at, int deviceBlock) {
    if (at == run.length) {
      run = Arrays.copyOf(run, 2 * at);
    }
    run[at] = deviceBlock;
  }

  private boolean isCovered(int block, BlockKeys prefix, int position) {
    return copying.get(block)
        || spillway.isKnown(group, prefix.high(position), prefix.low(position))
        || (failed.get(block)
            && storedHigh[block] == prefix.high(position)
            && storedLow[block] == prefix.low(position));
  }

  private void store(BlockKeys prefix, int from, int[] blocks, DeviceEvent event) {
    var result = spillway.store(group, prefix, from, blocks, event);
    for (int i = 0; i < blocks.length; i++) {
      remember(blocks[i], prefix.high(from + i), prefix.low(from + i));
    }
    var unused = result.thenAccept(stored -> onStored(blocks, stored));
  }

  private void remember(int block, long high, long low) {
    if (block >= storedHigh.length) {
      int capacity = Math.max(block + 1, 2 * storedHigh.length);
      storedHigh = Arrays.copyOf(storedHigh, capacity);
      storedLow = Arrays.copyOf(storedLow, capacity);
    }
    copying.set(block);
    storedHigh[block] = high;
    storedLow[block] = low;
  }

  private void onStored(int[] blocks, TransferResult result) {
    for (int i = 0; i < blocks.length; i++) {
      // One that the disk failed is given up; one that only came at a bad time is not.
      var outcome = result.outcome(i);
      failed.set(blocks[i], outcome.isOfDisk());
    }
    // How it ended is one moment, when its block may be given away another.
    var unused =
        result
            .quiet()
            .thenRun(
                () -> {
                  for (int block : blocks) {
                    copying.clear(block);
                  }
                });
  }

  /** Whether a block must not be given away yet: it is being stored. */
  public boolean isCopying(int deviceBlock) {
    return copying.get(deviceBlock);
  }

  /** Forgets what it has covered, as {@link Spillway#reset} has. */
  public void reset() {
    failed.clear();
  }
}
