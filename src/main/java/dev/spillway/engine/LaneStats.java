package dev.spillway.engine;

import java.nio.ByteBuffer;

/**
 * Counters of one lane since open.
 *
 * @param ended blocks
 * @param faulted blocks among them
 * @param resumed requests that came back short and were continued
 * @param retried requests that the kernel refused for the moment
 * @param strays completions that belonged to no request; must be 0
 * @param inFlightMax requests in flight at most
 * @param busyNanos time with at least one request in flight
 * @param inFlightNanos sum over that time of the requests in flight
 * @param enters system calls of the ring, or hand-overs to threads
 * @param submitRetries submissions that the kernel put off
 * @param overflows completions that did not fit; must be 0
 * @param faults completions that were no plain success, and what became of them
 */
public record LaneStats(
    long ended,
    long faulted,
    long resumed,
    long retried,
    long strays,
    long inFlightMax,
    long busyNanos,
    long inFlightNanos,
    long enters,
    long submitRetries,
    long overflows,
    FaultCounts faults) {
  static final int COUNT = 11 + FaultCounts.COUNT;

  /** Requests in flight on average, over the time when there was any. */
  public double inFlightMean() {
    return busyNanos == 0 ? 0 : (double) inFlightNanos / busyNanos;
  }

  /** Of several lanes together; the most in flight is that of one of them. */
  public LaneStats plus(LaneStats other) {
    return new LaneStats(
        ended + other.ended,
        faulted + other.faulted,
        resumed + other.resumed,
        retried + other.retried,
        strays + other.strays,
        Math.max(inFlightMax, other.inFlightMax),
        busyNanos + other.busyNanos,
        inFlightNanos + other.inFlightNanos,
        enters + other.enters,
        submitRetries + other.submitRetries,
        overflows + other.overflows,
        faults.plus(other.faults));
  }

  void write(ByteBuffer target) {
    target.putLong(ended).putLong(faulted).putLong(resumed).putLong(retried).putLong(strays);
    target.putLong(inFlightMax).putLong(busyNanos).putLong(inFlightNanos).putLong(enters);
    target.putLong(submitRetries).putLong(overflows);
    faults.write(target);
  }

  static LaneStats read(ByteBuffer counters, int lane) {
    int at = lane * COUNT * Long.BYTES;
    return new LaneStats(
        counters.getLong(at),
        counters.getLong(at + 8),
        counters.getLong(at + 16),
        counters.getLong(at + 24),
        counters.getLong(at + 32),
        counters.getLong(at + 40),
        counters.getLong(at + 48),
        counters.getLong(at + 56),
        counters.getLong(at + 64),
        counters.getLong(at + 72),
        counters.getLong(at + 80),
        FaultCounts.read(counters, at + 88));
  }
}
