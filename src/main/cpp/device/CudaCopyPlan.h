#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "device/DeviceCopier.h"

namespace spillway {

// `rows` ranges of `bytes` each: in the staging slot back to back from `staging` on; on the device
// at base + block * stride + row * pitch.
struct CudaCopyOp {
  uint8_t* base = nullptr;
  uint64_t stride = 0;
  uint64_t bytes = 0;
  uint64_t staging = 0;
  uint32_t rows = 1;
  uint64_t pitch = 0;
};

// How the pieces of one group's blocks are copied.
struct CudaCopyPlan {
  std::vector<CudaCopyOp> ops;
  uint32_t ranges = 0;   // of all ops
  bool batched = false;  // all ranges in one call

  // Pieces that lie one behind the other on both sides become one range; ranges of one length at
  // one distance in one allocation become one op of rows, where the device's pitch allows it. What
  // is left over goes in one batch, where the runtime has it and where that is fewer calls.
  // `within` says whether two addresses lie in one allocation: a row copy must not leave it.
  using Within = std::function<bool(const uint8_t* first, const uint8_t* last)>;
  static CudaCopyPlan of(const PieceTable& table, uint64_t pitchMax, bool hasBatch,
                         const Within& within);
};

}  // namespace spillway
