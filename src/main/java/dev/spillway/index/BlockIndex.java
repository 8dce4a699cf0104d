package dev.spillway.index;

import dev.spillway.block.BlockKey;
import dev.spillway.block.BlockKeys;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.Set;
import java.util.function.IntConsumer;
import org.jspecify.annotations.Nullable;

/**
 * Which block is in which slot. An entry is a slot: it is reserved for a key (no look-up sees it),
 * then stored, then gone; both are numbers, and all state is in primitive arrays. Invalidation
 * happens only here. Owned by the scheduler's thread.
 *
 * <pre>
 * RESERVED → STORED → GONE → (free)      RESERVED → GONE → (free)
 * </pre>
 *
 * A GONE entry keeps its slot until the last lease and the last transfer let go of it. Eviction is
 * least recently used, and keeps one order besides: a block is never younger than the one before it
 * in its prefix, so that the end of a prefix goes before its beginning.
 */
public final class BlockIndex {
  /** Answers of {@link #reserve} that are no entry. */
  public static final int PRESENT = -1;

  public static final int FULL = -2;

  /** Retirements after which a slot is not tried again. */
  public static final int RETIREMENTS_MAX = DiskSlots.RETIREMENTS_MAX;

  private static final int NONE = -1;
  private static final int COUNTER_MAX = -1; // as an unsigned number

  private enum State {
    FREE,
    RESERVED,
    STORED,
    GONE
  }

  private static final long NEVER = Long.MAX_VALUE;

  private final DiskSlots[] slots;
  private final int[] groupBase; // the first entry of each group, then the entry count
  private final State[] states;
  private final long[] highs;
  private final long[] lows;
  private final long[] generations;
  private final long[] tenants;
  private final int[] holds; // leases, and a reservation's own transfer
  private final long[] blamedRanks; // that found the entry's slot bad
  private final int[] older;
  private final int[] younger;
  private final int[] oldest;
  private final int[] youngest;
  private final int[] table; // entry + 1 at the hash's place or after it, 0 where free
  private final int mask;
  private final long epoch;
  private int counter;
  private long evictions;
  private int storedCount;
  private int heldCount;
  private final LeaseBook leases = new LeaseBook(this);
  private final Restoring restoring = new Restoring();
  private final BitSet used = new BitSet(); // of which the ranks have not been told
  private final BitSet filled = new BitSet(); // slots that hold some block's bytes
  private final BitSet nameless = new BitSet(); // of those, where the block's name is lost
  private final BitSet doubted = new BitSet(); // being stored into, to be erased if that fails
  private final ArrayDeque<Integer> overwritten = new ArrayDeque<>(); // that were doubted
  private final BitSet toErase = new BitSet();
  private final BitSet queuedToErase = new BitSet();
  private final ArrayDeque<Integer> eraseQueue = new ArrayDeque<>();

  /**
   * @param slotCounts slots on disk, by group
   * @param epoch of the block file: the high half of every generation
   */
  public BlockIndex(List<Long> slotCounts, long epoch) {
    this(slotCounts, epoch, NEVER);
  }

  /**
   * @param probeNanos from a slot's retirement, or its last trial, to its next trial
   */
  public BlockIndex(List<Long> slotCounts, long epoch, long probeNanos) {
    int groups = slotCounts.size();
    slots = new DiskSlots[groups];
    groupBase = new int[groups + 1];
    for (int group = 0; group < groups; group++) {
      int count = Math.toIntExact(slotCounts.get(group));
      slots[group] = new DiskSlots(count, probeNanos);
      groupBase[group + 1] = Math.addExact(groupBase[group], count);
    }
    int entries = groupBase[groups];
    states = new State[entries];
    Arrays.fill(states, State.FREE);
    highs = new long[entries];
    lows = new long[entries];
    generations = new long[entries];
    tenants = new long[entries];
    holds = new int[entries];
    blamedRanks = new long[entries];
    older = new int[entries];
    younger = new int[entries];
    oldest = new int[groups];
    youngest = new int[groups];
    Arrays.fill(oldest, NONE);
    Arrays.fill(youngest, NONE);
    // At most half full, so that runs stay short.
    table = new int[Integer.highestOneBit(Math.max(4, entries) * 2 - 1) * 2];
    mask = table.length - 1;
    this.epoch = epoch;
  }

  // What callers ask.

