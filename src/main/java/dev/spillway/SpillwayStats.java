package dev.spillway;

import dev.spillway.block.BlockFault.NoRoom;
import dev.spillway.block.BlockOutcome;
import dev.spillway.engine.EngineMode;
import dev.spillway.engine.EngineStats;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Counters since open, and the mode of the engine.
 *
 * @param lookups calls of lookup
 * @param lookupBlocks blocks they asked for
 * @param hitBlocks blocks they found
 * @param outcomes blocks by how they ended
 * @param storedBytes payload bytes stored
 * @param loadedBytes payload bytes loaded and verified
 * @param storedBlocks blocks that a look-up can find now
 * @param heldBlocks entries that leases and transfers hold now
 * @param openLeases leases that nobody has closed yet
 * @param forgottenLeases leases that nobody closed, which poll did once the collector found them
 * @param freeSlots slots on disk that are free now
 * @param retiredSlots slots that are not handed out again
 * @param lostSlots those of them that are not tried again before the next open
 * @param probedBackSlots slots that trials have brought back into service
 * @param evictions entries that gave way to others
 * @param blocksInFlight blocks submitted and not yet over
 * @param unknownEndings endings of no open transfer; must be 0
 * @param doubleEndings second endings of a block; must be 0
 * @param rankFaults disk faults by rank and cause: a block that two ranks fail counts twice
 * @param probeFaults those among them of trials of retired slots and of the scrub
 * @param storePauses times that stores were put off since the file system had no room
 * @param noRoom why stores pause, until one has succeeded again; empty while they go on
 * @param scrubbed what was read and compared unasked
 * @param restored what was found again of earlier processes
 * @param mode how the engine works
 * @param engine counters of its lanes
 */
public record SpillwayStats(
    long lookups,
    long lookupBlocks,
    long hitBlocks,
    Map<BlockOutcome, Long> outcomes,
    long storedBytes,
    long loadedBytes,
    int storedBlocks,
    int heldBlocks,
    int openLeases,
    long forgottenLeases,
    int freeSlots,
    int retiredSlots,
    int lostSlots,
    int probedBackSlots,
    long evictions,
    int blocksInFlight,
    long unknownEndings,
    long doubleEndings,
    Map<BlockOutcome, Long> rankFaults,
    long probeFaults,
    long storePauses,
    Optional<NoRoom> noRoom,
    Scrubbed scrubbed,
    Restored restored,
    EngineMode mode,
    EngineStats engine) {

  /**
   * What the background scrub has seen.
   *
   * @param blocks that were read and are what was stored
   * @param bytes payload of those, on one rank
   * @param bad blocks that were not, or could not be read: they are found no more
   * @param rounds in which all stored blocks had their turn
   */
  public record Scrubbed(long blocks, long bytes, long bad, long rounds) {}

  /**
   * What was found again of earlier processes, and what was not and why.
   *
   * @param done whether all records are read
   * @param slots whose records were read
   * @param blocks that look-ups find, or found until they were evicted
   * @param stale blocks of those whose bytes turned out to be others when they were loaded
   * @param torn records whose own check was wrong
   * @param voided whole records that do not count: from before a reset, or of other blocks
   * @param displaced records whose slot or key this process has used before they were read, or of
   *     which there is a later one
   * @param incomplete records that not every rank has
   * @param trouble what is wrong with the records that are written now, by rank; empty mostly
   */
  public record Restored(
      boolean done,
      long slots,
      long blocks,
      long stale,
      long torn,
      long voided,
      long displaced,
      long incomplete,
      List<String> trouble) {
    public Restored {
      trouble = List.copyOf(trouble);
    }
  }

  /**
   * A block file and its records, as they lie on disk.
   *
   * @param formatVersion of the block file
   * @param fingerprint of the layout, hexadecimal
   * @param identity of the content, drawn when it was begun, hexadecimal
   * @param epoch of the last open
   * @param ownerPid who opened it last
   * @param trouble why the records cannot be read, or, without groups, the whole file; or empty
   * @param records that are whole and count
   * @param torn records whose own check is wrong
   * @param voided whole records that do not count
   * @param storedBytes payload that the records tell of
   * @param oldestUse seconds since 1970, as {@code newestUse}; 0 without records
   * @param tenants that the blocks belong to
   * @param runs of neighbouring slots that are in use: 1 is not fragmented at all
   * @param goodBlocks whose bytes are those of their record; 0 where nothing was verified
   * @param badBlocks whose bytes are others, or cannot be read
   * @param firstBad which those are and why, 100 at most
   */
  public record StoredFile(
      String path,
      long fileBytes,
      int formatVersion,
      String nameSpace,
      String fingerprint,
      String identity,
      long epoch,
      int rank,
      int rankCount,
      int alignment,
      long ownerPid,
      List<Group> groups,
      String trouble,
      long records,
      long torn,
      long voided,
      long storedBytes,
      long oldestUse,
      long newestUse,
      int tenants,
      long runs,
      long goodBlocks,
      long badBlocks,
      List<String> firstBad) {
    public StoredFile {
      groups = List.copyOf(groups);
      firstBad = List.copyOf(firstBad);
    }

    /** A file of which nothing can be said but why. */
    static StoredFile unreadable(String path, String trouble) {
      return new StoredFile(
          path, 0, 0, "", "", "", 0, 0, 0, 0, 0, List.of(), trouble, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
          List.of());
    }

    /** Whether anything but its trouble is known. */
    public boolean isReadable() {
      return !groups.isEmpty();
    }

    /**
     * The slots of a KV group.
     *
     * @param offset of the first in the file, bytes
     */
    public record Group(
        long slots, int slotBytes, int blockBytes, int blockTokens, long offset, long records) {}
  }

  public SpillwayStats {
    outcomes = Map.copyOf(outcomes);
    rankFaults = Map.copyOf(rankFaults);
  }

  public long count(BlockOutcome outcome) {
    return outcomes.getOrDefault(outcome, 0L);
  }
}
