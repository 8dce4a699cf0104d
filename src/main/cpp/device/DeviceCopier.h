#pragma once

#include <cstdint>
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

// A sequence word that whoever computes raises; a copy may begin once it has reached `value`.
struct CopyEvent {
  uint64_t address = 0;  // 0: at once
  uint64_t value = 0;
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

  // The lane's thread is about to use the copier.
  virtual Status attach() = 0;
  // Starts a copy. The staging slot and the device block stay the copier's until reap() names it.
  virtual Status start(const CopyRequest& request) = 0;
  // Writes the tokens of copies that are complete, memory effects included, and answers how many.
  virtual Status reap(std::span<uint32_t> tokens, uint32_t& count) = 0;
  // Takes back a copy that has not begun because it waits for its event; false where it has.
  virtual bool withdraw(uint32_t token) = 0;
  // Copies started and not yet reaped.
  virtual uint32_t pending() const = 0;
};

// Device memory that the processor can address: plain memcpy, in order of their events.
std::unique_ptr<DeviceCopier> makeHostCopier(const std::vector<PieceTable>& groups,
                                             uint32_t pendingMax);

}  // namespace spillway
