package dev.spillway.engine;

import java.nio.ByteBuffer;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;

/**
 * The books of one or more lanes over completions that were no plain success. Cause by cause, what
 * was seen is what was recovered, what ended a block and what came for a block that had ended
 * before; and where faults are made on purpose and the disk makes none, it is what was injected.
 *
 * @param seen by the lane
 * @param recovered resumed, or tried again
 * @param ended the block ended with it
 * @param discarded the block had ended before
 * @param injected by a faulty ring
 */
public record FaultCounts(
    Map<Cause, Long> seen,
    Map<Cause, Long> recovered,
    Map<Cause, Long> ended,
    Map<Cause, Long> discarded,
    Map<Cause, Long> injected) {

  /** What a completion shows, in the order of {@code base/Status.h}. */
  public enum Cause {
    READ_ERROR,
    WRITE_ERROR,
    SHORT,
    CORRUPT,
    /** Refused for the moment. */
    TRANSIENT
  }

  private static final Cause[] CAUSES = Cause.values();
  static final int COUNT = 5 * CAUSES.length;

  public static final FaultCounts NONE =
      new FaultCounts(Map.of(), Map.of(), Map.of(), Map.of(), Map.of());

  static FaultCounts read(ByteBuffer counters, int at) {
    int row = CAUSES.length * Long.BYTES;
    return new FaultCounts(
        row(counters, at),
        row(counters, at + row),
        row(counters, at + 2 * row),
        row(counters, at + 3 * row),
        row(counters, at + 4 * row));
  }

  void write(ByteBuffer target) {
    for (var row : List.of(seen, recovered, ended, discarded, injected)) {
      for (var cause : CAUSES) {
        target.putLong(of(row, cause));
      }
    }
  }

  private static Map<Cause, Long> row(ByteBuffer counters, int at) {
    var row = new EnumMap<Cause, Long>(Cause.class);
    int place = at;
    for (var cause : CAUSES) {
      row.put(cause, counters.getLong(place));
      place += Long.BYTES;
    }
    return row;
  }

  public FaultCounts plus(FaultCounts other) {
    return new FaultCounts(
        sum(seen, other.seen),
        sum(recovered, other.recovered),
        sum(ended, other.ended),
        sum(discarded, other.discarded),
        sum(injected, other.injected));
  }

  private static Map<Cause, Long> sum(Map<Cause, Long> one, Map<Cause, Long> other) {
    var sum = new EnumMap<Cause, Long>(Cause.class);
    for (var cause : CAUSES) {
      sum.put(cause, of(one, cause) + of(other, cause));
    }
    return sum;
  }

  /** Whether what was seen is what was recovered, ended or discarded. */
  public boolean balances() {
    for (var cause : CAUSES) {
      if (of(seen, cause) != of(recovered, cause) + of(ended, cause) + of(discarded, cause)) {
        return false;
      }
    }
    return true;
  }

  public static long of(Map<Cause, Long> counts, Cause cause) {
    return counts.getOrDefault(cause, 0L);
  }

  public static long total(Map<Cause, Long> counts) {
    return counts.values().stream().mapToLong(Long::longValue).sum();
  }
}
