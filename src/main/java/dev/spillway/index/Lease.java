package dev.spillway.index;

import dev.spillway.block.BlockKeys;

/**
 * A prefix that a look-up found: its blocks are not evicted until the lease is closed. Loading from
 * it needs it open at the call only. Owned by the scheduler's thread; closing twice is harmless.
 * One that is forgotten is closed by a poll after the collector has found it.
 */
public final class Lease implements AutoCloseable {
  private final BlockIndex index;
  private final int group;
  private final int from;
  private final int[] entries;
  private final int size;
  private final LeaseBook.Hold hold;
  private boolean closed;

  private Lease(BlockIndex index, int group, int from, int[] entries, int size) {
    this.index = index;
    this.group = group;
    this.from = from;
    this.entries = entries;
    this.size = size;
    hold = index.leases().enter(this, entries, size);
  }

  /** Takes a lease on the stored blocks of a prefix from {@code from} on, up to the first gap. */
  public static Lease take(BlockIndex index, int group, BlockKeys keys, int from) {
    var entries = new int[keys.size() - from];
    int size = index.holdPrefix(group, keys, from, entries);
    return new Lease(index, group, from, entries, size);
  }

  /** Takes a lease on blocks {@code from} to {@code until}, which are all stored. */
  static Lease ofRange(BlockIndex index, int group, BlockKeys keys, int from, int until) {
    var entries = new int[Math.max(0, until - from)];
    for (int i = 0; i < entries.length; i++) {
      entries[i] = index.find(group, keys.high(from + i), keys.low(from + i));
      assert entries[i] >= 0 : "block " + (from + i) + " of group " + group + " is not stored";
      index.hold(entries[i]);
    }
    return new Lease(index, group, from, entries, entries.length);
  }

  public boolean isClosed() {
    return closed;
  }

  public int group() {
    return group;
  }

  /** The position in the prefix of the first block leased. */
  public int from() {
    return from;
  }

  /** How many blocks are leased. */
  public int size() {
    return size;
  }

  public boolean isEmpty() {
    return size == 0;
  }

  /** Refuses a load from this lease by whoever has another index, or after it was closed. */
  public void checkUsableBy(BlockIndex caller) {
    if (caller != index) {
      throw new IllegalArgumentException("the lease is of another Spillway; look up in this one");
    }
    if (closed) {
      throw new IllegalStateException("the lease is closed; load from it before closing it");
    }
  }

  /** The index entry of a leased block: for the ledger. */
  public int entry(int position) {
    checkUsableBy(index);
    if (position < 0 || position >= size) {
      throw new IndexOutOfBoundsException("block " + position + " of " + size + " leased");
    }
    return entries[position];
  }

  @Override
  public void close() {
    closed = true;
    index.leases().release(hold);
  }
}
