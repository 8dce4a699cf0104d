package dev.spillway.block;

import java.util.BitSet;
import java.util.Collections;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.concurrent.CompletionStage;

/**
 * What became of the blocks of one store or load. Blocks that went well are counted; only the
 * others are kept one by one, so that a result costs nothing for a block where nothing fails.
 * Immutable once its future completes.
 */
public final class TransferResult {
  private static final SortedMap<Integer, BlockFault> NONE =
      Collections.unmodifiableSortedMap(new TreeMap<>());

  private final Operation operation;
  private final int size;
  private final SortedMap<Integer, BlockFault> faults;
  private final BitSet present;
  private final long nanos;
  private final CompletionStage<Void> quiet;

  /**
   * @param faults blocks that did not get where they were to go, by position
   * @param present blocks of a store that were there already, by position
   * @param nanos from the call to the last ending
   * @param quiet completes when kernel and device can no longer touch the blocks
   */
  public TransferResult(
      Operation operation,
      int size,
      SortedMap<Integer, BlockFault> faults,
      BitSet present,
      long nanos,
      CompletionStage<Void> quiet) {
    this.operation = operation;
    this.size = size;
    this.faults = faults.isEmpty() ? NONE : Collections.unmodifiableSortedMap(faults);
    this.present = present;
    this.nanos = nanos;
    this.quiet = quiet;
  }

  /** Blocks that were asked for. */
  public int size() {
    return size;
  }

  /** Blocks that moved: stored or loaded now. */
  public int moved() {
    return size - faults.size() - present.cardinality();
  }

  /** Whether every block is where it was to go. */
  public boolean isWell() {
    return faults.isEmpty();
  }

  /** The blocks that failed, by their position in the call. */
  public SortedMap<Integer, BlockFault> faults() {
    return faults;
  }

  /** How many of the first blocks are well, up to the first fault. */
  public int wellPrefix() {
    return faults.isEmpty() ? size : faults.firstKey();
  }

  public BlockOutcome outcome(int position) {
    if (position < 0 || position >= size) {
      throw new IndexOutOfBoundsException("block " + position + " of " + size);
    }
    var fault = faults.get(position);
    if (fault != null) {
      return fault.outcome();
    }
    if (present.get(position)) {
      return BlockOutcome.PRESENT;
    }
    return operation == Operation.STORE ? BlockOutcome.STORED : BlockOutcome.LOADED;
  }

  /** Nanoseconds from the call to the ending of the last block. */
  public long nanos() {
    return nanos;
  }

  /**
   * The second moment of a transfer: from then on the device blocks may be reused. It has come
   * already, unless a block was cancelled or expired while kernel or device still held its memory.
   * Completed by {@code poll}; exceptionally where close had to leave memory behind.
   */
  public CompletionStage<Void> quiet() {
    return quiet;
  }

  @Override
  public String toString() {
    return "%s of %d blocks: %d moved, %d present, faults %s"
        .formatted(operation, size, moved(), present.cardinality(), faults);
  }
}
