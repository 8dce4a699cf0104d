#pragma once

#include <cstdint>
#include <vector>

namespace spillway {

// Faults to make on purpose, for trials and tests: what FaultyRing and FaultyCopier work from.
enum class FaultKind : uint32_t {
  kError = 1,    // the request is not made; its completion carries `error`
  kShort = 2,    // about half of the bytes move
  kZero = 3,     // none do
  kCorrupt = 4,  // a read comes back whole with one byte changed
  kDelay = 5,    // the completion comes `delayNanos` late
  kReorder = 6,  // the completions of a round come in another order
  kCopyDelay = 7,
  kCopyError = 8,
};

enum class FaultDirection : uint32_t { kAny = 0, kRead = 1, kWrite = 2 };

// Which requests a fault falls on: a share of those whose first byte lies in [offsetFrom,
// offsetTo), after `skip` of them, `limit` times at most.
struct FaultRule {
  FaultKind kind = FaultKind::kError;
  FaultDirection direction = FaultDirection::kAny;
  int32_t error = 0;
  double rate = 1.0;
  int64_t delayNanos = 0;
  uint64_t offsetFrom = 0;
  uint64_t offsetTo = UINT64_MAX;
  uint64_t skip = 0;
  uint64_t limit = UINT64_MAX;
};

struct FaultPlan {
  uint64_t seed = 0;
  std::vector<FaultRule> rules;
  bool empty() const { return rules.empty(); }
};

// SplitMix64: the same seed gives the same faults.
class FaultDice {
 public:
  explicit FaultDice(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t word = state_ += 0x9e3779b97f4a7c15;
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
    word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
    return word ^ (word >> 31);
  }
  bool falls(double rate) { return static_cast<double>(next() >> 11) * 0x1.0p-53 < rate; }

 private:
  uint64_t state_;
};

}  // namespace spillway
