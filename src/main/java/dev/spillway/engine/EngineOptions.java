package dev.spillway.engine;

import dev.spillway.block.KvLayout;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.List;

/**
 * What the native engine of one rank is opened with. The face has checked every value.
 *
 * @param alignment of direct I/O, 0 to take what kernel, device and page ask for
 * @param stagingBytesMax of pinned host memory, for each of the two lanes
 * @param pieceAddresses base address of each piece's tensor, by group and piece
 * @param deviceBlocks blocks of device memory, by group
 * @param cudaDevice ordinal of the CUDA device that the blocks are on; negative for the host
 * @param cudaLibrary path of the CUDA runtime, empty to look for one
 * @param cipherKey of AES-256-XTS
 * @param keeping what becomes of the block file
 * @param faults to make on purpose
 */
public record EngineOptions(
    Path directory,
    String nameSpace,
    KvLayout layout,
    int rank,
    int rankCount,
    long capacityBytes,
    long stagingBytesMax,
    int queueDepth,
    EngineKind kind,
    boolean direct,
    int alignment,
    Allocation allocation,
    int blocksInFlightMax,
    long lockWaitNanos,
    List<List<Long>> pieceAddresses,
    List<Integer> deviceBlocks,
    int cudaDevice,
    String cudaLibrary,
    CipherKey cipherKey,
    Keeping keeping,
    FaultSpec faults) {

  /**
   * What becomes of the block file, and what must be left beside it.
   *
   * @param keepsNothing whether it is unlinked once open, so that no block outlives the process
   * @param discardsOther whether another layout's or name space's content is emptied, not refused
   * @param freeFloorBytes that the file system must have left
   * @param slotRecordBytes that somebody needs besides for each slot
   */
  public record Keeping(
      boolean keepsNothing, boolean discardsOther, long freeFloorBytes, long slotRecordBytes) {
    public static final Keeping DEFAULT = new Keeping(false, false, 0, 0);

    private int bits() {
      return (keepsNothing ? 1 : 0) | (discardsOther ? 2 : 0);
    }
  }

  /** How blocks get to the disk. */
  public enum EngineKind {
    /** io_uring where this process may use it, threads elsewhere. */
    AUTO(0),
    URING(1),
    THREADS(2);

    private final int code;

    EngineKind(int code) {
      this.code = code;
    }
  }

  /** How the space of the block file is come by. */
  public enum Allocation {
    /** Reserved by the file system; refused where it cannot. */
    PREALLOCATE(0),
    /** Reserved by writing zeros, once. */
    ZERO_FILL(1),
    /** Not reserved: a full disk shows at some later store. */
    SPARSE(2);

    private final int code;

    Allocation(int code) {
      this.code = code;
    }
  }

  /** The open record with its groups and pieces, as {@code base/Records.h} lays them out. */
  ByteBuffer toRecord(long keyAddress) {
    int pieces = layout.groups().stream().mapToInt(group -> group.pieces().size()).sum();
    var record =
        RecordLayout.allocate(
            RecordLayout.OPEN_BYTES
                + layout.groups().size() * RecordLayout.GROUP_BYTES
                + pieces * RecordLayout.PIECE_BYTES
                + faults.faults().size() * RecordLayout.FAULT_BYTES);
    record
        .putInt(RecordLayout.OPEN_VERSION, RecordLayout.VERSION)
        .putInt(RecordLayout.OPEN_RANK, rank)
        .putInt(RecordLayout.OPEN_RANK_COUNT, rankCount)
        .putInt(RecordLayout.OPEN_GROUP_COUNT, layout.groups().size())
        .putLong(RecordLayout.OPEN_CAPACITY_BYTES, capacityBytes)
        .putLong(RecordLayout.OPEN_STAGING_BYTES_MAX, stagingBytesMax)
        .putInt(RecordLayout.OPEN_QUEUE_DEPTH, queueDepth)
        .putInt(RecordLayout.OPEN_ENGINE_KIND, kind.code)
        .putInt(RecordLayout.OPEN_DIRECT, direct ? 1 : 0)
        .putInt(RecordLayout.OPEN_ALIGNMENT, alignment)
        .putInt(RecordLayout.OPEN_ALLOCATION, allocation.code)
        .putInt(RecordLayout.OPEN_BLOCKS_IN_FLIGHT_MAX, blocksInFlightMax)
        .putLong(RecordLayout.OPEN_FINGERPRINT, layout.fingerprint())
        .putLong(RecordLayout.OPEN_LOCK_WAIT_NANOS, lockWaitNanos)
        .putLong(RecordLayout.OPEN_FAULT_SEED, faults.seed() + 1000L * rank)
        .putInt(RecordLayout.OPEN_FAULT_COUNT, faults.faults().size())
        .putInt(RecordLayout.OPEN_DEVICE_KIND, cudaDevice < 0 ? 0 : 1)
        .putInt(RecordLayout.OPEN_DEVICE_ORDINAL, Math.max(0, cudaDevice))
        .putInt(RecordLayout.OPEN_KEEPING, keeping.bits())
        .putLong(RecordLayout.OPEN_FREE_FLOOR_BYTES, keeping.freeFloorBytes())
        .putLong(RecordLayout.OPEN_SLOT_RECORD_BYTES, keeping.slotRecordBytes())
        .putLong(RecordLayout.OPEN_CIPHER_KEY, keyAddress);
    putGroups(record.position(RecordLayout.OPEN_BYTES));
    faults.putTo(record);
    return record.rewind(); // its address is that of its position
  }

  private void putGroups(ByteBuffer record) {
    for (int group = 0; group < layout.groups().size(); group++) {
      var shape = layout.group(group);
      record
          .putInt(shape.blockTokens())
          .putInt(shape.pieces().size())
          .putLong(deviceBlocks.get(group));
    }
    for (int group = 0; group < layout.groups().size(); group++) {
      var pieces = layout.group(group).pieces();
      for (int piece = 0; piece < pieces.size(); piece++) {
        record
            .putLong(pieceAddresses.get(group).get(piece))
            .putLong(pieces.get(piece).stride())
            .putLong(pieces.get(piece).bytes());
      }
    }
  }
}
