#include <gtest/gtest.h>

#include <cerrno>
#include <future>
#include <map>

#include "LaneDoubles.h"

namespace spillway {
namespace {

using LoadTest = LaneUnderTest<LoadLane>;
using StoreTest = LaneUnderTest<StoreLane>;

Outcome outcomeOf(const UpRecord& up) { return static_cast<Outcome>(up.outcome); }

// Shows: V37
TEST(LoadLaneTest, aLoadedBlockIsOnTheDevice) {
  LoadTest test;
  ASSERT_TRUE(test.lane->open().ok());
  test.submit(test.stored(3, 0x33));
  const UpRecord up = test.endings(1)[0];
  EXPECT_EQ(outcomeOf(up), Outcome::kDone);
  EXPECT_EQ(up.ticket, 103u);
  EXPECT_EQ(up.bytesDone, LoadTest::kPayload);
  EXPECT_EQ(test.block(3)[LoadTest::kPayload - 1], 0x33);
  EXPECT_EQ(test.block(2)[0], 0);
}

// Shows: F11 V2 V4 V24
TEST(LoadLaneTest, failedReadFailsOnlyItsOwnBlock) {
  LoadTest test;
  test.ring->answer = [&](const IoRequest& request, int32_t moved) {
    return request.offset == test.slotOffset(1) ? -EIO : moved;
  };
  ASSERT_TRUE(test.lane->open().ok());
  for (uint32_t slot = 0; slot < 3; slot++) test.submit(test.stored(slot, 0x11));
  const auto ups = test.endings(3);
  EXPECT_EQ(outcomeOf(ups[0]), Outcome::kDone);
  EXPECT_EQ(outcomeOf(ups[1]), Outcome::kReadError);
  EXPECT_EQ(ups[1].error, EIO);
  EXPECT_EQ(static_cast<Stage>(ups[1].stage), Stage::kReading);
  EXPECT_EQ(outcomeOf(ups[2]), Outcome::kDone);
  EXPECT_EQ(test.block(1)[0], 0) << "a faulted block reached the device";
  // The lane goes on: the same block, once the disk is well.
  test.ring->answer = nullptr;
  test.submit(test.stored(1, 0x12));
  EXPECT_EQ(outcomeOf(test.endings(1)[0]), Outcome::kDone);
}

TEST(LoadLaneTest, differingBytesAreCorruptAndNeverReachTheDevice) {
  LoadTest test;
  ASSERT_TRUE(test.lane->open().ok());
  const DownRecord record = test.stored(5, 0x55);
  test.disk[test.slotOffset(5) + 4000] ^= 1;
  test.submit(record);
  const UpRecord up = test.endings(1)[0];
  EXPECT_EQ(outcomeOf(up), Outcome::kCorrupt);
  EXPECT_EQ(static_cast<Stage>(up.stage), Stage::kVerifying);
  EXPECT_EQ(test.block(5)[0], 0);
  EXPECT_EQ(test.copier->starts, 0);
}

TEST(LoadLaneTest, aBlockThatIsToBeVerifiedIsReadAndComparedAndNotCopied) {
  LoadTest test;
  ASSERT_TRUE(test.lane->open().ok());
  DownRecord record = test.stored(5, 0x55);
  record.operation = static_cast<uint16_t>(Operation::kVerify);
  test.submit(record);
  EXPECT_EQ(outcomeOf(test.endings(1)[0]), Outcome::kDone);
  test.disk[test.slotOffset(5) + 4000] ^= 1;
  test.submit(record);
  const UpRecord up = test.endings(1)[0];
  EXPECT_EQ(outcomeOf(up), Outcome::kCorrupt);
  EXPECT_EQ(up.kind, kEnded | kQuiet | kMedium);
  EXPECT_EQ(test.copier->starts, 0);
  EXPECT_EQ(test.block(5)[0], 0);
}

// Shows: F12, case23
TEST(LoadLaneTest, shortReadIsResumedFromTheLastAlignedByte) {
  LoadTest test;
  test.ring->answer = [](const IoRequest& request, int32_t moved) {
    return request.bytes == 8192 ? 5000 : moved;
  };
  ASSERT_TRUE(test.lane->open().ok());
  test.submit(test.stored(2, 0x22));
  EXPECT_EQ(outcomeOf(test.endings(1)[0]), Outcome::kDone);
  ASSERT_EQ(test.ring->requests.size(), 2u);
  EXPECT_EQ(test.ring->requests[1].offset, test.slotOffset(2) + 4096);
  EXPECT_EQ(test.ring->requests[1].bytes, 4096u);
  EXPECT_EQ(test.block(2)[LoadTest::kPayload - 1], 0x22);
  EXPECT_EQ(test.lane->counters().resumed, 1u);
}

// Shows: F13 V3
TEST(LoadLaneTest, readThatStopsMovingIsShort) {
  LoadTest test;
  test.ring->answer = [](const IoRequest&, int32_t) { return 0; };
  ASSERT_TRUE(test.lane->open().ok());
  test.submit(test.stored(2, 0x22));
  const UpRecord up = test.endings(1)[0];
  EXPECT_EQ(outcomeOf(up), Outcome::kShort);
  EXPECT_EQ(up.error, 0);
  EXPECT_EQ(up.bytesDone, 0u);
  EXPECT_EQ(test.copier->starts, 0);
}

// Shows: F15
TEST(LoadLaneTest, refusalForTheMomentIsTriedAgain) {
  LoadTest test;
  int refusals = 2;
  test.ring->answer = [&](const IoRequest&, int32_t moved) {
    return refusals-- > 0 ? -EAGAIN : moved;
  };
  ASSERT_TRUE(test.lane->open().ok());
  test.submit(test.stored(2, 0x22));
  const UpRecord up = test.endings(1)[0];
  EXPECT_EQ(outcomeOf(up), Outcome::kDone);
  EXPECT_EQ(up.attempts, 3u);
  EXPECT_EQ(test.lane->counters().retried, 2u);
}

TEST(LoadLaneTest, strayCompletionEndsNoBlock) {
  LoadTest test;
  // The generation of another request, and an index that no transfer has.
  test.ring->stray = [](const IoRequest& request) {
    return request.offset % 16384 == 0 ? request.userData + (uint64_t{1} << 32) : uint64_t{5000};
  };
  ASSERT_TRUE(test.lane->open().ok());
  for (uint32_t slot = 0; slot < 8; slot++) test.submit(test.stored(slot, 0x44));
  for (const UpRecord& up : test.endings(8)) EXPECT_EQ(outcomeOf(up), Outcome::kDone);
  EXPECT_EQ(test.lane->counters().strays, 8u);
  EXPECT_FALSE(test.lane->hasEndings());
}

TEST(LoadLaneTest, countAboveTheRequestBreaksTheLane) {
  LoadTest test;
  test.ring->answer = [](const IoRequest&, int32_t moved) { return moved + 1; };
  ASSERT_TRUE(test.lane->open().ok());
  test.submit(test.stored(0, 1));
  EXPECT_EQ(outcomeOf(test.endings(1)[0]), Outcome::kEngineFailed);
  EXPECT_TRUE(test.lane->broken());
}

TEST(LoadLaneTest, noMoreThanTheDepthIsInFlightAndTheDepthIsReached) {
  LoadTest test;
  test.ring->hold();
  ASSERT_TRUE(test.lane->open().ok());
  for (uint32_t slot = 0; slot < 12; slot++) test.submit(test.stored(slot, 0x66));
  test.ring->awaitRequests(LoadTest::kDepth);
  EXPECT_EQ(test.ring->requests.size(), LoadTest::kDepth);
  test.ring->letGo();
  for (const UpRecord& up : test.endings(12)) EXPECT_EQ(outcomeOf(up), Outcome::kDone);
  EXPECT_EQ(test.lane->counters().inFlightMax, LoadTest::kDepth);
}

// One completion at an enter: the one that lets the lane work, and the one after it.
TEST(LoadLaneTest, placesThatComeFreeAreFilledBeforeABlockIsWorkedOn) {
  LoadTest test;
  test.ring->mostAtOnce = 1;
  size_t requests = 0;
  test.copier->onFirstStart = [&] { requests = test.ring->requests.size(); };
  test.ring->hold();
  ASSERT_TRUE(test.lane->open().ok());
  for (uint32_t slot = 0; slot < 12; slot++) test.submit(test.stored(slot, 0x66));
  test.ring->awaitRequests(LoadTest::kDepth);
  test.ring->letGo();
  for (const UpRecord& up : test.endings(12)) EXPECT_EQ(outcomeOf(up), Outcome::kDone);
  EXPECT_EQ(requests, LoadTest::kDepth + 2);
}

// V35, V36: a slot is free only after its copy; here copies are held and all slots stay taken.
// Shows: V35 V36
TEST(LoadLaneTest, slotIsNotReusedBeforeItsCopyIsDone) {
  LoadTest test;
  test.copier->held = true;
  ASSERT_TRUE(test.lane->open().ok());
  for (uint32_t slot = 0; slot < 12; slot++)
    test.submit(test.stored(slot, static_cast<uint8_t>(slot)));
  test.ring->awaitRequests(2 * LoadTest::kDepth);
  EXPECT_FALSE(test.lane->hasEndings());
  EXPECT_EQ(test.ring->requests.size(), 2 * LoadTest::kDepth);
  test.copier->held = false;
  for (const UpRecord& up : test.endings(12)) EXPECT_EQ(outcomeOf(up), Outcome::kDone);
  for (uint32_t slot = 0; slot < 12; slot++) EXPECT_EQ(test.block(slot)[100], slot);
}

TEST(LoadLaneTest, closeCancelsWhatHasNotStartedAndFinishesTheRest) {
  LoadTest test;
  test.ring->hold();
  ASSERT_TRUE(test.lane->open().ok());
  for (uint32_t slot = 0; slot < 12; slot++) test.submit(test.stored(slot, 0x77));
  test.ring->awaitRequests(LoadTest::kDepth);
  test.lane->close();
  test.ring->letGo();
  EXPECT_TRUE(test.lane->join(INT64_MAX / 2));
  size_t done = 0;
  size_t cancelled = 0;
  for (const UpRecord& up : test.endings(12)) {
    (outcomeOf(up) == Outcome::kDone ? done : cancelled)++;
  }
  EXPECT_GE(done, LoadTest::kDepth);
  EXPECT_EQ(done + cancelled, 12u);
  EXPECT_GT(cancelled, 0u);
}

// Shows: F54
TEST(LoadLaneTest, joinGivesUpWhileTheKernelOwnsMemory) {
  LoadTest test;
  test.ring->hold();
  ASSERT_TRUE(test.lane->open().ok());
  test.submit(test.stored(0, 0x77));
  test.ring->awaitRequests(1);
  test.lane->close();
  EXPECT_FALSE(test.lane->join(1'000'000));
  // Who opened it may take device memory back now.
  std::fill_n(test.block(0), LoadTest::kPayload, uint8_t{0xee});
  test.ring->letGo();
  EXPECT_EQ(outcomeOf(test.endings(1)[0]), Outcome::kCancelled);
  // For the test only: the detached thread must be gone before its lane is.
  test.lane->awaitOver();
  EXPECT_EQ(test.block(0)[0], 0xee) << "written after the lane was given up";
}

TEST(StoreLaneTest, aLaneThatIsGivenUpReadsNoDeviceMemoryAndWritesNothing) {
  StoreTest test;
  test.copier->held = true;
  ASSERT_TRUE(test.lane->open().ok());
  test.submit(test.down(Operation::kStore, 0));
  while (test.copier->starts == 0) std::this_thread::yield();
  test.lane->close();
  EXPECT_FALSE(test.lane->join(1'000'000));
  EXPECT_EQ(outcomeOf(test.endings(1)[0]), Outcome::kCancelled);
  EXPECT_TRUE(test.ring->requests.empty());
  // For the test only: the copy lets go, and so the detached thread ends.
  test.copier->held = false;
  test.lane->awaitOver();
  EXPECT_TRUE(test.ring->requests.empty());
}

// Who closes gets device memory back only when the copy that has begun has let go of it, and none
// begins any more.
TEST(StoreLaneTest, givingUpWaitsForTheCopyThatHasBegunAndNoneFollows) {
  StoreTest test;
  std::atomic<bool> inside{false};
  std::atomic<bool> go{false};
  test.copier->onFirstStart = [&] {
    inside = true;
    while (!go) std::this_thread::yield();
  };
  for (uint32_t slot = 0; slot < 2; slot++) {
    ASSERT_TRUE(test.lane->submit(test.down(Operation::kStore, slot)));
  }
  ASSERT_TRUE(test.lane->open().ok());
  while (!inside) std::this_thread::yield();
  test.lane->close();
  auto givenUp = std::async(std::launch::async, [&] { return test.lane->join(1'000'000); });
  EXPECT_EQ(givenUp.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout)
      << "given up in the midst of a copy";
  go = true;
  EXPECT_FALSE(givenUp.get());
  for (const UpRecord& up : test.endings(2)) EXPECT_EQ(outcomeOf(up), Outcome::kCancelled);
  test.lane->awaitOver();
  EXPECT_EQ(test.copier->starts, 1);
}

TEST(StoreLaneTest, aStoredBlockIsOnTheDiskWithItsChecksumAndAZeroTail) {
  StoreTest test;
  std::fill_n(test.block(4), StoreTest::kPayload, uint8_t{0x44});
  std::fill_n(test.disk.data() + test.slotOffset(4), 8192, uint8_t{0xff});
  ASSERT_TRUE(test.lane->open().ok());
  test.submit(test.down(Operation::kStore, 4));
  const UpRecord up = test.endings(1)[0];
  EXPECT_EQ(outcomeOf(up), Outcome::kDone);
  EXPECT_EQ(up.checksum, checksum(test.block(4), StoreTest::kPayload, 44));
  const uint8_t* slot = test.disk.data() + test.slotOffset(4);
  EXPECT_EQ(slot[StoreTest::kPayload - 1], 0x44);
  for (uint32_t at = StoreTest::kPayload; at < 8192; at++) ASSERT_EQ(slot[at], 0) << at;
}

// Shows: F33 V2
TEST(StoreLaneTest, failedWriteFailsOnlyItsOwnBlock) {
  StoreTest test;
  test.ring->answer = [&](const IoRequest& request, int32_t moved) {
    return request.offset == test.slotOffset(1) ? -ENOSPC : moved;
  };
  ASSERT_TRUE(test.lane->open().ok());
  for (uint32_t slot = 0; slot < 3; slot++) test.submit(test.down(Operation::kStore, slot));
  const auto ups = test.endings(3);
  EXPECT_EQ(outcomeOf(ups[0]), Outcome::kDone);
  EXPECT_EQ(outcomeOf(ups[1]), Outcome::kWriteError);
  EXPECT_EQ(ups[1].error, ENOSPC);
  EXPECT_EQ(outcomeOf(ups[2]), Outcome::kDone);
}

// Shows: F35
TEST(StoreLaneTest, shortWriteIsResumedAndThatStopsMovingIsShort) {
  StoreTest test;
  test.ring->answer = [&](const IoRequest& request, int32_t moved) {
    if (request.offset == test.slotOffset(0)) return 4096;
    return request.offset == test.slotOffset(1) ? 100 : moved;
  };
  ASSERT_TRUE(test.lane->open().ok());
  test.submit(test.down(Operation::kStore, 0));
  test.submit(test.down(Operation::kStore, 1));
  const auto ups = test.endings(2);
  EXPECT_EQ(outcomeOf(ups[0]), Outcome::kDone);
  EXPECT_EQ(outcomeOf(ups[1]), Outcome::kShort);
}

// Case 11: a checksum is kept for every block, and still no disk command is unaligned, also when it
// is resumed: nothing lies in front of the payload.
TEST(StoreLaneTest, case11EveryDiskCommandIsAligned) {
  StoreTest test;
  test.ring->answer = [](const IoRequest& request, int32_t moved) {
    return request.bytes == 8192 ? 4097 : moved;
  };
  ASSERT_TRUE(test.lane->open().ok());
  for (uint32_t slot = 0; slot < 8; slot++) test.submit(test.down(Operation::kStore, slot));
  for (const UpRecord& up : test.endings(8)) {
    EXPECT_EQ(outcomeOf(up), Outcome::kDone);
    EXPECT_NE(up.checksum, 0u);
  }
  EXPECT_EQ(test.ring->requests.size(), 16u);
  for (const IoRequest& request : test.ring->requests) {
    EXPECT_EQ(request.offset % 4096, 0u);
    EXPECT_EQ(request.bytes % 4096, 0u);
    EXPECT_EQ(reinterpret_cast<uint64_t>(request.data) % 4096, 0u);
  }
}

// Case 12: the slot under write cannot be handed out or copied into until its completion.
TEST(StoreLaneTest, case12ASlotUnderWriteIsNotReused) {
  StoreTest test;
  test.ring->hold();
  ASSERT_TRUE(test.lane->open().ok());
  for (uint32_t slot = 0; slot < 12; slot++) test.submit(test.down(Operation::kStore, slot));
  test.ring->awaitRequests(StoreTest::kDepth);
  std::vector<uint8_t*> held;
  for (uint32_t i = 0; i < StoreTest::kDepth; i++) held.push_back(test.ring->requests[i].data);
  std::sort(held.begin(), held.end());
  EXPECT_EQ(std::unique(held.begin(), held.end()), held.end());
  EXPECT_LE(test.copier->starts, static_cast<int>(2 * StoreTest::kDepth));
  test.ring->letGo();
  for (const UpRecord& up : test.endings(12)) EXPECT_EQ(outcomeOf(up), Outcome::kDone);
}

// Case 54: a store waits for the event after which its source is whole.
TEST(StoreLaneTest, case54AStoreWaitsForItsComputedEvent) {
  StoreTest test;
  alignas(8) std::atomic<uint64_t> computed{0};
  ASSERT_TRUE(test.lane->open().ok());
  DownRecord record = test.down(Operation::kStore, 2);
  record.eventAddress = reinterpret_cast<uint64_t>(&computed);
  record.eventValue = 1;
  test.submit(record);
  test.submit(test.down(Operation::kStore, 3));
  EXPECT_EQ(test.endings(1)[0].ticket, 103u);
  std::fill_n(test.block(2), StoreTest::kPayload, uint8_t{0x99});
  computed.store(1, std::memory_order_release);
  EXPECT_EQ(outcomeOf(test.endings(1)[0]), Outcome::kDone);
  EXPECT_EQ(test.disk[test.slotOffset(2)], 0x99);
}

// Shows: F38 V18 V20
TEST(StoreLaneTest, copyFailureEndsEveryBlockAndKeepsTheFirstCause) {
  StoreTest test;
  test.copier->failStart = Status::fatal(700, "cudaErrorIllegalAddress");
  ASSERT_TRUE(test.lane->open().ok());
  test.submit(test.down(Operation::kStore, 0));
  test.submit(test.down(Operation::kStore, 1));
  for (const UpRecord& up : test.endings(2)) EXPECT_EQ(outcomeOf(up), Outcome::kEngineFailed);
  EXPECT_EQ(test.failure.cause().cause, "cudaErrorIllegalAddress");
  test.submit(test.down(Operation::kStore, 2));
  EXPECT_EQ(outcomeOf(test.endings(1)[0]), Outcome::kEngineFailed);
}

// Shows: F19 V19 V20: a read had failed before, and the device's failure outweighs it.
TEST(LoadLaneTest, anEventThatFailsEndsEveryBlockAndKeepsItsCause) {
  LoadTest test;
  test.copier->failReap = Status::fatal(719, "cudaErrorLaunchFailure");
  ASSERT_TRUE(test.lane->open().ok());
  test.ring->answer = [&](const IoRequest& request, int32_t moved) {
    return request.offset == test.slotOffset(0) ? -EIO : moved;
  };
  test.submit(test.stored(0, 0x11));
  test.submit(test.stored(1, 0x12));
  std::map<uint64_t, Outcome> outcomes;
  for (const UpRecord& up : test.endings(2)) outcomes[up.ticket] = outcomeOf(up);
  EXPECT_EQ(outcomes[101], Outcome::kEngineFailed);
  EXPECT_EQ(test.failure.cause().cause, "cudaErrorLaunchFailure");
  test.submit(test.stored(2, 0x13));
  EXPECT_EQ(outcomeOf(test.endings(1)[0]), Outcome::kEngineFailed);
}

TEST(StoreLaneTest, ringFailureEndsBlocksOnlyAfterTheyCameBack) {
  StoreTest test;
  test.ring->hold();
  ASSERT_TRUE(test.lane->open().ok());
  test.submit(test.down(Operation::kStore, 0));
  test.ring->awaitRequests(1);
  test.ring->failEnter = Status::fatal(ENXIO, "io_uring_enter gave ENXIO");
  test.submit(test.down(Operation::kStore, 1));
  EXPECT_EQ(test.endings(1)[0].ticket, 101u);
  EXPECT_FALSE(test.lane->hasEndings()) << "ended while the kernel owned its memory";
  test.ring->letGo();
  EXPECT_EQ(outcomeOf(test.endings(1)[0]), Outcome::kEngineFailed);
}

// What the kernel never took is not in its hands: it ends, and close returns.
TEST(StoreLaneTest, aDeadRingEndsWhatItNeverTook) {
  StoreTest test;
  test.ring->takesNothing = true;
  test.ring->failEnter = Status::fatal(ENXIO, "io_uring_enter gave ENXIO");
  ASSERT_TRUE(test.lane->open().ok());
  for (uint32_t slot = 0; slot < 6; slot++) test.submit(test.down(Operation::kStore, slot));
  for (const UpRecord& up : test.endings(6)) EXPECT_EQ(outcomeOf(up), Outcome::kEngineFailed);
  test.lane->close();
  EXPECT_TRUE(test.lane->join(INT64_MAX / 4));
  EXPECT_TRUE(test.ring->requests.empty()) << "a request left after the failure";
}

// Shows: F52 V12 V13 V21
TEST(StoreLaneTest, aFailureOfTheOtherLaneEndsThisOneWithTheFirstCause) {
  StoreTest test;
  ASSERT_TRUE(test.lane->open().ok());
  test.failure.set(Status::fatal(5, "the other lane's cause"));
  test.failure.set(Status::fatal(6, "a later one"));
  test.submit(test.down(Operation::kStore, 0));
  EXPECT_EQ(outcomeOf(test.endings(1)[0]), Outcome::kEngineFailed);
  EXPECT_EQ(test.failure.cause().cause, "the other lane's cause");
  EXPECT_TRUE(test.ring->requests.empty());
}

TEST(StoreLaneTest, closeCancelsACopyThatWaitsForAnEventThatNeverComes) {
  StoreTest test;
  alignas(8) std::atomic<uint64_t> never{0};
  ASSERT_TRUE(test.lane->open().ok());
  DownRecord record = test.down(Operation::kStore, 2);
  record.eventAddress = reinterpret_cast<uint64_t>(&never);
  record.eventValue = 1;
  test.submit(record);
  test.lane->close();
  EXPECT_TRUE(test.lane->join(INT64_MAX / 4));
  EXPECT_EQ(outcomeOf(test.endings(1)[0]), Outcome::kCancelled);
}

// Shows: F18 V18 V20
TEST(LoadLaneTest, copyFailureEndsTheLoadLaneToo) {
  LoadTest test;
  test.copier->failStart = Status::fatal(700, "cudaErrorIllegalAddress");
  ASSERT_TRUE(test.lane->open().ok());
  test.submit(test.stored(0, 1));
  EXPECT_EQ(outcomeOf(test.endings(1)[0]), Outcome::kEngineFailed);
}

// A load waits for the last use of its destination.
TEST(LoadLaneTest, aLoadWaitsForItsEvent) {
  LoadTest test;
  alignas(8) std::atomic<uint64_t> used{0};
  ASSERT_TRUE(test.lane->open().ok());
  DownRecord record = test.stored(2, 0x22);
  record.eventAddress = reinterpret_cast<uint64_t>(&used);
  record.eventValue = 1;
  test.submit(record);
  test.submit(test.stored(3, 0x33));
  EXPECT_EQ(test.endings(1)[0].ticket, 103u);
  EXPECT_EQ(test.block(2)[0], 0);
  used.store(1, std::memory_order_release);
  EXPECT_EQ(outcomeOf(test.endings(1)[0]), Outcome::kDone);
  EXPECT_EQ(test.block(2)[0], 0x22);
}

TEST(LoadLaneTest, refusalsWithoutEndBecomeTheError) {
  LoadTest test;
  test.ring->answer = [](const IoRequest&, int32_t) { return -EBUSY; };
  ASSERT_TRUE(test.lane->open().ok());
  test.submit(test.stored(2, 0x22));
  const UpRecord up = test.endings(1)[0];
  EXPECT_EQ(outcomeOf(up), Outcome::kReadError);
  EXPECT_EQ(up.error, EBUSY);
  EXPECT_EQ(up.attempts, BlockTransfer::kRetriesMax + 1);
}

// F6: a device that cannot be set up fails the open, not the first load.
// Shows: V15
TEST(StoreLaneTest, f6DeviceSetUpFailsTheOpen) {
  StoreTest test;
  test.copier->failAttach = Status::fatal(3, "cudaErrorInitializationError");
  const Status status = test.lane->open();
  EXPECT_EQ(status.error, 3);
  EXPECT_EQ(status.cause, "cudaErrorInitializationError");
}

}  // namespace
}  // namespace spillway
