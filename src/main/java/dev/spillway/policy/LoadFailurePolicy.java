package dev.spillway.policy;

import dev.spillway.block.BlockOutcome;
import java.util.Set;

/**
 * What is to become of a request some of whose blocks could not be loaded. Asked once for each such
 * load, on the scheduler's thread, after the entries are invalidated; the user's to implement. A
 * policy decides for its own request and for no other.
 */
@FunctionalInterface
public interface LoadFailurePolicy {
  /** What a policy can decide. */
  enum Decision {
    /** The request ends with an error. */
    FAIL,
    /** It goes on, from the longest prefix that is valid in every group. */
    RECOMPUTE
  }

  /**
   * @param causes how the blocks that failed ended
   * @param validTokens the longest prefix that is valid in every group
   * @param askedTokens the prefix that was to be loaded
   */
  Decision decide(Set<BlockOutcome> causes, int validTokens, int askedTokens);

  /**
   * Ends a request that owns a block that was lost; the default. A block that nothing was wrong
   * with, but that came too late or was refused, is recomputed all the same.
   */
  static LoadFailurePolicy fail() {
    return (causes, validTokens, askedTokens) ->
        causes.stream().allMatch(BlockOutcome::isLateMiss) ? Decision.RECOMPUTE : Decision.FAIL;
  }

  /** Never ends a request for a block that can be computed again. */
  static LoadFailurePolicy recompute() {
    return (causes, validTokens, askedTokens) -> Decision.RECOMPUTE;
  }
}
