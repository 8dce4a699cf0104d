package dev.spillway.block;

/** What is asked for blocks. */
public enum Operation {
  /** Device to disk. */
  STORE,
  /** Disk to device. */
  LOAD,
  /** A slot is written, read and compared in place; no device block takes part. */
  PROBE,
  /** A block is read and its checksum compared; no device block takes part. */
  VERIFY,
  /** The blocks of a transfer end now; those that kernel or device hold are quiet later. */
  CANCEL,
  /** Those of a transfer's blocks that have not started end; the others go on. */
  DRAIN,
  /** No block of a generation up to this is restored by a later process. */
  FORGET,
  /** Slots whose blocks were used: a word for their records, which may get lost. */
  TOUCH,
  /** Slots that hold nothing: what they take up on disk goes back, before the plans behind. */
  PUNCH;

  /** Whether what is stored is read, and so fails as a load does. */
  public boolean reads() {
    return this == LOAD || this == VERIFY;
  }

  /** Whether it is a word about blocks that are on their way. */
  public boolean isCommand() {
    return switch (this) {
      case CANCEL, DRAIN, FORGET, TOUCH, PUNCH -> true;
      case STORE, LOAD, PROBE, VERIFY -> false;
    };
  }
}
