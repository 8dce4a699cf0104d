#include <gtest/gtest.h>

#include <fcntl.h>

#include <cstring>
#include <random>
#include <thread>

#include "KvEngine.h"
#include "TestFiles.h"
#include "base/Checksum.h"
#include "base/Status.h"

namespace spillway {
namespace {

// The open record with its groups and pieces, as Java lays them out.
struct Opening {
  OpenRecord record;
  GroupRecord group;
  PieceRecord pieces[3];
};

// An engine over a device of pieces of 2,112 + 9,216 + 4,096 bytes (case 2) in host memory.
class EngineUnderTest {
 public:
  static constexpr uint64_t kPieces[3] = {2112, 9216, 4096};
  static constexpr uint32_t kPayload = 2112 + 9216 + 4096;

  explicit EngineUnderTest(EngineKind kind, uint32_t blocks = 64, uint32_t depth = 8)
      : blocks_(blocks) {
    for (uint64_t bytes : kPieces) tensors_.emplace_back(bytes * blocks);
    Opening opening{};
    opening.record.version = kRecordVersion;
    opening.record.rankCount = 1;
    opening.record.groupCount = 1;
    opening.record.capacityBytes = uint64_t{16384} * blocks;
    opening.record.stagingBytesMax = 64 << 20;
    opening.record.queueDepth = depth;
    opening.record.engineKind = static_cast<uint32_t>(kind);
    opening.record.direct = 1;
    opening.record.blocksInFlightMax = 16384;
    opening.group = {16, 3, blocks};
    for (int i = 0; i < 3; i++) {
      opening.pieces[i] = {reinterpret_cast<uint64_t>(tensors_[i].data()), kPieces[i], kPieces[i]};
    }
    EXPECT_EQ(engine.open(directory_.path().c_str(), "test", "", &opening.record), 0)
        << engine.message();
    sums_.resize(blocks);
  }
  ~EngineUnderTest() { EXPECT_EQ(engine.close(INT64_MAX / 4), 0); }

  void fill(uint32_t block, uint8_t value) {
    for (int i = 0; i < 3; i++) {
      std::memset(tensors_[i].data() + block * kPieces[i], value + i, kPieces[i]);
    }
  }
  bool holds(uint32_t block, uint8_t value) const {
    for (int i = 0; i < 3; i++) {
      const uint8_t* at = tensors_[i].data() + block * kPieces[i];
      for (uint64_t byte = 0; byte < kPieces[i]; byte++) {
        if (at[byte] != static_cast<uint8_t>(value + i)) return false;
      }
    }
    return true;
  }
  DownRecord down(Operation operation, uint32_t slot, uint32_t block) const {
    DownRecord record{};
    record.ticket = slot;
    record.operation = static_cast<uint16_t>(operation);
    record.deviceBlock = block;
    record.slot = slot;
    record.checksumSeed = slot;
    record.expectedChecksum = sums_[slot];
    return record;
  }
  // Submits all and waits for all; answers how many ended well. Keeps the checksums of stores.
  size_t run(const std::vector<DownRecord>& records) {
    size_t submitted = 0;
    size_t ended = 0;
    size_t well = 0;
    std::vector<UpRecord> ups(64);
    while (ended < records.size()) {
      const auto left = static_cast<int32_t>(records.size() - submitted);
      const int32_t accepted = engine.submit(records.data() + submitted, left);
      EXPECT_GE(accepted, 0);
      submitted += static_cast<size_t>(accepted);
      engine.await(-1);
      const int32_t count = engine.poll(ups.data(), 64);
      for (int32_t i = 0; i < count; i++) {
        const bool done = static_cast<Outcome>(ups[i].outcome) == Outcome::kDone;
        well += done ? 1 : 0;
        last = ups[i];
        if (ups[i].checksum != 0 && done) sums_[ups[i].ticket] = ups[i].checksum;
      }
      ended += static_cast<size_t>(count);
    }
    return well;
  }
  std::string path() const { return directory_.path() + "/rank-0-of-1.blocks"; }

  KvEngine engine;
  UpRecord last{};

