package dev.spillway.cli;

import dev.spillway.block.BlockKey;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * The replay's stand-in for a serving engine's block pool: device blocks that hold a key's KV, are
 * pinned by running requests, and are evicted least recently used, the end of a prefix first.
 */
final class DevicePool {
  private final int[] pins;
  private final @Nullable BlockKey[] keys;
  private final Map<BlockKey, Integer> blocks = new HashMap<>();
  private final Set<BlockKey> promised = new HashSet<>();
  private final ArrayDeque<Integer> free = new ArrayDeque<>();
  private final LinkedHashSet<Integer> unpinned = new LinkedHashSet<>(); // oldest first

  DevicePool(int blockCount) {
    pins = new int[blockCount];
    keys = new BlockKey[blockCount];
    for (int i = 0; i < blockCount; i++) {
      free.add(i);
    }
  }

  int blockCount() {
    return pins.length;
  }

  /** Pins the blocks of the prefix that are here, from its root up to the first gap. */
  int pinPrefix(List<BlockKey> prefix, int[] target) {
    int count = 0;
    for (var key : prefix) {
      var block = blocks.get(key);
      if (block == null) {
        break;
      }
      if (pins[block]++ == 0) {
        unpinned.remove(block);
      }
      target[count++] = block;
    }
    return count;
  }

  /** Whether a running request will publish the key soon: whoever needs it had better wait. */
  boolean isPromised(BlockKey key) {
    return promised.contains(key);
  }

  void promise(List<BlockKey> prefix, int from) {
    promised.addAll(prefix.subList(from, prefix.size()));
  }

  /** Whoever promised these keys will not publish them. */
  void renounce(List<BlockKey> prefix, int from) {
    promised.removeAll(new HashSet<>(prefix.subList(from, prefix.size())));
  }

  /** Takes blocks for {@code target} from {@code from} on, all or none, and pins them. */
  boolean take(int[] target, int from) {
    if (free.size() + unpinned.size() < target.length - from) {
      return false;
    }
    for (int i = from; i < target.length; i++) {
      target[i] = free.isEmpty() ? evictOldest() : free.remove();
      pins[target[i]] = 1;
    }
    return true;
  }

  private int evictOldest() {
    var oldest = unpinned.iterator();
    int block = oldest.next();
    oldest.remove();
    blocks.remove(keys[block]);
    keys[block] = null;
    return block;
  }

  /** The block holds the key's KV from now on, unless another block does already. */
  void publish(BlockKey key, int block) {
    promised.remove(key);
    if (blocks.putIfAbsent(key, block) == null) {
      keys[block] = key;
    }
  }

  /** Lets go of the first {@code count} blocks, the last first, so that it is evicted first. */
  void unpin(int[] pinned, int count) {
    for (int i = count - 1; i >= 0; i--) {
      int block = pinned[i];
      if (--pins[block] > 0) {
        continue;
      }
      if (keys[block] == null) {
        free.add(block);
      } else {
        unpinned.add(block);
      }
    }
  }

  /** Whether nothing is pinned and every block is accounted for. */
  boolean isQuiet() {
    return promised.isEmpty() && free.size() + unpinned.size() == pins.length;
  }
}
