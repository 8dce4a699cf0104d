#include "lane/BlockTransfer.h"

#include <algorithm>

#include "base/Check.h"
#include "base/Ids.h"

namespace spillway {
namespace {

[[noreturn]] void impossible(Operation operation, TransferState state, TransferEvent event) {
  checkFailed(__FILE__, __LINE__, "a known transition", "operation %d, state %d, event %d",
              static_cast<int>(operation), static_cast<int>(state), static_cast<int>(event));
}

}  // namespace

TransferState nextState(Operation operation, TransferState state, TransferEvent event) {
  const bool probe = operation == Operation::kProbe;
  const bool verify = operation == Operation::kVerify;
  const bool over = state == TransferState::kDone || state == TransferState::kFaulted;
  if (event == TransferEvent::kFailed && !over) return TransferState::kFaulted;
  const bool abandons = event == TransferEvent::kAbandoned;
  switch (state) {
    case TransferState::kQueued:
      if (abandons) return TransferState::kAbandoned;
      if (event != TransferEvent::kStarted) break;
      if (probe) return TransferState::kWriting;
      return operation == Operation::kStore ? TransferState::kCopying : TransferState::kReading;
    case TransferState::kCopying:
      if (abandons) return TransferState::kAbandoned;
      if (event != TransferEvent::kCopied || probe || verify) break;
      return operation == Operation::kStore ? TransferState::kWriting : TransferState::kDone;
    case TransferState::kReading:
      if (abandons) return TransferState::kAbandoned;
      if (event != TransferEvent::kMovedWhole || operation == Operation::kStore) break;
      return probe || verify ? TransferState::kDone : TransferState::kCopying;
    case TransferState::kWriting:
      if (abandons) return TransferState::kAbandoned;
      if (event != TransferEvent::kMovedWhole || operation == Operation::kLoad || verify) break;
      return probe ? TransferState::kReading : TransferState::kDone;
    case TransferState::kAbandoned:
    case TransferState::kDone:
    case TransferState::kFaulted:
      break;
  }
  impossible(operation, state, event);
}

void BlockTransfer::begin(const DownRecord& newRecord, const Extent& newExtent, StagingSlot newSlot,
                          uint8_t* newData, int64_t now) {
  CHECK(!inFlight, "ticket %lu is in flight", static_cast<unsigned long>(record.ticket));
  CHECK(!copying, "ticket %lu is being copied", static_cast<unsigned long>(record.ticket));
  CHECK(newExtent.payloadBytes <= newExtent.transferBytes, "%u bytes of payload in %u",
        newExtent.payloadBytes, newExtent.transferBytes);
  const uint32_t generation = generation_;
  *this = BlockTransfer{};
  generation_ = generation;
  record = newRecord;
  extent = newExtent;
  slot = newSlot;
  data = newData;
  acceptedAt = now;
  state = TransferState::kQueued;
}

void BlockTransfer::advance(TransferEvent event) {
  state = nextState(static_cast<Operation>(record.operation), state, event);
}

IoRequest BlockTransfer::submit() {
  CHECK(!inFlight && bytesMoved < extent.transferBytes, "%u of %u bytes are moved", bytesMoved,
        extent.transferBytes);
  CHECK(slot.valid() && !copying, "slot %u is submitted while it is copied", slot.index);
  generation_++;
  attempts_++;
  inFlight = true;
  IoRequest request;
  ioDirection_ = state == TransferState::kWriting ? IoDirection::kWrite : IoDirection::kRead;
  request.direction = ioDirection_;
  request.data = data + bytesMoved;
  request.bytes = extent.transferBytes - bytesMoved;
  request.offset = extent.offset + bytesMoved;
  request.userData = userData();
  return request;
}

// Worked example at alignment 512 with 10,496 bytes wanted: a count of 6,000 is rounded down to
// 5,632, the next request asks for bytes 5,632 to 10,495, and the 368 are moved again.
Progress BlockTransfer::onIo(int32_t result, uint32_t alignment) {
  CHECK(inFlight, "ticket %lu completes twice", static_cast<unsigned long>(record.ticket));
  inFlight = false;
  switch (verdictOf(result)) {
    case IoVerdict::kFailed:
      error_ = -result;
      return Progress::kFailed;
    case IoVerdict::kRetry:
      error_ = -result;
      return ++retries_ > kRetriesMax ? Progress::kFailed : Progress::kRetryLater;
    case IoVerdict::kMoved:
      break;
  }
  const uint32_t wanted = extent.transferBytes - bytesMoved;
  const auto moved = static_cast<uint32_t>(result);
  if (moved > wanted) return Progress::kBroken;
  const bool whole = moved == wanted;
  const auto aligned = whole ? moved : static_cast<uint32_t>(roundDown(moved, alignment));
  bytesMoved += aligned;
  CHECK(bytesMoved <= extent.transferBytes, "%u of %u bytes are moved", bytesMoved,
        extent.transferBytes);
  if (whole) return Progress::kWhole;
  stalls_ = aligned > 0 ? 0 : stalls_ + 1;
  return stalls_ < kStallsMax ? Progress::kResume : Progress::kShort;
}

void BlockTransfer::fault(Outcome outcome, Stage stage, int32_t error) {
  CHECK(outcome_ == Outcome::kNone, "ticket %lu ends twice",
        static_cast<unsigned long>(record.ticket));
  outcome_ = outcome;
  stage_ = stage;
  error_ = error;
  advance(TransferEvent::kFailed);
}

void BlockTransfer::abandon(Outcome outcome, Stage stage, int32_t error) {
  CHECK(outcome_ == Outcome::kNone, "ticket %lu ends twice",
        static_cast<unsigned long>(record.ticket));
  CHECK(!isFree(), "ticket %lu is abandoned, and could end",
        static_cast<unsigned long>(record.ticket));
  outcome_ = outcome;
  stage_ = stage;
  error_ = error;
  advance(TransferEvent::kAbandoned);
}

void BlockTransfer::turnToReading() {
  advance(TransferEvent::kMovedWhole);
  CHECK(state == TransferState::kReading, "state %d", static_cast<int>(state));
  bytesMoved = 0;
  stalls_ = 0;
  retries_ = 0;
}

namespace {

// What an outcome says of the place on disk, as bits of UpRecord::kind.
uint16_t blameOf(Outcome outcome, int32_t error) {
  switch (outcome) {
    case Outcome::kShort:
    case Outcome::kCorrupt:
      return kMedium;
    case Outcome::kReadError:
    case Outcome::kWriteError:
      if (blamesMedium(error)) return kMedium;
      return blamesCapacity(error) ? kCapacity : 0;
    case Outcome::kNone:
    case Outcome::kDone:
    case Outcome::kCancelled:
    case Outcome::kEngineFailed:
    case Outcome::kExpired:
      return 0;
  }
  return 0;
}

}  // namespace

UpRecord BlockTransfer::ended(int64_t now) const {
  CHECK(isOver() || isAbandoned(), "state %d", static_cast<int>(state));
  CHECK(isFree() || isAbandoned(), "ticket %lu is in use",
        static_cast<unsigned long>(record.ticket));
  CHECK((state == TransferState::kDone) == (outcome_ == Outcome::kNone), "state %d, outcome %d",
        static_cast<int>(state), static_cast<int>(outcome_));
  UpRecord up{};
  up.ticket = record.ticket;
  up.kind = kEnded | blameOf(outcome_, error_);
  if (isOver()) up.kind |= kQuiet;
  const bool done = state == TransferState::kDone;
  up.outcome = static_cast<uint16_t>(done ? Outcome::kDone : outcome_);
  up.stage = static_cast<uint16_t>(stage_);
  up.error = done ? 0 : error_;
  up.attempts = static_cast<uint16_t>(attempts_);
  up.bytesDone = std::min(bytesMoved, extent.payloadBytes);
  up.checksum = checksum;
  up.ioNanos = static_cast<uint64_t>(ioNanos);
  up.verifyNanos = static_cast<uint64_t>(verifyNanos);
  // What the stages do not account for is waiting for the lane; it is part of the queue time.
  const int64_t known = ioNanos + verifyNanos + copyNanos;
  up.copyNanos = static_cast<uint64_t>(copyNanos);
  up.queuedNanos = static_cast<uint64_t>(std::max<int64_t>(now - acceptedAt - known, 0));
  return up;
}

UpRecord BlockTransfer::quiet(int64_t now) {
  CHECK(isAbandoned() && isFree(), "ticket %lu, state %d",
        static_cast<unsigned long>(record.ticket), static_cast<int>(state));
  UpRecord up = ended(now);
  up.kind = kQuiet;
  advance(TransferEvent::kFailed);
  return up;
}

}  // namespace spillway
