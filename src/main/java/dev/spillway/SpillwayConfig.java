package dev.spillway;

import dev.spillway.block.KvLayout;
import dev.spillway.device.DeviceMemory;
import dev.spillway.engine.CipherKey;
import dev.spillway.engine.EngineOptions;
import dev.spillway.engine.EngineOptions.Allocation;
import dev.spillway.engine.EngineOptions.EngineKind;
import dev.spillway.engine.EngineOptions.Keeping;
import dev.spillway.engine.FaultSpec;
import dev.spillway.ledger.TransferLedger;
import dev.spillway.policy.AdmissionPolicy;
import java.nio.channels.ByteChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.LongSupplier;

/**
 * What Spillway is opened with. Every value is checked where it is given, with what was given and
 * what is allowed; the defaults need nothing but a directory and device memory. Immutable.
 */
public final class SpillwayConfig {
  private static final int RECORD_BYTES = 64;
  private static final long NANOS_A_SECOND = 1_000_000_000;

  private final Builder values;

  private SpillwayConfig(Builder values) {
    this.values = values;
  }

  /** The embedded default: everything in this directory. */
  public static SpillwayConfig in(Path directory, DeviceMemory device) {
    return builder(directory, device).build();
  }

  public static Builder builder(Path directory, DeviceMemory device) {
    return new Builder(directory, device);
  }

  public Path directory() {
    return values.directory;
  }

  /**
   * For a scheduler whose ranks are all in other processes, added with {@link
   * Builder#addRank(ByteChannel)}.
   *
   * @param deviceBlocks blocks of device memory that each rank has, by group
   */
  public static Builder remote(KvLayout layout, int... deviceBlocks) {
    return new Builder(layout, deviceBlocks.clone());
  }

  public KvLayout layout() {
    return values.layout;
  }

  /** Blocks of device memory in a group, on every rank. */
  public int deviceBlocks(int group) {
    return values.deviceBlocks[group];
  }

  /** Ranks of this and of other processes, each with a block file and device memory of its own. */
  public int rankCount() {
    return localRanks() + values.channels.size();
  }

  int localRanks() {
    return values.ranks.size();
  }

  boolean hasCuda() {
    return values.ranks.stream().anyMatch(device -> device.cudaDevice() >= 0);
  }

  List<ByteChannel> channels() {
    return values.channels;
  }

  /** For how long a rank in another process counts as there without a word of it. */
  public Duration rankLease() {
    return values.rankLease;
  }

  public Duration lockWait() {
    return values.lockWait;
  }

  public int blocksInFlightMax() {
    return values.blocksInFlightMax;
  }

  public Duration closeWait() {
    return values.closeWait;
  }

  public boolean workerThread() {
    return values.workerThread;
  }

  public Duration operationBound() {
    return values.operationBound;
  }

  public Duration probeInterval() {
    return values.probeInterval;
  }

  public long scrubBytesPerSecond() {
    return values.scrubBytesPerSecond;
  }

  public boolean orderedResults() {
    return values.orderedResults;
  }

  public AdmissionPolicy admission() {
    return values.admission;
  }

  public boolean warmRestart() {
    return values.warmRestart;
  }

  public Duration restoreWait() {
    return values.restoreWait;
  }

  LongSupplier secondClock() {
    return values.secondClock;
  }

  public boolean discardOther() {
    return values.discardOther;
  }

  /** Bytes of slots on each rank's disk. */
  public long capacityBytes() {
    return values.totalCapacityBytes == 0
        ? values.capacityBytes
        : Math.max(1, values.totalCapacityBytes / rankCount());
  }

  /** The native engine's share of these values. */
  EngineOptions engineOptions(int local, int rank, int rankCount) {
    var device = values.ranks.get(local);
    var layout = device.layout();
    var addresses = new ArrayList<List<Long>>();
    var blocks = new ArrayList<Integer>();
    for (int group = 0; group < layout.groups().size(); group++) {
      blocks.add(device.blockCount(group));
      var pieces = new ArrayList<Long>();
      for (int piece = 0; piece < layout.group(group).pieces().size(); piece++) {
        pieces.add(device.pieceAddress(group, piece));
      }
      addresses.add(pieces);
    }
    return new EngineOptions(
        values.directory,
        values.nameSpace,
        layout,
        rank,
        rankCount,
        capacityBytes(),
        values.stagingBytes,
        values.queueDepth,
        values.engine,
        values.directIo,
        values.alignment,
        values.allocation,
        values.blocksInFlightMax + TransferLedger.OWN_BLOCKS_MAX,
        values.lockWait.toNanos(),
        addresses,
        blocks,
        device.cudaDevice(),
        device.cudaLibrary(),
        values.cipherKey,
        new Keeping(
            !values.warmRestart,
            values.discardOther,
            values.freeFloorBytes,
            values.warmRestart ? RECORD_BYTES : 0),
        values.faults);
  }

