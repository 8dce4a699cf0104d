#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/Ids.h"
#include "base/Status.h"

namespace spillway {

// Where one piece of every block of a group lies: block b at base + b * stride, `bytes` long.
struct Piece {
  uint8_t* base;
  uint64_t stride;
  uint64_t bytes;
};

// The pieces of a group, packed back to back in this order in a staging slot.
struct PieceTable {
  std::vector<Piece> pieces;
  uint64_t payloadBytes = 0;
  uint64_t deviceBlocks = 0;
};

enum class CopyDirection : uint8_t { kToHost, kToDevice };

// After what a copy may begin.
enum class CopyEventKind : uint16_t {
  kWord = 0,        // a 64-bit word at `address` has reached `value`; address 0: at once
  kCudaEvent = 1,   // the event at `address`, as it was last recorded when the copy is started
  kCudaStream = 2,  // all that was in the stream at `address` when the copy is started
};

struct CopyEvent {
  uint64_t address = 0;
  uint64_t value = 0;
  CopyEventKind kind = CopyEventKind::kWord;
};

// The staging slots of a lane: `slots` of `slotBytes` each, back to back.
struct StagingMemory {
  uint8_t* data = nullptr;
  uint64_t slotBytes = 0;
  uint32_t slots = 0;
};

// One block's copy, as data.
struct CopyRequest {
  CopyDirection direction = CopyDirection::kToHost;
  GroupIndex group;
  DeviceBlock block;
  uint8_t* staging = nullptr;
  CopyEvent after;
  uint32_t token = 0;  // handed back by reap()
};

// Moves blocks between device memory and a staging slot. One copier belongs to one lane and all
// calls but the constructor are made on that lane's thread. The first failure is fatal to the lane.
class DeviceCopier {
 public:
  virtual ~DeviceCopier() = default;

  // The lane's thread is about to use the copier, with these slots. `wake` may be called by any
  // thread from now until detach(), when reap() may have something to say.
  virtual Status attach(const StagingMemory& staging, std::function<void()> wake) = 0;
  // No copy is pending and none will be started. Releases what attach() took; the lane's thread.
  virtual void detach() {}
  // Starts a copy. The staging slot and the device block stay the copier's until reap() names it.
  // Where it fails, nothing has begun; a copy of which a part has begun is told of by reap().
  virtual Status start(const CopyRequest& request) = 0;
  // Writes the tokens of copies that are complete, memory effects included, and answers how many.
  virtual Status reap(std::span<uint32_t> tokens, uint32_t& count) = 0;
  // Takes back a copy that has not begun because it waits for its event; false where it has.
  virtual bool withdraw(uint32_t token) = 0;
  // Begins nothing any more, not even what start() has taken: device memory is the caller's again,
  // but for what the device itself has begun.
  virtual void quit() {}
  // Copies started and not yet reaped.
  virtual uint32_t pending() const = 0;
  // Whether start() and reap() themselves read or write device memory.
  virtual bool usesProcessor() const { return true; }
  // Whether `wake` will be called when one of these is complete; else reap() must be tried.
  virtual bool willWake() const { return false; }
  // How it copies, for the open report.
  virtual const char* describe() const { return "host"; }
};

// Whether the event is a word, and has been reached.
bool wordReached(const CopyEvent& event);

// Device memory that the processor can address: plain memcpy, in order of their events.
std::unique_ptr<DeviceCopier> makeHostCopier(const std::vector<PieceTable>& groups,
                                             uint32_t pendingMax);

class CudaRuntime;

// Memory of a CUDA device: copies in a stream of the lane's own.
std::unique_ptr<DeviceCopier> makeCudaCopier(const CudaRuntime& runtime, int device,
                                             const std::vector<PieceTable>& groups,
                                             uint32_t pendingMax);

}  // namespace spillway
