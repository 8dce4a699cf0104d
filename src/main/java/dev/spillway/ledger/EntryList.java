package dev.spillway.ledger;

import java.util.Arrays;
import java.util.function.IntConsumer;

/** Index entries, kept for the length of a call; keeps its room. */
final class EntryList {
  private int[] entries = new int[64];
  private int size;

  void add(int entry) {
    if (size == entries.length) {
      entries = Arrays.copyOf(entries, 2 * size);
    }
    entries[size++] = entry;
  }

  void forEach(IntConsumer action) {
    for (int i = 0; i < size; i++) {
      action.accept(entries[i]);
    }
  }

  void clear() {
    size = 0;
  }
}
