package dev.spillway.index;

import static dev.spillway.testing.SpillwayFixture.keys;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.spillway.block.BlockKey;
import dev.spillway.block.BlockKeys;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import net.jqwik.api.Example;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class BlockIndexTest {
  private final BlockIndex index = new BlockIndex(List.of(4L), 7);

  @AfterEach
  void theStructureIsWhole() {
    index.verify();
  }

  private static int store(BlockIndex index, BlockKeys keys, int from) {
    int last = -1;
    for (int i = from; i < keys.size(); i++) {
      int parent = i == 0 ? -1 : index.find(0, keys.high(i - 1), keys.low(i - 1));
      int entry = index.reserve(0, keys.high(i), keys.low(i), parent);
      if (entry >= 0) {
        index.commit(entry);
        index.release(entry);
        last = entry;
      }
    }
    return last;
  }

  private boolean has(long number) {
    return index.find(0, number, ~number) >= 0;
  }

  @Test
  void aReservedBlockIsNotFoundAndACommittedOneIs() {
    int entry = index.reserve(0, 1, ~1L, -1);
    assertThat(has(1)).isFalse();
    assertThat(index.reserve(0, 1, ~1L, -1)).isEqualTo(BlockIndex.PRESENT);
    index.commit(entry);
    index.release(entry);
    assertThat(has(1)).isTrue();
    assertThat(index.heldCount()).isZero();
  }

  /** Shows: F33 */
  @Test
  void aDiscardedBlockIsAsIfNeverAskedFor() {
    int entry = index.reserve(0, 1, ~1L, -1);
    index.discard(entry);
    index.release(entry);
    assertThat(has(1)).isFalse();
    assertThat(index.freeCount()).isEqualTo(4);
    assertThat(index.reserve(0, 1, ~1L, -1)).isNotNegative();
  }

  @Test
  void generationsCarryTheEpochAndNeverRepeat() {
    int entry = index.reserve(0, 1, ~1L, -1);
    long first = index.generation(entry);
    assertThat(first >>> 32).isEqualTo(7);
    index.discard(entry);
    index.release(entry);
    assertThat(index.generation(index.reserve(0, 1, ~1L, -1))).isEqualTo(first + 1);
  }

  /** Shows: V71 */
  @Test
  void theOldestGoesFirst() {
    store(index, keys(10, 1), 0);
    store(index, keys(20, 1), 0);
    store(index, keys(30, 2), 0);
    index.touch(0, keys(10, 1), 1);
    store(index, keys(40, 1), 0);
    assertThat(has(10)).isTrue();
    assertThat(has(20)).isFalse();
    assertThat(index.evictions()).isEqualTo(1);
  }

  @Test
  void theEndOfAPrefixGoesBeforeItsBeginning() {
    store(index, keys(10, 4), 0);
    store(index, keys(50, 1), 0);
    assertThat(has(13)).isFalse();
    store(index, keys(60, 1), 0);
    assertThat(has(12)).isFalse();
    assertThat(has(10)).isTrue();
    assertThat(has(11)).isTrue();
  }

  @Test
  void whatIsAddedToAPrefixLaterStillGoesBeforeItsBeginning() {
    store(index, keys(10, 2), 0);
    store(index, keys(10, 4), 2);
    store(index, keys(50, 2), 0);
    assertThat(has(10)).isTrue();
    assertThat(has(11)).isTrue();
    assertThat(has(12)).isFalse();
    assertThat(has(13)).isFalse();
  }

  /** Shows: V72 V82 */
  @Test
  void aHeldBlockIsNotEvictedAndAFullIndexSaysSo() {
    store(index, keys(10, 4), 0);
    try (var lease = Lease.take(index, 0, keys(10, 4), 0)) {
      assertThat(lease.size()).isEqualTo(4);
      assertThat(index.reserve(0, 9, 9, -1)).isEqualTo(BlockIndex.FULL);
    }
    assertThat(index.reserve(0, 9, 9, -1)).isNotNegative();
  }

  @Test
  void aLeaseEndsAtTheFirstGapAndClosesTwice() {
    store(index, keys(10, 1), 0);
    store(index, keys(12, 1), 0);
    var lease = Lease.take(index, 0, keys(10, 3), 0);
    assertThat(lease.size()).isEqualTo(1);
    lease.close();
    lease.close();
    assertThat(index.heldCount()).isZero();
    assertThatThrownBy(() -> lease.entry(0)).hasMessageContaining("the lease is closed");
  }

  @Test
  void anInvalidatedBlockIsGoneAtOnceButKeepsItsSlotWhileHeld() {
    store(index, keys(10, 1), 0);
    var lease = Lease.take(index, 0, keys(10, 1), 0);
    int entry = lease.entry(0);
    index.invalidate(entry);
    assertThat(has(10)).isFalse();
    assertThat(index.freeCount()).isEqualTo(3);
    index.invalidate(entry); // a second rank's fault changes nothing
    lease.close();
    assertThat(index.freeCount()).isEqualTo(4);
  }

  @Test
  void aRetiredSlotIsNotHandedOutAgain() {
    int entry = store(index, keys(10, 1), 0);
    int slot = index.slot(entry);
    index.blame(entry, 1);
    index.invalidate(entry);
    assertThat(index.retiredCount()).isEqualTo(1);
    for (int i = 0; i < 8; i++) {
      int other = index.reserve(0, i, i, -1);
      assertThat(index.slot(other)).isNotEqualTo(slot);
      index.commit(other);
      index.release(other);
    }
  }

  @Test
  void groupsAreApart() {
    var two = new BlockIndex(List.of(2L, 2L), 1);
    int taken = two.reserve(1, 5, 5, -1);
    two.commit(taken);
    two.release(taken);
    assertThat(two.find(0, 5, 5)).isEqualTo(-1);
    int entry = two.find(1, 5, 5);
    assertThat(two.slot(entry)).isZero();
    two.verify();
  }

  /** Keys that share both halves' hash, as case 73 asks: the whole key is compared. */
  @Example
  void case73KeysWhoseHashesCollideAreTold() {
    var large = new BlockIndex(List.of(64L), 1);
    for (int i = 0; i < 64; i++) {
      // The same Java hash code for all: high and low are exchanged, or both shifted by 32.
      long word = (long) i << 32 | i;
      int taken = large.reserve(0, word, 1, -1);
      large.commit(taken);
      large.release(taken);
    }
    for (int i = 0; i < 64; i++) {
      assertThat(large.find(0, (long) i << 32 | i, 1)).isNotNegative();
    }
    large.verify();
  }

  /** Against a map: whatever is done, an entry is found if and only if the map has it. */
  @Property(tries = 300)
  void agreesWithAMapUnderAnySequence(@ForAll List<Integer> steps) {
    var tested = new BlockIndex(List.of(8L), 1);
    Map<Long, Integer> model = new HashMap<>();
    for (int step : steps) {
      long number = Math.floorMod(step, 24);
      int found = tested.find(0, number, ~number);
      assertThat(found >= 0).isEqualTo(model.containsKey(number));
      switch (Math.floorMod(step >> 8, 3)) {
        case 0 -> {
          int entry = tested.reserve(0, number, ~number, -1);
          if (entry >= 0) {
            tested.commit(entry);
            tested.release(entry);
            model.values().removeIf(taken -> taken == entry); // its slot was another's before
            model.put(number, entry);
          }
        }
        case 1 -> {
          if (found >= 0) {
            tested.invalidate(found);
            model.remove(number);
          }
        }
        default -> {
          int entry = tested.reserve(0, number, ~number, -1);
          if (entry >= 0) {
            model.values().removeIf(taken -> taken == entry);
            tested.discard(entry);
            tested.release(entry);
          }
        }
      }
      tested.verify();
    }
  }

  /** A retired slot whose block is forgotten is overwritten and tried one after the other. */
  @Test
  void aRetiredSlotIsNotTriedWhileItIsErasedNorErasedWhileItIsTried() {
    var own = new BlockIndex(List.of(2L), 1, 0);
    int entry = own.reserve(0, 1, 1, -1);
    own.commit(entry);
    own.blame(entry, 1);
    own.invalidate(entry);
    own.release(entry);
    assertThat(own.retiredCount()).isEqualTo(1);
    for (int round = 0; round < 3; round++) { // the third brings it back
      assertThat(own.nextToProbe(round)).isNotNull();
      if (round == 2) {
        own.forget(entry);
        assertThat(own.nextToErase()).as("it is being tried").isNegative();
      }
      own.probed(0, own.slot(entry), true, round);
      own.verify();
    }
    assertThat(own.freeCount()).as("not before it was overwritten").isEqualTo(1);
    assertThat(own.nextToErase()).isEqualTo(entry);
    own.erased(entry, true, 1); // and it is bad again
    assertThat(own.retiredCount()).isEqualTo(1);
    own.forget(entry);
    assertThat(own.nextToErase()).isEqualTo(entry);
    assertThat(own.nextToProbe(10)).as("it is being overwritten").isNull();
    own.erased(entry, true, 0);
    assertThat(own.nextToProbe(11)).isNotNull();
    own.verify();
  }

  /** The one slot held key 1, and a store of key 2 is on its way into it. */
  private static int storeOverAnother(BlockIndex own) {
    store(own, 1);
    return own.reserve(0, 2, 2, -1);
  }

  private static int store(BlockIndex own, long key) {
    int entry = own.reserve(0, key, key, -1);
    own.commit(entry);
    own.release(entry);
    return entry;
  }

  private static List<Integer> namedOf(BlockIndex own, long high, long low) {
    var named = new ArrayList<Integer>();
    own.eachOfKeys(0, Set.of(new BlockKey(high, low)), named::add, unused -> {});
    return named;
  }

  private static List<Integer> doubtedOf(BlockIndex own, long high, long low) {
    var doubted = new ArrayList<Integer>();
    own.eachOfKeys(
        0,
        Set.of(new BlockKey(high, low)),
        entry -> {
          throw new AssertionError("entry " + entry + " has that name");
        },
        doubted::add);
    return doubted;
  }

  /** What a slot held before is there until the store into it has ended well on every rank. */
  @Test
  void whatIsForgottenMayLieUnderAStoreThatIsOnItsWay() {
    var own = new BlockIndex(List.of(1L), 1);
    int entry = storeOverAnother(own);
    assertThat(doubtedOf(own, 1, 1)).containsExactly(entry);
    assertThat(own.nextOverwritten()).isNegative();
    own.commit(entry);
    assertThat(own.nextOverwritten()).isEqualTo(entry);
    own.release(entry);
    assertThat(own.nextToErase()).isNegative();
  }

  /** One rank may have written what another could not: the slot may hold it for ever after. */
  @Test
  void whatIsForgottenMayLieInTheSlotOfAStoreThatFailed() {
    var own = new BlockIndex(List.of(1L), 1);
    int entry = own.reserve(0, 1, 1, -1);
    own.discard(entry);
    own.release(entry);
    own.reserve(0, 2, 2, -1);
    assertThat(doubtedOf(own, 1, 1)).containsExactly(entry);
    own.discard(entry);
    assertThat(own.nextToErase()).as("it is held").isNegative();
    own.release(entry);
    assertThat(own.nextToErase()).isEqualTo(entry);
    own.erased(entry, true, 0);
    assertThat(own.freeCount()).isEqualTo(1);
    own.verify();
  }

  /** Shows: what a slot held before is not lost sight of where what comes over it is forgotten. */
  @Test
  void whatLiesUnderAStoreThatIsForgottenIsForgottenToo() {
    var own = new BlockIndex(List.of(1L), 1);
    int entry = storeOverAnother(own);
    own.forget(entry);
    assertThat(namedOf(own, 1, 1)).containsExactly(entry);
  }

  @Test
  void whatHasLostItsNameIsForgottenAlsoWhileItIsHeld() {
    var own = new BlockIndex(List.of(1L), 1);
    int entry = storeOverAnother(own);
    own.discard(entry); // and its transfer still holds it
    assertThat(namedOf(own, 1, 1)).containsExactly(entry);
    own.forget(entry);
    own.release(entry);
    assertThat(own.nextToErase()).isEqualTo(entry);
  }

  private static List<String> saidOfKey1(BlockIndex own, boolean found) {
    var said = new ArrayList<String>();
    own.lookAtRestored(0, found, 1, 1, entry -> said.add("named"), entry -> said.add("doubted"));
    return said;
  }

  private static boolean restoreKey1(BlockIndex own) {
    return own.restore(0, 0, 1, 1, 5, 0, -1, 0);
  }

  /** Shows: a forget that comes before the record of an older copy is read still finds it. */
  @Test
  void aRecordThatIsReadAfterItsSlotWasReservedIsOfWhatLiesUnderTheStore() {
    var own = new BlockIndex(List.of(1L), 10);
    int entry = own.reserve(0, 2, 2, -1);
    assertThat(restoreKey1(own)).as("the slot is taken").isFalse();
    assertThat(saidOfKey1(own, false)).containsExactly("doubted");
    own.discard(entry);
    own.release(entry);
    assertThat(own.nextToErase()).as("the store has come to nothing").isEqualTo(entry);
  }

  @Test
  void aRecordThatIsReadAfterItsSlotWasOverwrittenIsOfNothing() {
    var own = new BlockIndex(List.of(1L), 10);
    store(own, 2);
    assertThat(restoreKey1(own)).isFalse();
    assertThat(saidOfKey1(own, false)).isEmpty();
  }

  /** What was stored and evicted since the open has overwritten what the record tells of. */
  @Test
  void aRecordOfASlotThatThisProcessHasOverwrittenIsNotRestoredThoughTheSlotIsFree() {
    var own = new BlockIndex(List.of(1L), 10);
    own.invalidate(store(own, 2));
    assertThat(own.freeCount()).isEqualTo(1);
    assertThat(restoreKey1(own)).isFalse();
    assertThat(own.storedCount()).isZero();
  }

  @Test
  void ofTwoRecordsOfAKeyTheLaterOneCountsInWhateverOrderTheyAreRead() {
    for (var generations : List.of(List.of(5, 4), List.of(4, 5))) {
      var own = new BlockIndex(List.of(2L), 10);
      assertThat(own.restore(0, 0, 1, 1, generations.get(0), 0, -1, 0)).isTrue();
      boolean later = generations.get(1) == 5;
      assertThat(own.restore(0, 1, 1, 1, generations.get(1), 0, -1, 0)).isEqualTo(later);
      assertThat(own.generation(own.entry(0, later ? 1 : 0))).isEqualTo(5);
      assertThat(own.storedCount()).isEqualTo(1);
      own.verify();
    }
  }

  @Test
  void aRecordThatIsRestoredIsNamed() {
    var own = new BlockIndex(List.of(1L), 10);
    assertThat(restoreKey1(own)).isTrue();
    assertThat(saidOfKey1(own, true)).containsExactly("named");
  }
}