  /** Whether a store may find a disk full that stored blocks could give way on. */
  boolean givesWay() {
    return values.allocation == Allocation.SPARSE;
  }

  /** Collects the values. Not thread-safe. */
  public static final class Builder implements Cloneable {
    private static final int RANKS_MAX = 64;
    private static final Duration WAIT_MAX = Duration.ofDays(1);

    private final Path directory;
    private final KvLayout layout;
    private final int[] deviceBlocks;
    private String nameSpace = "default";
    private long capacityBytes = 1L << 30;
    private long stagingBytes = 256L << 20;
    private int queueDepth = 32;
    private EngineKind engine = EngineKind.AUTO;
    private boolean directIo = true;
    private int alignment;
    private Allocation allocation = Allocation.PREALLOCATE;
    private int blocksInFlightMax = 4096;
    private Duration lockWait = Duration.ofSeconds(30);
    private Duration closeWait = Duration.ofSeconds(30);
    private Duration operationBound = Duration.ofSeconds(30);
    private Duration probeInterval = Duration.ofSeconds(10);
    private FaultSpec faults = FaultSpec.NONE;
    private boolean workerThread;
    private long scrubBytesPerSecond;
    private boolean orderedResults;
    private AdmissionPolicy admission = AdmissionPolicy.always();
    private boolean warmRestart = true;
    private Duration restoreWait = Duration.ofSeconds(1);
    private boolean discardOther;
    private LongSupplier secondClock = steadySeconds();
    private long totalCapacityBytes;
    private long freeFloorBytes;
    private CipherKey cipherKey = CipherKey.NONE;

    private List<DeviceMemory> ranks;
    private List<ByteChannel> channels = List.of();
    private Duration rankLease = Duration.ofSeconds(5);

    private Builder(Path directory, DeviceMemory device) {
      check(
          directory.toString().indexOf('\n') < 0,
          "directory %s has a line break in its name; none would be right",
          directory.toString().replace('\n', '?'));
      this.directory = directory;
      layout = device.layout();
      deviceBlocks = new int[layout.groups().size()];
      Arrays.setAll(deviceBlocks, device::blockCount);
      ranks = List.of(device);
    }

    private Builder(KvLayout layout, int[] deviceBlocks) {
      check(
          deviceBlocks.length == layout.groups().size(),
          "device blocks of %d groups; %d would be right",
          deviceBlocks.length,
          layout.groups().size());
      directory = Path.of("");
      this.layout = layout;
      this.deviceBlocks = deviceBlocks;
      ranks = List.of();
    }

    /**
     * Another rank in this process, as tensor parallelism has it: the same layout and block
     * numbers, with a share of each block's bytes in device memory of its own. A block is stored
     * once all ranks have written it. Ranks beyond the first have threads of their own.
     */
    public Builder addRank(DeviceMemory memory) {
      checkRoomForRank();
      check(
          !ranks.isEmpty(),
          "a rank in this process beside a scheduler without device memory; builder(directory,"
              + " device) would be right");
      check(
          memory.layout().fingerprint() == layout.fingerprint(),
          "rank %d has another layout than rank 0; the same would be right",
          ranks.size());
      for (int group = 0; group < deviceBlocks.length; group++) {
        check(
            memory.blockCount(group) >= deviceBlocks[group],
            "rank %d has %d device blocks in group %d and rank 0 has %d; as many would be right",
            ranks.size(),
            memory.blockCount(group),
            group,
            deviceBlocks[group]);
      }
      var more = new ArrayList<>(ranks);
      more.add(memory);
      ranks = List.copyOf(more);
      return this;
    }

    /**
     * A rank in another process, where a {@link RankWorker} serves the other end. Ranks of this
     * process have the first numbers; those of others say theirs themselves.
     *
     * @param channel blocking, as a {@code SocketChannel} of a Unix domain socket is; closed with
     *     the Spillway
     */
    public Builder addRank(ByteChannel channel) {
      checkRoomForRank();
      var more = new ArrayList<>(channels);
      more.add(channel);
      channels = List.copyOf(more);
      return this;
    }

