package dev.spillway;

import static dev.spillway.testing.SpillwayFixture.keys;
import static dev.spillway.testing.SpillwayFixture.range;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.spillway.block.BlockOutcome;
import dev.spillway.block.DeviceEvent;
import dev.spillway.block.KvLayout;
import dev.spillway.block.KvLayout.Attention;
import dev.spillway.block.KvLayout.Group;
import dev.spillway.block.KvLayout.Piece;
import dev.spillway.block.LoadResult;
import dev.spillway.cli.Main;
import dev.spillway.engine.OpenRefusedException;
import dev.spillway.policy.LoadFailurePolicy;
import dev.spillway.testing.SpillwayFixture;
import dev.spillway.testing.TestDevices;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What is there after a restart is what was stored, or a miss; over real files. */
class WarmRestartTest {
  private static final int SLOT = 16384;
  private static final int HEADER = 65536;
  private static final int INDEX_HEADER = 4096;
  private static final int RECORD = 64;

  @TempDir private Path directory;

  private SpillwayFixture open() {
    return SpillwayFixture.small(directory);
  }

  private SpillwayFixture open(UnaryOperator<SpillwayConfig.Builder> options) {
    return SpillwayFixture.small(directory, options);
  }

  private Path blocks() {
    return directory.resolve("rank-0-of-1.blocks");
  }

  private Path index() {
    return directory.resolve("rank-0-of-1.index");
  }

  private static void write(Path file, long at, byte[] bytes) throws IOException {
    try (var target = new RandomAccessFile(file.toFile(), "rw")) {
      target.seek(at);
      target.write(bytes);
      target.getFD().sync();
    }
  }

  private static byte[] read(Path file, long at, int count) throws IOException {
    try (var source = new RandomAccessFile(file.toFile(), "r")) {
      var bytes = new byte[count];
      source.seek(at);
      source.readFully(bytes);
      return bytes;
    }
  }

  /** Loads all that is found of some keys, one by one, and counts those with the right bytes. */
  private static int rightOf(SpillwayFixture test, long first, int count) {
    int right = 0;
    for (int i = 0; i < count; i++) {
      test.fill(20, 999_999);
      var result = test.load(first + i, 1, 20);
      if (result.size() == 0) {
        continue;
      }
      if (result.isWell()) {
        assertThat(test.holds(20, first + i)).as("key %d", first + i).isTrue();
        right++;
      } else {
        assertThat(result.outcome(0)).isEqualTo(BlockOutcome.REJECTED);
        assertThat(test.holds(20, 999_999)).as("no byte of a stale block is copied").isTrue();
      }
    }
    return right;
  }

  /** Shows: V216 V217 V226 */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void whatWasStoredIsFoundAgain(boolean thread) {
    try (var test = open(builder -> builder.workerThread(thread))) {
      assertThat(test.store(1, 0, 16).moved()).isEqualTo(16);
      assertThat(test.store(100, 16, 8).moved()).isEqualTo(8);
    }
    try (var test = open(builder -> builder.workerThread(thread))) {
      var restored = test.spillway.stats().restored();
      assertThat(restored.done()).isTrue();
      assertThat(restored.slots()).isEqualTo(64);
      assertThat(restored.blocks()).isEqualTo(24);
      assertThat(test.hits(1, 16)).isEqualTo(16);
      assertThat(rightOf(test, 1, 16) + rightOf(test, 100, 8)).isEqualTo(24);
      assertThat(test.store(1, 0, 16).moved()).as("they are there already").isZero();
      test.store(200, 0, 4);
    }
    try (var test = open()) {
      assertThat(rightOf(test, 1, 16) + rightOf(test, 100, 8) + rightOf(test, 200, 4))
          .isEqualTo(28);
      assertThat(test.spillway.stats().restored().stale()).isZero();
    }
  }

  @Test
  void filesAreForTheirOwnerAlone() throws IOException {
    open().close();
    for (var file : List.of(blocks(), index())) {
      assertThat(PosixFilePermissions.toString(Files.getPosixFilePermissions(file)))
          .isEqualTo("rw-------");
    }
  }

