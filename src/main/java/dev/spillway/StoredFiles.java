package dev.spillway;

import dev.spillway.SpillwayStats.StoredFile;
import dev.spillway.block.RestoredBlocks;
import dev.spillway.engine.NativeEngine;
import dev.spillway.engine.NativeMemory;
import dev.spillway.ledger.TransferLedger;
import dev.spillway.worker.IndexFile;
import dev.spillway.worker.TransferWorker;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.channels.OverlappingFileLockException;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * Reads block files and their records from outside, as {@code docs/FORMAT.md} describes them:
 * nothing is written, and no lock is taken but a shared one to verify.
 */
final class StoredFiles {
  private static final int SUPERBLOCK_BYTES = 4096;
  private static final long MAGIC = 0x5941574c4c495053L; // "SPILLWAY" as bytes
  private static final int VERSION = 3;
  private static final int GROUPS_MAX = 16;
  private static final long SLOTS_MAX = 1L << 30;
  private static final int HEADER_BYTES_MIN = 65536;
  private static final int HEADER_BYTES_MAX = 1 << 24;
  private static final int NAME_BYTES = 256;
  private static final int AT_VERSION = 8;
  private static final int AT_ALIGNMENT = 12;
  private static final int AT_EPOCH = 16;
  private static final int AT_FINGERPRINT = 24;
  private static final int AT_RANK = 32;
  private static final int AT_RANK_COUNT = 36;
  private static final int AT_GROUP_COUNT = 40;
  private static final int AT_HEADER_BYTES = 44;
  private static final int AT_OWNER = 48;
  private static final int AT_NAME = 64;
  private static final int AT_REGIONS = 320;
  private static final int REGION_BYTES = 32;
  private static final int AT_IDENTITY = AT_REGIONS + GROUPS_MAX * REGION_BYTES;
  private static final int AT_CIPHER = AT_IDENTITY + Long.BYTES;
  private static final int AT_CHECK = SUPERBLOCK_BYTES - Long.BYTES;
  private static final Set<OpenOption> READ =
      Set.of(StandardOpenOption.READ, LinkOption.NOFOLLOW_LINKS);
  private static final long NANOS_A_SECOND = 1_000_000_000;

  private StoredFiles() {}

  /** The block files of a directory, in the order of their names. */
  static List<Path> in(Path directory) throws IOException {
    try (var files = Files.list(directory)) {
      return files
          .filter(file -> String.valueOf(file.getFileName()).matches("rank-\\d+-of-\\d+\\.blocks"))
          .sorted()
          .toList();
    }
  }

  /** What one block file and its records say of themselves. */
  static StoredFile inspect(Path path) {
    return looked(
        path,
        (file, superblock) -> {
          var look = new Look();
          var trouble = look.at(path, superblock, null);
          return report(path, file, superblock, look, trouble, 0, 0, List.of());
        });
  }

  private interface View {
    StoredFile of(FileChannel file, ByteBuffer superblock) throws IOException;
  }

  /** One file that cannot be read hides no other. */
  private static StoredFile looked(Path path, View view) {
    try {
      if (!Files.isRegularFile(path, LinkOption.NOFOLLOW_LINKS)) {
        throw new IOException("it is not a regular file"); // a pipe would be waited for
      }
      try (var file = FileChannel.open(path, READ);
          var memory = NativeMemory.map(SUPERBLOCK_BYTES)) {
        return view.of(file, superblockOf(file, memory));
      }
    } catch (AccessDeniedException e) {
      return StoredFile.unreadable(path.toString(), "permission denied");
    } catch (IOException | OverlappingFileLockException e) {
      boolean here = e instanceof OverlappingFileLockException;
      return StoredFile.unreadable(
          path.toString(), here ? "this process verifies it already" : "" + e.getMessage());
    }
  }

