package dev.spillway;

import dev.spillway.block.BlockOutcome;
import dev.spillway.engine.EngineMode;
import dev.spillway.engine.EngineStats;
import java.util.Map;

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
 * @param probeFaults those among them of trials of retired slots
 * @param storePauses times that stores were put off since the file system had no room
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
    EngineMode mode,
    EngineStats engine) {
  public SpillwayStats {
    outcomes = Map.copyOf(outcomes);
    rankFaults = Map.copyOf(rankFaults);
  }

  public long count(BlockOutcome outcome) {
    return outcomes.getOrDefault(outcome, 0L);
  }
}
