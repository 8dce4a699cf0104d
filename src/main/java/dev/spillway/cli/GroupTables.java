package dev.spillway.cli;

import dev.spillway.Spillway;
import dev.spillway.block.BlockKey;
import dev.spillway.block.BlockKeys;
import dev.spillway.block.KvLayout;
import dev.spillway.index.PrefixRule;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;

/**
 * How the replay's one table of device blocks serves several KV groups. A group's block of several
 * base blocks (those of group 0) has the key of the last of them and lies, in the group's own
 * memory, under that one's number. What a block holds is kept by group, since of a window or a
 * recurrent state not every block of a prefix is ever loaded.
 */
final class GroupTables {
  private final PrefixRule rule;
  private final int baseTokens;
  private final int[] ratios; // base blocks to a block, by group
  private final BitSet[] held; // device blocks with bytes, by group

  GroupTables(KvLayout layout) {
    rule = new PrefixRule(layout);
    baseTokens = layout.group(0).blockTokens();
    ratios = new int[layout.groups().size()];
    held = new BitSet[ratios.length];
    for (int group = 0; group < ratios.length; group++) {
      int tokens = layout.group(group).blockTokens();
      if (tokens % baseTokens != 0) {
        throw new IllegalArgumentException(
            "group %s has blocks of %d tokens; a multiple of the %d of group %s would be right"
                .formatted(layout.group(group).name(), tokens, baseTokens, layout.group(0).name()));
      }
      ratios[group] = tokens / baseTokens;
      held[group] = new BitSet();
    }
  }

  int groups() {
    return ratios.length;
  }

  int baseTokens() {
    return baseTokens;
  }

  /** The base block that a group's block ends with, by which it is known. */
  int lastOf(int group, int block) {
    return (block + 1) * ratios[group] - 1;
  }

  /** Whole blocks of a group in so many base blocks. */
  int blocksOf(int group, int baseBlocks) {
    return baseBlocks / ratios[group];
  }

  List<BlockKeys> chains(List<BlockKey> keys) {
    var chains = new ArrayList<BlockKeys>();
    for (int group = 0; group < ratios.length; group++) {
      var chain = new BlockKeys();
      for (int block = 0; block < blocksOf(group, keys.size()); block++) {
        chain.add(keys.get(lastOf(group, block)));
      }
      chains.add(chain);
    }
    return chains;
  }

  /** Device blocks of a group for so many of its blocks. */
  int[] targets(int group, int[] base, int from, int count) {
    var targets = new int[count];
    for (int i = 0; i < count; i++) {
      targets[i] = base[lastOf(group, from + i)];
    }
    return targets;
  }

  /** The same, without those that hold nothing: there is nothing to store of them. */
  int[] sources(int group, int[] base) {
    var sources = targets(group, base, 0, blocksOf(group, base.length));
    for (int i = 0; i < sources.length; i++) {
      if (!held[group].get(sources[i])) {
        sources[i] = Spillway.NULL_BLOCK;
      }
    }
    return sources;
  }

  /** How many of the base blocks on the device every group can go on from. */
  int usable(int[] base, int count) {
    int tokens =
        rule.longest(
            0, count * baseTokens, (group, block) -> held[group].get(base[lastOf(group, block)]));
    return tokens / baseTokens;
  }

  void hold(int group, int deviceBlock) {
    held[group].set(deviceBlock);
  }

  boolean isHeld(int group, int deviceBlock) {
    return held[group].get(deviceBlock);
  }

  /** The blocks are another prefix's from now on. */
  void clear(int[] base, int from) {
    for (int i = from; i < base.length; i++) {
      for (var blocks : held) {
        blocks.clear(base[i]);
      }
    }
  }
}