    private void checkRoomForRank() {
      int count = ranks.size() + channels.size() + 1;
      check(count <= RANKS_MAX, "%d ranks; at most %d would be right", count, RANKS_MAX);
    }

    /**
     * For how long a rank in another process counts as there without a word of it; then its
     * transfers end as {@code ENGINE_FAILED}. 5 s unless set.
     */
    public Builder rankLease(Duration value) {
      check(
          value.toMillis() >= 10 && value.compareTo(WAIT_MAX) <= 0,
          "rankLease is %s; 10 ms to one day would be right",
          value);
      rankLease = value;
      return this;
    }

    /**
     * What must agree for blocks to be shared: model, revision, data type, tenant. 1 to 255 bytes
     * of UTF-8; "default" unless set.
     */
    public Builder nameSpace(String value) {
      int bytes = value.getBytes(StandardCharsets.UTF_8).length;
      check(bytes >= 1 && bytes <= 255, "nameSpace has %d bytes; 1 to 255 would be right", bytes);
      check(
          value.indexOf('\0') < 0,
          "nameSpace %s has a zero character; none would be right",
          value.replace('\0', '?'));
      nameSpace = value;
      return this;
    }

    /**
     * Bytes of slots on disk for each rank, all groups together, counted in padded slots; 1 GiB
     * unless set.
     */
    public Builder capacityBytes(long value) {
      check(value > 0, "capacityBytes is %d; at least 1 would be right", value);
      capacityBytes = value;
      return this;
    }

    /** Pinned host memory a lane, of which there are two, at most; 256 MiB unless set. */
    public Builder stagingBytes(long value) {
      check(value > 0, "stagingBytes is %d; at least 1 would be right", value);
      stagingBytes = value;
      return this;
    }

    /** Requests in flight at the disk, a lane; 32 unless set. */
    public Builder queueDepth(int value) {
      check(value >= 1 && value <= 4096, "queueDepth is %d; 1 to 4096 would be right", value);
      queueDepth = value;
      return this;
    }

    /** How to get to the disk; {@code AUTO} unless set. */
    public Builder engine(EngineKind value) {
      engine = value;
      return this;
    }

    /** False asks for the page cache instead of direct I/O; slots are then not padded. */
    public Builder directIo(boolean value) {
      directIo = value;
      return this;
    }

    /** Alignment of direct I/O: 0, the default, takes what kernel, device and page ask for. */
    public Builder alignment(int value) {
      check(
          value >= 0 && Integer.bitCount(value) <= 1,
          "alignment is %d; 0 or a power of two would be right",
          value);
      alignment = value;
      return this;
    }

    /**
     * How the space of the block file is come by; {@code PREALLOCATE} unless set. With {@code
     * SPARSE} a store that finds the disk full has older blocks give way, whose space goes back to
     * the file system, and tries once more. A scheduler over ranks in other processes is told here,
     * too.
     */
    public Builder allocation(Allocation value) {
      allocation = value;
      return this;
    }

    /** Blocks submitted and not yet over, at most; more are {@code REJECTED}. 4096 unless set. */
    public Builder blocksInFlightMax(int value) {
      check(
          value >= 1 && value <= 65536,
          "blocksInFlightMax is %d; 1 to 65536 would be right",
          value);
      blocksInFlightMax = value;
      return this;
    }

    /** How long to wait for the requests of a dead owner to land; 30 s unless set. */
    public Builder lockWait(Duration value) {
      check(
          !value.isNegative() && value.compareTo(WAIT_MAX) <= 0,
          "lockWait is %s; zero to one day would be right",
          value);
      lockWait = value;
      return this;
    }

    /** How long close waits for kernel and device to let go of memory; 30 s unless set. */
    public Builder closeWait(Duration value) {
      check(
          !value.isNegative() && value.compareTo(WAIT_MAX) <= 0,
          "closeWait is %s; zero to one day would be right",
          value);
      closeWait = value;
      return this;
    }

    /**
     * How long a block may take before it is {@code EXPIRED}; its memory stays in use until the
     * kernel lets go. 30 s unless set, zero for no bound.
     */
    public Builder operationBound(Duration value) {
      check(
          !value.isNegative() && value.compareTo(WAIT_MAX) <= 0,
          "operationBound is %s; zero to one day would be right",
          value);
      operationBound = value;
      return this;
    }

