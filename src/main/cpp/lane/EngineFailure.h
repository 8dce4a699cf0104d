#pragma once

#include <atomic>
#include <mutex>

#include "base/Status.h"

namespace spillway {

// The end of an engine: shared by its lanes, so that what breaks one ends both. The first cause is
// kept for ever. Any thread.
class EngineFailure {
 public:
  void set(const Status& cause) {
    const std::lock_guard lock(mutex_);
    if (broken_.load(std::memory_order_relaxed)) return;
    cause_ = cause;
    broken_.store(true, std::memory_order_release);
  }
  bool broken() const { return broken_.load(std::memory_order_acquire); }
  Status cause() const {
    const std::lock_guard lock(mutex_);
    return cause_;
  }

 private:
  mutable std::mutex mutex_;
  std::atomic<bool> broken_{false};
  Status cause_;
};

}  // namespace spillway
