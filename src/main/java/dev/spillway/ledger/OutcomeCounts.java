package dev.spillway.ledger;

import dev.spillway.block.BlockOutcome;
import java.util.EnumMap;
import java.util.Map;

/** How many blocks ended in each outcome: an array, since this is counted for every block. */
final class OutcomeCounts {
  private final long[] counts = new long[BlockOutcome.values().length];

  @SuppressWarnings("EnumOrdinal") // an index into an array that lives and dies with the process
  void add(BlockOutcome outcome) {
    counts[outcome.ordinal()]++;
  }

  @SuppressWarnings("EnumOrdinal")
  void add(BlockOutcome outcome, long count) {
    counts[outcome.ordinal()] += count;
  }

  @SuppressWarnings("EnumOrdinal")
  long get(BlockOutcome outcome) {
    return counts[outcome.ordinal()];
  }

  Map<BlockOutcome, Long> byName() {
    var map = new EnumMap<BlockOutcome, Long>(BlockOutcome.class);
    for (var outcome : BlockOutcome.values()) {
      map.put(outcome, get(outcome));
    }
    return map;
  }
}