  /** The entry of a stored block, or -1. */
  public int find(int group, long high, long low) {
    int entry = seek(group, high, low);
    return entry >= 0 && states[entry] == State.STORED ? entry : NONE;
  }

  /** The first entry of a stored block from this one on and before another, or -1. */
  public int nextStored(int from, int to) {
    for (int entry = from; entry < to; entry++) {
      if (states[entry] == State.STORED) {
        return entry;
      }
    }
    return NONE;
  }

  /** The entry of a block that is stored or being stored, or -1. */
  public int findAny(int group, long high, long low) {
    return seek(group, high, low);
  }

  /**
   * How many blocks of the prefix are stored, from {@code from} on without a gap. Each is held as
   * by {@link #hold}, its entry is written to {@code entries}, and the whole prefix is touched.
   */
  public int holdPrefix(int group, BlockKeys keys, int from, int[] entries) {
    int count = 0;
    while (from + count < keys.size() && count < entries.length) {
      int entry = find(group, keys.high(from + count), keys.low(from + count));
      if (entry == NONE) {
        break;
      }
      hold(entry);
      entries[count++] = entry;
    }
    touch(group, keys, from + count);
    return count;
  }

  /** Makes the first {@code count} blocks of the prefix the youngest, the first youngest of all. */
  public void touch(int group, BlockKeys keys, int count) {
    for (int i = count - 1; i >= 0; i--) {
      int entry = seek(group, keys.high(i), keys.low(i));
      if (entry >= 0) {
        unlink(group, entry);
        linkBelow(group, entry, NONE);
        restoring.onUsed(entry);
        used.set(entry);
      }
    }
  }

  /**
   * Hands over stored blocks that were used since they were handed over last, {@code max} at most.
   */
  public void takeUsed(int max, IntConsumer action) {
    int left = max;
    for (int entry = used.nextSetBit(0); entry >= 0 && left > 0; entry = used.nextSetBit(entry)) {
      used.clear(entry);
      if (states[entry] == State.STORED) {
        left--;
        action.accept(entry);
      }
    }
  }

  /**
   * Gives a key a slot, and evicts for it where it must. The entry is held for its transfer.
   *
   * @param parent the entry of the block before it in the prefix, or negative
   * @return the entry; {@link #PRESENT} where the key is stored or being stored; {@link #FULL}
   *     where nothing can be evicted
   */
  public int reserve(int group, long high, long low, int parent) {
    return reserve(group, high, low, 0, parent);
  }

  /**
   * The same for a tenant.
   *
   * @param tenant tag of who the block belongs to, 0 for nobody in particular
   */
  public int reserve(int group, long high, long low, long tenant, int parent) {
    if (seek(group, high, low) >= 0) {
      return PRESENT;
    }
    if (counter == COUNTER_MAX) {
      return FULL; // a generation would come again; the next open begins another epoch
    }
    int slot = slots[group].take();
    if (slot < 0) {
      if (evictOldest(group) == NONE) {
        return FULL;
      }
      slot = slots[group].take();
    }
    int entry = groupBase[group] + slot;
    assert states[entry] == State.FREE : "entry " + entry + " is " + states[entry];
    states[entry] = State.RESERVED;
    highs[entry] = high;
    lows[entry] = low;
    generations[entry] = epoch << 32 | Integer.toUnsignedLong(++counter);
    tenants[entry] = tenant;
    restoring.onTaken(entry);
    insert(entry);
    linkBelow(group, entry, parent);
    hold(entry);
    return entry;
  }

  /**
   * An earlier process has stored the block in this slot, or so a record says: look-ups find it,
   * and whether it is true shows when it is loaded. What this process has done with slot or key
   * counts more, and of two records of a key the later one. It is used before it is older than
   * anything that this process has used.
   *
   * @param depth its place in its prefix
   * @param lastUse seconds since 1970
   * @return whether it is found from now on
   */
  public boolean restore(
      int group,
      int slot,
      long high,
      long low,
      long generation,
      long tenant,
      int depth,
      int lastUse) {
    int entry = groupBase[group] + slot;
    filled.set(entry);
    if (states[entry] != State.FREE || restoring.isTaken(entry)) {
      return false;
    }
    highs[entry] = high;
    lows[entry] = low;
    generations[entry] = generation;
    tenants[entry] = tenant;
    int other = seek(group, high, low);
    if (other >= 0) {
      if (!restoring.isUnverified(other)
          || Long.compareUnsigned(generations[other], generation) > 0) {
        return false; // free, but its bytes have a name, for who would forget them
      }
      invalidate(other);
    }
    slots[group].claim(slot);
    states[entry] = State.STORED;
    storedCount++;
    insert(entry);
    linkOldest(group, entry);
    restoring.onRestored(entry, depth, lastUse);
    return true;
  }