  @Test
  void keptNothingNothingIsLeft() {
    try (var test = open()) {
      test.store(1, 0, 16);
    }
    try (var test = open(builder -> builder.warmRestart(false))) {
      assertThat(directory).as("unlinked while open").isEmptyDirectory();
      assertThat(test.hits(1, 16)).isZero();
      test.store(1, 0, 16);
      assertThat(rightOf(test, 1, 16)).isEqualTo(16);
    }
    assertThat(directory).isEmptyDirectory();
    try (var test = open()) {
      assertThat(test.hits(1, 16)).isZero();
    }
  }

  /** Case 53: the record is there, the slot was never written. */
  @Test
  void case53ARecordOfASlotThatWasNeverWrittenIsALateMiss() throws IOException {
    try (var test = open()) {
      test.store(1, 0, 8);
    }
    write(blocks(), HEADER + 3 * SLOT, new byte[SLOT]);
    try (var test = open()) {
      assertThat(test.hits(4, 1)).isEqualTo(1);
      test.fill(20, 777);
      var result = test.load(1, 8, 16);
      assertThat(result.faults()).containsOnlyKeys(3);
      assertThat(result.outcome(3)).isEqualTo(BlockOutcome.REJECTED);
      assertThat(test.hits(4, 1)).as("the retry misses").isZero();
      assertThat(test.spillway.stats().retiredSlots()).as("the slot is good").isZero();
      assertThat(test.spillway.stats().restored().stale()).isEqualTo(1);
      assertThat(test.spillway.stats().count(BlockOutcome.CORRUPT)).isZero();
      assertThat(test.store(4, 3, 1).moved()).as("and is used again").isEqualTo(1);
    }
  }

  /** Decision 3: FAIL is for blocks of this run; a restored one that is wrong is computed anew. */
  @Test
  void aStaleBlockDoesNotFailItsRequest() throws IOException {
    try (var test = open()) {
      test.store(1, 0, 4);
    }
    write(blocks(), HEADER + 2 * SLOT, new byte[SLOT]);
    try (var test = open()) {
      LoadResult result;
      try (var lease = test.spillway.lookup(List.of(keys(1, 4)), 0, 64)) {
        result =
            test.spillway.await(
                test.spillway.load(
                    5,
                    lease,
                    List.of(range(8, 4)),
                    dev.spillway.block.DeviceEvent.NOW,
                    Duration.ZERO,
                    LoadFailurePolicy.fail()));
      }
      assertThat(result.fails()).isFalse();
      assertThat(result.validTokens()).isEqualTo(32);
    }
  }

  /**
   * A block that this run has verified is this run's: bytes that go bad then are a disk's fault.
   */
  @Test
  void onceVerifiedARestoredBlockIsLikeAnyOther() throws IOException {
    try (var test = open()) {
      test.store(1, 0, 4);
    }
    try (var test = open()) {
      assertThat(test.load(1, 4, 8).isWell()).isTrue();
      write(blocks(), HEADER + 2 * SLOT, new byte[SLOT]);
      assertThat(test.load(1, 4, 8).outcome(2)).isEqualTo(BlockOutcome.CORRUPT);
      assertThat(test.spillway.stats().retiredSlots()).isEqualTo(1);
    }
  }

  /** What a load found corrupt does not come back with the next open. */
  @Test
  void v216ABlockFoundCorruptIsGoneForTheNextProcessToo() throws IOException {
    try (var test = open()) {
      test.store(1, 0, 4);
      write(blocks(), HEADER + 2 * SLOT, new byte[SLOT]);
      assertThat(test.load(1, 4, 8).outcome(2)).isEqualTo(BlockOutcome.CORRUPT);
    }
    try (var test = open()) {
      assertThat(test.spillway.stats().restored().blocks()).isEqualTo(3);
      assertThat(test.hits(3, 1)).isZero();
    }
  }

