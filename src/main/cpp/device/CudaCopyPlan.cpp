#include "device/CudaCopyPlan.h"

namespace spillway {
namespace {

// Where two calls would do, the batch, whose set-up costs more than a call, is not worth it.
constexpr size_t kFewCalls = 2;

std::vector<CudaCopyOp> mergeNeighbours(const PieceTable& table) {
  std::vector<CudaCopyOp> ranges;
  uint64_t staging = 0;
  for (const Piece& piece : table.pieces) {
    CudaCopyOp* last = ranges.empty() ? nullptr : &ranges.back();
    if (last != nullptr && last->stride == piece.stride && last->base + last->bytes == piece.base) {
      last->bytes += piece.bytes;
    } else {
      ranges.push_back({piece.base, piece.stride, piece.bytes, staging, 1, piece.bytes});
    }
    staging += piece.bytes;
  }
  return ranges;
}

// Whether `next` is the row behind `op`, or sets the distance of its rows.
bool isNextRow(const CudaCopyOp& op, const CudaCopyOp& next, uint64_t pitchMax) {
  if (next.bytes != op.bytes || next.stride != op.stride || next.base <= op.base) return false;
  const auto distance = static_cast<uint64_t>(next.base - op.base) / op.rows;
  const bool even = op.rows == 1 || distance == op.pitch;
  return even && op.base + op.rows * distance == next.base && distance >= op.bytes &&
         distance <= pitchMax;
}

}  // namespace

CudaCopyPlan CudaCopyPlan::of(const PieceTable& table, uint64_t pitchMax, bool hasBatch,
                              const Within& within) {
  CudaCopyPlan plan;
  const std::vector<CudaCopyOp> ranges = mergeNeighbours(table);
  plan.ranges = static_cast<uint32_t>(ranges.size());
  for (const CudaCopyOp& range : ranges) {
    CudaCopyOp* last = plan.ops.empty() ? nullptr : &plan.ops.back();
    const uint8_t* end = range.base + (table.deviceBlocks - 1) * range.stride + range.bytes - 1;
    if (last != nullptr && isNextRow(*last, range, pitchMax) && within(last->base, end)) {
      last->pitch = static_cast<uint64_t>(range.base - last->base) / last->rows;
      last->rows++;
    } else {
      plan.ops.push_back(range);
    }
  }
  plan.batched = hasBatch && plan.ops.size() > kFewCalls;
  return plan;
}

}  // namespace spillway
