package dev.spillway.ledger;

import dev.spillway.block.BlockOutcome;
import dev.spillway.block.Operation;
import dev.spillway.index.BlockIndex;
import dev.spillway.rank.RankAggregator;

/** A transfer of the ledger's own: no caller waits for it, and it holds no device block of one. */
abstract class OwnTransfer extends Transfer {
  OwnTransfer(Operation operation, BlockIndex index, int rankCount) {
    super(operation, index, rankCount);
  }

  @Override
  final boolean isOurOwn() {
    return true;
  }

  @Override
  final boolean isReleased(RankAggregator ranks, int position) {
    return true;
  }

  @Override
  void onFault(int entry, BlockOutcome outcome, long blamingRanks) {}

  @Override
  void onQuiet(int entry) {}
}