  /** Case 76: records cut off, empty, damaged, or older than the blocks. */
  @ParameterizedTest
  @ValueSource(strings = {"empty", "header cut", "half", "garbage", "one torn", "gone"})
  void case76DamagedRecordsCostThemselvesAndNoMore(String damage) throws IOException {
    try (var test = open()) {
      test.store(1, 0, 16);
    }
    long bytes = Files.size(index());
    int expected = 0;
    switch (damage) {
      case "empty" -> cut(0);
      case "header cut" -> cut(100);
      case "half" -> {
        cut(INDEX_HEADER + 8 * RECORD);
        expected = 8;
      }
      case "garbage" -> {
        var garbage = new byte[(int) bytes];
        new Random(7).nextBytes(garbage);
        write(index(), 0, garbage);
      }
      case "one torn" -> {
        write(index(), INDEX_HEADER + 5 * RECORD + 20, new byte[] {1, 2, 3, 4, 5, 6, 7, 8});
        expected = 15;
      }
      default -> Files.delete(index());
    }
    try (var test = open()) {
      var restored = test.spillway.stats().restored();
      assertThat(restored.blocks()).isEqualTo(expected);
      assertThat(restored.torn()).isEqualTo(damage.equals("one torn") ? 1 : 0);
      assertThat(rightOf(test, 1, 16)).isEqualTo(expected);
      test.store(1, 0, 16);
      assertThat(rightOf(test, 1, 16)).isEqualTo(16);
    }
    try (var test = open()) {
      assertThat(rightOf(test, 1, 16)).isEqualTo(16);
    }
  }

  private void cut(long bytes) throws IOException {
    try (var file = new RandomAccessFile(index().toFile(), "rw")) {
      file.setLength(bytes);
    }
  }

  /** Records that are older than the blocks, and blocks that are older than the records. */
  @Test
  void case76OneFileOfAnOlderTimeIsAMissAndNeverWrong() throws IOException {
    try (var test = open()) {
      test.store(1, 0, 16);
    }
    var oldIndex = Files.readAllBytes(index());
    var oldBlocks = Files.readAllBytes(blocks());
    try (var test = open()) {
      for (int i = 0; i < 8; i++) {
        test.store(1000 + 16L * i, 0, 16); // twice the capacity: nothing of before is left
      }
    }
    var newIndex = Files.readAllBytes(index());
    write(index(), 0, oldIndex);
    try (var test = open()) {
      assertThat(test.spillway.stats().restored().blocks()).isEqualTo(16);
      assertThat(rightOf(test, 1, 16)).isZero();
      assertThat(test.spillway.stats().restored().stale()).isEqualTo(16);
    }
    write(blocks(), 0, oldBlocks);
    write(index(), 0, newIndex);
    try (var test = open()) {
      assertThat(test.spillway.stats().restored().blocks()).isEqualTo(64);
      for (int i = 0; i < 8; i++) {
        assertThat(rightOf(test, 1000 + 16L * i, 16)).isZero();
      }
      test.store(1, 0, 16);
      assertThat(rightOf(test, 1, 16)).isEqualTo(16);
    }
  }

  /** A generation never comes again, whichever of the two files was set back. */
  @Test
  void anEpochIsHigherThanThatOfEitherFile() throws IOException {
    long first;
    try (var test = open()) {
      first = test.spillway.stats().mode().epoch();
    }
    var oldBlocks = Files.readAllBytes(blocks());
    for (int i = 0; i < 3; i++) {
      open().close();
    }
    write(blocks(), 0, oldBlocks);
    open().close();
    assertThat(IndexOf.epoch(index())).isEqualTo(first + 4);
  }

  /** Reads what docs/FORMAT.md says, without the library. */
  private static final class IndexOf {
    static long epoch(Path index) throws IOException {
      var bytes = read(index, 32, 8);
      return java.nio.ByteBuffer.wrap(bytes).order(java.nio.ByteOrder.LITTLE_ENDIAN).getLong();
    }
  }

