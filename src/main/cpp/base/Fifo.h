#pragma once

#include <cstdint>
#include <vector>

#include "base/Check.h"

namespace spillway {

// First in, first out, on one thread, with room for a fixed number of items.
template <typename T>
class Fifo {
 public:
  explicit Fifo(uint32_t capacity) : items_(capacity) {
    CHECK(capacity > 0, "capacity %u", capacity);
  }

  void push(const T& item) {
    CHECK(count_ < items_.size(), "%u items of %zu", count_, items_.size());
    items_[(head_ + count_) % items_.size()] = item;
    count_++;
  }
  T pop() {
    CHECK(count_ > 0, "pop of an empty fifo of %zu", items_.size());
    const T item = items_[head_];
    head_ = static_cast<uint32_t>((head_ + 1) % items_.size());
    count_--;
    return item;
  }
  const T& front() const {
    CHECK(count_ > 0, "front of an empty fifo of %zu", items_.size());
    return items_[head_];
  }
  const T& back() const {
    CHECK(count_ > 0, "back of an empty fifo of %zu", items_.size());
    return items_[(head_ + count_ - 1) % items_.size()];
  }
  uint32_t count() const { return count_; }
  bool empty() const { return count_ == 0; }
  void clear() { count_ = 0; }
  // Takes out what the predicate names, and answers how many; the others keep their order.
  template <typename Predicate>
  uint32_t removeIf(Predicate predicate) {
    uint32_t removed = 0;
    for (uint32_t left = count_; left > 0; left--) {
      const T item = pop();
      if (predicate(item)) {
        removed++;
      } else {
        push(item);
      }
    }
    return removed;
  }

 private:
  std::vector<T> items_;
  uint32_t head_ = 0;
  uint32_t count_ = 0;
};

}  // namespace spillway
