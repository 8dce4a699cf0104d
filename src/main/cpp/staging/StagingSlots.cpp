#include "staging/StagingSlots.h"

#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/Check.h"
#include "base/Status.h"

namespace spillway {
namespace {

constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;

// What is left of this process's memory limit (cgroup v2), or as much as there can be.
uint64_t limitBytes() {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.rfind("0::", 0) != 0) continue;
    const std::string folder = "/sys/fs/cgroup" + line.substr(3);
    uint64_t limit = 0;
    uint64_t used = 0;
    if (std::ifstream(folder + "/memory.max") >> limit &&
        std::ifstream(folder + "/memory.current") >> used) {
      return limit > used ? limit - used : 0;
    }
  }
  return UINT64_MAX;
}

// What the kernel believes it can give without swapping; the total of the machine where it does not
// say.
uint64_t machineBytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string name;
  uint64_t kilobytes = 0;
  std::string unit;
  while (meminfo >> name >> kilobytes >> unit) {
    if (name == "MemAvailable:") return kilobytes * 1024;
  }
  struct sysinfo info {};
  sysinfo(&info);
  return uint64_t{info.totalram} * info.mem_unit;
}

uint64_t availableBytes() { return std::min(machineBytes(), limitBytes()); }

[[noreturn]] void refuse(uint64_t bytes, int error, const std::string& remedy) {
  throw OpenError(OpenReason::kHostMemory, error,
                  "host memory: " + std::to_string(bytes) + " bytes asked, " +
                      std::to_string(availableBytes()) + " available; " + remedy);
}

void* map(uint64_t bytes, int flags) {
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

// Maps `bytes` at a huge page boundary: a larger mapping whose ends are given back.
uint8_t* mapAligned(uint64_t bytes) {
  void* raw = map(bytes + kHugePageBytes, MAP_NORESERVE);
  if (raw == MAP_FAILED) return nullptr;
  auto* begin = static_cast<uint8_t*>(raw);
  auto* aligned =
      reinterpret_cast<uint8_t*>(roundUp(reinterpret_cast<uint64_t>(begin), kHugePageBytes));
  const uint64_t before = static_cast<uint64_t>(aligned - begin);
  if (before > 0) munmap(begin, before);
  if (before < kHugePageBytes) munmap(aligned + bytes, kHugePageBytes - before);
  return aligned;
}

}  // namespace

HostMemory::HostMemory(uint64_t bytes, const std::string& remedy)
    : bytes_(roundUp(bytes, kHugePageBytes)) {
  void* huge = map(bytes_, MAP_HUGETLB);
  if (huge != MAP_FAILED) {
    data_ = static_cast<uint8_t*>(huge);
    pages_ = PageKind::kHugeTlb;
  } else {
    if (bytes_ > availableBytes()) refuse(bytes, ENOMEM, remedy);
    data_ = mapAligned(bytes_);
    if (data_ == nullptr) refuse(bytes, errno, remedy);
    pages_ =
        madvise(data_, bytes_, MADV_HUGEPAGE) == 0 ? PageKind::kTransparentHuge : PageKind::kSmall;
  }
  // A child must not share these pages copy-on-write while the kernel or a device writes to them.
  madvise(data_, bytes_, MADV_DONTFORK);
  std::memset(data_, 0, bytes_);
}

HostMemory::~HostMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

HostMemory::HostMemory(HostMemory&& other) noexcept { *this = std::move(other); }

HostMemory& HostMemory::operator=(HostMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(pages_, other.pages_);
  return *this;
}

StagingSlots::StagingSlots(uint32_t slotCount, uint64_t slotBytes)
    : slotBytes_(slotBytes),
      memory_(slotCount * slotBytes,
              "lower stagingBytes or queueDepth (staging is pinned host memory, not GPU memory)"),
      busy_(slotCount, false) {
  CHECK(slotCount > 0 && slotBytes > 0, "%u slots of %lu bytes", slotCount,
        static_cast<unsigned long>(slotBytes));
  free_.reserve(slotCount);
  for (uint32_t i = slotCount; i > 0; i--) free_.push_back(i - 1);
}

uint8_t* StagingSlots::data(StagingSlot slot) const {
  CHECK(slot.index < busy_.size(), "slot %u of %zu", slot.index, busy_.size());
  return memory_.data() + slot.index * slotBytes_;
}

StagingSlot StagingSlots::acquire() {
  if (free_.empty()) return {};
  const StagingSlot slot{free_.back()};
  free_.pop_back();
  CHECK(slot.index < busy_.size(), "slot %u of %zu", slot.index, busy_.size());
  CHECK(!busy_[slot.index], "slot %u is handed out twice", slot.index);
  busy_[slot.index] = true;
  return slot;
}

void StagingSlots::release(StagingSlot slot) {
  CHECK(slot.index < busy_.size(), "slot %u of %zu", slot.index, busy_.size());
  CHECK(busy_[slot.index], "slot %u is released but was not busy", slot.index);
  CHECK(free_.size() < busy_.size(), "%zu slots free of %zu", free_.size(), busy_.size());
  busy_[slot.index] = false;
  free_.push_back(slot.index);
#ifdef SPILLWAY_POISON
  std::memset(data(slot), 0xdb, slotBytes_);
#endif
}

}  // namespace spillway