  /** Bits flipped anywhere in either file: every block that is found is right. */
  @Test
  void flippedBitsAnywhereAreMissesAndNeverWrongBytes() throws IOException {
    try (var test = open()) {
      test.store(1, 0, 16);
    }
    var goodIndex = Files.readAllBytes(index());
    var goodBlocks = Files.readAllBytes(blocks());
    var random = new Random(11);
    int found = 0;
    for (int round = 0; round < 20; round++) {
      write(index(), 0, goodIndex);
      write(blocks(), HEADER, Arrays.copyOfRange(goodBlocks, HEADER, goodBlocks.length));
      int from = round % 5 == 0 ? 0 : INDEX_HEADER; // a header that is damaged voids all
      for (int flip = 0; flip < 5; flip++) {
        flipBit(index(), from + random.nextInt(16 * RECORD), random.nextInt(8));
        flipBit(blocks(), HEADER + random.nextInt(16 * SLOT), random.nextInt(8));
      }
      try (var test = open()) {
        found += rightOf(test, 1, 16);
      }
    }
    assertThat(found).isPositive();
  }

  private static void flipBit(Path file, long at, int bit) throws IOException {
    var bytes = read(file, at, 1);
    bytes[0] ^= (byte) (1 << bit);
    write(file, at, bytes);
  }

  /** A reset holds: what it emptied does not come back with the next process. */
  @Test
  void aResetIsForEver() throws IOException {
    try (var test = open()) {
      test.store(1, 0, 16);
      test.spillway.await(test.spillway.reset());
      test.store(100, 0, 4);
    }
    assertThat(Spillway.inspect(directory).get(0).records()).as("void is no record").isEqualTo(4);
    try (var test = open()) {
      assertThat(test.hits(1, 1)).isZero();
      assertThat(rightOf(test, 100, 4)).isEqualTo(4);
      assertThat(test.spillway.stats().restored().voided()).isEqualTo(12);
      test.spillway.await(test.spillway.reset());
    }
    try (var test = open()) {
      assertThat(test.spillway.stats().restored().blocks()).isZero();
    }
  }

  /** The least recently used go first, also after a restart. */
  @Test
  void theOrderOfUseOutlivesTheProcess() {
    var second = new AtomicLong(1_800_000_000);
    try (var test = open(builder -> builder.secondClock(second::get))) {
      test.store(1, 0, 16);
      test.store(100, 0, 16);
      test.store(200, 0, 16);
      test.store(300, 0, 16);
      second.incrementAndGet();
      assertThat(test.load(1, 16, 16).isWell()).isTrue();
    }
    try (var test = open()) {
      for (int i = 0; i < 3; i++) {
        test.store(1000 + 100L * i, 0, 16);
      }
      assertThat(test.hits(1, 16)).as("used last").isEqualTo(16);
      assertThat(test.hits(100, 1) + test.hits(200, 1) + test.hits(300, 1)).isZero();
      test.store(2000, 0, 8);
    }
  }

  /** A prefix that was extended was used as a whole, though its beginning did not move. */
  @Test
  void theBeginningOfAPrefixIsAsYoungAsItsEnd() {
    var second = new AtomicLong(1_800_000_000);
    try (var test = open(builder -> builder.secondClock(second::get))) {
      test.store(1, 0, 8);
      test.store(100, 0, 16);
      test.store(200, 0, 16);
      test.store(300, 0, 16);
      second.incrementAndGet();
      test.spillway.await(test.spillway.store(keys(1, 16), 8, range(8, 8)));
    }
    try (var test = open()) {
      for (int i = 0; i < 3; i++) {
        test.store(1000 + 100L * i, 0, 16);
      }
      assertThat(test.hits(1, 16)).isEqualTo(16);
    }
  }

  /** Within a prefix the end goes before the beginning, as ever. */
  @Test
  void afterARestartTheEndOfAPrefixGoesFirst() {
    try (var test = open()) {
      test.store(1, 0, 16);
      test.store(100, 0, 16);
      test.store(200, 0, 16);
      test.store(300, 0, 16);
    }
    try (var test = open()) {
      test.store(1000, 0, 8);
      int whole = 0;
      for (long first : new long[] {1, 100, 200, 300}) {
        int hits = test.hits(first, 16);
        assertThat(hits).isPositive();
        whole += hits;
      }
      assertThat(whole).as("no block is kept behind a gap").isEqualTo(56);
    }
  }

