#pragma once

#include <cstdint>
#include <string>

#include "base/Records.h"

namespace spillway {

class HostMemory;

// The engine of one rank: a block file, a store lane and a load lane. The only header that JavaCPP
// reads. OPEN -> DRAINING -> CLOSED; any -> BROKEN, sticky, with the first cause kept.
//
// submit(), poll() and await() belong to one thread at a time, the worker's; wake(), describe() and
// counters() may be called from any. Nothing here throws.
class KvEngine {
 public:
  KvEngine();
  ~KvEngine();
  KvEngine(const KvEngine&) = delete;
  KvEngine& operator=(const KvEngine&) = delete;

  // 0, or the OpenReason; then message() says what was wrong, the value, and what would be right,
  // and error() has the errno, the number of the CUDA error, or 0. The record is followed by its
  // groups and pieces. `cudaLibrary` is the path of a CUDA runtime, or "" to look for one; it is
  // not looked for where the device is the host.
  int32_t open(const char* directory, const char* nameSpace, const char* cudaLibrary,
               const OpenRecord* record);
  const char* message() const;
  int32_t error() const;

  // Raises the epoch in the file, on disk before it returns; before the first submit. 0, or the
  // OpenReason, as open().
  int32_t raiseEpoch(uint64_t epoch);
  // Gives back what a slot takes up on disk; 0, or the error. Nothing may be on its way to or from
  // it. The worker's thread.
  int32_t punch(uint32_t group, uint32_t slot);

  // Where this open has made the file: it is gone once the engine is closed. For an open of several
  // ranks of which another has failed.
  void discard();

  // Takes the leading records for which there is room and answers how many. A negative answer -n-1
  // means that record n is out of bounds and none was taken; kClosed, that the engine is not open.
  int32_t submit(const DownRecord* records, int32_t count);
  // Writes the endings that are there, up to `capacity`, and answers how many. Never waits.
  int32_t poll(UpRecord* target, int32_t capacity);
  // Sleeps until there is an ending to poll, wake() is called or `nanos` have passed.
  void await(int64_t nanos);
  void wake();

  // 1 once a failure of ring or device has ended the engine; message() then has its cause.
  int32_t broken() const;
  // Lines "key=value" with what was decided at open. Valid until this thread asks for another text.
  const char* describe() const;
  // Fills kCounterCount numbers: those of the store lane, then those of the load lane.
  void counters(int64_t* target) const;

  // Cancels what has not started, waits for what has, and closes; the endings can still be polled.
  // 0, or 1 when the kernel or the device still owned memory after `nanos`: then memory, ring, file
  // and lock are kept for ever. The destructor releases what a clean close left.
  int32_t close(int64_t nanos);

  static constexpr int32_t kClosed = INT32_MIN;
  static constexpr int32_t kLaneCounterCount = 36;
  static constexpr int32_t kCounterCount = 2 * kLaneCounterCount;

 private:
  struct State;
  State* state_;
  std::string message_;
  int32_t error_ = 0;
  bool closed_ = false;
  bool leaked_ = false;
};

// The calls as JavaCPP binds them: an engine is a number, records are an address.
int64_t engineNew();
void engineDelete(int64_t engine);
int32_t engineOpen(int64_t engine, const char* directory, const char* nameSpace,
                   const char* cudaLibrary, int64_t record);
const char* engineMessage(int64_t engine);
int32_t engineError(int64_t engine);
int32_t engineRaiseEpoch(int64_t engine, int64_t epoch);
int32_t enginePunch(int64_t engine, int32_t group, int32_t slot);
void engineDiscard(int64_t engine);
int32_t engineSubmit(int64_t engine, int64_t records, int32_t count);
int32_t enginePoll(int64_t engine, int64_t target, int32_t capacity);
void engineAwait(int64_t engine, int64_t nanos);
void engineWake(int64_t engine);
int32_t engineBroken(int64_t engine);
const char* engineDescribe(int64_t engine);
void engineCounters(int64_t engine, int64_t target);
int32_t engineClose(int64_t engine, int64_t nanos);

// Offsets and sizes of the records, `count` numbers in the order that RecordLayout.java checks.
void recordLayout(int64_t target, int32_t count);
int64_t addressOf(const void* buffer);
uint64_t checksumOf(int64_t address, int64_t bytes, int64_t seed);

// Reserves space for a file that is there: 0, or the error.
int32_t fileReserve(const char* path, int64_t bytes);

// Why io_uring cannot be used here, or "".
const char* uringRefusalText();
// What was found of CUDA here, as lines "key=value".
const char* cudaText(const char* cudaLibrary);
// Device memory: an address, or 0 with the reason in memoryFailure(). The others answer 0, or the
// number of the error with the reason there.
int64_t cudaAllocate(const char* cudaLibrary, int32_t device, int64_t bytes);
int32_t cudaRelease(const char* cudaLibrary, int32_t device, int64_t address);
int32_t cudaRead(const char* cudaLibrary, int32_t device, int64_t address, int64_t target,
                 int64_t bytes);
int32_t cudaWrite(const char* cudaLibrary, int32_t device, int64_t address, int64_t source,
                  int64_t bytes);

// Huge-page host memory for device doubles: an address, or 0 with the reason in memoryFailure().
int64_t mapHostMemory(int64_t bytes);
void unmapHostMemory(int64_t address, int64_t bytes);
const char* memoryFailure();

}  // namespace spillway
