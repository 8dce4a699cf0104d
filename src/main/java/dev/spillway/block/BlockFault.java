package dev.spillway.block;

import java.util.Optional;

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

  /** What the file system refuses to every store, whatever its slot; loads go on. */
  public enum NoRoom {
    /** No block of it is left: {@code ENOSPC}. */
    FULL(28),
    /** The quota of the user, group or project is used up: {@code EDQUOT}. */
    OVER_QUOTA(122),
    /** The process may write no file so long: {@code EFBIG}. */
    FILE_LIMIT(27),
    /** It was mounted or remounted read-only: {@code EROFS}. */
    READ_ONLY(30);

    private final int errno;

    NoRoom(int errno) {
      this.errno = errno;
    }

    /** Whether it is over as soon as something of the file is given back. */
    public boolean isForWantOfSpace() {
      return this == FULL || this == OVER_QUOTA;
    }
  }

  /** Which of them this is, or empty where it is another fault. */
  public Optional<NoRoom> noRoom() {
    return noRoom(errno);
  }

  /** What the kernel's error number says, or empty. */
  public static Optional<NoRoom> noRoom(int errno) {
    for (var each : NoRoom.values()) {
      if (each.errno == errno) {
        return Optional.of(each);
      }
    }
    return Optional.empty();
  }

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
    return "%s while %s (errno %d%s, slot %d, %d of %d bytes)"
        .formatted(
            outcome,
            stage,
            errno,
            noRoom().map(each -> ": " + each).orElse(""),
            slot,
            bytesDone,
            bytesWanted);
  }
}
