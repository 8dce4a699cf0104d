#include "disk/UringRing.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "base/Check.h"

namespace spillway {
namespace {

constexpr uint64_t kWakeData = UINT64_MAX;
// The kernel pins at most this much in one registered buffer. It is a multiple of every slot size
// that matters only by chance, so a request that straddles two buffers goes unregistered.
constexpr uint64_t kRegisteredBytesMax = uint64_t{1} << 30;
// Back-off while the kernel puts submissions off: 50 us doubled to 12.8 ms, about 13 s in all.
constexpr uint32_t kRefusalsMax = 1000;
constexpr int64_t kRefusalNanos = 50'000;
constexpr uint32_t kRefusalShiftMax = 8;

std::string text(int error) { return std::string(strerrorname_np(error)); }

std::string sysctlDisabled() {
  std::ifstream file("/proc/sys/kernel/io_uring_disabled");
  std::string value;
  file >> value;
  return value;
}

// Tries the flag sets from the best down; the kernel answers EINVAL to one that it does not know.
int initRing(uint32_t depth, io_uring* ring, RingMode& mode) {
  struct Attempt {
    unsigned flags;
    bool singleIssuer;
    bool defer;
  };
  constexpr Attempt kAttempts[] = {
      {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, true, true},
      {IORING_SETUP_COOP_TASKRUN, false, false},
      {0, false, false},
  };
  // One entry more than the depth for the wake-up; the completion queue is twice as long, so that
  // it cannot overflow.
  const unsigned entries = std::bit_ceil(depth + 1);
  int error = 0;
  for (const Attempt& attempt : kAttempts) {
    error = io_uring_queue_init(entries, ring, attempt.flags);
    mode.singleIssuer = attempt.singleIssuer;
    mode.deferTaskrun = attempt.defer;
    if (error != -EINVAL) break;
  }
  return error;
}

void backOff(uint32_t refusals) {
  const timespec pause{0, kRefusalNanos << std::min(refusals, kRefusalShiftMax)};
  nanosleep(&pause, nullptr);
}

}  // namespace

int enterKernel(io_uring* ring, unsigned toSubmit, unsigned waitFor, unsigned flags, void* argument,
                size_t argumentBytes) {
  return io_uring_enter2(static_cast<unsigned>(ring->enter_ring_fd), toSubmit, waitFor, flags,
                         static_cast<sigset_t*>(argument), argumentBytes);
}

std::string uringRefusal() {
  io_uring ring{};
  RingMode mode;
  const int error = initRing(1, &ring, mode);
  if (error == 0) {
    const bool waits = (ring.features & IORING_FEAT_EXT_ARG) != 0;
    io_uring_prep_nop(io_uring_get_sqe(&ring));
    const int entered = io_uring_submit_and_wait(&ring, 1);
    io_uring_queue_exit(&ring);
    if (entered < 0) return "io_uring_enter gave " + text(-entered);
    return waits ? "" : "this kernel's io_uring cannot wait with a bound (5.11 or newer can)";
  }
  if (error == -ENOSYS) return "this kernel has no io_uring (ENOSYS)";
  if (error != -EPERM) return "io_uring_setup gave " + text(-error);
  const std::string disabled = sysctlDisabled();
  if (disabled == "1" || disabled == "2") {
    return "the sysctl kernel.io_uring_disabled is " + disabled +
           " (EPERM); 0 allows it for all, 1 for the group in kernel.io_uring_group";
  }
  return "io_uring_setup gave EPERM though the sysctl allows it: a seccomp filter, as container "
         "runtimes set by default; allow io_uring_setup, io_uring_enter and io_uring_register";
}

std::unique_ptr<Ring> makeUringRing(uint32_t depth) { return std::make_unique<UringRing>(depth); }

UringRing::UringRing(uint32_t depth, EnterCall enterCall) : depth_(depth), enterCall_(enterCall) {}

UringRing::~UringRing() {
  if (made_) io_uring_queue_exit(&ring_);
}

Status UringRing::start(const RingTarget& target) {
  target_ = target;
  const int error = initRing(depth_, &ring_, mode_);
  if (error != 0) return Status::fatal(-error, "io_uring_setup gave " + text(-error));
  made_ = true;
  io_uring_register_ring_fd(&ring_);
  registerTarget(target);
  return Status::well();
}

// The kernel tears a ring down some time after it was closed, and would keep the file, its lock and
// its mount busy until then.
void UringRing::stop() {
  if (mode_.registeredFile) io_uring_unregister_files(&ring_);
  io_uring_unregister_ring_fd(&ring_);  // its number is this thread's
}

// Registration saves the kernel a look-up and a pin a request; without it everything still works.
void UringRing::registerTarget(const RingTarget& target) {
  const int fileError = io_uring_register_files(&ring_, &target.file, 1);
  mode_.registeredFile = fileError == 0;
  std::vector<iovec> buffers;
  for (uint64_t at = 0; at < target.stagingBytes; at += kRegisteredBytesMax) {
    buffers.push_back(
        {target.staging + at, std::min(kRegisteredBytesMax, target.stagingBytes - at)});
  }
  const int error =
      io_uring_register_buffers(&ring_, buffers.data(), static_cast<unsigned>(buffers.size()));
  mode_.registeredBuffers = error == 0;
  if (error == 0) return;
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  mode_.notice = "staging memory is not registered (" + text(-error) + "): it needs " +
                 std::to_string(target.stagingBytes) + " bytes of locked memory, the limit is " +
                 std::to_string(limit.rlim_cur) + "; raise it with ulimit -l or LimitMEMLOCK";
}

uint32_t UringRing::prepared() const { return io_uring_sq_ready(&ring_); }

void UringRing::prepare(const IoRequest& request) {
  CHECK(request.bytes > 0 && request.data != nullptr, "a request of %u bytes", request.bytes);
  CHECK(request.userData != kWakeData, "a request named as the wake-up at depth %u", depth_);
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  CHECK(sqe != nullptr, "no submission entry left at depth %u", depth_);
  const uint64_t at = static_cast<uint64_t>(request.data - target_.staging);
  const uint64_t last = at + request.bytes - 1;
  CHECK(last < target_.stagingBytes, "bytes %lu to %lu of %lu", static_cast<unsigned long>(at),
        static_cast<unsigned long>(last), static_cast<unsigned long>(target_.stagingBytes));
  const bool fixed =
      mode_.registeredBuffers && at / kRegisteredBytesMax == last / kRegisteredBytesMax;
  const int file = mode_.registeredFile ? 0 : target_.file;
  const int buffer = static_cast<int>(at / kRegisteredBytesMax);
  if (request.direction == IoDirection::kRead) {
    if (fixed) {
      io_uring_prep_read_fixed(sqe, file, request.data, request.bytes, request.offset, buffer);
    } else {
      io_uring_prep_read(sqe, file, request.data, request.bytes, request.offset);
    }
  } else if (fixed) {
    io_uring_prep_write_fixed(sqe, file, request.data, request.bytes, request.offset, buffer);
  } else {
    io_uring_prep_write(sqe, file, request.data, request.bytes, request.offset);
  }
  if (mode_.registeredFile) sqe->flags |= IOSQE_FIXED_FILE;
  io_uring_sqe_set_data64(sqe, request.userData);
}

// A read of the event descriptor, always one in the ring: wake() completes it.
void UringRing::armWake() {
  if (wakeArmed_) return;
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  CHECK(sqe != nullptr, "no submission entry left for the wake-up at depth %u", depth_);
  io_uring_prep_poll_add(sqe, waker_.descriptor(), POLLIN);
  io_uring_sqe_set_data64(sqe, kWakeData);
  wakeArmed_ = true;
}

// Publishes the prepared entries and answers how many the kernel has not yet taken, those that it
// put off before included.
uint32_t UringRing::flush() {
  io_uring_sq& queue = ring_.sq;
  unsigned tail = *queue.ktail;
  while (queue.sqe_head != queue.sqe_tail) {
    // Newer libraries ask for a ring without this indirection.
    if (queue.array != nullptr) {
      queue.array[tail & queue.ring_mask] = queue.sqe_head & queue.ring_mask;
    }
    tail++;
    queue.sqe_head++;
  }
  std::atomic_ref<unsigned>(*queue.ktail).store(tail, std::memory_order_release);
  return tail - std::atomic_ref<unsigned>(*queue.khead).load(std::memory_order_acquire);
}

Status UringRing::enter(uint32_t waitFor, int64_t timeoutNanos, std::span<IoCompletion> completions,
                        uint32_t& count) {
  CHECK(made_, "a ring of depth %u is entered before it is started", depth_);
  CHECK(!completions.empty() && waitFor <= depth_, "waiting for %u of %u", waitFor, depth_);
  armWake();
  const uint32_t toSubmit = flush();
  CHECK(toSubmit <= depth_ + 1, "%u entries at depth %u", toSubmit, depth_);
  __kernel_timespec bound{timeoutNanos / 1'000'000'000, timeoutNanos % 1'000'000'000};
  io_uring_getevents_arg argument{};
  argument.ts = timeoutNanos < 0 ? 0 : reinterpret_cast<uint64_t>(&bound);
  unsigned flags = IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG;
  if (ring_.enter_ring_fd != ring_.ring_fd) flags |= IORING_ENTER_REGISTERED_RING;
  enters_.fetch_add(1, std::memory_order_relaxed);
  const int result = enterCall_(&ring_, toSubmit, waitFor, flags, &argument, sizeof(argument));
  count = reap(completions);
  if (result >= 0) {
    refusals_ = 0;
    return Status::well();
  }
  return onRefusal(-result, count);
}

// All entries are published first, so that those which the kernel has not taken are the ones from
// its head to our tail; then the tail is set back.
uint32_t UringRing::withdraw(std::span<IoCompletion> completions) {
  if (!made_) return 0;
  flush();
  io_uring_sq& queue = ring_.sq;
  const unsigned head = std::atomic_ref<unsigned>(*queue.khead).load(std::memory_order_acquire);
  uint32_t count = 0;
  for (unsigned at = head; at != *queue.ktail; at++) {
    const unsigned place = at & queue.ring_mask;
    const io_uring_sqe& sqe = queue.sqes[queue.array != nullptr ? queue.array[place] : place];
    if (sqe.user_data == kWakeData) {
      wakeArmed_ = false;
    } else {
      completions[count++] = {sqe.user_data, -ECANCELED};
    }
  }
  std::atomic_ref<unsigned>(*queue.ktail).store(head, std::memory_order_release);
  queue.sqe_head = head;
  queue.sqe_tail = head;
  return count;
}

// The kernel may put a submission off. The entries stay queued and leave with the next enter; where
// nothing completes meanwhile, a pause keeps this from spinning, and a bound from lasting for ever.
Status UringRing::onRefusal(int error, uint32_t reaped) {
  switch (error) {
    case ETIME:
    case EINTR:
      return Status::well();
    case EAGAIN:
    case EBUSY:
    case ENOMEM:
      submitRetries_.fetch_add(1, std::memory_order_relaxed);
      if (reaped > 0) return Status::well();
      if (++refusals_ > kRefusalsMax) break;
      backOff(refusals_);
      return Status::well();
    default:
      break;
  }
  return Status::fatal(error, "io_uring_enter gave " + text(error));
}

// Reads the completion queue in memory only; liburing's own peek may enter the kernel.
uint32_t UringRing::reap(std::span<IoCompletion> completions) {
  uint32_t count = 0;
  unsigned seen = 0;
  unsigned head = 0;
  io_uring_cqe* cqe = nullptr;
  io_uring_for_each_cqe(&ring_, head, cqe) {
    if (count == completions.size()) break;
    seen++;
    if (cqe->user_data == kWakeData) {
      onWake();
    } else {
      completions[count++] = {cqe->user_data, cqe->res};
    }
  }
  io_uring_cq_advance(&ring_, seen);
  return count;
}

void UringRing::onWake() {
  uint64_t wakes = 0;
  const ssize_t bytes = read(waker_.descriptor(), &wakes, sizeof(wakes));
  CHECK(bytes == sizeof(wakes) || errno == EAGAIN, "eventfd read gave %zd", bytes);
  wakeArmed_ = false;
}

RingCounters UringRing::counters() const {
  RingCounters counters;
  counters.enters = enters_.load(std::memory_order_relaxed);
  counters.submitRetries = submitRetries_.load(std::memory_order_relaxed);
  if (made_) {
    counters.overflows = std::atomic_ref<unsigned>(*ring_.cq.koverflow).load();
  }
  return counters;
}

}  // namespace spillway