  /**
   * Reads every block that a record tells of, where nobody has the file open, and compares its
   * checksum.
   *
   * @param bytesPerSecond at most
   */
  static StoredFile verify(Path path, long bytesPerSecond) {
    return looked(
        path,
        (file, superblock) -> {
          try (var lock = file.tryLock(0, Long.MAX_VALUE, true)) {
            if (lock == null) {
              throw new IOException(
                  "it is in use by pid %d; verify what nobody has open"
                      .formatted(superblock.getLong(AT_OWNER)));
            }
            if (superblock.getInt(AT_CIPHER) != 0) {
              throw new IOException(
                  "it is encrypted; who has its key sees what is right by loading it");
            }
            return verify(path, file, superblock, bytesPerSecond);
          }
        });
  }

  private static StoredFile verify(
      Path path, FileChannel file, ByteBuffer superblock, long bytesPerSecond) throws IOException {
    int largest = 1;
    for (int group = 0; group < superblock.getInt(AT_GROUP_COUNT); group++) {
      largest = Math.max(largest, region(superblock, group).payloadBytes());
    }
    try (var memory = NativeMemory.map(largest)) {
      var reader = new Reader(file, superblock, memory, bytesPerSecond);
      var look = new Look();
      var trouble = look.at(path, superblock, reader);
      return report(
          path, file, superblock, look, trouble, reader.good, reader.bad, reader.badBlocks);
    }
  }

  /** A group's slots in the file: so many in each band, the first at an offset. */
  private record Region(
      long offset, long slotCount, int slotBytes, int payloadBytes, int tokens, int bandSlots) {
    long bandBytes() {
      return (long) bandSlots * slotBytes;
    }

    boolean isPossible() {
      boolean bytes = payloadBytes > 0 && payloadBytes <= slotBytes;
      return bytes && bandSlots > 0 && offset > 0 && slotCount >= 0 && slotCount <= SLOTS_MAX;
    }

    long offsetOf(int slot, long bandBytes) {
      return offset + slot / bandSlots * bandBytes + (long) (slot % bandSlots) * slotBytes;
    }
  }

  private static Region region(ByteBuffer superblock, int group) {
    int at = AT_REGIONS + group * REGION_BYTES;
    return new Region(
        superblock.getLong(at),
        superblock.getLong(at + 8),
        superblock.getInt(at + 16),
        superblock.getInt(at + 20),
        superblock.getInt(at + 24),
        superblock.getInt(at + 28));
  }

  private static ByteBuffer superblockOf(FileChannel file, NativeMemory memory) throws IOException {
    var first = superblockAt(file, 0, memory);
    int headerBytes = first == null ? HEADER_BYTES_MIN : first.getInt(AT_HEADER_BYTES);
    var second = superblockAt(file, headerBytes / 4, memory);
    var found =
        first == null || (second != null && second.getLong(AT_EPOCH) > first.getLong(AT_EPOCH))
            ? second
            : first;
    if (found == null) {
      throw new IOException(
          "it is no Spillway block file, or its superblock is damaged"
              + otherVersion(file, memory));
    }
    return found;
  }

  /** A later version may have its check elsewhere; what it calls itself is still worth saying. */
  private static String otherVersion(FileChannel file, NativeMemory memory) throws IOException {
    var bytes = memory.view(0, AT_VERSION + Integer.BYTES).order(ByteOrder.LITTLE_ENDIAN);
    if (!readWhole(file, bytes, 0) || bytes.getLong(0) != MAGIC) {
      return "";
    }
    int version = bytes.getInt(AT_VERSION);
    return version == VERSION
        ? ""
        : ", or of format version %d; this library reads %d".formatted(version, VERSION);
  }

