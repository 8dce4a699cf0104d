package dev.spillway.block;

/** Where a block was when it ended. */
public enum BlockStage {
  QUEUED,
  READING,
  WRITING,
  VERIFYING,
  COPYING
}
