#pragma once

#include <cstdint>

#include "base/Ids.h"
#include "base/Records.h"
#include "base/Status.h"
#include "disk/Ring.h"

namespace spillway {

// store: QUEUED -> COPYING -> WRITING -> DONE | FAULTED
// load:  QUEUED -> READING -> COPYING -> DONE | FAULTED
// probe: QUEUED -> WRITING -> READING -> DONE | FAULTED
// verify: QUEUED -> READING -> DONE | FAULTED
// any that is not over -> ABANDONED -> FAULTED: cancelled or expired, and told so, while the kernel
// or the device still held its memory; over once they have let go.
enum class TransferState : uint8_t {
  kQueued,
  kCopying,
  kReading,
  kWriting,
  kAbandoned,
  kDone,
  kFaulted
};
enum class TransferEvent : uint8_t { kStarted, kMovedWhole, kCopied, kFailed, kAbandoned };

// Pure: no I/O, no clock. The state that follows; a pair that cannot occur is an engine fault.
TransferState nextState(Operation operation, TransferState state, TransferEvent event);

// How much of a request the kernel has moved, and whether to go on.
enum class Progress : uint8_t { kWhole, kResume, kRetryLater, kShort, kFailed, kBroken };

// Where a block lies in the file. A transfer moves the payload rounded up to the alignment.
struct Extent {
  uint64_t offset = 0;
  uint32_t payloadBytes = 0;
  uint32_t transferBytes = 0;
};

// One block on its way, from the down-record to the up-record. It owns its staging slot
// from begin() until the lane has reported it. A transfer is over when nothing is left of it, not
// when a call has returned. Owned by the lane's thread.
class BlockTransfer {
 public:
  // Two calls in a row without a whole aligned unit end a block; so do this many refusals.
  static constexpr uint32_t kStallsMax = 2;
  static constexpr uint32_t kRetriesMax = 10;

  void begin(const DownRecord& newRecord, const Extent& newExtent, StagingSlot newSlot,
             uint8_t* newData, int64_t now);
  void advance(TransferEvent event);

  // The request for what is left to read or write, from the last aligned byte reached. From now on
  // the staging slot is the kernel's, until onIo().
  IoRequest submit();
  // True where the completion belongs to the request that is in flight now.
  bool expects(uint64_t userData) const { return inFlight && userData == this->userData(); }
  // Takes in the result of the request in flight. `alignment` is the file's.
  Progress onIo(int32_t result, uint32_t alignment);

  void fault(Outcome outcome, Stage stage, int32_t error);
  // The block ends before its memory is free.
  void abandon(Outcome outcome, Stage stage, int32_t error);
  // The record of an ending, or of that of an abandoned block.
  UpRecord ended(int64_t now) const;
  // The record of an abandoned block whose memory has come free.
  UpRecord quiet(int64_t now);
  // A probe has written its pattern, and is to read it back.
  void turnToReading();

  Operation operation() const { return static_cast<Operation>(record.operation); }
  bool isOver() const { return state == TransferState::kDone || state == TransferState::kFaulted; }
  bool isAbandoned() const { return state == TransferState::kAbandoned; }
  // Neither the kernel nor the device can touch its memory.
  bool isFree() const { return !inFlight && !copying; }
  // The disk or the copier has had a part in it.
  bool hasStarted() const { return attempts_ > 0 || state == TransferState::kWriting || copying; }
  // When its time is up; 0 where it has no bound.
  int64_t expiresAt() const {
    return record.deadlineNanos == 0 ? 0 : acceptedAt + static_cast<int64_t>(record.deadlineNanos);
  }
  // The direction of the request in flight, or of the last one.
  IoDirection ioDirection() const { return ioDirection_; }
  int32_t lastError() const { return error_; }
  uint32_t retries() const { return retries_; }
  static uint32_t indexOf(uint64_t userData) { return static_cast<uint32_t>(userData); }

  DownRecord record{};
  Extent extent;
  StagingSlot slot;
  TransferState state = TransferState::kDone;
  uint8_t* data = nullptr;
  uint32_t bytesMoved = 0;
  bool inFlight = false;    // the kernel may touch the staging slot
  bool copying = false;     // the device may
  bool tellCopied = false;  // a drain waits for the device block
  bool toldCopied = false;
  uint64_t checksum = 0;

  // Monotonic nanoseconds: acceptance, and the time spent in each stage.
  int64_t acceptedAt = 0;
  int64_t ioStartedAt = 0;
  int64_t retryAt = 0;
  int64_t ioNanos = 0;
  int64_t verifyNanos = 0;
  int64_t copyNanos = 0;
  int64_t copyStartedAt = 0;

 private:
  uint64_t userData() const { return uint64_t{generation_} << 32 | slot.index; }

  // Raised at every submission, so that a stray completion cannot end another block.
  uint32_t generation_ = 0;
  uint32_t attempts_ = 0;
  IoDirection ioDirection_ = IoDirection::kRead;
  uint32_t stalls_ = 0;
  uint32_t retries_ = 0;
  Outcome outcome_ = Outcome::kNone;
  Stage stage_ = Stage::kQueued;
  int32_t error_ = 0;
};

}  // namespace spillway