  private static @Nullable ByteBuffer superblockAt(FileChannel file, long at, NativeMemory memory)
      throws IOException {
    var bytes = memory.view(0, SUPERBLOCK_BYTES);
    if (!readWhole(file, bytes, at) || bytes.order(ByteOrder.LITTLE_ENDIAN).getLong(0) != MAGIC) {
      return null;
    }
    long check = NativeEngine.checksum(memory.address(), AT_CHECK, 0);
    if (bytes.getLong(AT_CHECK) != check) {
      return null;
    }
    var copy = ByteBuffer.allocate(SUPERBLOCK_BYTES).order(ByteOrder.LITTLE_ENDIAN);
    copy.put(bytes.rewind()).flip();
    refuseImpossible(copy);
    return copy;
  }

  /** A check that is right is no proof: whoever may write the file can make one. */
  private static void refuseImpossible(ByteBuffer superblock) throws IOException {
    int version = superblock.getInt(AT_VERSION);
    if (version != VERSION) {
      throw new IOException(
          "it has format version %d; this library reads %d".formatted(version, VERSION));
    }
    int groups = superblock.getInt(AT_GROUP_COUNT);
    int header = superblock.getInt(AT_HEADER_BYTES);
    if (groups < 1 || groups > GROUPS_MAX) {
      throw new IOException("it has %d groups; 1 to %d are right".formatted(groups, GROUPS_MAX));
    }
    if (header < HEADER_BYTES_MIN || header > HEADER_BYTES_MAX) {
      throw new IOException(
          "its header has %d bytes; %d to %d are right"
              .formatted(header, HEADER_BYTES_MIN, HEADER_BYTES_MAX));
    }
    for (int group = 0; group < groups; group++) {
      var region = region(superblock, group);
      if (!region.isPossible()) {
        throw new IOException("group %d cannot be: %s".formatted(group, region));
      }
    }
  }

  private static boolean readWhole(FileChannel file, ByteBuffer target, long at)
      throws IOException {
    while (target.hasRemaining()) {
      if (file.read(target, at + target.position()) < 0) {
        return false;
      }
    }
    return true;
  }

  /** Walks the records of a file. */
  private static final class Look {
    long records;
    long torn;
    long voided;
    long bytes;
    long runs;
    long oldest = Long.MAX_VALUE;
    long newest;
    final List<Long> perGroup = new ArrayList<>();
    final Set<Long> tenants = new HashSet<>();

    /** Answers why there are no records, or an empty text. */
    String at(Path path, ByteBuffer superblock, @Nullable Reader reader) {
      var payloads = new ArrayList<Integer>();
      for (int group = 0; group < superblock.getInt(AT_GROUP_COUNT); group++) {
        payloads.add(region(superblock, group).payloadBytes());
        perGroup.add(0L);
      }
      try (var index = IndexFile.look(path, superblock.getLong(AT_IDENTITY), payloads)) {
        for (var run = index.nextRun(); !run.isEnd(); run = index.nextRun()) {
          take(run, payloads.get(run.group()));
          if (reader != null) {
            reader.read(run);
          }
        }
        return "";
      } catch (IOException e) {
        return "no records: " + IndexFile.beside(path).getFileName() + " " + inWords(e);
      }
    }

    private static String inWords(IOException failure) {
      return failure instanceof NoSuchFileException ? "is not there" : "" + failure.getMessage();
    }

    private void take(RestoredBlocks run, int payloadBytes) {
      torn += run.torn();
      voided += run.voided();
      records += run.size();
      bytes += (long) run.size() * payloadBytes;
      perGroup.set(run.group(), perGroup.get(run.group()) + run.size());
      for (int i = 0; i < run.size(); i++) {
        runs += i == 0 || run.slot(i) != run.slot(i - 1) + 1 ? 1 : 0;
        oldest = Math.min(oldest, Integer.toUnsignedLong(run.lastUse(i)));
        newest = Math.max(newest, Integer.toUnsignedLong(run.lastUse(i)));
        if (run.tenant(i) != 0) {
          tenants.add(run.tenant(i));
        }
      }
    }
  }

  /** Reads blocks and compares them with their records. */
  private static final class Reader {
    private static final int BAD_BLOCKS_MAX = 100;

