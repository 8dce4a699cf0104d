#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/Check.h"

namespace spillway {

// A queue between exactly one producing and one consuming thread. Its room is fixed at
// construction; a full queue refuses, it never grows and never waits.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(uint32_t capacity)
      : mask_(std::bit_ceil(capacity) - 1), items_(std::make_unique<T[]>(mask_ + 1)) {
    CHECK(capacity > 0, "capacity %u", capacity);
  }

  // Producer. Answers false, and changes nothing, when there is no room.
  bool push(const T& item) {
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_.load(std::memory_order_acquire) > mask_) return false;
    items_[tail & mask_] = item;
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }

  // Consumer. Takes up to target.size() of the oldest items and answers how many.
  size_t pop(std::span<T> target) {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    const uint64_t ready = tail_.load(std::memory_order_acquire) - head;
    CHECK(ready <= mask_ + 1, "%lu items ready of %lu", static_cast<unsigned long>(ready),
          static_cast<unsigned long>(mask_ + 1));
    const size_t count = ready < target.size() ? ready : target.size();
    for (size_t i = 0; i < count; i++) target[i] = items_[(head + i) & mask_];
    head_.store(head + count, std::memory_order_release);
    return count;
  }

  // Either side; exact only for the thread that asks about its own end.
  bool empty() const {
    return tail_.load(std::memory_order_acquire) == head_.load(std::memory_order_acquire);
  }
  uint64_t capacity() const { return mask_ + 1; }

 private:
  const uint64_t mask_;
  std::unique_ptr<T[]> items_;
  alignas(64) std::atomic<uint64_t> head_{0};
  alignas(64) std::atomic<uint64_t> tail_{0};
};

}  // namespace spillway
