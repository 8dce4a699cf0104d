#include <gtest/gtest.h>

#include <cerrno>
#include <map>

#include "LaneDoubles.h"
#include "device/FaultyCopier.h"
#include "disk/FaultyRing.h"

// What becomes of blocks that are cancelled, drained, probed or too late, and of faults made on
// purpose.

namespace spillway {
namespace {

using LoadTest = LaneUnderTest<LoadLane>;
using StoreTest = LaneUnderTest<StoreLane>;

constexpr uint64_t kWholeTicket = UINT64_MAX;
constexpr uint64_t kMillis = 1'000'000;

Outcome outcomeOf(const UpRecord& up) { return static_cast<Outcome>(up.outcome); }

DownRecord command(Operation operation, uint64_t ticket, uint64_t mask) {
  DownRecord record{};
  record.ticket = ticket;
  record.operation = static_cast<uint16_t>(operation);
  record.checksumSeed = mask;
  return record;
}

template <typename Test>
uint64_t fate(const Test& test, FaultFate fate, FaultCause cause) {
  return test.lane->counters().faults[static_cast<size_t>(fate)][static_cast<size_t>(cause)];
}

// Shows: V113 case31 case57
TEST(CancelTest, aLoadInTheKernelEndsAtOnceAndIsQuietOnlyWithItsCompletion) {
  LoadTest test;
  test.ring->hold();
  ASSERT_TRUE(test.lane->open().ok());
  test.submit(test.stored(1, 0x11));
  test.ring->awaitRequests(1);
  ASSERT_TRUE(test.lane->command(command(Operation::kCancel, 101, kWholeTicket)));
  const UpRecord told = test.endings(1)[0];
  EXPECT_EQ(outcomeOf(told), Outcome::kCancelled);
  EXPECT_EQ(told.kind, kEnded) << "quiet while the kernel holds the buffer";
  test.ring->letGo();
  const UpRecord quiet = test.endings(1)[0];
  EXPECT_EQ(quiet.kind, kQuiet);
  EXPECT_EQ(quiet.ticket, 101u);
  EXPECT_EQ(test.block(1)[0], 0) << "a cancelled block reached the device";
}

// Shows: F46 F47
TEST(CancelTest, whatHasNotStartedEndsAndIsQuietInOneAndOthersGoOn) {
  LoadTest test;
  test.ring->hold();
  ASSERT_TRUE(test.lane->open().ok());
  for (uint32_t slot = 0; slot < 12; slot++) test.submit(test.stored(slot, 0x20));
  test.ring->awaitRequests(LoadTest::kDepth);
  // Tickets 108 to 111 are 0b11011xx: one command for four blocks, none of them in the kernel.
  ASSERT_TRUE(test.lane->command(command(Operation::kCancel, 108, ~uint64_t{3})));
  for (const UpRecord& up : test.endings(4)) {
    EXPECT_EQ(outcomeOf(up), Outcome::kCancelled);
    EXPECT_EQ(up.kind, kEnded | kQuiet);
    EXPECT_GE(up.ticket, 108u);
  }
  test.ring->letGo();
  for (const UpRecord& up : test.endings(8)) EXPECT_EQ(outcomeOf(up), Outcome::kDone);
}

TEST(CancelTest, aStagingSlotOfACancelledLoadIsNotReusedBeforeItsCompletion) {
  LoadTest test;
  test.ring->hold();
  ASSERT_TRUE(test.lane->open().ok());
  for (uint32_t slot = 0; slot < LoadTest::kDepth; slot++) test.submit(test.stored(slot, 0x31));
  test.ring->awaitRequests(LoadTest::kDepth);
  ASSERT_TRUE(test.lane->command(command(Operation::kCancel, 0, 0)));
  test.endings(LoadTest::kDepth);
  std::vector<uint8_t*> owned;
  for (const IoRequest& request : test.ring->requests) owned.push_back(request.data);
  test.submit(test.stored(9, 0x39));
  test.ring->letGo();
  const auto ups = test.endings(LoadTest::kDepth + 1);
  EXPECT_EQ(ups.back().ticket, 109u);
  EXPECT_EQ(outcomeOf(ups.back()), Outcome::kDone);
  EXPECT_EQ(test.block(9)[0], 0x39);
}

// Decision 8: the flag is looked at after the checksum, so that a bad disk is known all the same.
TEST(CancelTest, aBadBlockThatNobodyWaitsForIsCountedAsDiscarded) {
  LoadTest test;
  test.ring->hold();
  ASSERT_TRUE(test.lane->open().ok());
  DownRecord record = test.stored(2, 0x22);
  record.expectedChecksum++;
  test.submit(record);
  test.ring->awaitRequests(1);
  ASSERT_TRUE(test.lane->command(command(Operation::kCancel, 102, kWholeTicket)));
  test.endings(1);
  test.ring->letGo();
  EXPECT_EQ(test.endings(1)[0].kind, kQuiet);
  EXPECT_EQ(fate(test, FaultFate::kSeen, FaultCause::kCorrupt), 1u);
  EXPECT_EQ(fate(test, FaultFate::kDiscarded, FaultCause::kCorrupt), 1u);
  EXPECT_EQ(fate(test, FaultFate::kEnded, FaultCause::kCorrupt), 0u);
}

// The lane verifies a few blocks at a time: a cancel may find one that is read and waits its turn.
TEST(CancelTest, aBadBlockThatWaitsToBeVerifiedIsCountedAsDiscarded) {
  LoadTest test(16);
  test.ring->hold();
  test.copier->onFirstStart = [&] {
    ASSERT_TRUE(test.lane->command(command(Operation::kCancel, 115, kWholeTicket)));
  };
  ASSERT_TRUE(test.lane->open().ok());
  for (uint32_t slot = 0; slot < 16; slot++) {
    DownRecord record = test.stored(slot, 0x22);
    if (slot == 15) record.expectedChecksum++;
    test.submit(record);
  }
  test.ring->awaitRequests(16);
  test.ring->letGo();
  const UpRecord bad = test.endings(16).back();
  EXPECT_EQ(outcomeOf(bad), Outcome::kCancelled);
  EXPECT_EQ(bad.kind, kEnded | kQuiet);
  EXPECT_EQ(fate(test, FaultFate::kSeen, FaultCause::kCorrupt), 1u);
  EXPECT_EQ(fate(test, FaultFate::kDiscarded, FaultCause::kCorrupt), 1u);
}

// Shows: case56 V74
TEST(CancelTest, aStoreWhoseCopyRunsIsQuietOnlyAfterIt) {
  StoreTest test;
  test.copier->held = true;
  ASSERT_TRUE(test.lane->open().ok());
  test.submit(StoreTest::down(Operation::kStore, 1));
  while (test.copier->starts == 0) std::this_thread::yield();
  ASSERT_TRUE(test.lane->command(command(Operation::kCancel, 101, kWholeTicket)));
  EXPECT_EQ(test.endings(1)[0].kind, kEnded) << "the copy may still read the device block";
  test.copier->held = false;
  EXPECT_EQ(test.endings(1)[0].kind, kQuiet);
  EXPECT_TRUE(test.ring->requests.empty()) << "a cancelled store was written";
}

// Shows: F42 case56
TEST(DrainTest, aStoreSaysWhenItsBlockIsCopiedAndIsStoredAllTheSame) {
  StoreTest test;
  test.ring->hold();
  ASSERT_TRUE(test.lane->open().ok());
  test.submit(StoreTest::down(Operation::kStore, 1));
  test.ring->awaitRequests(1);
  ASSERT_TRUE(test.lane->command(command(Operation::kDrain, 101, kWholeTicket)));
  const UpRecord copied = test.endings(1)[0];
  EXPECT_EQ(copied.kind, kCopied);
  // A second drain of the same block tells nothing new.
  ASSERT_TRUE(test.lane->command(command(Operation::kDrain, 101, kWholeTicket)));
  test.ring->letGo();
  const UpRecord stored = test.endings(1)[0];
  EXPECT_EQ(outcomeOf(stored), Outcome::kDone);
  EXPECT_EQ(stored.kind, kEnded | kQuiet);
}

TEST(DrainTest, aCopyThatRunsTellsWhenItIsDone) {
  StoreTest test;
  test.copier->held = true;
  ASSERT_TRUE(test.lane->open().ok());
  test.submit(StoreTest::down(Operation::kStore, 1));
  while (test.copier->starts == 0) std::this_thread::yield();
  ASSERT_TRUE(test.lane->command(command(Operation::kDrain, 101, kWholeTicket)));
  test.copier->held = false;
  EXPECT_EQ(test.endings(1)[0].kind, kCopied);
  EXPECT_EQ(outcomeOf(test.endings(1)[0]), Outcome::kDone);
}

// Shows: F41
TEST(DrainTest, whatHasNotStartedIsDroppedAndWhatHasIsAwaited) {
  LoadTest test;
  test.ring->hold();
  ASSERT_TRUE(test.lane->open().ok());
  for (uint32_t slot = 0; slot < 12; slot++) test.submit(test.stored(slot, 0x41));
  test.ring->awaitRequests(LoadTest::kDepth);
  ASSERT_TRUE(test.lane->command(command(Operation::kDrain, 0, 0)));
  for (const UpRecord& up : test.endings(12 - LoadTest::kDepth)) {
    EXPECT_EQ(outcomeOf(up), Outcome::kCancelled);
    EXPECT_EQ(up.kind, kEnded | kQuiet);
  }
  test.ring->letGo();
  for (const UpRecord& up : test.endings(LoadTest::kDepth)) {
    EXPECT_EQ(outcomeOf(up), Outcome::kDone);
  }
}

TEST(DrainTest, aCopyThatWaitsForAnEventThatNeverComesIsDropped) {
  StoreTest test;
  ASSERT_TRUE(test.lane->open().ok());
  uint64_t word = 0;
  DownRecord record = StoreTest::down(Operation::kStore, 1);
  record.eventAddress = reinterpret_cast<uint64_t>(&word);
  record.eventValue = 1;
  test.submit(record);
  while (test.copier->starts == 0) std::this_thread::yield();
  ASSERT_TRUE(test.lane->command(command(Operation::kDrain, 101, kWholeTicket)));
  const UpRecord up = test.endings(1)[0];
  EXPECT_EQ(outcomeOf(up), Outcome::kCancelled);
  EXPECT_EQ(up.kind, kEnded | kQuiet);
}

// Shows: F17 case23
TEST(DeadlineTest, aReadThatNeverReturnsExpiresAndCostsOneSlotAndNotTheLane) {
  LoadTest test;
  test.ring->hold();
  ASSERT_TRUE(test.lane->open().ok());
  DownRecord stuck = test.stored(1, 0x51);
  stuck.deadlineNanos = kMillis;
  test.submit(stuck);
  test.ring->awaitRequests(1);
  const UpRecord told = test.endings(1)[0];
  EXPECT_EQ(outcomeOf(told), Outcome::kExpired);
  EXPECT_EQ(static_cast<Stage>(told.stage), Stage::kReading);
  EXPECT_EQ(told.kind, kEnded);
  test.ring->letGo();
  EXPECT_EQ(test.endings(1)[0].kind, kQuiet);
  test.submit(test.stored(2, 0x52));
  EXPECT_EQ(outcomeOf(test.endings(1)[0]), Outcome::kDone);
  EXPECT_EQ(test.block(1)[0], 0) << "an expired block reached the device";
}

// Shows: V223 V224
TEST(DeadlineTest, aBlockThatIsOverDoesNotExpireAndOneThatExpiredDoesItOnce) {
  LoadTest test;
  ASSERT_TRUE(test.lane->open().ok());
  DownRecord fast = test.stored(1, 0x61);
  fast.deadlineNanos = kMillis;
  test.submit(fast);
  EXPECT_EQ(outcomeOf(test.endings(1)[0]), Outcome::kDone);
  test.ring->hold();
  for (uint32_t slot = 2; slot < 12; slot++) {
    DownRecord slow = test.stored(slot, 0x62);
    slow.deadlineNanos = 2 * kMillis;
    test.submit(slow);
  }
  std::map<uint64_t, int> told;
  for (const UpRecord& up : test.endings(10)) {
    EXPECT_EQ(outcomeOf(up), Outcome::kExpired);
    told[up.ticket]++;
  }
  EXPECT_EQ(told.size(), 10u);
  test.ring->letGo();
  for (const UpRecord& up : test.endings(LoadTest::kDepth)) EXPECT_EQ(up.kind, kQuiet);
}

TEST(ProbeTest, aSlotThatGivesBackWhatWasWrittenIsClean) {
  StoreTest test;
  ASSERT_TRUE(test.lane->open().ok());
  test.submit(StoreTest::down(Operation::kProbe, 3));
  EXPECT_EQ(outcomeOf(test.endings(1)[0]), Outcome::kDone);
  ASSERT_EQ(test.ring->requests.size(), 2u);
  EXPECT_EQ(test.ring->requests[0].direction, IoDirection::kWrite);
  EXPECT_EQ(test.ring->requests[1].direction, IoDirection::kRead);
  EXPECT_EQ(test.copier->starts, 0);
}

TEST(ProbeTest, aSlotThatLosesAWriteIsCorrupt) {
  StoreTest test;
  ASSERT_TRUE(test.lane->open().ok());
  test.ring->answer = [&](const IoRequest& request, int32_t moved) {
    if (request.direction == IoDirection::kRead) test.disk[request.offset] ^= 1;
    return moved;
  };
  test.submit(StoreTest::down(Operation::kProbe, 3));
  // The double answers after it has moved the bytes, so the second probe reads the damage.
  test.endings(1);
  test.ring->answer = [&](const IoRequest& request, int32_t moved) {
    if (request.direction == IoDirection::kWrite) return moved;
    return -EIO;
  };
  test.submit(StoreTest::down(Operation::kProbe, 4));
  const UpRecord up = test.endings(1)[0];
  EXPECT_EQ(outcomeOf(up), Outcome::kReadError);
  EXPECT_EQ(up.kind, kEnded | kQuiet | kMedium);
}

TEST(TierTest, eightSlotsInARowThatAreRefusedAsMalformedTurnTheTierOff) {
  LoadTest test;
  test.ring->answer = [](const IoRequest&, int32_t) { return -EINVAL; };
  ASSERT_TRUE(test.lane->open().ok());
  for (uint32_t slot = 0; slot < 7; slot++) {
    test.submit(test.stored(slot, 0x71));
    EXPECT_EQ(outcomeOf(test.endings(1)[0]), Outcome::kReadError);
  }
  // The same slot again is no eighth; nor is one with a good one between.
  test.submit(test.stored(6, 0x71));
  test.endings(1);
  EXPECT_FALSE(test.failure.broken());
  test.submit(test.stored(8, 0x71));
  test.endings(1);
  EXPECT_TRUE(test.failure.broken());
  EXPECT_NE(test.failure.cause().cause.find("8 slots in a row were refused with EINVAL"),
            std::string::npos);
  test.submit(test.stored(9, 0x71));
  EXPECT_EQ(outcomeOf(test.endings(1)[0]), Outcome::kEngineFailed);
}

TEST(TierTest, oneGoodTransferBetweenKeepsTheTierOn) {
  LoadTest test;
  ASSERT_TRUE(test.lane->open().ok());
  for (uint32_t slot = 0; slot < 14; slot++) {
    const int32_t answer = -EINVAL;
    const bool good = slot == 7;
    test.ring->answer = [=](const IoRequest&, int32_t moved) { return good ? moved : answer; };
    test.submit(test.stored(slot, 0x72));
    test.endings(1);
  }
  EXPECT_FALSE(test.failure.broken());
}

TEST(CapacityTest, aFullDiskIsSaidToBeFullAndNotBroken) {
  for (const int error : {ENOSPC, EDQUOT, EFBIG, EROFS}) {
    StoreTest test;
    test.ring->answer = [&](const IoRequest&, int32_t) { return -error; };
    ASSERT_TRUE(test.lane->open().ok());
    test.submit(StoreTest::down(Operation::kStore, 1));
    const UpRecord up = test.endings(1)[0];
    EXPECT_EQ(outcomeOf(up), Outcome::kWriteError);
    EXPECT_EQ(up.kind, kEnded | kQuiet | kCapacity);
    EXPECT_EQ(up.error, error);
  }
}

// A lane whose ring and copier make faults.
template <typename SomeLane>
class FaultyLane {
 public:
  explicit FaultyLane(const FaultPlan& plan) : plain() {
    LaneParts parts;
    auto memory = std::make_unique<MemoryRing>(plain.disk);
    ring = memory.get();
    parts.file = plain.file();
    parts.groups = plain.groups();
    parts.pollWaker = &waker;
    parts.failure = &failure;
    parts.ring = std::make_unique<FaultyRing>(std::move(memory), plan, kDepth);
    parts.copier = std::make_unique<FaultyCopier>(makeHostCopier(*plain.groups(), 2 * kDepth), plan,
                                                  2 * kDepth);
    parts.queueDepth = kDepth;
    parts.stagingSlots = 2 * kDepth;
    parts.stagingSlotBytes = 8192;
    parts.blocksInFlightMax = 64;
    lane = std::make_unique<SomeLane>(std::move(parts));
  }
  ~FaultyLane() { lane.reset(); }