  /**
   * No look-up finds the block any more, and its slot is not handed out before it was overwritten:
   * once nothing holds it {@link #nextToErase} names it.
   *
   * @return false where that was asked before
   */
  public boolean forget(int entry) {
    if (toErase.get(entry)) {
      return false;
    }
    toErase.set(entry);
    switch (states[entry]) {
      case RESERVED -> {
        loseName(entry);
        remove(entry);
      }
      case STORED -> invalidate(entry);
      case GONE -> freeIfUnheld(entry);
      case FREE -> { // it was evicted, and its bytes are still there
        if (!slots[groupOf(entry)].isRetired(slot(entry))) {
          slots[groupOf(entry)].claim(slot(entry));
        }
        states[entry] = State.GONE;
        freeIfUnheld(entry);
      }
    }
    return true;
  }

  /** An entry whose slot is to be overwritten now, or -1; {@link #erased} is the answer. */
  public int nextToErase() {
    return eraseQueue.isEmpty() ? NONE : eraseQueue.remove();
  }

  /**
   * The slot of an entry was overwritten, or could not be.
   *
   * @param clean whether nothing is left of the block; otherwise it keeps its name, so that it can
   *     be forgotten again
   * @param failedRanks that find the slot bad
   */
  public void erased(int entry, boolean clean, long failedRanks) {
    toErase.clear(entry);
    if (clean) {
      generations[entry] = 0;
      tenants[entry] = 0;
      filled.clear(entry);
      nameless.clear(entry);
    }
    blamedRanks[entry] |= failedRanks;
    freeIfUnheld(entry);
  }

  /** Whether a slot holds, or has held since it was last erased, what this tells of it. */
  private boolean isInSlot(int entry) {
    return generations[entry] != 0;
  }

  /**
   * Everything of a tenant, also what was evicted and not overwritten yet, and slots of which
   * nobody knows any more what is in them: looks at all slots.
   *
   * @param action takes what is to be forgotten
   * @param onDoubt takes entries whose slots may hold it and are being stored into: overwritten
   *     anyway, as {@link #nextOverwritten} tells, or else named by {@link #nextToErase}
   */
  public void eachOfTenant(long tenant, IntConsumer action, IntConsumer onDoubt) {
    for (int entry = 0; entry < states.length; entry++) {
      look(entry, tenants[entry] == tenant, action, onDoubt);
    }
  }

  /** The same for these keys in a group. */
  public void eachOfKeys(int group, Set<BlockKey> keys, IntConsumer action, IntConsumer onDoubt) {
    for (int entry = groupBase[group]; entry < groupBase[group + 1]; entry++) {
      boolean named = isInSlot(entry) && keys.contains(new BlockKey(highs[entry], lows[entry]));
      look(entry, named, action, onDoubt);
    }
  }

  private void look(int entry, boolean named, IntConsumer action, IntConsumer onDoubt) {
    switch (states[entry]) {
      case RESERVED -> {
        if (named) {
          action.accept(entry);
        } else if (mayHoldAnother(entry)) {
          doubted.set(entry);
          onDoubt.accept(entry);
        }
      }
      case STORED -> {
        if (named) {
          action.accept(entry);
        }
      }
      case GONE, FREE -> {
        if ((named && isInSlot(entry)) || nameless.get(entry)) {
          action.accept(entry);
        }
      }
    }
  }

  /**
   * The same for one slot whose record names what is to be forgotten, after {@link #restore} was
   * told of it: a record that counts no more may still be true of the slot's bytes.
   *
   * @param found what {@code restore} has answered
   */
  public void lookAtRestored(
      int entry, boolean found, long high, long low, IntConsumer action, IntConsumer onDoubt) {
    boolean isRecords = highs[entry] == high && lows[entry] == low;
    look(entry, found || (states[entry] == State.FREE && isRecords), action, onDoubt);
  }

  /** A doubtful slot that was overwritten by the store of another block, or -1. */
  public int nextOverwritten() {
    return overwritten.isEmpty() ? NONE : overwritten.remove();
  }

