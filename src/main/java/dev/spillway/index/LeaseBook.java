package dev.spillway.index;

import java.lang.ref.PhantomReference;
import java.lang.ref.ReferenceQueue;
import java.util.HashSet;
import java.util.Set;

/**
 * The leases that are open. One that nobody closed and nobody has any more is found here once the
 * collector has taken it, so that a request which was never scheduled costs no slot for ever. Owned
 * by the scheduler's thread.
 */
final class LeaseBook {
  private final BlockIndex index;
  private final Set<Hold> open = new HashSet<>();
  private final ReferenceQueue<Lease> collected = new ReferenceQueue<>();
  private long forgotten;

  LeaseBook(BlockIndex index) {
    this.index = index;
  }

  /** What a lease holds; it outlives the lease. */
  static final class Hold extends PhantomReference<Lease> {
    private final int[] entries;
    private final int size;

    private Hold(Lease lease, int[] entries, int size, ReferenceQueue<Lease> collected) {
      super(lease, collected);
      this.entries = entries;
      this.size = size;
    }
  }

  /** Enters a lease whose first {@code size} entries are held. */
  Hold enter(Lease lease, int[] entries, int size) {
    var hold = new Hold(lease, entries, size, collected);
    open.add(hold);
    return hold;
  }

  /** Lets go of what a lease holds, once. */
  void release(Hold hold) {
    if (open.remove(hold)) {
      for (int i = 0; i < hold.size; i++) {
        index.release(hold.entries[i]);
      }
    }
  }

  /** Closes the leases that were forgotten, and answers how many. */
  int releaseForgotten() {
    int count = 0;
    for (var hold = collected.poll(); hold != null; hold = collected.poll()) {
      if (open.contains((Hold) hold)) {
        release((Hold) hold);
        count++;
      }
    }
    forgotten += count;
    return count;
  }

  int openCount() {
    return open.size();
  }

  long forgottenCount() {
    return forgotten;
  }
}
