#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/Clock.h"
#include "base/FaultPlan.h"
#include "device/DeviceCopier.h"

namespace spillway {

// Puts faults in front of a real copier: copies begin late, complete out of order, or fail, as the
// plan says and the seed decides. A late copy reads its source and writes its target as late as it
// may, so that whatever is reused too early shows as wrong bytes. Reached only by configuration.
class FaultyCopier final : public DeviceCopier {
 public:
  FaultyCopier(std::unique_ptr<DeviceCopier> copier, const FaultPlan& plan, uint32_t pendingMax,
               Clock clock = monotonicNanos);

  Status attach(const StagingMemory& staging, std::function<void()> wake) override {
    return copier_->attach(staging, std::move(wake));
  }
  void detach() override { copier_->detach(); }
  bool usesProcessor() const override { return copier_->usesProcessor(); }
  bool willWake() const override { return late_.empty() && copier_->willWake(); }
  const char* describe() const override { return copier_->describe(); }
  Status start(const CopyRequest& request) override;
  Status reap(std::span<uint32_t> tokens, uint32_t& count) override;
  bool withdraw(uint32_t token) override;
  void quit() override;
  uint32_t pending() const override {
    return copier_->pending() + static_cast<uint32_t>(late_.size() + dropped_.size());
  }

 private:
  struct Late {
    CopyRequest request;
    int64_t dueAt;
  };

  std::unique_ptr<DeviceCopier> copier_;
  std::vector<FaultRule> rules_;
  FaultDice dice_;
  Clock clock_;
  std::vector<Late> late_;
  std::vector<uint32_t> dropped_;  // tokens of copies that will never be made
};

}  // namespace spillway