    /** Time between the trials of a retired slot, three of which bring it back; 10 s unless set. */
    public Builder probeInterval(Duration value) {
      check(
          !value.isNegative() && value.compareTo(WAIT_MAX) <= 0,
          "probeInterval is %s; zero to one day would be right",
          value);
      probeInterval = value;
      return this;
    }

    /**
     * Reads stored blocks that nobody asks for and compares their checksums, at most so many bytes
     * a second on each rank and in the time of {@link Spillway#poll}: rot is found before a request
     * meets it. A block that is bad is lost as by a load that fails. 0, the default, for none.
     */
    public Builder scrubBytesPerSecond(long value) {
      check(value >= 0, "scrubBytesPerSecond is %d; 0 or more would be right", value);
      scrubBytesPerSecond = value;
      return this;
    }

    /** Faults to make on purpose, for trials only; none unless set. */
    public Builder faults(FaultSpec value) {
      faults = value;
      return this;
    }

    /** True gives the rank a thread of its own; otherwise {@link Spillway#poll} drives it. */
    public Builder workerThread(boolean value) {
      workerThread = value;
      return this;
    }

    /**
     * True completes results in the order of the calls, stores and loads each in a line of their
     * own: one that is done waits for those before it. Unless set, each is told as it ends.
     */
    public Builder orderedResults(boolean value) {
      orderedResults = value;
      return this;
    }

    /** Which stores are worth a write; all unless set. */
    public Builder admission(AdmissionPolicy value) {
      admission = value;
      return this;
    }

    /**
     * False keeps nothing: the block file is unlinked once it is open, and no block outlives the
     * process. Unless set, a later process finds what this one has stored, by records beside the
     * block file.
     */
    public Builder warmRestart(boolean value) {
      warmRestart = value;
      return this;
    }

    /**
     * How long open waits for the blocks of an earlier process to be found again; the rest is found
     * while lookups go on. 1 s unless set, zero for not at all.
     */
    public Builder restoreWait(Duration value) {
      check(
          !value.isNegative() && value.compareTo(WAIT_MAX) <= 0,
          "restoreWait is %s; zero to one day would be right",
          value);
      restoreWait = value;
      return this;
    }

    /**
     * True discards what a block file holds of another name space, layout, block size, alignment or
     * format version, or behind a damaged superblock; unless set, open is refused with what
     * differs.
     */
    public Builder discardOther(boolean value) {
      discardOther = value;
      return this;
    }

    /** Bytes of slots on disk of all ranks together, in the place of so many for each. */
    public Builder totalCapacityBytes(long value) {
      check(value > 0, "totalCapacityBytes is %d; at least 1 would be right", value);
      totalCapacityBytes = value;
      return this;
    }

    /**
     * Encrypts what lies on disk with AES-256-XTS, by the libcrypto of the system. Who has not the
     * key finds nothing that is right, only misses: with the key the cache is destroyed. Keys of
     * blocks, which are hashes, lie beside it as they are.
     *
     * @param key 64 bytes, two different keys of 32; kept by this configuration, copied by each
     *     engine, of which close wipes it
     */
    public Builder encryptionKey(byte[] key) {
      cipherKey = CipherKey.of(key);
      return this;
    }

    /**
     * Bytes that the file system must have left once everything is reserved; open is refused where
     * it would not. 0 unless set.
     */
    public Builder freeFloorBytes(long value) {
      check(value >= 0, "freeFloorBytes is %d; 0 or more would be right", value);
      freeFloorBytes = value;
      return this;
    }

    /** What the records take for the time: seconds since 1970. */
    Builder secondClock(LongSupplier value) {
      secondClock = value;
      return this;
    }

    /** The time as it was when this was called, and then as it passes: never back. */
    private static LongSupplier steadySeconds() {
      long bornAtSecond = System.currentTimeMillis() / 1000;
      long bornAtNanos = System.nanoTime();
      return () -> bornAtSecond + (System.nanoTime() - bornAtNanos) / NANOS_A_SECOND;
    }

    public SpillwayConfig build() {
      try {
        return new SpillwayConfig((Builder) clone());
      } catch (CloneNotSupportedException e) {
        throw new IllegalStateException("the builder is cloneable", e);
      }
    }

    private static void check(boolean right, String format, Object... given) {
      if (!right) {
        throw new IllegalArgumentException(format.formatted(given));
      }
    }
  }
}