  /** The entry of a slot, whatever is in it. */
  public int entry(int group, int slot) {
    return groupBase[group] + slot;
  }

  /** The group of an entry. */
  public int group(int entry) {
    return groupOf(entry);
  }

  /** What is known of the entries that {@link #restore} has made. */
  public Restoring restoring() {
    return restoring;
  }

  /** Everything is restored: puts it in the order of its last use, a part at a call. */
  public boolean orderRestored() {
    return restoring.order(this::relinkOldest);
  }

  private void relinkOldest(int entry) {
    int group = groupOf(entry);
    unlink(group, entry);
    linkOldest(group, entry);
  }

  private void linkOldest(int group, int entry) {
    older[entry] = NONE;
    younger[entry] = oldest[group];
    if (oldest[group] == NONE) {
      youngest[group] = entry;
    } else {
      older[oldest[group]] = entry;
    }
    oldest[group] = entry;
  }

  /** The bytes of a block were what its entry says. */
  public void verified(int entry) {
    restoring.onVerified(entry);
  }

  /** The bytes of a restored block are others: as if its record had not been there. */
  public void stale(int entry) {
    if (isStored(entry)) {
      restoring.onStale();
    }
    invalidate(entry);
  }

  /** Whether nothing but a record of an earlier process says that the block is there. */
  public boolean isUnverified(int entry) {
    return restoring.isUnverified(entry);
  }

  /** The last generation that was given to a slot. */
  public long lastGeneration() {
    return epoch << 32 | Integer.toUnsignedLong(counter);
  }

  public long tenant(int entry) {
    return tenants[entry];
  }

  /** The block is written: look-ups may see it. Its transfer still holds it. */
  public void commit(int entry) {
    assert states[entry] == State.RESERVED : "entry " + entry + " is " + states[entry];
    states[entry] = State.STORED;
    filled.set(entry);
    nameless.clear(entry);
    if (doubted.get(entry)) {
      doubted.clear(entry);
      overwritten.add(entry);
    }
    storedCount++;
  }

  /**
   * The block could not be written: as if it had never been asked for. Its transfer still holds it.
   */
  public void discard(int entry) {
    assert states[entry] == State.RESERVED : "entry " + entry + " is " + states[entry];
    if (doubted.get(entry)) {
      toErase.set(entry);
    }
    loseName(entry);
    remove(entry);
  }

  /** Of a store that comes to nothing: what was there before may still be there, on some rank. */
  private void loseName(int entry) {
    if (mayHoldAnother(entry)) {
      nameless.set(entry);
    }
    filled.set(entry); // some rank may have written it
    doubted.clear(entry);
  }

  /** Whether bytes of another block than the entry's, whose record may be yet unread, are there. */
  private boolean mayHoldAnother(int entry) {
    return filled.get(entry) || restoring.isTaken(entry);
  }

  /** Ranks found the entry's slot bad: it is not handed out again once the entry is gone. */
  public void blame(int entry, long ranks) {
    assert states[entry] != State.FREE : "entry " + entry + " is free";
    blamedRanks[entry] |= ranks;
  }

  /**
   * No look-up finds the block any more; its slot comes free when nothing holds it. An entry that
   * is gone already stays so.
   */
  public void invalidate(int entry) {
    if (states[entry] == State.STORED) {
      remove(entry);
      storedCount--;
    }
    assert states[entry] == State.GONE : "entry " + entry + " is " + states[entry];
    freeIfUnheld(entry);
  }

  /** No look-up finds anything any more, and nothing that is on its way will be found. */
  public void clear() {
    for (int group = 0; group < slots.length; group++) {
      while (oldest[group] != NONE) {
        int entry = oldest[group];
        if (states[entry] == State.RESERVED) {
          discard(entry);
        } else {
          invalidate(entry);
        }
      }
    }
  }

  /**
   * The next retired slot whose time for a trial has come, or null. It is under trial from now on,
   * until {@link #probed}.
   */
  public @Nullable RetiredSlot nextToProbe(long now) {
    for (int group = 0; group < slots.length; group++) {
      int base = groupBase[group];
      int slot = slots[group].nextToProbe(now, each -> states[base + each] == State.FREE);
      if (slot >= 0) {
        return new RetiredSlot(group, slot, slots[group].blamedRanks(slot));
      }
    }
    return null;
  }

