package dev.spillway.ledger;

import dev.spillway.block.BlockOutcome;
import dev.spillway.block.Operation;
import dev.spillway.index.BlockIndex;
import dev.spillway.rank.RankAggregator;

/**
 * A load: an entry that a rank could not give back is invalidated with the first report of it,
 * before the caller hears, so that a retry of the same look-up cannot hit it.
 */
final class LoadTransfer extends Transfer {
  LoadTransfer(BlockIndex index, int rankCount) {
    super(Operation.LOAD, index, rankCount);
  }

  @Override
  void onFault(int entry, BlockOutcome outcome, long blamingRanks) {
    index.blame(entry, blamingRanks);
    if (outcome.invalidatesEntry()) {
      index.invalidate(entry);
    }
  }

  @Override
  boolean isReleased(RankAggregator ranks, int position) {
    return ranks.isQuiet(position);
  }

  @Override
  void settle(int entry, BlockOutcome outcome) {
    // A load changes nothing in the index but what onFault has done.
  }
}
