package dev.spillway.ledger;

import dev.spillway.block.BlockOutcome;
import dev.spillway.block.DeviceEvent;
import dev.spillway.block.Operation;
import dev.spillway.block.RankReport;
import dev.spillway.index.BlockIndex;

/**
 * Blocks of a store for which a rank had no room are written there once more, after others have
 * given way. What the rank tells of them is then told of the store, which has heard nothing yet:
 * its positions are the same.
 */
final class SecondTry extends OwnTransfer {
  private final StoreTransfer first;

  SecondTry(BlockIndex index, int rankCount, StoreTransfer first) {
    super(Operation.STORE, index, rankCount);
    this.first = first;
  }

  /** The store that the blocks belong to. */
  StoreTransfer first() {
    return first;
  }

  /** Their source was whole when it was first copied. */
  void begin(long now) {
    begin(
        first.request(),
        first.plan.group(),
        first.size(),
        first.blockBytes(),
        DeviceEvent.NOW,
        now);
    plan.bound(first.plan.boundNanos());
  }

  /** Takes in a block that a rank had no room for. */
  void add(RankReport report, int at) {
    planAgain(first, first.plan.indexOf(report.position(at)), report.rank());
  }

  @Override
  boolean countsFaults() {
    return false; // the store that it is told of does
  }

  @Override
  void settle(int entry, BlockOutcome outcome) {}
}
