#pragma once

#include <ctime>

#include <cstdint>

namespace spillway {

// Monotonic nanoseconds. Lanes take the clock as an argument so that tests can hold it still.
using Clock = int64_t (*)();

inline int64_t monotonicNanos() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace spillway
