package dev.spillway.ledger;

import java.util.concurrent.CompletableFuture;

/**
 * One call to forget: over when the last slot it named was overwritten or could not be. Owned by
 * the scheduler's thread.
 */
public final class Forgetting {
  private final CompletableFuture<Integer> future = new CompletableFuture<>();
  private int open = 1; // the call itself, until all it names are known
  private int failed;

  void begin() {
    open++;
  }

  /** Answers whether it was the last. */
  boolean over(boolean clean) {
    failed += clean ? 0 : 1;
    return --open == 0;
  }

  void complete() {
    future.complete(failed);
  }

  /**
   * Everything that it names is known.
   *
   * @param all false where it may have named more, which then counts as one that is left
   */
  public void named(boolean all) {
    if (over(all)) {
      complete();
    }
  }

  /** How many blocks could not be overwritten. */
  public CompletableFuture<Integer> future() {
    return future;
  }
}
