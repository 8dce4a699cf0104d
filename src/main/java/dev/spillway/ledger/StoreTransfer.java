package dev.spillway.ledger;

import dev.spillway.block.BlockOutcome;
import dev.spillway.block.Operation;
import dev.spillway.index.BlockIndex;

/**
 * A store: each of its blocks is committed once every rank has written it, or discarded on all,
 * never before the last rank has spoken.
 */
final class StoreTransfer extends Transfer {
  StoreTransfer(BlockIndex index, int rankCount) {
    super(Operation.STORE, index, rankCount);
  }

  @Override
  void onFault(int entry, BlockOutcome outcome, boolean blamesMedium) {
    // The reservation stays until the last rank has let go of it; no look-up can see it meanwhile.
    if (blamesMedium) {
      index.retireWhenFree(entry);
    }
  }

  @Override
  void settle(int entry, BlockOutcome outcome) {
    if (outcome == BlockOutcome.STORED) {
      index.commit(entry);
    } else {
      index.discard(entry);
    }
  }
}
