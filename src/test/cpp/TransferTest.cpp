#include <gtest/gtest.h>

#include <cerrno>
#include <optional>

#include "lane/BlockTransfer.h"

namespace spillway {
namespace {

using State = TransferState;
using Event = TransferEvent;

constexpr State kStates[] = {State::kQueued,  State::kCopying, State::kReading,
                             State::kWriting, State::kDone,    State::kFaulted};
constexpr Event kEvents[] = {Event::kStarted, Event::kMovedWhole, Event::kCopied, Event::kFailed};

std::optional<State> expected(Operation operation, State state, Event event) {
  const bool store = operation == Operation::kStore;
  if (state == State::kDone || state == State::kFaulted) return std::nullopt;
  if (event == Event::kFailed) return State::kFaulted;
  if (state == State::kQueued && event == Event::kStarted) {
    return store ? State::kCopying : State::kReading;
  }
  if (state == State::kCopying && event == Event::kCopied) {
    return store ? State::kWriting : State::kDone;
  }
  if (state == State::kReading && event == Event::kMovedWhole && !store) return State::kCopying;
  if (state == State::kWriting && event == Event::kMovedWhole && store) return State::kDone;
  return std::nullopt;
}

TEST(BlockTransferTest, everyPairOfStateAndEventIsKnownOrAnEngineFault) {
  for (const Operation operation : {Operation::kStore, Operation::kLoad}) {
    for (const State state : kStates) {
      for (const Event event : kEvents) {
        if (const auto next = expected(operation, state, event)) {
          EXPECT_EQ(nextState(operation, state, event), *next);
        } else {
          EXPECT_DEATH((void)nextState(operation, state, event), "a known transition");
        }
      }
    }
  }
}

TEST(BlockTransferTest, aBlockThatIsVerifiedIsOverOnceItIsRead) {
  EXPECT_EQ(nextState(Operation::kVerify, State::kQueued, Event::kStarted), State::kReading);
  EXPECT_EQ(nextState(Operation::kVerify, State::kReading, Event::kMovedWhole), State::kDone);
  EXPECT_EQ(nextState(Operation::kVerify, State::kReading, Event::kAbandoned), State::kAbandoned);
  EXPECT_DEATH((void)nextState(Operation::kVerify, State::kCopying, Event::kCopied), "known");
  EXPECT_DEATH((void)nextState(Operation::kVerify, State::kWriting, Event::kMovedWhole), "known");
}

// A load of 10,496 bytes at alignment 512: 10,752 bytes move.
BlockTransfer loadOf10496() {
  BlockTransfer transfer;
  DownRecord record{};
  record.operation = static_cast<uint16_t>(Operation::kLoad);
  transfer.begin(record, {1000 * 512, 10496, 10752}, StagingSlot{3}, nullptr, 0);
  transfer.advance(Event::kStarted);
  return transfer;
}

TEST(BlockTransferTest, aWholeCountEndsIt) {
  BlockTransfer transfer = loadOf10496();
  EXPECT_EQ(transfer.submit().bytes, 10752u);
  EXPECT_EQ(transfer.onIo(10752, 512), Progress::kWhole);
}

TEST(BlockTransferTest, aShortCountResumesAtTheLastAlignedByte) {
  BlockTransfer transfer = loadOf10496();
  (void)transfer.submit();
  EXPECT_EQ(transfer.onIo(6000, 512), Progress::kResume);
  const IoRequest rest = transfer.submit();
  EXPECT_EQ(rest.offset, 1000u * 512 + 5632);
  EXPECT_EQ(rest.bytes, 10752u - 5632);
  EXPECT_EQ(transfer.onIo(10752 - 5632, 512), Progress::kWhole);
}

TEST(BlockTransferTest, twoCallsWithoutAnAlignedUnitAreShort) {
  BlockTransfer transfer = loadOf10496();
  (void)transfer.submit();
  EXPECT_EQ(transfer.onIo(0, 512), Progress::kResume);
  (void)transfer.submit();
  EXPECT_EQ(transfer.onIo(511, 512), Progress::kShort);
}

TEST(BlockTransferTest, aUnitThatMovedStartsTheCountAgain) {
  BlockTransfer transfer = loadOf10496();
  (void)transfer.submit();
  EXPECT_EQ(transfer.onIo(0, 512), Progress::kResume);
  (void)transfer.submit();
  EXPECT_EQ(transfer.onIo(512, 512), Progress::kResume);
  (void)transfer.submit();
  EXPECT_EQ(transfer.onIo(0, 512), Progress::kResume);
}

TEST(BlockTransferTest, refusalsForTheMomentAreBounded) {
  BlockTransfer transfer = loadOf10496();
  for (uint32_t i = 0; i < BlockTransfer::kRetriesMax; i++) {
    (void)transfer.submit();
    EXPECT_EQ(transfer.onIo(-EAGAIN, 512), Progress::kRetryLater);
  }
  (void)transfer.submit();
  EXPECT_EQ(transfer.onIo(-EAGAIN, 512), Progress::kFailed);
  EXPECT_EQ(transfer.lastError(), EAGAIN);
}

TEST(BlockTransferTest, aCountAboveTheRequestIsFatal) {
  BlockTransfer transfer = loadOf10496();
  (void)transfer.submit();
  EXPECT_EQ(transfer.onIo(10753, 512), Progress::kBroken);
}

TEST(BlockTransferTest, aStrayCompletionIsNotExpected) {
  BlockTransfer transfer = loadOf10496();
  const uint64_t first = transfer.submit().userData;
  EXPECT_TRUE(transfer.expects(first));
  EXPECT_EQ(transfer.onIo(0, 512), Progress::kResume);
  EXPECT_FALSE(transfer.expects(first));
  const uint64_t second = transfer.submit().userData;
  EXPECT_NE(second, first);
  EXPECT_FALSE(transfer.expects(first));
  EXPECT_EQ(BlockTransfer::indexOf(second), 3u);
}

TEST(BlockTransferTest, aFaultCarriesStageErrnoAndBytes) {
  BlockTransfer transfer = loadOf10496();
  (void)transfer.submit();
  (void)transfer.onIo(5632, 512);
  (void)transfer.submit();
  EXPECT_EQ(transfer.onIo(-EIO, 512), Progress::kFailed);
  transfer.fault(Outcome::kReadError, Stage::kReading, EIO);
  const UpRecord up = transfer.ended(50);
  EXPECT_EQ(up.outcome, static_cast<uint16_t>(Outcome::kReadError));
  EXPECT_EQ(up.stage, static_cast<uint16_t>(Stage::kReading));
  EXPECT_EQ(up.error, EIO);
  EXPECT_EQ(up.bytesDone, 5632u);
  EXPECT_EQ(up.attempts, 2u);
  EXPECT_EQ(up.kind, kEnded | kQuiet | kMedium);
}

TEST(BlockTransferTest, onlyABadPlaceIsBlamedOnTheMedium) {
  struct Row {
    Outcome outcome;
    int error;
    bool medium;
  };
  for (const Row& row :
       {Row{Outcome::kReadError, EIO, true}, Row{Outcome::kReadError, EINVAL, false},
        Row{Outcome::kReadError, ENOMEM, false}, Row{Outcome::kShort, 0, true},
        Row{Outcome::kCorrupt, 0, true}, Row{Outcome::kCancelled, 0, false},
        Row{Outcome::kEngineFailed, EIO, false}}) {
    BlockTransfer transfer = loadOf10496();
    transfer.fault(row.outcome, Stage::kReading, row.error);
    EXPECT_EQ((transfer.ended(1).kind & kMedium) != 0, row.medium) << row.error;
  }
}

TEST(BlockTransferTest, endingTwiceIsAnEngineFault) {
  BlockTransfer transfer = loadOf10496();
  transfer.fault(Outcome::kReadError, Stage::kReading, EIO);
  EXPECT_DEATH(transfer.fault(Outcome::kShort, Stage::kReading, 0), "ends twice");
}

}  // namespace
}  // namespace spillway