  /** Ranks that do not agree restore what all of them have. */
  @Test
  void onRanksABlockIsRestoredWhereAllHaveIt() throws IOException {
    try (var second = TestDevices.allocate(KvLayout.ofBlockBytes(SLOT, 16), 32)) {
      UnaryOperator<SpillwayConfig.Builder> two = builder -> builder.addRank(second);
      try (var test = open(two)) {
        test.store(1, 0, 16);
      }
      write(directory.resolve("rank-1-of-2.index"), INDEX_HEADER + 5 * RECORD, new byte[RECORD]);
      write(directory.resolve("rank-1-of-2.blocks"), HEADER + 7 * SLOT, new byte[] {9});
      try (var test = open(two)) {
        var restored = test.spillway.stats().restored();
        assertThat(restored.blocks()).isEqualTo(15);
        assertThat(restored.incomplete()).isEqualTo(1);
        assertThat(test.hits(6, 1)).isZero();
        assertThat(test.load(8, 1, 20).outcome(0)).isEqualTo(BlockOutcome.REJECTED);
        assertThat(rightOf(test, 1, 16)).isEqualTo(14);
      }
    }
  }

  /** Another capacity keeps what has kept its place. */
  @Test
  void aResizedFileKeepsWhatFits() {
    try (var test = open()) {
      test.store(1, 0, 16);
      test.store(100, 0, 16);
    }
    try (var test = open(builder -> builder.capacityBytes(20 * SLOT))) {
      assertThat(test.spillway.stats().restored().blocks()).isEqualTo(20);
      assertThat(rightOf(test, 1, 16) + rightOf(test, 100, 16)).isEqualTo(20);
    }
    try (var test = open(builder -> builder.capacityBytes(200 * SLOT))) {
      assertThat(rightOf(test, 1, 16) + rightOf(test, 100, 16)).isEqualTo(20);
      for (int i = 0; i < 10; i++) {
        assertThat(test.store(1000 + 16L * i, 0, 16).moved()).isEqualTo(16);
      }
    }
    try (var test = open(builder -> builder.capacityBytes(200 * SLOT))) {
      assertThat(test.spillway.stats().restored().blocks()).isEqualTo(180);
    }
  }

  /** Several groups come back each in its own region. */
  @Test
  void groupsAreRestoredEachByItself() {
    var layout =
        new KvLayout(
            List.of(
                new Group("full", 16, List.of(Piece.dense(8192)), Attention.FULL),
                new Group("state", 64, List.of(Piece.dense(20000)), Attention.RECURRENT)));
    UnaryOperator<SpillwayConfig.Builder> options = builder -> builder.capacityBytes(2 << 20);
    try (var test = new SpillwayFixture(directory, layout, 16, options)) {
      test.spillway.await(test.spillway.store(keys(1, 8), 0, range(0, 8)));
      test.spillway.await(test.spillway.store(1, 1, keys(1, 2), 0, range(0, 2), DeviceEvent.NOW));
    }
    try (var test = new SpillwayFixture(directory, layout, 16, options)) {
      assertThat(test.spillway.stats().restored().blocks()).isEqualTo(10);
      try (var lease = test.spillway.lookup(List.of(keys(1, 8), keys(1, 2)), 0, 128)) {
        assertThat(lease.tokens()).isEqualTo(128);
      }
    }
  }