  /** A slot that is out of service, and the ranks that found it bad. */
  public record RetiredSlot(int group, int slot, long ranks) {}

  /** A trial is over: a slot comes back after enough clean ones in a row. */
  public void probed(int group, int slot, boolean clean, long now) {
    slots[group].probed(slot, clean, now);
    int entry = entry(group, slot);
    if (states[entry] == State.GONE) { // what was in it was forgotten meanwhile
      if (!slots[group].isRetired(slot)) {
        slots[group].claim(slot);
      }
      freeIfUnheld(entry);
    }
  }

  /** Keeps the entry's slot from being handed out until {@link #release}. */
  public void hold(int entry) {
    if (holds[entry]++ == 0) {
      heldCount++;
    }
  }

  public void release(int entry) {
    assert holds[entry] > 0 : "entry " + entry + " is released but was not held";
    if (--holds[entry] == 0) {
      heldCount--;
      freeIfUnheld(entry);
    }
  }

  LeaseBook leases() {
    return leases;
  }

  /** Closes leases that nobody closed and nobody has any more; answers how many. */
  public int releaseForgottenLeases() {
    return leases.releaseForgotten();
  }

  /** Leases that are open now. */
  public int openLeaseCount() {
    return leases.openCount();
  }

  /** Leases that were never closed by who took them. */
  public long forgottenLeaseCount() {
    return leases.forgottenCount();
  }

  public boolean isReserved(int entry) {
    return states[entry] == State.RESERVED;
  }

  public boolean isStored(int entry) {
    return states[entry] == State.STORED;
  }

  /** The slot within the group's region. */
  public int slot(int entry) {
    return entry - groupBase[groupOf(entry)];
  }

  public long generation(int entry) {
    return generations[entry];
  }

  public long high(int entry) {
    return highs[entry];
  }

  public long low(int entry) {
    return lows[entry];
  }

  public int storedCount() {
    return storedCount;
  }

  /** Entries that a lease or a transfer holds: 0 when all is quiet. */
  public int heldCount() {
    return heldCount;
  }

  public long evictions() {
    return evictions;
  }

  public int retiredCount() {
    return Arrays.stream(slots).mapToInt(DiskSlots::retiredCount).sum();
  }

  /** Retired slots that are not tried again. */
  public int lostCount() {
    return Arrays.stream(slots).mapToInt(DiskSlots::lostCount).sum();
  }

  public int slotCount() {
    return states.length;
  }

  public int groupCount() {
    return slots.length;
  }

  public int slotCount(int group) {
    return groupBase[group + 1] - groupBase[group];
  }

  public int probedBackCount() {
    return Arrays.stream(slots).mapToInt(DiskSlots::probedBackCount).sum();
  }

  public int freeCount() {
    return Arrays.stream(slots).mapToInt(DiskSlots::freeCount).sum();
  }

  /**
   * Checks the whole structure and throws {@link AssertionError} where it is not whole: for tests.
   */
  public void verify() {
    int linked = 0;
    for (int group = 0; group < slots.length; group++) {
      int free = slots[group].freeCount() + slots[group].retiredCount();
      int taken = 0;
      for (int entry = groupBase[group]; entry < groupBase[group + 1]; entry++) {
        boolean retired = slots[group].isRetired(entry - groupBase[group]);
        taken += states[entry] == State.FREE || retired ? 0 : 1;
      }
      require(
          free + taken == slots[group].slotCount(),
          "group "
              + group
              + ": "
              + free
              + " slots free or retired and "
              + taken
              + " taken of "
              + slots[group].slotCount());
      for (int entry = oldest[group]; entry != NONE; entry = younger[entry]) {
        linked++;
        require(seek(group, highs[entry], lows[entry]) == entry, "entry " + entry + " is lost");
        require(
            younger[entry] == NONE ? youngest[group] == entry : older[younger[entry]] == entry,
            "entry " + entry + " is linked one way");
      }
    }
    long mapped = Arrays.stream(table).filter(place -> place != 0).count();
    require(mapped == linked, mapped + " entries mapped and " + linked + " linked");
  }

  private static void require(boolean right, String message) {
    if (!right) {
      throw new AssertionError(message);
    }
  }

  // Eviction.

