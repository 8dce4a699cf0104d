package dev.spillway.index;

import dev.spillway.block.BlockKeys;
import java.util.ArrayList;
import java.util.List;

/**
 * The longest prefix that a look-up found usable in every KV group: its blocks are not evicted
 * until the lease is closed. In a group with a sliding window or recurrent state only the blocks
 * that the prefix needs are leased. Owned by the scheduler's thread; closing twice is harmless.
 */
public final class PrefixLease implements AutoCloseable {
  private final List<Lease> leases;
  private final int fromTokens;
  private final int tokens;

  private PrefixLease(List<Lease> leases, int fromTokens, int tokens) {
    this.leases = leases;
    this.fromTokens = fromTokens;
    this.tokens = tokens;
  }

  /**
   * @param keys of the prefix in each group, group 0 first
   * @param fromTokens what the device has already in every group
   * @param untilTokens the longest prefix that is wanted
   */
  public static PrefixLease take(
      BlockIndex index, PrefixRule rule, List<BlockKeys> keys, int fromTokens, int untilTokens) {
    int tokens =
        rule.longest(
            fromTokens,
            untilTokens,
            (group, block) -> {
              var chain = keys.get(group);
              return block < chain.size()
                  && index.find(group, chain.high(block), chain.low(block)) >= 0;
            });
    var leases = new ArrayList<Lease>();
    for (int group = 0; group < keys.size(); group++) {
      int until = rule.blocksOf(group, tokens);
      int first = Math.max(rule.blocksOf(group, fromTokens), rule.firstNeeded(group, tokens));
      leases.add(Lease.ofRange(index, group, keys.get(group), Math.min(first, until), until));
      index.touch(group, keys.get(group), until);
    }
    return new PrefixLease(List.copyOf(leases), fromTokens, tokens);
  }

  /** Of one group: the blocks to load, by their position in the prefix. */
  public Lease group(int group) {
    return leases.get(group);
  }

  public List<Lease> groups() {
    return leases;
  }

  /** What the device had when the look-up was made. */
  public int fromTokens() {
    return fromTokens;
  }

  /** Tokens of the usable prefix, those that the device had included. */
  public int tokens() {
    return tokens;
  }

  /** Whether there is nothing to load. */
  public boolean isEmpty() {
    return tokens == fromTokens;
  }

  @Override
  public void close() {
    leases.forEach(Lease::close);
  }
}
