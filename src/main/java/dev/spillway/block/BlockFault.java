package dev.spillway.block;

/**
 * Why a block did not get where it was to go.
 *
 * @param outcome the cause
 * @param stage where the block was
 * @param errno the kernel's error number, 0 where there was none
 * @param slot the slot of the group on disk, -1 where the block had none
 * @param bytesDone payload bytes that the disk moved
 * @param bytesWanted payload bytes of the block
 */
public record BlockFault(
    BlockOutcome outcome, BlockStage stage, int errno, int slot, int bytesDone, int bytesWanted) {

  /** A fault of a block that never left Java. */
  public static BlockFault unmoved(BlockOutcome outcome, int bytesWanted) {
    return new BlockFault(outcome, BlockStage.QUEUED, 0, -1, 0, bytesWanted);
  }

  /** The same under another name. */
  public BlockFault as(BlockOutcome other) {
    return new BlockFault(other, stage, errno, slot, bytesDone, bytesWanted);
  }

  @Override
  public String toString() {
    return "%s while %s (errno %d, slot %d, %d of %d bytes)"
        .formatted(outcome, stage, errno, slot, bytesDone, bytesWanted);
  }
}
