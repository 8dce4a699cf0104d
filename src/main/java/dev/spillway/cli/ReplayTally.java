package dev.spillway.cli;

import org.HdrHistogram.Histogram;

/** What the replay counts as it goes. Owned by its thread. */
final class ReplayTally {
  private static final long LATENCY_MICROS_MAX = 3_600_000_000L;

  long requests;
  long promptTokens;
  long deviceTokens;
  long diskTokens;
  long blockReferences;
  long deviceHitBlocks;
  long diskHitBlocks;
  long blocksVerified;
  long wrongBlocks;
  long affectedRequests;
  long failedRequests;
  long abortedRequests;
  long preemptions;
  long lostTokens;
  final Histogram loadMicros = new Histogram(LATENCY_MICROS_MAX, 3);

  /** A request's prefix was served: so many blocks from the device, then so many from disk. */
  void served(Request request, int deviceBlocks, int diskBlocks, int blockTokens) {
    promptTokens += request.inputTokens();
    blockReferences += request.blockIds().length;
    deviceHitBlocks += deviceBlocks;
    diskHitBlocks += diskBlocks;
    // The last block of a prompt may be partly filled.
    long device = Math.min(request.inputTokens(), (long) deviceBlocks * blockTokens);
    long both = Math.min(request.inputTokens(), (long) (deviceBlocks + diskBlocks) * blockTokens);
    deviceTokens += device;
    diskTokens += both - device;
  }

  void loaded(long nanos) {
    loadMicros.recordValue(Math.min(nanos / 1000, LATENCY_MICROS_MAX));
  }

  void verified(boolean right) {
    blocksVerified++;
    wrongBlocks += right ? 0 : 1;
  }
}
