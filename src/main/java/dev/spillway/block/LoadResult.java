package dev.spillway.block;

import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.SortedSet;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;

/**
 * What became of one request's load over all its KV groups. Immutable.
 *
 * @param groups what became of each group's blocks, positions counted from its first
 * @param firstBlocks the position in the prefix of each group's first block
 * @param askedTokens the prefix that was to be loaded
 * @param validTokens the longest prefix that is now valid in every group, at least what the device
 *     had; the request is to be computed from here. Of a sliding window only the end was loaded, so
 *     this may be far before the fault; the next look-up finds what is on disk for a shorter prefix
 * @param fails whether the request's policy ends it; never where nothing failed
 */
public record LoadResult(
    List<TransferResult> groups,
    List<Integer> firstBlocks,
    int askedTokens,
    int validTokens,
    boolean fails) {
  public LoadResult {
    groups = List.copyOf(groups);
    firstBlocks = List.copyOf(firstBlocks);
  }

  /** Whether every block is on the device. */
  public boolean isWell() {
    return groups.stream().allMatch(TransferResult::isWell);
  }

  /** The blocks of a group that failed, by their position in the prefix. */
  public SortedSet<Integer> failedBlocks(int group) {
    var blocks = new TreeSet<Integer>();
    groups.get(group).faults().keySet().forEach(at -> blocks.add(firstBlocks.get(group) + at));
    return blocks;
  }

  /** How the blocks that failed ended. */
  public Set<BlockOutcome> causes() {
    var causes = EnumSet.noneOf(BlockOutcome.class);
    groups.forEach(group -> group.faults().values().forEach(fault -> causes.add(fault.outcome())));
    return causes;
  }

  /** Completes when the device blocks may be reused. */
  public CompletionStage<Void> quiet() {
    return CompletableFuture.allOf(
        groups.stream()
            .map(group -> group.quiet().toCompletableFuture())
            .toArray(CompletableFuture[]::new));
  }
}
