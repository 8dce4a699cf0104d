package dev.spillway.ledger;

import dev.spillway.block.BlockFault.NoRoom;
import dev.spillway.block.BlockOutcome;
import java.util.Map;
import java.util.Optional;

/**
 * What the ledger has counted since open, by cause.
 *
 * @param outcomes blocks by how they ended
 * @param rankFaults disk faults by rank: a block that two ranks fail counts twice
 * @param probeFaults those among them of trials of retired slots and of the scrub
 * @param storePauses times that stores were put off because the file system had no room
 * @param noRoom why stores pause, until one has succeeded again; empty while they go on
 * @param scrub what was read and compared unasked
 * @param storedBytes payload bytes stored
 * @param loadedBytes payload bytes loaded
 * @param unknownEndings endings of no transfer that is open: counted and dropped
 * @param doubleEndings second endings of a block by one rank: counted and dropped
 */
public record LedgerCounters(
    Map<BlockOutcome, Long> outcomes,
    Map<BlockOutcome, Long> rankFaults,
    long probeFaults,
    long storePauses,
    Optional<NoRoom> noRoom,
    Scrub.Counters scrub,
    long storedBytes,
    long loadedBytes,
    long unknownEndings,
    long doubleEndings) {
  public LedgerCounters {
    outcomes = Map.copyOf(outcomes);
    rankFaults = Map.copyOf(rankFaults);
  }
}
