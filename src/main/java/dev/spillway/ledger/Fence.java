package dev.spillway.ledger;

import java.util.concurrent.CompletableFuture;

/**
 * Waits until no kernel and no device can touch the device blocks of some transfers any more: the
 * answer to an abort, a drain or a reset, which waits besides until the ranks have written it down.
 */
final class Fence {
  private final CompletableFuture<Void> future = new CompletableFuture<>();
  private int waiting;

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

  CompletableFuture<Void> future() {
    return future;
  }
}
