package dev.spillway.ledger;

import dev.spillway.block.BlockFault;
import dev.spillway.block.BlockOutcome;
import dev.spillway.block.Operation;
import dev.spillway.index.BlockIndex;
import dev.spillway.rank.RankAggregator;

/**
 * A load: an entry that a rank could not give back is invalidated with the first report of it,
 * before the caller hears, so that a retry of the same look-up cannot hit it.
 */
class LoadTransfer extends Transfer {
  LoadTransfer(BlockIndex index, int rankCount) {
    this(Operation.LOAD, index, rankCount);
  }

  LoadTransfer(Operation operation, BlockIndex index, int rankCount) {
    super(operation, index, rankCount);
  }

  /**
   * A record of an earlier process was wrong, which is no fault of the disk: a late miss, and the
   * slot is as good as before.
   */
  private boolean isStale(int entry, BlockOutcome outcome) {
    return outcome == BlockOutcome.CORRUPT && index.isUnverified(entry);
  }

  @Override
  final BlockFault told(int entry, BlockFault fault) {
    return isStale(entry, fault.outcome()) ? fault.as(BlockOutcome.REJECTED) : fault;
  }

  @Override
  final void onFault(int entry, BlockOutcome outcome, long blamingRanks) {
    if (isStale(entry, outcome)) {
      index.stale(entry);
      return;
    }
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
  final void settle(int entry, BlockOutcome outcome) {
    if (outcome == BlockOutcome.LOADED) {
      index.verified(entry);
    }
  }
}
