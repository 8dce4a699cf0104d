#pragma once

#include <cstdint>

namespace spillway {

// An index that cannot be mistaken for another kind of index, nor for a count or an offset.
template <typename Kind>
struct Id {
  static constexpr uint32_t kNone = UINT32_MAX;

  uint32_t index = kNone;

  constexpr Id() = default;
  explicit constexpr Id(uint32_t value) : index(value) {}
  constexpr bool valid() const { return index != kNone; }
  friend constexpr bool operator==(Id, Id) = default;
};

// A place in a block file's region, a buffer in staging memory, a block of the caller's device
// memory, a KV group of the layout.
using DiskSlot = Id<struct DiskSlotKind>;
using StagingSlot = Id<struct StagingSlotKind>;
using DeviceBlock = Id<struct DeviceBlockKind>;
using GroupIndex = Id<struct GroupKind>;

constexpr uint64_t roundUp(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

constexpr uint64_t roundDown(uint64_t value, uint64_t multiple) {
  return value / multiple * multiple;
}

}  // namespace spillway
