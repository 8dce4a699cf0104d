package dev.spillway.ledger;

import dev.spillway.block.Operation;
import java.util.ArrayDeque;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The transfers that are over and whose results are to be completed: as they end, or, for callers
 * who ask for it, in the order in which they were begun, stores and loads each in a line of their
 * own. Trials of retired slots and the scrub are nobody's and wait for nobody. Owned by the
 * scheduler's thread.
 */
final class CompletionLine {
  private final boolean ordered;
  private final ArrayDeque<Transfer> over = new ArrayDeque<>();
  private final ArrayDeque<Transfer> stores = new ArrayDeque<>();
  private final ArrayDeque<Transfer> loads = new ArrayDeque<>();
  private final List<ArrayDeque<Transfer>> lines = List.of(stores, loads);
  private long begun;

  CompletionLine(boolean ordered) {
    this.ordered = ordered;
  }

  /** A store or a load has begun. */
  void begun(Transfer transfer) {
    transfer.begunAs(++begun);
    if (ordered) {
      (transfer.plan.operation() == Operation.STORE ? stores : loads).add(transfer);
    }
  }

  /** The last block of a transfer has ended on its last rank. */
  void over(Transfer transfer) {
    if (!ordered || transfer.isOurOwn()) {
      over.add(transfer);
    }
  }

  /** How many have begun: what begins from now on is for the next round. */
  long round() {
    return begun;
  }

  /** The next of a round whose result is to be completed, or null. */
  @Nullable Transfer next(long round) {
    for (var line : lines) {
      var head = line.peek();
      if (head != null && head.isOver() && head.begunAs() <= round) {
        return line.poll();
      }
    }
    var first = over.peek();
    return first != null && first.begunAs() <= round ? over.poll() : null;
  }

  boolean isEmpty() {
    return over.isEmpty()
        && lines.stream().allMatch(line -> line.isEmpty() || !line.element().isOver());
  }
}
