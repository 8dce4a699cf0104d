#include "disk/FaultyRing.h"

#include <algorithm>
#include <utility>

#include "base/Check.h"

namespace spillway {

FaultyRing::FaultyRing(std::unique_ptr<Ring> ring, const FaultPlan& plan, uint32_t depth,
                       Clock clock)
    : ring_(std::move(ring)), dice_(plan.seed), clock_(clock), fromRing_(depth) {
  for (const FaultRule& rule : plan.rules) {
    if (rule.kind == FaultKind::kReorder) reorder_ = true;
    rules_.push_back({rule});
  }
  inFlight_.reserve(depth);
  held_.reserve(depth);
}

const FaultRule* FaultyRing::draw(const IoRequest& request) {
  const bool read = request.direction == IoDirection::kRead;
  for (Rule& rule : rules_) {
    const FaultRule& fault = rule.rule;
    const bool copy = fault.kind == FaultKind::kCopyDelay || fault.kind == FaultKind::kCopyError;
    if (copy || fault.kind == FaultKind::kReorder) continue;
    if (fault.direction == FaultDirection::kRead && !read) continue;
    if (fault.direction == FaultDirection::kWrite && read) continue;
    if (fault.kind == FaultKind::kCorrupt && !read) continue;
    if (request.offset < fault.offsetFrom || request.offset >= fault.offsetTo) continue;
    if (rule.matched++ < fault.skip || rule.fallen == fault.limit) continue;
    if (!dice_.falls(fault.rate)) continue;
    rule.fallen++;
    return &fault;
  }
  return nullptr;
}

void FaultyRing::count(const FaultRule& rule, IoDirection direction) {
  const bool read = direction == IoDirection::kRead;
  FaultCause cause = FaultCause::kShort;
  switch (rule.kind) {
    case FaultKind::kError:
      cause = read ? FaultCause::kReadError : FaultCause::kWriteError;
      if (verdictOf(-rule.error) == IoVerdict::kRetry) cause = FaultCause::kTransient;
      break;
    case FaultKind::kShort:
    case FaultKind::kZero:
      break;
    case FaultKind::kCorrupt:
      cause = FaultCause::kCorrupt;
      break;
    case FaultKind::kDelay:
    case FaultKind::kReorder:
    case FaultKind::kCopyDelay:
    case FaultKind::kCopyError:
      return;  // late is not wrong
  }
  injected_[static_cast<size_t>(cause)].fetch_add(1, std::memory_order_relaxed);
}

void FaultyRing::prepare(const IoRequest& request) {
  const FaultRule* fault = draw(request);
  if (fault != nullptr && (fault->kind == FaultKind::kError || fault->kind == FaultKind::kZero)) {
    count(*fault, request.direction);
    const int32_t result = fault->kind == FaultKind::kError ? -fault->error : 0;
    held_.push_back({{request.userData, result}, 0});
    unsent_++;
    return;
  }
  inFlight_.push_back({request, fault});
  IoRequest sent = request;
  if (fault != nullptr && fault->kind == FaultKind::kShort) {
    // Half, in units of 4 KiB as no alignment is larger; a request of one unit moves nothing.
    constexpr uint32_t kUnit = 4096;
    sent.bytes = request.bytes / 2 / kUnit * kUnit;
    count(*fault, request.direction);
    if (sent.bytes == 0) {
      inFlight_.pop_back();
      held_.push_back({{request.userData, 0}, 0});
      unsent_++;
      return;
    }
  }
  ring_->prepare(sent);
}

Status FaultyRing::enter(uint32_t waitFor, int64_t timeoutNanos,
                         std::span<IoCompletion> completions, uint32_t& count) {
  const bool due = hasDue();
  uint32_t reaped = 0;
  Status status =
      ring_->enter(due ? 0 : waitFor, due ? 0 : bounded(timeoutNanos), fromRing_, reaped);
  unsent_ = 0;
  for (uint32_t i = 0; i < reaped; i++) onCompletion(fromRing_[i]);
  count = release(completions);
  return status;
}

void FaultyRing::onCompletion(const IoCompletion& completion) {
  const auto at = std::find_if(inFlight_.begin(), inFlight_.end(), [&](const Request& request) {
    return request.request.userData == completion.userData;
  });
  CHECK(at != inFlight_.end(), "a completion of none of %zu requests", inFlight_.size());
  const Request request = *at;
  inFlight_.erase(at);
  Held held{completion, 0};
  if (request.fault != nullptr && request.fault->kind == FaultKind::kDelay) {
    held.dueAt = clock_() + request.fault->delayNanos;
  }
  const bool whole = completion.result == static_cast<int32_t>(request.request.bytes);
  if (request.fault != nullptr && request.fault->kind == FaultKind::kCorrupt && whole) {
    count(*request.fault, request.request.direction);
    request.request.data[0] ^= 0x40;  // the first byte is payload, wherever a request resumes
  }
  held_.push_back(held);
}

bool FaultyRing::hasDue() const {
  const int64_t time = clock_();
  return std::any_of(held_.begin(), held_.end(),
                     [&](const Held& held) { return held.dueAt <= time; });
}

int64_t FaultyRing::bounded(int64_t timeoutNanos) const {
  int64_t nanos = timeoutNanos;
  for (const Held& held : held_) {
    const int64_t left = std::max<int64_t>(0, held.dueAt - clock_());
    nanos = nanos < 0 ? left : std::min(nanos, left);
  }
  return nanos;
}

uint32_t FaultyRing::release(std::span<IoCompletion> completions) {
  if (reorder_) {
    for (size_t i = held_.size(); i > 1; i--) std::swap(held_[i - 1], held_[dice_.next() % i]);
  }
  const int64_t time = clock_();
  uint32_t count = 0;
  std::erase_if(held_, [&](const Held& held) {
    if (held.dueAt > time || count == completions.size()) return false;
    completions[count++] = held.completion;
    return true;
  });
  return count;
}

uint32_t FaultyRing::withdraw(std::span<IoCompletion> completions) {
  const uint32_t count = ring_->withdraw(completions);
  for (uint32_t i = 0; i < count; i++) {
    std::erase_if(inFlight_, [&](const Request& request) {
      return request.request.userData == completions[i].userData;
    });
  }
  return count;
}

RingCounters FaultyRing::counters() const {
  RingCounters counters = ring_->counters();
  for (uint32_t cause = 0; cause < kFaultCauses; cause++) {
    counters.injected[cause] = injected_[cause].load(std::memory_order_relaxed);
  }
  return counters;
}

}  // namespace spillway
