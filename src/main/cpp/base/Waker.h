#pragma once

#include <atomic>
#include <cstdint>

namespace spillway {

// Lets one thread sleep until another has something for it, at the price of one atomic exchange
// where nobody sleeps. Usage by the sleeper: prepare(), look once more, then await() or cancel().
class Waker {
 public:
  Waker();
  ~Waker();
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;

  // Both sides exchange the flag, so one is ordered after the other: either the notifier sees that
  // somebody sleeps, or the sleeper, looking once more, sees what was published.
  void prepare() { sleeping_.exchange(true, std::memory_order_acq_rel); }
  void cancel() { sleeping_.exchange(false, std::memory_order_acq_rel); }
  // Sleeps until notify() or until `nanos` have passed (negative: without bound).
  void await(int64_t nanos);

  // Any thread, after it has published what it has to say.
  void notify() {
    if (sleeping_.exchange(false, std::memory_order_acq_rel)) signal();
  }
  // Any thread: wakes the next await() even where nobody sleeps yet.
  void signal();
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
  std::atomic<bool> sleeping_{false};
};

}  // namespace spillway
