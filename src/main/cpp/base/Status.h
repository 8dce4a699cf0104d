#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace spillway {

// How a block ended. The numbers cross to Java; BlockStatus.java translates them back and rejects
// any that it does not know.
enum class Outcome : uint16_t {
  kNone = 0,
  kDone = 1,
  kReadError = 2,
  kWriteError = 3,
  kShort = 4,
  kCorrupt = 5,
  kCancelled = 6,
  kEngineFailed = 7,
  kExpired = 8,
};

// What a completion that was no plain success shows, and what became of it: for the books.
enum class FaultCause : uint8_t { kReadError, kWriteError, kShort, kCorrupt, kTransient };
constexpr uint32_t kFaultCauses = 5;
enum class FaultFate : uint8_t {
  kSeen,
  kRecovered,  // resumed or tried again
  kEnded,      // the block ended with it
  kDiscarded,  // the block had ended before
};
constexpr uint32_t kFaultFates = 4;

// Where a block was when it ended.
enum class Stage : uint16_t {
  kQueued = 1,
  kReading = 2,
  kWriting = 3,
  kVerifying = 4,
  kCopying = 5,
};

// Why an engine could not be opened. The numbers cross to Java (OpenFailure.java).
enum class OpenReason : int32_t {
  kPath = 1,
  kPermission = 2,
  kSymlink = 3,
  kLocked = 4,
  kLayout = 5,
  kSpace = 6,
  kDirectIo = 7,
  kHostMemory = 8,
  kRing = 9,
  kDevice = 10,
  kConfiguration = 11,
};

// The only exception of the engine: thrown while it opens, caught in KvEngine::open.
class OpenError : public std::runtime_error {
 public:
  OpenError(OpenReason reason, int error, const std::string& message)
      : std::runtime_error(message), reason_(reason), error_(error) {}
  OpenReason reason() const { return reason_; }
  int error() const { return error_; }

 private:
  OpenReason reason_;
  int error_;
};

// The result of an operation that is either well or fatal to the engine. The cause is a text made
// once, where the failure is first seen.
struct [[nodiscard]] Status {
  int32_t error = 0;
  std::string cause;

  static Status well() { return {}; }
  static Status fatal(int32_t error, std::string cause) { return {error, std::move(cause)}; }
  bool ok() const { return cause.empty(); }
};

}  // namespace spillway
