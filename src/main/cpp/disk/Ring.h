#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/Status.h"

namespace spillway {

enum class IoDirection : uint8_t { kRead, kWrite };

// One read or write, as data. The memory is the ring's until the completion with `userData`.
struct IoRequest {
  IoDirection direction = IoDirection::kRead;
  uint8_t* data = nullptr;
  uint32_t bytes = 0;
  uint64_t offset = 0;
  uint64_t userData = 0;
};

// What became of it: bytes moved, or a negative errno, exactly as the kernel gave it.
struct IoCompletion {
  uint64_t userData = 0;
  int32_t result = 0;
};

// What a completion means for its request. The one place, with UringRing, that reads an errno.
enum class IoVerdict : uint8_t {
  kMoved,   // bytes went, perhaps fewer than wanted, perhaps none
  kRetry,   // nothing happened; worth another try
  kFailed,  // the kernel refused
};
IoVerdict verdictOf(int32_t result);
// Whether an errno says that the place on disk is bad, rather than the moment or the request.
bool blamesMedium(int32_t error);
// Whether it says that the file system is full, over its quota or takes no writes.
bool blamesCapacity(int32_t error);
// Whether it says that requests of this kind cannot work here at all.
bool blamesConfiguration(int32_t error);
std::string errorName(int32_t error);

// What the ring is asked to work on, and how it turned out. Filled by start().
struct RingMode {
  bool registeredBuffers = false;
  bool registeredFile = false;
  bool singleIssuer = false;
  bool deferTaskrun = false;
  std::string notice;  // why something better was not had
};

struct RingTarget {
  int file = -1;
  uint8_t* staging = nullptr;  // the region that requests point into
  uint64_t stagingBytes = 0;
};

// Counted by the ring; read by any thread.
struct RingCounters {
  uint64_t enters = 0;         // system calls (or hand-overs to threads)
  uint64_t submitRetries = 0;  // submissions that the kernel put off (EAGAIN, EBUSY, ENOMEM)
  uint64_t overflows = 0;      // completions that did not fit: must stay 0
  uint64_t injected[kFaultCauses] = {};  // faults that a FaultyRing made, by what they look like
};

// Reads and writes one file, many at a time. Made anywhere, but started and used on one thread, the
// lane's; only wake() may be called from others. At most `depth` requests are in it at once.
class Ring {
 public:
  virtual ~Ring() = default;

  virtual Status start(const RingTarget& target) = 0;
  // The last call on the ring's thread, with nothing in flight: lets go of the file.
  virtual void stop() = 0;
  // Notes a request; it leaves with the next enter(). The caller keeps to the depth.
  virtual void prepare(const IoRequest& request) = 0;
  virtual uint32_t prepared() const = 0;
  // Hands over what was prepared, waits until `waitFor` completions are there (0: does not wait),
  // `timeoutNanos` have passed (negative: without bound) or wake() was called, and writes what has
  // completed. Fatal when the ring can no longer submit or reap.
  virtual Status enter(uint32_t waitFor, int64_t timeoutNanos, std::span<IoCompletion> completions,
                       uint32_t& count) = 0;
  // Takes back what was prepared and not handed over, as completions with an error: after a fatal
  // enter() nothing may leave any more. Answers how many; `completions` has room for the depth.
  virtual uint32_t withdraw(std::span<IoCompletion> completions) = 0;
  virtual void wake() = 0;

  virtual const RingMode& mode() const = 0;
  virtual RingCounters counters() const = 0;
};

// Why io_uring cannot be used by this process, or empty when it can. Found by trying.
std::string uringRefusal();
std::unique_ptr<Ring> makeUringRing(uint32_t depth);
// The same service from `depth` threads that call pread and pwrite.
std::unique_ptr<Ring> makeThreadRing(uint32_t depth);

}  // namespace spillway