 private:
  TemporaryDirectory directory_;
  uint32_t blocks_;
  std::vector<std::vector<uint8_t>> tensors_;
  std::vector<uint64_t> sums_;
};

class KvEngineTest : public testing::TestWithParam<EngineKind> {
 protected:
  void SetUp() override {
    if (GetParam() != EngineKind::kUring) return;
    if (const std::string refusal = uringRefusalText(); !refusal.empty()) GTEST_SKIP() << refusal;
  }
};
INSTANTIATE_TEST_SUITE_P(Engines, KvEngineTest,
                         testing::Values(EngineKind::kUring, EngineKind::kThreads),
                         [](const auto& which) {
                           return which.param == EngineKind::kUring ? "uring" : "threads";
                         });

// Case 2, F5: pieces that are not aligned, in one aligned slot; byte exact, gaps untouched.
TEST_P(KvEngineTest, f5Case2UnalignedPiecesComeBackByteForByte) {
  EngineUnderTest test(GetParam());
  std::vector<DownRecord> stores;
  std::vector<DownRecord> loads;
  for (uint32_t i = 0; i < 32; i++) {
    test.fill(i, static_cast<uint8_t>(i));
    stores.push_back(test.down(Operation::kStore, i, i));
  }
  EXPECT_EQ(test.run(stores), 32u);
  for (uint32_t i = 32; i < 64; i++) test.fill(i, 0xee);
  for (uint32_t i = 0; i < 32; i++) loads.push_back(test.down(Operation::kLoad, i, 63 - i));
  EXPECT_EQ(test.run(loads), 32u);
  for (uint32_t i = 0; i < 32; i++) EXPECT_TRUE(test.holds(63 - i, static_cast<uint8_t>(i))) << i;
}

// Case 22: a ring of 8 and one batch of 10,000 blocks: 10,000 results, no overflow.
TEST_P(KvEngineTest, case22ABatchFarBeyondTheRingComesBackWhole) {
  EngineUnderTest test(GetParam(), 64, 8);
  std::vector<DownRecord> records(10'000);
  for (uint32_t i = 0; i < records.size(); i++) {
    records[i] = test.down(Operation::kStore, i % 64, i % 64);
  }
  EXPECT_EQ(test.run(records), 10'000u);
  int64_t counters[KvEngine::kCounterCount];
  test.engine.counters(counters);
  EXPECT_EQ(counters[0], 10'000);
  EXPECT_EQ(counters[5], 8) << "in flight at most";
  EXPECT_EQ(counters[10], 0) << "overflows";
}

// Case 25: a ring of 4 and a batch of 64.
TEST_P(KvEngineTest, case25ABatchBeyondTheSubmissionQueueGoesOn) {
  EngineUnderTest test(GetParam(), 64, 4);
  std::vector<DownRecord> records;
  for (uint32_t i = 0; i < 64; i++) records.push_back(test.down(Operation::kStore, i, i));
  EXPECT_EQ(test.run(records), 64u);
}

// Case 30: opened in one thread, submitted from a second, polled by a third, closed by a fourth.
// Shows: V225
TEST_P(KvEngineTest, case30EveryCallMayComeFromAnotherThread) {
  EngineUnderTest test(GetParam());
  test.fill(1, 7);
  const DownRecord record = test.down(Operation::kStore, 1, 1);
  std::thread([&] { EXPECT_EQ(test.engine.submit(&record, 1), 1); }).join();
  UpRecord up{};
  std::thread([&] {
    while (test.engine.poll(&up, 1) == 0) test.engine.await(-1);
  }).join();
  EXPECT_EQ(static_cast<Outcome>(up.outcome), Outcome::kDone);
  std::thread([&] { EXPECT_EQ(test.engine.close(INT64_MAX / 4), 0); }).join();
  EXPECT_EQ(test.engine.submit(&record, 1), KvEngine::kClosed);
}

// Case 33: closing during 1,000 loads while another thread opens and closes files.
TEST_P(KvEngineTest, case33CloseDrainsBeforeItCloses) {
  EngineUnderTest test(GetParam());
  for (uint32_t i = 0; i < 32; i++) test.fill(i, static_cast<uint8_t>(i));
  std::vector<DownRecord> stores;
  for (uint32_t i = 0; i < 32; i++) stores.push_back(test.down(Operation::kStore, i, i));
  ASSERT_EQ(test.run(stores), 32u);
  std::vector<DownRecord> loads;
  for (uint32_t i = 0; i < 1000; i++)
    loads.push_back(test.down(Operation::kLoad, i % 32, 32 + i % 32));
  std::atomic<bool> stop{false};
  std::thread opener([&] {
    while (!stop) {
      const int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
      close(file);
    }
  });
  ASSERT_EQ(test.engine.submit(loads.data(), 1000), 1000);
  EXPECT_EQ(test.engine.close(INT64_MAX / 4), 0);
  stop = true;
  opener.join();
  std::vector<UpRecord> ups(1000);
  ASSERT_EQ(test.engine.poll(ups.data(), 1000), 1000);
  for (const UpRecord& up : ups) {
    const auto outcome = static_cast<Outcome>(up.outcome);
    EXPECT_TRUE(outcome == Outcome::kDone || outcome == Outcome::kCancelled);
    if (outcome == Outcome::kDone) {
      EXPECT_TRUE(
          test.holds(32 + static_cast<uint32_t>(up.ticket), static_cast<uint8_t>(up.ticket)));
    }
  }
}

TEST_P(KvEngineTest, oneFlippedByteIsCorruptAndNothingElseIs) {
  EngineUnderTest test(GetParam());
  std::vector<DownRecord> stores;
  for (uint32_t i = 0; i < 8; i++) {
    test.fill(i, static_cast<uint8_t>(i));
    stores.push_back(test.down(Operation::kStore, i, i));
  }
  ASSERT_EQ(test.run(stores), 8u);
  const int raw = open(test.path().c_str(), O_RDWR | O_CLOEXEC);
  uint8_t byte = 0;
  const off_t at = 65536 + 3 * 16384 + 9000;
  ASSERT_EQ(pread(raw, &byte, 1, at), 1);
  byte ^= 0x40;
  ASSERT_EQ(pwrite(raw, &byte, 1, at), 1);
  fdatasync(raw);
  close(raw);
  std::vector<DownRecord> loads;
  for (uint32_t i = 0; i < 8; i++) loads.push_back(test.down(Operation::kLoad, i, 20 + i));
  EXPECT_EQ(test.run(loads), 7u);
  test.fill(40, 0xaa);
  EXPECT_EQ(test.run({test.down(Operation::kLoad, 3, 40)}), 0u);
  EXPECT_EQ(static_cast<Outcome>(test.last.outcome), Outcome::kCorrupt);
  EXPECT_TRUE(test.holds(40, 0xaa)) << "a corrupt block reached the device";
}

// V211: a number out of range is refused with its position, and nothing of the batch is taken.
TEST_P(KvEngineTest, v211RecordsOutOfBoundsAreRefusedByPosition) {
  EngineUnderTest test(GetParam());
  std::vector<DownRecord> records(3, test.down(Operation::kStore, 1, 1));
  records[1].slot = 64;
  EXPECT_EQ(test.engine.submit(records.data(), 3), -2);
  records[1] = test.down(Operation::kStore, 1, 64);
  EXPECT_EQ(test.engine.submit(records.data(), 3), -2);
  records[1] = test.down(Operation::kStore, 1, 1);
  records[1].group = 1;
  EXPECT_EQ(test.engine.submit(records.data(), 3), -2);
  UpRecord up{};
  EXPECT_EQ(test.engine.poll(&up, 1), 0);
}

// F10: ranks may disagree on their slot count; native code checks its own bounds whatever comes.
TEST_P(KvEngineTest, f10ASlotBeyondThisRanksRegionIsRefused) {
  EngineUnderTest test(GetParam(), 16);
  const DownRecord record = test.down(Operation::kStore, 15, 0);
  DownRecord beyond = record;
  beyond.slot = 16;
  EXPECT_EQ(test.engine.submit(&beyond, 1), -1);
  EXPECT_EQ(test.engine.submit(&record, 1), 1);
}

TEST_P(KvEngineTest, saysHowItWorks) {
  EngineUnderTest test(GetParam());
  const std::string text = test.engine.describe();
  EXPECT_NE(text.find(GetParam() == EngineKind::kUring ? "kind=uring" : "kind=threads"),
            std::string::npos);
  EXPECT_NE(text.find("alignment=4096\n"), std::string::npos) << text;
  EXPECT_NE(text.find("slotBytes.0=16384\n"), std::string::npos) << text;
}

TEST(KvEngineOpenTest, anotherRecordVersionIsRefused) {
  KvEngine engine;
  OpenRecord record{};
  record.version = 9;
  EXPECT_EQ(engine.open("/nowhere", "test", "", &record),
            static_cast<int32_t>(OpenReason::kConfiguration));
  const std::string known = std::to_string(kRecordVersion);
  EXPECT_EQ(std::string(engine.message()),
            "record version 9 from Java, " + known + " in the native library: mixed JARs");
}

// Nothing is left of an open that fails after the file was made.
TEST(KvEngineOpenTest, aFailedOpenLeavesNoFile) {
  TemporaryDirectory directory;
  std::vector<uint8_t> device(16384);
  Opening opening{};
  opening.record.version = kRecordVersion;
  opening.record.rankCount = 1;
  opening.record.groupCount = 1;
  opening.record.capacityBytes = 1 << 20;
  opening.record.stagingBytesMax = 4096;
  opening.record.queueDepth = 8;
  opening.record.direct = 1;
  opening.record.blocksInFlightMax = 16;
  opening.group = {16, 1, 1};
  opening.pieces[0] = {reinterpret_cast<uint64_t>(device.data()), 16384, 16384};
  KvEngine engine;
  EXPECT_EQ(engine.open(directory.path().c_str(), "test", "", &opening.record),
            static_cast<int32_t>(OpenReason::kConfiguration));
  EXPECT_STREQ(engine.message(),
               "stagingBytes is 4096; at least two slots of 16384 bytes would be right");
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

// F9: a block of more than 1024 pieces is still one disk command.
TEST_P(KvEngineTest, f9MorePiecesThanOneVectorHoldsAreOneCommand) {
  constexpr uint32_t kPieceCount = 1500;
  TemporaryDirectory directory;
  std::vector<uint8_t> device(kPieceCount * 512 * 2);
  std::vector<uint8_t> bytes(sizeof(OpenRecord) + sizeof(GroupRecord) +
                             kPieceCount * sizeof(PieceRecord));
  auto* record = reinterpret_cast<OpenRecord*>(bytes.data());
  record->version = kRecordVersion;
  record->rankCount = 1;
  record->groupCount = 1;
  record->capacityBytes = 4 << 20;
  record->stagingBytesMax = 16 << 20;
  record->queueDepth = 4;
  record->engineKind = static_cast<uint32_t>(GetParam());
  record->direct = 1;
  record->blocksInFlightMax = 16;
  auto* group = reinterpret_cast<GroupRecord*>(record + 1);
  *group = {16, kPieceCount, 2};
  auto* piece = reinterpret_cast<PieceRecord*>(group + 1);
  for (uint32_t i = 0; i < kPieceCount; i++) {
    piece[i] = {reinterpret_cast<uint64_t>(device.data()) + i * 1024, 512, 512};
  }
  for (size_t i = 0; i < device.size(); i++) device[i] = static_cast<uint8_t>(i / 512 * 7);
  const std::vector<uint8_t> before = device;
  KvEngine engine;
  ASSERT_EQ(engine.open(directory.path().c_str(), "test", "", record), 0) << engine.message();
  DownRecord down{};
  down.operation = static_cast<uint16_t>(Operation::kStore);
  UpRecord up{};
  ASSERT_EQ(engine.submit(&down, 1), 1);
  while (engine.poll(&up, 1) == 0) engine.await(-1);
  EXPECT_EQ(up.attempts, 1u);
  for (uint32_t i = 0; i < kPieceCount; i++) std::memset(device.data() + i * 1024, 0, 512);
  down.operation = static_cast<uint16_t>(Operation::kLoad);
  down.expectedChecksum = up.checksum;
  ASSERT_EQ(engine.submit(&down, 1), 1);
  while (engine.poll(&up, 1) == 0) engine.await(-1);
  EXPECT_EQ(device, before);
  EXPECT_EQ(engine.close(INT64_MAX / 4), 0);
}

}  // namespace
}  // namespace spillway
