package dev.spillway.policy;

/**
 * Decides which stores are worth a write. Called on the scheduler's thread, once a store; must not
 * block.
 */
@FunctionalInterface
public interface AdmissionPolicy {
  /**
   * Whether to store.
   *
   * @param group KV group
   * @param from position in the prefix of the first block
   * @param blockCount blocks from there on
   */
  boolean admit(int group, int from, int blockCount);

  /** Everything is worth it. */
  static AdmissionPolicy always() {
    return (group, from, blockCount) -> true;
  }
}