  /** Another capacity keeps what fits of every group, smaller and then larger. */
  @Test
  void aResizedFileOfSeveralGroupsKeepsWhatFitsOfEach() {
    var layout =
        new KvLayout(
            List.of(
                new Group("full", 16, List.of(Piece.dense(8192)), Attention.FULL),
                new Group("state", 64, List.of(Piece.dense(20000)), Attention.RECURRENT)));
    long band = 4 * 8192 + 20480;
    for (long bands : new long[] {16, 6, 40, 10}) {
      try (var test =
          new SpillwayFixture(
              directory, layout, 16, builder -> builder.capacityBytes(bands * band))) {
        if (bands == 16) {
          for (int i = 0; i < 8; i++) {
            test.fill(i, 1 + i);
          }
          test.spillway.await(test.spillway.store(keys(1, 8), 0, range(0, 8)));
          test.spillway.await(
              test.spillway.store(1, 1, keys(1, 2), 0, range(0, 2), DeviceEvent.NOW));
          continue;
        }
        assertThat(test.spillway.stats().restored().blocks()).as("%d bands", bands).isEqualTo(10);
        try (var lease = test.spillway.lookup(List.of(keys(1, 8), keys(1, 2)), 0, 128)) {
          assertThat(lease.tokens()).isEqualTo(128);
          var result =
              test.spillway.await(
                  test.spillway.load(
                      7,
                      lease,
                      List.of(range(8, 8), range(8, lease.groups().get(1).size())),
                      DeviceEvent.NOW,
                      Duration.ZERO,
                      LoadFailurePolicy.fail()));
          assertThat(result.isWell()).as("%s", result.causes()).isTrue();
        }
      }
    }
  }

  /** A later format is refused by its number, or discarded where that is asked for. */
  @Test
  void aLaterFormatOfTheRecordsIsRefusedByItsNumber() throws IOException {
    try (var test = open()) {
      test.store(1, 0, 8);
    }
    laterFormat();
    assertThatThrownBy(this::open)
        .isInstanceOf(OpenRefusedException.class)
        .hasMessageContaining("format version 2")
        .hasMessageContaining("reads 1")
        .hasMessageContaining("discardOther");
    try (var test = open(builder -> builder.discardOther(true))) {
      assertThat(test.spillway.stats().restored().blocks()).isZero();
      assertThat(test.store(1, 0, 4).moved()).isEqualTo(4);
    }
  }

  /** Its check may lie elsewhere, so that it seems damaged; what it calls itself is said. */
  @Test
  void aBlockFileOfALaterFormatIsRefusedByItsNumberWhereverItsCheckIs() throws IOException {
    try (var test = open()) {
      test.store(1, 0, 8);
    }
    var version = new byte[] {77, 0, 0, 0};
    write(blocks(), 8, version);
    write(blocks(), HEADER / 4 + 8, version);
    assertThatThrownBy(this::open)
        .isInstanceOf(OpenRefusedException.class)
        .hasMessageContaining("format version 77 (3 is read here)");
    assertThat(Spillway.inspect(directory).get(0).trouble())
        .contains("format version 77; this library reads 3");
    write(index(), 8, version);
    write(blocks(), 8, new byte[] {3, 0, 0, 0});
    try (var test = open()) {
      assertThat(test.hits(1, 8)).isZero();
    }
    assertThat(Spillway.inspect(directory).get(0).trouble()).isEmpty();
    write(index(), 8, version);
    assertThat(Spillway.inspect(directory).get(0).trouble())
        .contains("damaged, or of format version 77");
  }

  private void laterFormat() throws IOException {
    var header = java.nio.ByteBuffer.wrap(read(index(), 0, INDEX_HEADER));
    header.order(java.nio.ByteOrder.LITTLE_ENDIAN).putInt(8, 2);
    sealAndWrite(header);
  }

  private void sealAndWrite(java.nio.ByteBuffer header) throws IOException {
    var checked = header.slice(0, INDEX_HEADER - 8);
    var low = new java.util.zip.CRC32C();
    low.update(checked.duplicate());
    var high = new java.util.zip.CRC32();
    high.update(checked);
    header.putLong(INDEX_HEADER - 8, high.getValue() << 32 | low.getValue());
    var bytes = new byte[INDEX_HEADER];
    header.get(0, bytes);
    write(index(), 0, bytes);
  }

