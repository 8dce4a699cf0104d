package dev.spillway.index;

import dev.spillway.block.KvLayout;

/**
 * Which prefixes of a request are usable, given the blocks that are there: a prefix of so many
 * tokens is valid if every group has the blocks that it needs for it. Full attention needs all of
 * them, a sliding window those of its window, recurrent state the snapshot at the very end. Usable
 * lengths are whole blocks in every group, so multiples of {@link #unitTokens}. Immutable.
 */
public final class PrefixRule {
  /** Whether a group's block is there, by its position in the prefix. */
  @FunctionalInterface
  public interface Blocks {
    boolean areThere(int group, int block);
  }

  private static final int UNIT_MAX = 1 << 24;

  private final KvLayout layout;
  private final int unitTokens;

  /**
   * @throws IllegalArgumentException where the groups' blocks have no common multiple that a
   *     request could reach, naming the two that do not go together
   */
  public PrefixRule(KvLayout layout) {
    this.layout = layout;
    long unit = 1;
    for (var group : layout.groups()) {
      long common = unit / greatestDivisor(unit, group.blockTokens()) * group.blockTokens();
      if (common > UNIT_MAX) {
        throw new IllegalArgumentException(
            "blocks of %d tokens in group %s and of %d in those before it meet only every %d tokens; at most %d would be right"
                .formatted(group.blockTokens(), group.name(), unit, common, UNIT_MAX));
      }
      unit = common;
    }
    unitTokens = (int) unit;
  }

  /** The common multiple of the groups' block sizes: usable prefixes are multiples of it. */
  public int unitTokens() {
    return unitTokens;
  }

  /** Blocks of a group in a prefix of so many tokens, a multiple of the unit. */
  public int blocksOf(int group, int tokens) {
    return tokens / layout.group(group).blockTokens();
  }

  /** The first block of a group that a prefix of so many tokens needs. */
  public int firstNeeded(int group, int tokens) {
    var shape = layout.group(group);
    int blocks = tokens / shape.blockTokens();
    return switch (shape.attention().kind()) {
      case FULL -> 0;
      case SLIDING -> Math.max(0, tokens - shape.attention().windowTokens()) / shape.blockTokens();
      case RECURRENT -> Math.max(0, blocks - 1);
    };
  }

  /**
   * The longest usable prefix.
   *
   * @param fromTokens what the device has already, a multiple of the unit; blocks before are there
   * @param untilTokens the longest that is asked for
   * @return at least {@code fromTokens}
   */
  public int longest(int fromTokens, int untilTokens, Blocks blocks) {
    int tokens = unitTokens * (fullUntil(fromTokens, untilTokens, blocks) / unitTokens);
    while (tokens > fromTokens && !isValid(fromTokens, tokens, blocks)) {
      tokens -= unitTokens;
    }
    return Math.max(fromTokens, tokens);
  }

  /** Up to the first block that a group of full attention misses: no longer prefix can be valid. */
  private int fullUntil(int fromTokens, int untilTokens, Blocks blocks) {
    int until = untilTokens;
    for (int group = 0; group < layout.groups().size(); group++) {
      var shape = layout.group(group);
      if (shape.attention().kind() != KvLayout.Attention.Kind.FULL) {
        continue;
      }
      int block = fromTokens / shape.blockTokens();
      while ((long) (block + 1) * shape.blockTokens() <= until && blocks.areThere(group, block)) {
        block++;
      }
      until = Math.min(until, block * shape.blockTokens());
    }
    return until;
  }

  private boolean isValid(int fromTokens, int tokens, Blocks blocks) {
    for (int group = 0; group < layout.groups().size(); group++) {
      if (layout.group(group).attention().kind() == KvLayout.Attention.Kind.FULL) {
        continue; // seen to by fullUntil
      }
      int first = Math.max(firstNeeded(group, tokens), blocksOf(group, fromTokens));
      for (int block = blocksOf(group, tokens) - 1; block >= first; block--) {
        if (!blocks.areThere(group, block)) {
          return false;
        }
      }
    }
    return true;
  }

  private static long greatestDivisor(long one, long other) {
    return other == 0 ? one : greatestDivisor(other, one % other);
  }
}
