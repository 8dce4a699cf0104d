package dev.spillway.ledger;

import dev.spillway.block.BlockOutcome;
import dev.spillway.block.Operation;
import dev.spillway.index.BlockIndex;
import dev.spillway.rank.RankAggregator;
import java.util.function.IntConsumer;

/**
 * A store: each of its blocks is committed once every rank has written it, or discarded on all,
 * never before the last rank has spoken.
 */
final class StoreTransfer extends Transfer {
  StoreTransfer(BlockIndex index, int rankCount) {
    super(Operation.STORE, index, rankCount);
  }

  /** Those of its blocks that look-ups find already. */
  void eachStored(IntConsumer action) {
    for (int i = 0; i < plan.size(); i++) {
      int entry = entry(plan.position(i));
      if (index.isStored(entry) && index.generation(entry) == plan.generation(i)) {
        action.accept(entry);
      }
    }
  }

  @Override
  void onFault(int entry, BlockOutcome outcome, long blamingRanks) {
    // The reservation stays until the last rank has let go of it; no look-up can see it meanwhile.
    index.blame(entry, blamingRanks);
  }

  @Override
  boolean isUnwanted(int entry) {
    return !index.isReserved(entry);
  }

  @Override
  boolean isReleased(RankAggregator ranks, int position) {
    return ranks.isCopied(position);
  }

  @Override
  void settle(int entry, BlockOutcome outcome) {
    if (!index.isReserved(entry)) {
      return; // a reset came first
    }
    if (outcome == BlockOutcome.STORED) {
      index.commit(entry);
    } else {
      index.discard(entry);
    }
  }
}