  @Test
  void inspectTellsWhatIsThereAlsoBesideAnOwner() throws IOException {
    try (var test = open(builder -> builder.nameSpace("a model"))) {
      test.store(1, 0, 8);
      test.store(100, 0, 8);
      assertThat(test.load(1, 8, 8).isWell()).isTrue();
      var file = Spillway.inspect(directory).get(0);
      assertThat(file.nameSpace()).isEqualTo("a model");
      assertThat(file.ownerPid()).isEqualTo(ProcessHandle.current().pid());
      assertThat(file.groups().get(0).slots()).isEqualTo(64);
      assertThat(file.groups().get(0).blockBytes()).isEqualTo(SLOT);
      assertThat(file.epoch()).isEqualTo(1);
    }
    write(index(), INDEX_HEADER + 5 * RECORD + 20, new byte[] {1, 2, 3, 4});
    var file = Spillway.inspect(directory).get(0);
    assertThat(file.records()).isEqualTo(15);
    assertThat(file.torn()).isEqualTo(1);
    assertThat(file.storedBytes()).isEqualTo(15L * SLOT);
    assertThat(file.runs()).isEqualTo(2);
    assertThat(System.currentTimeMillis() / 1000 - file.oldestUse()).isBetween(0L, 60L);
    assertThat(Files.size(blocks())).isEqualTo(HEADER + 64L * SLOT);
  }

  @Test
  void verifyReadsEveryBlockAndNamesTheBadOnes() throws IOException {
    try (var test = open()) {
      test.store(1, 0, 16);
      assertThat(Spillway.verify(directory, 1L << 40).get(0).trouble())
          .contains("in use by pid " + ProcessHandle.current().pid());
      assertThat(Main.run("verify", directory.toString())).isEqualTo(1);
    }
    assertThat(Spillway.verify(directory, 1L << 40).get(0).goodBlocks()).isEqualTo(16);
    assertThat(Main.run("verify", directory.toString())).isZero();
    write(blocks(), HEADER + 3 * SLOT + 99, new byte[] {55, 56});
    var file = Spillway.verify(directory, 1L << 40).get(0);
    assertThat(file.goodBlocks()).isEqualTo(15);
    assertThat(file.badBlocks()).isEqualTo(1);
    assertThat(file.firstBad()).singleElement().asString().contains("group 0 slot 3");
    assertThat(Main.run("verify", directory.toString())).isEqualTo(1);
    assertThat(Main.run("verify", "--json", directory.toString())).isEqualTo(1);
    assertThat(Main.run("inspect", "--json", directory.toString())).isZero();
    assertThat(Main.run("inspect", directory.toString())).isZero();
    assertThat(Main.run("inspect", directory + "/absent")).isEqualTo(1);
    long begun = System.nanoTime();
    Spillway.verify(directory, 1L << 20); // 256 KiB at 1 MiB a second
    assertThat(System.nanoTime() - begun).isGreaterThan(150_000_000L);
  }

  /** One bad file hides no other, and what is no file at all is not waited for. */
  @Test
  @Timeout(20)
  void whatCannotBeReadIsSaidAndTheOthersAreReadAllTheSame() throws Exception {
    try (var test = open()) {
      test.store(1, 0, 8);
    }
    Files.writeString(directory.resolve("rank-0-of-2.blocks"), "something else");
    Files.createDirectory(directory.resolve("rank-1-of-3.blocks"));
    var pipe = directory.resolve("rank-2-of-3.blocks").toString();
    assertThat(new ProcessBuilder("mkfifo", pipe).start().waitFor()).isZero();
    var files = Spillway.inspect(directory);
    assertThat(files)
        .extracting(file -> file.isReadable())
        .containsExactly(true, false, false, false);
    assertThat(files.get(1).trouble()).contains("no Spillway block file");
    assertThat(files.get(2).trouble()).contains("not a regular file");
    assertThat(files.get(3).trouble()).contains("not a regular file");
    var verified = Spillway.verify(directory, 1L << 40);
    assertThat(verified.get(0).goodBlocks()).isEqualTo(8);
    assertThat(verified.get(3).isReadable()).isFalse();
    assertThat(Main.run("inspect", directory.toString())).isEqualTo(1);
    assertThat(Main.run("verify", "--json", directory.toString())).isEqualTo(1);
    Files.delete(index());
    assertThat(new ProcessBuilder("mkfifo", index().toString()).start().waitFor()).isZero();
    assertThat(Spillway.inspect(directory).get(0).trouble())
        .isEqualTo("no records: rank-0-of-1.index is no regular file");
    Files.delete(index());
    assertThat(Spillway.inspect(directory).get(0).trouble())
        .isEqualTo("no records: rank-0-of-1.index is not there");
  }

