package dev.spillway.block;

import java.util.Arrays;
import java.util.List;

/**
 * The keys of a prefix in order, from its root. Grows as keys are added and keeps its room when
 * cleared, so that one object serves a request after another. Not thread-safe; Spillway reads it
 * during a call only.
 */
public final class BlockKeys {
  private long[] words = new long[32];
  private int size;
  private long tenant;

  public static BlockKeys of(List<BlockKey> keys) {
    var list = new BlockKeys();
    keys.forEach(list::add);
    return list;
  }

  public BlockKeys add(BlockKey key) {
    return add(key.high(), key.low());
  }

  public BlockKeys add(long high, long low) {
    if (2 * size == words.length) {
      words = Arrays.copyOf(words, 2 * words.length);
    }
    words[2 * size] = high;
    words[2 * size + 1] = low;
    size++;
    return this;
  }

  public void clear() {
    size = 0;
    tenant = 0;
  }

  /** Says whose blocks these are, so that they can be forgotten together; 0 unless said. */
  public BlockKeys ofTenant(long tag) {
    tenant = tag;
    return this;
  }

  /** As {@link PrefixHasher#tenantOf} makes it of a salt. */
  public long tenant() {
    return tenant;
  }

  public int size() {
    return size;
  }

  public boolean isEmpty() {
    return size == 0;
  }

  public long high(int index) {
    return words[2 * checkIndex(index)];
  }

  public long low(int index) {
    return words[2 * checkIndex(index) + 1];
  }

  public BlockKey get(int index) {
    return new BlockKey(high(index), low(index));
  }

  private int checkIndex(int index) {
    if (index < 0 || index >= size) {
      throw new IndexOutOfBoundsException("key " + index + " of " + size);
    }
    return index;
  }
}
