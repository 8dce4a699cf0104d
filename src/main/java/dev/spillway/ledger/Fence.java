package dev.spillway.ledger;

import java.util.concurrent.CompletableFuture;

/**
 * Waits until no kernel and no device can touch the device blocks of some transfers any more: the
 * answer to an abort, a drain or a reset, which waits besides until the ranks have written it down.
 */
final class Fence {
  private final CompletableFuture<Void> future = new CompletableFuture<>();
  private int waiting;
  private boolean failed;

  void await(Transfer transfer) {
    transfer.add(this);
    waiting++;
  }

  /** Waits for one thing more that is not a transfer's block. */
  void awaitOne() {
    waiting++;
  }

  /** A transfer has let go; answers whether it was the last. */
  boolean letGo() {
    assert waiting > 0 : "a fence is let go of once too often";
    return --waiting == 0;
  }

  boolean isOpen() {
    return waiting == 0;
  }

  /** What it waits for will not be: a rank could not write down what a reset has voided. */
  void fail() {
    failed = true;
  }

  /** Nothing is waited for any more. */
  void complete() {
    if (failed) {
      future.completeExceptionally(
          new IllegalStateException(
              "a rank could not write down what was reset, so it may come back at the next open;"
                  + " its log says why; reset again, or empty the directory"));
    } else {
      future.complete(null);
    }
  }

  CompletableFuture<Void> future() {
    return future;
  }
}