    private final FileChannel file;
    private final ByteBuffer superblock;
    private final NativeMemory memory;
    private final long bytesPerSecond;
    private final long begunAt = System.nanoTime();
    private final long bandBytes;
    private long bytes;
    long good;
    long bad;
    final List<String> badBlocks = new ArrayList<>();

    Reader(FileChannel file, ByteBuffer superblock, NativeMemory memory, long bytesPerSecond) {
      this.file = file;
      this.superblock = superblock;
      this.memory = memory;
      this.bytesPerSecond = bytesPerSecond;
      bandBytes =
          IntStream.range(0, superblock.getInt(AT_GROUP_COUNT))
              .mapToLong(group -> region(superblock, group).bandBytes())
              .sum();
    }

    void read(RestoredBlocks run) {
      var region = region(superblock, run.group());
      int rank = superblock.getInt(AT_RANK);
      for (int i = 0; i < run.size(); i++) {
        long seed = TransferLedger.seed(run.high(i), run.low(i), run.group(), run.generation(i));
        long at = region.offsetOf(run.slot(i), bandBytes);
        var why = compare(region, at, TransferWorker.seedOf(seed, rank), run.checksum(i));
        good += why.isEmpty() ? 1 : 0;
        bad += why.isEmpty() ? 0 : 1;
        if (!why.isEmpty() && badBlocks.size() < BAD_BLOCKS_MAX) {
          badBlocks.add("group %d slot %d: %s".formatted(run.group(), run.slot(i), why));
        }
        pace(region.payloadBytes());
      }
    }

    private String compare(Region region, long at, long seed, long checksum) {
      try {
        if (!readWhole(file, memory.view(0, region.payloadBytes()), at)) {
          return "the file ends before it";
        }
      } catch (IOException e) {
        return String.valueOf(e.getMessage());
      }
      long found = NativeEngine.checksum(memory.address(), region.payloadBytes(), seed);
      return found == checksum ? "" : "its bytes are not those that were stored";
    }

    private void pace(int read) {
      bytes += read;
      long due = (long) ((double) bytes / bytesPerSecond * NANOS_A_SECOND);
      long ahead = due - (System.nanoTime() - begunAt);
      if (ahead > 0) {
        LockSupport.parkNanos(ahead);
      }
    }
  }

  private static StoredFile report(
      Path path,
      FileChannel file,
      ByteBuffer superblock,
      Look look,
      String trouble,
      long good,
      long bad,
      List<String> badBlocks)
      throws IOException {
    var groups = new ArrayList<StoredFile.Group>();
    for (int group = 0; group < superblock.getInt(AT_GROUP_COUNT); group++) {
      var region = region(superblock, group);
      groups.add(
          new StoredFile.Group(
              region.slotCount(),
              region.slotBytes(),
              region.payloadBytes(),
              region.tokens(),
              region.offset(),
              look.perGroup.get(group)));
    }
    var name = new byte[NAME_BYTES];
    superblock.get(AT_NAME, name);
    int length = 0;
    while (length < name.length && name[length] != 0) {
      length++;
    }
    return new StoredFile(
        path.toString(),
        file.size(),
        superblock.getInt(AT_VERSION),
        new String(name, 0, length, StandardCharsets.UTF_8),
        "%016x".formatted(superblock.getLong(AT_FINGERPRINT)),
        "%016x".formatted(superblock.getLong(AT_IDENTITY)),
        superblock.getLong(AT_EPOCH),
        superblock.getInt(AT_RANK),
        superblock.getInt(AT_RANK_COUNT),
        superblock.getInt(AT_ALIGNMENT),
        superblock.getLong(AT_OWNER),
        groups,
        trouble,
        look.records,
        look.torn,
        look.voided,
        look.bytes,
        look.records == 0 ? 0 : look.oldest,
        look.newest,
        look.tenants.size(),
        look.runs,
        good,
        bad,
        badBlocks);
  }
}
