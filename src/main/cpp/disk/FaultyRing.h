#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "base/Clock.h"
#include "base/FaultPlan.h"
#include "disk/Ring.h"

namespace spillway {

// Puts faults in front of a real ring: errors, short counts, changed bytes, late and reordered
// completions, as the plan says and the seed decides. At most one fault falls on a request. Reached
// only by configuration. Threads as the ring behind it.
class FaultyRing final : public Ring {
 public:
  FaultyRing(std::unique_ptr<Ring> ring, const FaultPlan& plan, uint32_t depth,
             Clock clock = monotonicNanos);

  Status start(const RingTarget& target) override { return ring_->start(target); }
  void stop() override { ring_->stop(); }
  void prepare(const IoRequest& request) override;
  uint32_t prepared() const override { return ring_->prepared() + unsent_; }
  Status enter(uint32_t waitFor, int64_t timeoutNanos, std::span<IoCompletion> completions,
               uint32_t& count) override;
  uint32_t withdraw(std::span<IoCompletion> completions) override;
  void wake() override { ring_->wake(); }
  const RingMode& mode() const override { return ring_->mode(); }
  RingCounters counters() const override;

 private:
  struct Rule {
    FaultRule rule;
    uint64_t matched = 0;
    uint64_t fallen = 0;
  };
  struct Request {
    IoRequest request;
    const FaultRule* fault = nullptr;
  };
  struct Held {
    IoCompletion completion;
    int64_t dueAt = 0;
  };

  const FaultRule* draw(const IoRequest& request);
  void count(const FaultRule& rule, IoDirection direction);
  void onCompletion(const IoCompletion& completion);
  uint32_t release(std::span<IoCompletion> completions);
  bool hasDue() const;
  int64_t bounded(int64_t timeoutNanos) const;

  std::unique_ptr<Ring> ring_;
  std::vector<Rule> rules_;
  FaultDice dice_;
  Clock clock_;
  bool reorder_ = false;
  uint32_t unsent_ = 0;            // completions made up since the last enter
  std::vector<Request> inFlight_;  // at most the depth, so it is searched
  std::vector<Held> held_;         // completions on their way up
  std::vector<IoCompletion> fromRing_;
  std::atomic<uint64_t> injected_[kFaultCauses] = {};
};

}  // namespace spillway
