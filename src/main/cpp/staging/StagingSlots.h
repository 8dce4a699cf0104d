#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/Ids.h"

namespace spillway {

enum class PageKind : uint8_t { kHugeTlb, kTransparentHuge, kSmall };

// Anonymous memory of this process, in huge pages where the kernel has them, not inherited by
// children. Also what the replay's stand-in for device memory is made of.
class HostMemory {
 public:
  HostMemory() = default;
  // Maps and touches `bytes`. Throws OpenError with the bytes asked and `remedy` when there are not
  // that many.
  HostMemory(uint64_t bytes, const std::string& remedy);
  ~HostMemory();
  HostMemory(HostMemory&& other) noexcept;
  HostMemory& operator=(HostMemory&& other) noexcept;

  uint8_t* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  PageKind pages() const { return pages_; }
  // Gives up ownership without unmapping: for memory that the kernel may still write to.
  void leak() { data_ = nullptr; }

 private:
  uint8_t* data_ = nullptr;
  uint64_t bytes_ = 0;
  PageKind pages_ = PageKind::kSmall;
};

// The staging buffers of one lane: a fixed array of equal slots, handed out in any order. A slot
// belongs to exactly one block from acquire() to release(), and is released only once neither the
// kernel nor the device can touch it. Owned by the lane's thread.
class StagingSlots {
 public:
  StagingSlots(uint32_t slotCount, uint64_t slotBytes);

  // The slot handed out, or an invalid id when all are busy.
  StagingSlot acquire();
  void release(StagingSlot slot);

  uint8_t* data(StagingSlot slot) const;
  uint32_t slotCount() const { return static_cast<uint32_t>(busy_.size()); }
  uint32_t freeCount() const { return static_cast<uint32_t>(free_.size()); }
  uint64_t slotBytes() const { return slotBytes_; }
  const HostMemory& memory() const { return memory_; }

 private:
  uint64_t slotBytes_;
  HostMemory memory_;
  std::vector<uint32_t> free_;
  std::vector<bool> busy_;
};

}  // namespace spillway
