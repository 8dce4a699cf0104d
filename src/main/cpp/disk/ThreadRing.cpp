#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "base/Check.h"
#include "disk/Ring.h"

namespace spillway {
namespace {

// For machines that refuse io_uring, as containers do by default. A lock and a system call a block:
// slower, but with the same completions.
class ThreadRing final : public Ring {
 public:
  explicit ThreadRing(uint32_t depth) : depth_(depth) {}

  ~ThreadRing() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    workWanted_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  Status start(const RingTarget& target) override {
    target_ = target;
    prepared_.reserve(depth_);
    try {
      for (uint32_t i = 0; i < depth_; i++) workers_.emplace_back([this] { work(); });
    } catch (const std::system_error& failure) {
      return Status::fatal(failure.code().value(),
                           "no I/O thread could be started: " + std::string(failure.what()));
    }
    return Status::well();
  }

  void stop() override {}

  void prepare(const IoRequest& request) override {
    CHECK(prepared_.size() < depth_, "%zu requests prepared at depth %u", prepared_.size(), depth_);
    CHECK(request.bytes > 0 && request.data >= target_.staging &&
              request.data + request.bytes <= target_.staging + target_.stagingBytes,
          "%u bytes outside the staging memory", request.bytes);
    prepared_.push_back(request);
  }

  uint32_t prepared() const override { return static_cast<uint32_t>(prepared_.size()); }

  Status enter(uint32_t waitFor, int64_t timeoutNanos, std::span<IoCompletion> completions,
               uint32_t& count) override {
    CHECK(!completions.empty() && waitFor <= depth_, "waiting for %u of %u", waitFor, depth_);
    std::unique_lock lock(mutex_);
    counters_.enters++;
    queued_.insert(queued_.end(), prepared_.begin(), prepared_.end());
    if (!prepared_.empty()) workWanted_.notify_all();
    prepared_.clear();
    const auto ready = [&] { return woken_ || completed_.size() >= waitFor; };
    if (timeoutNanos < 0) {
      progress_.wait(lock, ready);
    } else {
      progress_.wait_for(lock, std::chrono::nanoseconds(timeoutNanos), ready);
    }
    woken_ = false;
    count = 0;
    while (count < completions.size() && !completed_.empty()) {
      completions[count++] = completed_.front();
      completed_.pop_front();
    }
    return Status::well();
  }

  uint32_t withdraw(std::span<IoCompletion> completions) override {
    uint32_t count = 0;
    for (const IoRequest& request : prepared_) {
      completions[count++] = {request.userData, -ECANCELED};
    }
    prepared_.clear();
    return count;
  }

  void wake() override {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    progress_.notify_one();
  }

  const RingMode& mode() const override { return mode_; }

  RingCounters counters() const override {
    const std::lock_guard lock(mutex_);
    return counters_;
  }

 private:
  void work() {
    pthread_setname_np(pthread_self(), "spillway-io");
    std::unique_lock lock(mutex_);
    while (true) {
      workWanted_.wait(lock, [&] { return stopping_ || !queued_.empty(); });
      if (queued_.empty()) return;
      const IoRequest request = queued_.front();
      queued_.pop_front();
      lock.unlock();
      const int32_t result = move(request);
      lock.lock();
      completed_.push_back({request.userData, result});
      progress_.notify_one();
    }
  }

  int32_t move(const IoRequest& request) const {
    const auto offset = static_cast<off_t>(request.offset);
    const ssize_t bytes = request.direction == IoDirection::kRead
                              ? pread(target_.file, request.data, request.bytes, offset)
                              : pwrite(target_.file, request.data, request.bytes, offset);
    return bytes < 0 ? -errno : static_cast<int32_t>(bytes);
  }

  const uint32_t depth_;
  RingTarget target_;
  RingMode mode_;
  std::vector<IoRequest> prepared_;
  std::vector<std::thread> workers_;

  mutable std::mutex mutex_;
  std::condition_variable workWanted_;
  std::condition_variable progress_;
  std::deque<IoRequest> queued_;
  std::deque<IoCompletion> completed_;
  bool woken_ = false;
  bool stopping_ = false;
  RingCounters counters_;
};

}  // namespace

std::unique_ptr<Ring> makeThreadRing(uint32_t depth) { return std::make_unique<ThreadRing>(depth); }

}  // namespace spillway
