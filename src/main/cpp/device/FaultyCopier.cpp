#include "device/FaultyCopier.h"

#include <algorithm>
#include <utility>

namespace spillway {

FaultyCopier::FaultyCopier(std::unique_ptr<DeviceCopier> copier, const FaultPlan& plan,
                           uint32_t pendingMax, Clock clock)
    : copier_(std::move(copier)), dice_(plan.seed ^ 0xc0b1e5), clock_(clock) {
  for (const FaultRule& rule : plan.rules) {
    const bool copy = rule.kind == FaultKind::kCopyDelay || rule.kind == FaultKind::kCopyError;
    if (copy) rules_.push_back(rule);
  }
  late_.reserve(pendingMax);
}

Status FaultyCopier::start(const CopyRequest& request) {
  for (const FaultRule& rule : rules_) {
    if (!dice_.falls(rule.rate)) continue;
    if (rule.kind == FaultKind::kCopyError) {
      return Status::fatal(rule.error, "a copy failed, as asked for by the fault plan");
    }
    // Up to the delay, so that copies overtake one another.
    const auto delay = static_cast<uint64_t>(std::max<int64_t>(1, rule.delayNanos));
    late_.push_back({request, clock_() + static_cast<int64_t>(dice_.next() % delay)});
    return Status::well();
  }
  return copier_->start(request);
}

Status FaultyCopier::reap(std::span<uint32_t> tokens, uint32_t& count) {
  const int64_t time = clock_();
  Status status = Status::well();
  std::erase_if(late_, [&](const Late& late) {
    if (late.dueAt > time || !status.ok()) return false;
    status = copier_->start(late.request);
    return true;
  });
  count = 0;
  if (!status.ok()) return status;
  if (dropped_.empty()) return copier_->reap(tokens, count);
  while (!dropped_.empty() && count < tokens.size()) {
    tokens[count++] = dropped_.back();
    dropped_.pop_back();
  }
  return Status::well();
}

void FaultyCopier::quit() {
  for (const Late& late : late_) dropped_.push_back(late.request.token);
  late_.clear();
  copier_->quit();
}

bool FaultyCopier::withdraw(uint32_t token) {
  const auto waits = [&](const Late& late) { return late.request.token == token; };
  // A late copy stands for one that the device has already begun: only its event holds one back.
  if (std::any_of(late_.begin(), late_.end(), waits)) return false;
  return copier_->withdraw(token);
}

}  // namespace spillway
