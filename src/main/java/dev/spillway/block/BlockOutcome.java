package dev.spillway.block;

/**
 * How a block ended. Every block submitted ends exactly once, in one of these; they answer the
 * questions that callers would otherwise switch over. Where each comes from and what follows is in
 * {@code docs/FAILURES.md}.
 */
public enum BlockOutcome {
  /** Written in full on every rank; look-ups find it. */
  STORED,
  /** Read in full, verified and copied; the device block holds what was stored. */
  LOADED,
  /** A store of a key that is stored or being stored already: nothing moved. */
  PRESENT,
  /** The kernel refused the read. */
  READ_ERROR,
  /** The kernel refused the write; no space and quota included. */
  WRITE_ERROR,
  /** End of file, or no progress before the block was whole. */
  SHORT,
  /** The bytes differ from what was stored under this key and generation. */
  CORRUPT,
  /** Close, abort or reset came first. */
  CANCELLED,
  /** The time it was given had passed; a load is a miss then, and the entry stays. */
  EXPIRED,
  /** A bound was reached, or the entry was gone when its load began; nothing changed. */
  REJECTED,
  /** Device, event, stream or ring failed; the rank is lost until it is opened again. */
  ENGINE_FAILED;

  /** Whether the block is where it was to go. */
  public boolean isWell() {
    return switch (this) {
      case STORED, LOADED, PRESENT -> true;
      case READ_ERROR, WRITE_ERROR, SHORT, CORRUPT, CANCELLED, EXPIRED, REJECTED, ENGINE_FAILED ->
          false;
    };
  }

  /** Whether a load that ended so proves the entry useless: no later look-up may find it. */
  public boolean invalidatesEntry() {
    return switch (this) {
      case READ_ERROR, SHORT, CORRUPT -> true;
      case STORED, LOADED, PRESENT, WRITE_ERROR, CANCELLED, EXPIRED, REJECTED, ENGINE_FAILED ->
          false;
    };
  }

  /** Whether a load that ended so found nothing wrong: as if the look-up had missed. */
  public boolean isLateMiss() {
    return switch (this) {
      case CANCELLED, EXPIRED, REJECTED -> true;
      case STORED, LOADED, PRESENT, READ_ERROR, WRITE_ERROR, SHORT, CORRUPT, ENGINE_FAILED -> false;
    };
  }

  /** Whether the disk had a part in it. */
  public boolean isOfDisk() {
    return switch (this) {
      case READ_ERROR, WRITE_ERROR, SHORT, CORRUPT -> true;
      case STORED, LOADED, PRESENT, CANCELLED, EXPIRED, REJECTED, ENGINE_FAILED -> false;
    };
  }

  /** Whether the engine has ended with this block. */
  public boolean isFatal() {
    return this == ENGINE_FAILED;
  }
}
