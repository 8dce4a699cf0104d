package dev.spillway.worker;

import dev.spillway.block.RestoredBlocks;
import dev.spillway.engine.EngineMode;
import dev.spillway.engine.NativeEngine;
import dev.spillway.engine.OpenRefusedException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.FileChannel;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The record file of one rank, beside its block file: a record for each slot, at the slot's place,
 * written after the block itself. Only a hint: what it gets wrong, the checksum of the bytes finds
 * out. The lock of the block file is its lock. {@link #nextRun} is for one thread, {@link
 * #raiseFloor} for the worker's, {@link #write} for the record writer's.
 */
public final class IndexFile implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(IndexFile.class);

  private static final Set<OpenOption> OPEN =
      Set.of(StandardOpenOption.READ, StandardOpenOption.WRITE, LinkOption.NOFOLLOW_LINKS);
  private static final Set<OpenOption> LOOK =
      Set.of(StandardOpenOption.READ, LinkOption.NOFOLLOW_LINKS);
  private static final Set<OpenOption> CREATE =
      Set.of(StandardOpenOption.READ, StandardOpenOption.WRITE, StandardOpenOption.CREATE_NEW);
  private static final String MODE = "rw-------";
  private static final int COPY_BYTES = 1 << 20;
  private static final int INTERRUPTS_MAX = 16; // of one access

  private final Path path;
  private final Set<OpenOption> options;
  private FileChannel file; // guarded by this
  private boolean closed; // guarded by this
  private final List<Integer> payloadBytes;
  private final @Nullable String coldReason;
  private final boolean created;
  private IndexHeader header;

  // Of the scan.
  private final IndexRecord.Checker checker;
  private final ByteBuffer records;
  private int scanGroup;
  private long scanSlot;
  private volatile long scanEpoch;
  private volatile long scanFloor;

  private IndexFile(
      Path path,
      Set<OpenOption> options,
      FileChannel file,
      IndexHeader header,
      List<Integer> payloadBytes,
      @Nullable String coldReason,
      boolean created) {
    this.path = path;
    this.options = options;
    this.created = created;
    this.file = file;
    this.header = header;
    this.payloadBytes = List.copyOf(payloadBytes);
    this.coldReason = coldReason;
    checker = new IndexRecord.Checker(header.identity());
    int run = (int) Math.min(RestoredBlocks.SLOTS_MAX, header.slots());
    records = ByteBuffer.allocateDirect(run * IndexRecord.BYTES).order(ByteOrder.LITTLE_ENDIAN);
    scanGroup = coldReason == null ? 0 : header.slotCounts().size();
  }

  /** The record file that belongs to a block file. */
  public static Path beside(Path blockFile) {
    var name = String.valueOf(blockFile.getFileName());
    int end = name.endsWith(".blocks") ? name.length() - ".blocks".length() : name.length();
    return blockFile.resolveSibling(name.substring(0, end) + ".index");
  }

  /**
   * Opens the records beside a block file that is open, or begins new ones.
   *
   * @param payloadBytes of a block, by group
   * @param discardsOther whether records of a later format are emptied, not refused
   * @throws OpenRefusedException where they are of a later format, or cannot be opened
   */
  public static IndexFile open(
      EngineMode mode,
      int rank,
      int rankCount,
      long fingerprint,
      List<Integer> payloadBytes,
      boolean discardsOther) {
    var path = beside(Path.of(mode.path()));
    var wanted =
        new IndexHeader(
            IndexHeader.VERSION,
            mode.identity(),
            mode.epoch(),
            0,
            rank,
            rankCount,
            fingerprint,
            mode.slotCounts(),
            mode.regionOffsets());
    boolean created = !Files.exists(path, LinkOption.NOFOLLOW_LINKS);
    try {
      return uninterrupted(
          () -> open(path, Path.of(mode.path()), wanted, payloadBytes, discardsOther, created));
    } catch (IOException e) {
      remove(path.resolveSibling(path.getFileName() + ".new"));
      if (created) {
        remove(path);
      }
      throw refusal(Path.of(mode.path()), e);
    }
  }

  /**
   * Opens records to read them only, beside an owner or without one.
   *
   * @param identity of the block file; records of another are of no use
   * @throws IOException where there are none that can be read, with the reason
   */
  public static IndexFile look(Path blockFile, long identity, List<Integer> payloadBytes)
      throws IOException {
    var path = beside(blockFile);
    return uninterrupted(() -> lookAt(path, identity, payloadBytes));
  }

  private static IndexFile lookAt(Path path, long identity, List<Integer> payloadBytes)
      throws IOException {
    if (Files.exists(path, LinkOption.NOFOLLOW_LINKS)) {
      refuseOtherKinds(path);
    }
    var file = FileChannel.open(path, LOOK);
    try {
      var bytes = IndexHeader.bytesOf(file);
      var header = IndexHeader.read(bytes);
      if (header.identity() != identity || header.slotCounts().size() != payloadBytes.size()) {
        throw new IOException("is of another block file");
      }
      var records = new IndexFile(path, LOOK, file, header, payloadBytes, null, false);
      records.scanEpoch = Long.MAX_VALUE;
      records.scanFloor = header.floor();
      return records;
    } catch (IndexHeader.Unreadable e) {
      file.close();
      throw new IOException("cannot be read: " + e.getMessage(), e);
    } catch (IOException | RuntimeException e) {
      file.close();
      throw e;
    }
  }

  private static void refuseOtherKinds(Path path) throws IOException {
    if (!Files.isRegularFile(path, LinkOption.NOFOLLOW_LINKS)) {
      throw new IOException("is no regular file");
    }
  }

  /**
   * Whether records that lie beside a block file can be opened, as far as that can be said before
   * the block file is.
   *
   * @throws OpenRefusedException as {@link #open}
   */
  public static void check(Path blockFile, boolean discardsOther) {
    var path = beside(blockFile);
    try {
      if (!Files.exists(path, LinkOption.NOFOLLOW_LINKS)) {
        return;
      }
      refuseForeign(path, blockFile);
      uninterrupted(
          () -> {
            try (var file = FileChannel.open(path, LOOK)) {
              refuseOtherFormat(path, IndexHeader.bytesOf(file), discardsOther);
            }
            return true;
          });
    } catch (IOException e) {
      throw refusal(blockFile, e);
    }
  }

  private static void refuseForeign(Path path, Path blockFile) throws IOException {
    refuseOtherKinds(path);
    if (Files.exists(blockFile, LinkOption.NOFOLLOW_LINKS)
        && !ownerOf(path).equals(ownerOf(blockFile))) {
      throw new IOException(
          "belongs to user %s, the block file to user %s"
              .formatted(ownerOf(path), ownerOf(blockFile)));
    }
  }

  private static OpenRefusedException refusal(Path blockFile, IOException cause) {
    return new OpenRefusedException(
        OpenRefusedException.Reason.PATH,
        0,
        "%s cannot be opened (%s); mend that, or keep nothing (warmRestart false)"
            .formatted(beside(blockFile), cause.getMessage()));
  }

  private static IndexFile open(
      Path path,
      Path blockFile,
      IndexHeader wanted,
      List<Integer> payloadBytes,
      boolean discardsOther,
      boolean created)
      throws IOException {
    boolean exists = Files.exists(path, LinkOption.NOFOLLOW_LINKS);
    if (exists) {
      refuseForeign(path, blockFile);
    }
    String cold = exists ? null : "there are no records";
    var header = wanted;
    if (exists) {
      try (var file = FileChannel.open(path, OPEN)) {
        Files.setPosixFilePermissions(path, PosixFilePermissions.fromString(MODE));
        var bytes = IndexHeader.bytesOf(file);
        refuseOtherFormat(path, bytes, discardsOther);
        var found = IndexHeader.read(bytes);
        cold = differenceThatVoids(found, wanted);
        header =
            wanted
                .withEpoch(Math.max(found.epoch() + 1, wanted.epoch()))
                .withFloor(cold == null ? found.floor() : 0);
        if (cold == null && !found.slotCounts().equals(wanted.slotCounts())) {
          move(path, file, found, header);
        }
      } catch (IndexHeader.Unreadable e) {
        cold = e.getMessage();
      }
    }
    if (cold != null) {
      begin(path, header);
      if (exists) {
        LOG.warn("{}: nothing is restored: {}", path, cold);
      }
    }
    var file = FileChannel.open(path, OPEN);
    try {
      reserve(path, file, header);
      return new IndexFile(path, OPEN, file, header, payloadBytes, cold, created);
    } catch (IOException | RuntimeException e) {
      file.close();
      throw e;
    }
  }

  private static Object ownerOf(Path file) throws IOException {
    return Files.getAttribute(file, "unix:uid", LinkOption.NOFOLLOW_LINKS);
  }

  private static void refuseOtherFormat(Path path, ByteBuffer bytes, boolean discardsOther) {
    var version = IndexHeader.versionOf(bytes);
    if (version != null && version != IndexHeader.VERSION && !discardsOther) {
      throw new OpenRefusedException(
          OpenRefusedException.Reason.LAYOUT,
          0,
          ("%s has format version %d; this library reads %d: use one of its version, or ask for the"
                  + " content to be discarded (discardOther)")
              .formatted(path, version, IndexHeader.VERSION));
    }
  }

  /** Why no record of a file counts, or null. The block file's own checks have passed. */
  private static @Nullable String differenceThatVoids(IndexHeader found, IndexHeader wanted) {
    if (found.identity() != wanted.identity()) {
      return "they are of another block file than the one that is there";
    }
    if (found.fingerprint() != wanted.fingerprint()
        || found.slotCounts().size() != wanted.slotCounts().size()) {
      return "they are of another layout";
    }
    if (found.rank() != wanted.rank() || found.rankCount() != wanted.rankCount()) {
      return "they are of rank %d of %d".formatted(found.rank(), found.rankCount());
    }
    return null;
  }

  /** Nothing but a header; a crash in between leaves none, which is as empty. */
  private static void begin(Path path, IndexHeader header) throws IOException {
    try (var file = Files.exists(path) ? FileChannel.open(path, OPEN) : create(path)) {
      file.truncate(0);
      writeWhole(file, header.bytes(), 0);
    }
  }

  /** The capacity was changed: what has kept its place in the block file is kept. */
  private static void move(Path path, FileChannel file, IndexHeader found, IndexHeader wanted)
      throws IOException {
    var fresh = path.resolveSibling(path.getFileName() + ".new");
    Files.deleteIfExists(fresh);
    try (var target = create(fresh)) {
      writeWhole(target, wanted.bytes(), 0);
      for (int group = 0; group < wanted.slotCounts().size(); group++) {
        long slots = Math.min(found.slotCounts().get(group), wanted.slotCounts().get(group));
        copy(
            file.position(found.recordsOf(group)),
            target.position(wanted.recordsOf(group)),
            slots * IndexRecord.BYTES);
      }
    }
    Files.move(fresh, path, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
  }

  private static void copy(FileChannel from, FileChannel to, long bytes) throws IOException {
    var buffer = ByteBuffer.allocate(COPY_BYTES);
    for (long left = bytes; left > 0; ) {
      int count = from.read(buffer.clear().limit((int) Math.min(COPY_BYTES, left)));
      if (count < 0) {
        return; // the file was cut off: the rest is empty
      }
      left -= count;
      buffer.flip();
      while (buffer.hasRemaining()) {
        to.write(buffer);
      }
    }
  }

  private static FileChannel create(Path path) throws IOException {
    try {
      return FileChannel.open(
          path,
          CREATE,
          PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString(MODE)));
    } catch (FileAlreadyExistsException e) {
      throw new IOException(path + " came into being while it was made", e);
    }
  }

  /** Where the file system cannot reserve, the file is sparse: a full disk costs a record. */
  private static void reserve(Path path, FileChannel file, IndexHeader header) throws IOException {
    if (file.size() > header.fileBytes()) {
      file.truncate(header.fileBytes());
    }
    int errno = NativeEngine.reserve(path, header.fileBytes());
    if (errno != 0 && file.size() < header.fileBytes()) {
      LOG.info("{}: space is not reserved (errno {})", path, errno);
      writeWhole(file, ByteBuffer.allocate(1), header.fileBytes() - 1);
    }
  }

  private static void writeWhole(FileChannel file, ByteBuffer bytes, long at) throws IOException {
    long from = at - bytes.position();
    while (bytes.hasRemaining()) {
      file.write(bytes, from + bytes.position());
    }
  }

  /** Takes the file away again where this open has made it. */
  public void removeIfCreated() {
    if (created) {
      remove(path);
    }
  }

  private static void remove(Path path) {
    try {
      Files.deleteIfExists(path);
    } catch (IOException e) {
      LOG.warn("{} could not be removed", path, e);
    }
  }

  /** The lowest epoch that may be begun: one that no block was ever stored in. */
  public long epoch() {
    return header.epoch();
  }

  /** Why there is nothing to restore, or null. */
  public @Nullable String coldReason() {
    return coldReason;
  }

  public Path path() {
    return path;
  }

  public long slots() {
    return header.slots();
  }

  int payloadBytes(int group) {
    return payloadBytes.get(group);
  }

  long identity() {
    return header.identity();
  }

  /** Begins an epoch, before its first record: what is restored is of earlier ones. */
  public void begin(long epoch) throws IOException {
    header = header.withEpoch(epoch);
    scanEpoch = epoch;
    scanFloor = header.floor();
    put(header.bytes(), 0);
  }

  /** No record of this generation or of an earlier one counts any more. */
  void raiseFloor(long generation) throws IOException {
    if (Long.compareUnsigned(generation, header.floor()) > 0) {
      scanFloor = generation;
      var raised = header.withFloor(generation);
      put(raised.bytes(), 0);
      header = raised; // one that was not written is tried again
    }
  }

  /** Writes the records of neighbouring slots. */
  void write(ByteBuffer bytes, long entry) throws IOException {
    put(bytes, IndexHeader.BYTES + entry * IndexRecord.BYTES);
  }

  private void put(ByteBuffer bytes, long at) throws IOException {
    int from = bytes.position();
    withFile(channel -> writeWhole(channel, bytes.position(from), at));
  }

  private interface Access {
    void on(FileChannel channel) throws IOException;
  }

  private void withFile(Access access) throws IOException {
    uninterrupted(
        () -> {
          access.on(channel());
          return true;
        });
  }

  private synchronized FileChannel channel() throws IOException {
    if (!closed && !file.isOpen()) {
      file = FileChannel.open(path, options);
    }
    return file;
  }

  private interface Attempt<T> {
    T make() throws IOException;
  }

  /** Whoever is interrupted in the midst of an access closes the channel, for all threads. */
  private static <T> T uninterrupted(Attempt<T> attempt) throws IOException {
    boolean interrupted = false;
    try {
      for (int left = INTERRUPTS_MAX; ; left--) {
        interrupted |= Thread.interrupted();
        try {
          return attempt.make();
        } catch (ClosedChannelException e) {
          if (left == 0) {
            throw e;
          }
        }
      }
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /**
   * Reads the records of the next run of slots; after the last, the end.
   *
   * @throws IOException where they cannot be read
   */
  public RestoredBlocks nextRun() throws IOException {
    while (scanGroup < header.slotCounts().size()
        && scanSlot >= header.slotCounts().get(scanGroup)) {
      scanGroup++;
      scanSlot = 0;
    }
    if (scanGroup >= header.slotCounts().size()) {
      return RestoredBlocks.end();
    }
    int count =
        (int) Math.min(RestoredBlocks.SLOTS_MAX, header.slotCounts().get(scanGroup) - scanSlot);
    var run = new RestoredBlocks(scanGroup, (int) scanSlot, count);
    long at = header.recordsOf(scanGroup) + scanSlot * IndexRecord.BYTES;
    records.clear().limit(count * IndexRecord.BYTES);
    withFile(
        channel -> {
          while (records.hasRemaining() && channel.read(records, at + records.position()) >= 0) {
            // until the run is whole or the file ends
          }
        });
    int whole = records.position() / IndexRecord.BYTES;
    for (int i = whole; i < count; i++) {
      run.countTorn(); // cut off
    }
    for (int i = 0; i < whole; i++) {
      take(run, i * IndexRecord.BYTES, (int) scanSlot + i);
    }
    scanSlot += count;
    return run;
  }

  private void take(RestoredBlocks run, int at, int slot) {
    if (IndexRecord.isEmpty(records, at)) {
      return;
    }
    if (records.getLong(at + IndexRecord.CHECK) != checker.check(records, at, slot)) {
      run.countTorn();
      return;
    }
    long generation = records.getLong(at + IndexRecord.GENERATION);
    if (generation >>> 32 >= scanEpoch) {
      return; // of this process, just written
    }
    if (Long.compareUnsigned(generation, scanFloor) <= 0
        || records.getShort(at + IndexRecord.GROUP) != run.group()
        || records.getInt(at + IndexRecord.LENGTH) != payloadBytes(run.group())) {
      run.countVoided();
      return;
    }
    run.add(
        slot,
        records.getLong(at + IndexRecord.HIGH),
        records.getLong(at + IndexRecord.LOW),
        generation,
        records.getLong(at + IndexRecord.CHECKSUM),
        records.getLong(at + IndexRecord.TENANT),
        records.getInt(at + IndexRecord.DEPTH),
        records.getInt(at + IndexRecord.LAST_USE));
  }

  void force() throws IOException {
    withFile(channel -> channel.force(true));
  }

  @Override
  public synchronized void close() {
    closed = true;
    try {
      file.close();
    } catch (IOException e) {
      LOG.warn("{} could not be closed", path, e);
    }
  }
}
