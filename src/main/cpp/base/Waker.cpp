#include "base/Waker.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "base/Check.h"
#include "base/Status.h"

namespace spillway {

Waker::Waker() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (descriptor_ < 0) {
    throw OpenError(OpenReason::kHostMemory, errno,
                    "no event descriptor could be made; raise the open file limit (ulimit -n)");
  }
}

Waker::~Waker() { close(descriptor_); }

void Waker::await(int64_t nanos) {
  pollfd wanted{descriptor_, POLLIN, 0};
  const timespec bound{nanos / 1'000'000'000, nanos % 1'000'000'000};
  const int ready = ppoll(&wanted, 1, nanos < 0 ? nullptr : &bound, nullptr);
  cancel();
  if (ready <= 0) return;  // the bound has passed, or a signal came: the caller looks again
  uint64_t count = 0;
  const ssize_t bytes = read(descriptor_, &count, sizeof(count));
  CHECK(bytes == sizeof(count) || errno == EAGAIN, "eventfd read gave %zd, errno %d", bytes, errno);
}

void Waker::signal() {
  const uint64_t one = 1;
  const ssize_t bytes = write(descriptor_, &one, sizeof(one));
  // A full counter (EAGAIN) is as good as a signal: the sleeper will wake.
  CHECK(bytes == sizeof(one) || errno == EAGAIN, "eventfd write gave %zd, errno %d", bytes, errno);
}

}  // namespace spillway
