#pragma once

#include <liburing.h>

#include <atomic>
#include <memory>

#include "base/Waker.h"
#include "disk/Ring.h"

namespace spillway {

// The system call behind UringRing, as a seam: what a kernel may answer can be played in a test.
using EnterCall = int (*)(io_uring* ring, unsigned toSubmit, unsigned waitFor, unsigned flags,
                          void* argument, size_t argumentBytes);
int enterKernel(io_uring* ring, unsigned toSubmit, unsigned waitFor, unsigned flags, void* argument,
                size_t argumentBytes);

// io_uring with a registered file and registered staging memory. One enter a batch. Single issuer
// and deferred task work where the kernel has them, so it is made on the thread that uses it.
class UringRing final : public Ring {
 public:
  explicit UringRing(uint32_t depth, EnterCall enterCall = enterKernel);
  ~UringRing() override;

  Status start(const RingTarget& target) override;
  void stop() override;
  void prepare(const IoRequest& request) override;
  uint32_t prepared() const override;
  Status enter(uint32_t waitFor, int64_t timeoutNanos, std::span<IoCompletion> completions,
               uint32_t& count) override;
  uint32_t withdraw(std::span<IoCompletion> completions) override;
  void wake() override { waker_.signal(); }
  const RingMode& mode() const override { return mode_; }
  RingCounters counters() const override;

 private:
  Status makeRing();
  void registerTarget(const RingTarget& target);
  void armWake();
  uint32_t flush();
  Status onRefusal(int error, uint32_t reaped);
  uint32_t reap(std::span<IoCompletion> completions);
  void onWake();

  const uint32_t depth_;
  const EnterCall enterCall_;
  Waker waker_;
  io_uring ring_{};
  bool made_ = false;
  bool wakeArmed_ = false;
  uint32_t refusals_ = 0;
  RingTarget target_;
  RingMode mode_;
  std::atomic<uint64_t> enters_{0};
  std::atomic<uint64_t> submitRetries_{0};
};

}  // namespace spillway
