package dev.spillway.ledger;

import dev.spillway.block.Operation;
import dev.spillway.index.BlockIndex;
import dev.spillway.rank.RankAggregator;

/** A stored block is read and compared on every rank; one that is bad is lost as by a load. */
final class ScrubTransfer extends LoadTransfer {
  ScrubTransfer(BlockIndex index, int rankCount) {
    super(Operation.VERIFY, index, rankCount);
  }

  @Override
  boolean isOurOwn() {
    return true;
  }

  @Override
  boolean isReleased(RankAggregator ranks, int position) {
    return true;
  }
}
