package dev.spillway;

import java.time.Duration;

/**
 * Whether a lease has lapsed. After a pause of this very process what was heard may still wait in
 * the channel; so silence must be found twice, some time apart.
 */
final class Lapse {
  private final long leaseNanos;
  private long suspectedAt;
  private long suspectedHeardAt;
  private boolean suspected;

  Lapse(Duration lease) {
    leaseNanos = lease.toNanos();
  }

  /**
   * @param heardAt when the other end was heard last
   */
  boolean hasLapsed(long heardAt) {
    long now = System.nanoTime();
    if (now - heardAt <= leaseNanos) {
      suspected = false;
      return false;
    }
    if (!suspected || heardAt != suspectedHeardAt) {
      suspected = true;
      suspectedAt = now;
      suspectedHeardAt = heardAt;
      return false;
    }
    return now - suspectedAt > leaseNanos / RemoteRank.BEATS;
  }
}