  std::map<uint64_t, UpRecord> run(const std::vector<DownRecord>& records) {
    for (const DownRecord& record : records) EXPECT_TRUE(lane->submit(record));
    lane->submitted();
    std::map<uint64_t, UpRecord> all;
    while (all.size() < records.size()) {
      waker.prepare();
      if (lane->hasEndings()) {
        waker.cancel();
      } else {
        waker.await(-1);
      }
      UpRecord some[16];
      const size_t count = lane->poll(some);
      for (size_t i = 0; i < count; i++) EXPECT_TRUE(all.emplace(some[i].ticket, some[i]).second);
    }
    return all;
  }

  static constexpr uint32_t kDepth = 4;
  LaneUnderTest<SomeLane> plain;
  EngineFailure failure;
  Waker waker;
  MemoryRing* ring = nullptr;
  std::unique_ptr<SomeLane> lane;
};

using FaultyLoad = FaultyLane<LoadLane>;

FaultRule onSlot(const FaultyLoad& test, uint32_t slot, FaultKind kind, int32_t error = 0) {
  FaultRule rule;
  rule.kind = kind;
  rule.error = error;
  rule.offsetFrom = test.plain.slotOffset(slot);
  rule.offsetTo = test.plain.slotOffset(slot + 1);
  return rule;
}

TEST(FaultyRingTest, theNthOperationOnAChosenSlotFailsAndNoOther) {
  const FaultyLoad where({});
  FaultRule rule = onSlot(where, 2, FaultKind::kError, EIO);
  rule.skip = 1;
  rule.limit = 1;
  FaultyLoad test({1, {rule}});
  ASSERT_TRUE(test.lane->open().ok());
  for (int round = 0; round < 3; round++) {
    std::vector<DownRecord> records;
    for (uint32_t slot = 0; slot < 4; slot++) records.push_back(test.plain.stored(slot, 0x20));
    auto ups = test.run(records);
    for (uint32_t slot = 0; slot < 4; slot++) {
      const bool failed = round == 1 && slot == 2;
      EXPECT_EQ(outcomeOf(ups[100 + slot]), failed ? Outcome::kReadError : Outcome::kDone);
    }
  }
  EXPECT_EQ(test.lane->ringCounters().injected[0], 1u);
}

// Shows: F12 F13 F14 F15 F16 V221 V222
TEST(FaultyRingTest, everyKindBecomesTheOutcomeOfItsBlockOrNone) {
  const FaultyLoad where({});
  std::vector<FaultRule> rules;
  rules.push_back(onSlot(where, 0, FaultKind::kError, EIO));
  rules.push_back(onSlot(where, 1, FaultKind::kShort));
  rules.back().limit = 1;
  rules.push_back(onSlot(where, 2, FaultKind::kZero));
  rules.push_back(onSlot(where, 3, FaultKind::kCorrupt));
  rules.push_back(onSlot(where, 4, FaultKind::kError, EAGAIN));
  rules.back().limit = 3;
  rules.push_back(onSlot(where, 5, FaultKind::kError, EINTR));
  rules.back().limit = 1;
  rules.push_back(onSlot(where, 6, FaultKind::kDelay));
  rules.back().delayNanos = 3 * kMillis;
  FaultyLoad test({7, rules});
  ASSERT_TRUE(test.lane->open().ok());
  std::vector<DownRecord> records;
  for (uint32_t slot = 0; slot < 8; slot++) records.push_back(test.plain.stored(slot, 0x30));
  auto ups = test.run(records);
  EXPECT_EQ(outcomeOf(ups[100]), Outcome::kReadError);
  EXPECT_EQ(outcomeOf(ups[101]), Outcome::kDone);
  EXPECT_EQ(outcomeOf(ups[102]), Outcome::kShort);
  EXPECT_EQ(outcomeOf(ups[103]), Outcome::kCorrupt);
  for (uint32_t slot = 4; slot < 8; slot++) EXPECT_EQ(outcomeOf(ups[100 + slot]), Outcome::kDone);
  for (uint32_t slot = 0; slot < 8; slot++) {
    const bool good = slot == 1 || slot > 3;
    EXPECT_EQ(test.plain.block(slot)[LoadTest::kPayload - 1], good ? 0x30 : 0) << slot;
  }
}

// Shows: F22 V24
TEST(FaultyRingTest, underSeededFaultsEveryBlockEndsOnceTheBooksBalanceAndNoByteIsWrong) {
  for (uint64_t seed = 1; seed <= 40; seed++) {
    std::vector<FaultRule> rules;
    for (const auto& [kind, error] : std::map<FaultKind, int>{{FaultKind::kError, EIO},
                                                              {FaultKind::kShort, 0},
                                                              {FaultKind::kZero, 0},
                                                              {FaultKind::kCorrupt, 0},
                                                              {FaultKind::kDelay, 0},
                                                              {FaultKind::kReorder, 0},
                                                              {FaultKind::kCopyDelay, 0}}) {
      FaultRule rule;
      rule.kind = kind;
      rule.error = error;
      rule.rate = 0.1;
      rule.delayNanos = 200'000;
      rules.push_back(rule);
    }
    FaultRule transient;
    transient.error = EAGAIN;
    transient.rate = 0.1;
    rules.push_back(transient);
    FaultyLoad test({seed, rules});
    ASSERT_TRUE(test.lane->open().ok());
    std::vector<DownRecord> records;
    for (uint32_t slot = 0; slot < 16; slot++) {
      records.push_back(test.plain.stored(slot, static_cast<uint8_t>(slot + 1)));
    }
    for (auto& [ticket, up] : test.run(records)) {
      const auto slot = static_cast<uint32_t>(ticket - 100);
      const bool loaded = outcomeOf(up) == Outcome::kDone;
      EXPECT_EQ(test.plain.block(slot)[0], loaded ? slot + 1 : 0) << "seed " << seed;
    }
    for (uint32_t i = 0; i < kFaultCauses; i++) {
      const auto cause = static_cast<FaultCause>(i);
      const uint64_t seen = fate(test, FaultFate::kSeen, cause);
      EXPECT_EQ(test.lane->ringCounters().injected[i], seen) << "seed " << seed << " cause " << i;
      EXPECT_EQ(seen, fate(test, FaultFate::kRecovered, cause) +
                          fate(test, FaultFate::kEnded, cause) +
                          fate(test, FaultFate::kDiscarded, cause));
    }
  }
}

// Shows: F18 F52 V18
TEST(FaultyCopierTest, aCopyThatFailsEndsTheLaneAndKeepsItsCause) {
  FaultRule rule;
  rule.kind = FaultKind::kCopyError;
  rule.error = 700;
  FaultyLoad test({3, {rule}});
  ASSERT_TRUE(test.lane->open().ok());
  auto ups = test.run({test.plain.stored(1, 0x11), test.plain.stored(2, 0x12)});
  EXPECT_EQ(outcomeOf(ups[101]), Outcome::kEngineFailed);
  EXPECT_EQ(outcomeOf(ups[102]), Outcome::kEngineFailed);
  EXPECT_EQ(test.failure.cause().error, 700);
}

}  // namespace
}  // namespace spillway