  /**
   * Evicts so many of a group, the oldest first, and tells their slots; fewer where others are
   * held.
   */
  public void evict(int group, int count, IntConsumer slotOfEach) {
    for (int i = 0; i < count; i++) {
      int entry = evictOldest(group);
      if (entry == NONE) {
        return;
      }
      slotOfEach.accept(slot(entry));
    }
  }

  private int evictOldest(int group) {
    for (int entry = oldest[group]; entry != NONE; entry = younger[entry]) {
      if (states[entry] == State.STORED && holds[entry] == 0) {
        evictions++;
        invalidate(entry);
        return entry;
      }
    }
    return NONE;
  }

  private void freeIfUnheld(int entry) {
    if (states[entry] != State.GONE || holds[entry] > 0) {
      return;
    }
    if (toErase.get(entry)) {
      if (queuedToErase.get(entry) || slots[groupOf(entry)].isProbing(slot(entry))) {
        return;
      }
      queuedToErase.set(entry);
      eraseQueue.add(entry);
      return;
    }
    queuedToErase.clear(entry);
    var group = slots[groupOf(entry)];
    if (!group.isRetired(slot(entry))) { // one that is stays so
      if (blamedRanks[entry] != 0) {
        group.retire(slot(entry), blamedRanks[entry]);
      } else {
        group.giveBack(slot(entry));
      }
    }
    states[entry] = State.FREE;
    blamedRanks[entry] = 0;
    restoring.onGone(entry);
  }

  private void remove(int entry) {
    unlink(groupOf(entry), entry);
    unmap(entry);
    restoring.onUsed(entry); // it has no place in the order any more
    states[entry] = State.GONE;
  }

  private int groupOf(int entry) {
    int group = 0;
    while (entry >= groupBase[group + 1]) {
      group++;
    }
    return group;
  }

  // The order of use: a list for each group.

  /** Puts an entry next to the parent on its older side, or youngest of all without a parent. */
  private void linkBelow(int group, int entry, int parent) {
    int above = parent >= 0 && isLinked(parent) ? parent : NONE;
    int below = above == NONE ? youngest[group] : older[above];
    older[entry] = below;
    younger[entry] = above;
    if (above == NONE) {
      youngest[group] = entry;
    } else {
      older[above] = entry;
    }
    if (below == NONE) {
      oldest[group] = entry;
    } else {
      younger[below] = entry;
    }
  }

  private void unlink(int group, int entry) {
    if (younger[entry] == NONE) {
      youngest[group] = older[entry];
    } else {
      older[younger[entry]] = older[entry];
    }
    if (older[entry] == NONE) {
      oldest[group] = younger[entry];
    } else {
      younger[older[entry]] = younger[entry];
    }
  }

  private boolean isLinked(int entry) {
    return states[entry] == State.RESERVED || states[entry] == State.STORED;
  }

  // The map: open addressing, linear probing, removal by moving back what follows.

  private int seek(int group, long high, long low) {
    for (int at = place(group, high, low); table[at] != 0; at = (at + 1) & mask) {
      int entry = table[at] - 1;
      if (highs[entry] == high && lows[entry] == low && groupOf(entry) == group) {
        return entry;
      }
    }
    return NONE;
  }

  private void insert(int entry) {
    int at = place(groupOf(entry), highs[entry], lows[entry]);
    while (table[at] != 0) {
      at = (at + 1) & mask;
    }
    table[at] = entry + 1;
  }

  private void unmap(int entry) {
    int hole = place(groupOf(entry), highs[entry], lows[entry]);
    while (table[hole] != entry + 1) {
      hole = (hole + 1) & mask;
    }
    table[hole] = 0;
    for (int at = (hole + 1) & mask; table[at] != 0; at = (at + 1) & mask) {
      int moved = table[at] - 1;
      int home = place(groupOf(moved), highs[moved], lows[moved]);
      if (((at - home) & mask) >= ((at - hole) & mask)) {
        table[hole] = table[at];
        table[at] = 0;
        hole = at;
      }
    }
  }

  /** Keys are hashes already, but a caller may give any 128 bits; group and halves are mixed. */
  private int place(int group, long high, long low) {
    long mixed = (high * 0x9e3779b97f4a7c15L) ^ (low * 0xc2b2ae3d27d4eb4fL) ^ group;
    mixed ^= mixed >>> 32;
    mixed *= 0xd6e8feb86659fd93L;
    return (int) (mixed ^ mixed >>> 32) & mask;
  }
}