  /**
   * Records that were cut off are missed; inspect counts them, since nothing has mended them yet.
   */
  @Test
  void recordsThatWereCutOffAreCounted() throws IOException {
    try (var test = open()) {
      test.store(1, 0, 16);
    }
    cut(INDEX_HEADER + 8 * RECORD);
    var file = Spillway.inspect(directory).get(0);
    assertThat(file.records()).isEqualTo(8);
    assertThat(file.torn()).isEqualTo(56);
  }

  /** A check that is right is no proof: whoever may write a file can make one. */
  @ParameterizedTest
  @CsvSource({
    "20,4,0",
    "20,4,17",
    "16,4,63",
    "32,8,4294967296",
    "32,8,-1",
    "64,8,-1",
    "64,8,1152921504606846976"
  })
  void headersOfRecordsThatCannotBeAreColdStarts(int at, int bytes, long value) throws IOException {
    try (var test = open()) {
      test.store(1, 0, 8);
    }
    var header = java.nio.ByteBuffer.wrap(read(index(), 0, INDEX_HEADER));
    header.order(java.nio.ByteOrder.LITTLE_ENDIAN);
    if (bytes == 4) {
      header.putInt(at, (int) value);
    } else {
      header.putLong(at, value);
    }
    sealAndWrite(header);
    assertThat(Spillway.inspect(directory).get(0).trouble()).contains("are right");
    try (var test = open()) {
      assertThat(test.hits(1, 8)).isZero();
      assertThat(test.store(1, 0, 4).moved()).isEqualTo(4);
    }
  }

  /** Refused before anything changed: the blocks are there for the next open. */
  @Test
  void recordsThatAreRefusedLeaveTheBlocks() throws IOException {
    try (var test = open()) {
      test.store(1, 0, 16);
    }
    var kept = directory.resolve("kept");
    Files.move(index(), kept);
    Files.createDirectory(index());
    assertThatThrownBy(
            () ->
                open(
                    builder ->
                        builder.discardOther(true).nameSpace("other").capacityBytes(8L * SLOT)))
        .isInstanceOf(OpenRefusedException.class)
        .hasMessageContaining("rank-0-of-1.index cannot be opened (is no regular file)");
    Files.delete(index());
    Files.move(kept, index());
    try (var test = open()) {
      assertThat(rightOf(test, 1, 16)).isEqualTo(16);
    }
  }

  /** The content of another name space is refused, or discarded where that is asked for. */
  @Test
  void v199AnotherIdentityIsRefusedOrDiscarded() {
    try (var test = open()) {
      test.store(1, 0, 16);
    }
    assertThatThrownBy(() -> open(builder -> builder.nameSpace("other")))
        .isInstanceOf(OpenRefusedException.class)
        .hasMessageContaining("namespace is \"test\" in the file and \"other\" here")
        .hasMessageContaining("discardOther");
    try (var test = open(builder -> builder.nameSpace("other").discardOther(true))) {
      assertThat(test.hits(1, 16)).isZero();
      assertThat(test.spillway.stats().restored().blocks()).isZero();
      test.store(1, 0, 8);
    }
    try (var test = open(builder -> builder.nameSpace("other"))) {
      assertThat(rightOf(test, 1, 16)).isEqualTo(8);
    }
  }
}
