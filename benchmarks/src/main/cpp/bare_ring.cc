// What a block's way costs without an engine: the floor that the benchmarks compare with.
//
//   bare-ring MODE FILE OFFSET SLOTS BLOCK_BYTES DEPTH SECONDS SEED
//
//   read     one ring, random reads at the depth, fixed buffers in huge pages; nothing is done with
//            the bytes
//   load     the same, and each block is checksummed and copied out; twice as many buffers as
//   depth,
//            and the ring is fed before a block is worked on
//   write    one ring, random writes at the depth, nothing else
//   store    the same, and each block is copied in and checksummed first
//   pairs    one block a call: pread into one of DEPTH buffers, checksum, copy (how a first
//            version is written)
//   memcpy   no file: blocks are copied from 2 * DEPTH buffers to where load copies them
//   checksum no file: they are checksummed
//
// Prints one line: {"bytes":N,"seconds":S,"cpuSeconds":C}. Not part of the library.
#include <fcntl.h>
#include <liburing.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/Checksum.h"
#include "base/Clock.h"

namespace {

using spillway::checksum;
using spillway::monotonicNanos;

constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;
constexpr uint32_t kDeviceBlocks = 256;

[[noreturn]] void fail(const char* what, int error) {
  std::fprintf(stderr, "bare-ring: %s: %s\n", what, std::strerror(error));
  std::exit(1);
}

uint8_t* hugePages(uint64_t bytes) {
  const uint64_t whole = (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  void* raw = mmap(nullptr, whole + kHugePageBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) fail("mmap", errno);
  const auto at = reinterpret_cast<uintptr_t>(raw);
  auto* aligned = reinterpret_cast<uint8_t*>((at + kHugePageBytes - 1) & ~(kHugePageBytes - 1));
  madvise(aligned, whole, MADV_HUGEPAGE);
  std::memset(aligned, 1, whole);
  return aligned;
}

double cpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Run {
  std::string mode;
  int file = -1;
  uint64_t offset = 0;
  uint64_t slots = 0;
  uint32_t blockBytes = 0;
  uint32_t depth = 0;
  int64_t nanos = 0;
  std::mt19937_64 random;

  bool writes() const { return mode == "write" || mode == "store"; }
  bool works() const { return mode == "load" || mode == "store" || mode == "pairs"; }
  uint64_t draw() { return offset + random() % slots * blockBytes; }
};

uint64_t sink = 0;

uint64_t pairs(Run& run, uint8_t* buffers, uint8_t* device) {
  const int64_t until = monotonicNanos() + run.nanos;
  uint64_t count = 0;
  for (; monotonicNanos() < until; count++) {
    uint8_t* buffer = buffers + count % run.depth * run.blockBytes;
    const ssize_t got = pread(run.file, buffer, run.blockBytes, static_cast<off_t>(run.draw()));
    if (got != static_cast<ssize_t>(run.blockBytes)) fail("pread", got < 0 ? errno : EIO);
    sink ^= checksum(buffer, run.blockBytes, 0);
    std::memcpy(device + count % kDeviceBlocks * run.blockBytes, buffer, run.blockBytes);
  }
  return count * run.blockBytes;
}

// The work alone.
uint64_t work(Run& run, const uint8_t* buffers, uint8_t* device) {
  const int64_t until = monotonicNanos() + run.nanos;
  uint64_t count = 0;
  for (; monotonicNanos() < until; count++) {
    const uint8_t* buffer = buffers + run.random() % (2 * run.depth) * run.blockBytes;
    if (run.mode == "checksum") {
      sink ^= checksum(buffer, run.blockBytes, 0);
    } else {
      std::memcpy(device + count % kDeviceBlocks * run.blockBytes, buffer, run.blockBytes);
    }
  }
  return count * run.blockBytes;
}

class RingLoop {
 public:
  explicit RingLoop(Run& run) : run_(run), buffers_(run.works() ? 2 * run.depth : run.depth) {
    const int error = io_uring_queue_init(run.depth, &ring_,
                                          IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
    if (error < 0) fail("io_uring_setup", -error);
    const uint64_t bytes = uint64_t{buffers_} * run.blockBytes;
    staging_ = hugePages(bytes);
    device_ = hugePages(uint64_t{kDeviceBlocks} * run.blockBytes);
    const iovec whole{staging_, bytes};
    if (io_uring_register_buffers(&ring_, &whole, 1) < 0) fail("registering buffers", ENOMEM);
    if (io_uring_register_files(&ring_, &run.file, 1) < 0) fail("registering the file", EINVAL);
    for (uint32_t i = 0; i < buffers_; i++) free_.push_back(i);
  }

  uint64_t go() {
    const int64_t until = monotonicNanos() + run_.nanos;
    uint64_t count = 0;
    bool over = false;
    while (!over || inFlight_ > 0) {
      over = over || monotonicNanos() >= until;
      while (!over && inFlight_ < run_.depth && !free_.empty()) issue();
      const bool idle = moved_.empty();
      const int error = io_uring_submit_and_wait(&ring_, idle && inFlight_ > 0 ? 1 : 0);
      if (error < 0 && error != -EINTR) fail("io_uring_enter", -error);
      count += reap();
      if (!moved_.empty()) finish();
    }
    while (!moved_.empty()) finish();
    return count * run_.blockBytes;
  }

 private:
  uint8_t* data(uint32_t index) const { return staging_ + uint64_t{index} * run_.blockBytes; }

  void issue() {
    const uint32_t index = free_.back();
    free_.pop_back();
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    if (run_.mode == "store") {
      std::memcpy(data(index), device_ + next_++ % kDeviceBlocks * run_.blockBytes,
                  run_.blockBytes);
      sink ^= checksum(data(index), run_.blockBytes, 0);
    }
    if (run_.writes()) {
      io_uring_prep_write_fixed(sqe, 0, data(index), run_.blockBytes, run_.draw(), 0);
    } else {
      io_uring_prep_read_fixed(sqe, 0, data(index), run_.blockBytes, run_.draw(), 0);
    }
    sqe->flags |= IOSQE_FIXED_FILE;
    io_uring_sqe_set_data64(sqe, index);
    inFlight_++;
  }

  uint32_t reap() {
    unsigned head = 0;
    uint32_t seen = 0;
    io_uring_cqe* cqe = nullptr;
    io_uring_for_each_cqe(&ring_, head, cqe) {
      if (cqe->res != static_cast<int32_t>(run_.blockBytes)) {
        fail("a request", cqe->res < 0 ? -cqe->res : EIO);
      }
      seen++;
      const auto index = static_cast<uint32_t>(io_uring_cqe_get_data64(cqe));
      (run_.mode == "load" ? moved_ : free_).push_back(index);
    }
    io_uring_cq_advance(&ring_, seen);
    inFlight_ -= seen;
    return seen;
  }

  void finish() {
    const uint32_t index = moved_.back();
    moved_.pop_back();
    sink ^= checksum(data(index), run_.blockBytes, 0);
    std::memcpy(device_ + next_++ % kDeviceBlocks * run_.blockBytes, data(index), run_.blockBytes);
    free_.push_back(index);
  }

  Run& run_;
  uint32_t buffers_;
  io_uring ring_{};
  uint8_t* staging_ = nullptr;
  uint8_t* device_ = nullptr;
  std::vector<uint32_t> free_;
  std::vector<uint32_t> moved_;
  uint32_t inFlight_ = 0;
  uint64_t next_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 9) {
    std::fprintf(stderr,
                 "usage: bare-ring MODE FILE OFFSET SLOTS BLOCK_BYTES DEPTH SECONDS SEED\n");
    return 2;
  }
  Run run;
  run.mode = argv[1];
  run.file = open(argv[2], (run.writes() ? O_RDWR : O_RDONLY) | O_DIRECT | O_CLOEXEC);
  if (run.file < 0) fail(argv[2], errno);
  run.offset = std::strtoull(argv[3], nullptr, 10);
  run.slots = std::strtoull(argv[4], nullptr, 10);
  run.blockBytes = static_cast<uint32_t>(std::strtoul(argv[5], nullptr, 10));
  run.depth = static_cast<uint32_t>(std::strtoul(argv[6], nullptr, 10));
  run.nanos = static_cast<int64_t>(std::strtod(argv[7], nullptr) * 1e9);
  run.random.seed(std::strtoull(argv[8], nullptr, 10));
  uint64_t bytes = 0;
  int64_t begun = 0;
  double cpu = 0;
  const bool worksOnly = run.mode == "memcpy" || run.mode == "checksum";
  if (run.mode == "pairs" || worksOnly) {
    uint8_t* buffers = hugePages(uint64_t{2} * run.depth * run.blockBytes);
    uint8_t* device = hugePages(uint64_t{kDeviceBlocks} * run.blockBytes);
    begun = monotonicNanos();
    cpu = cpuSeconds();
    bytes = worksOnly ? work(run, buffers, device) : pairs(run, buffers, device);
  } else {
    RingLoop loop(run);
    begun = monotonicNanos();
    cpu = cpuSeconds();
    bytes = loop.go();
  }
  const double seconds = static_cast<double>(monotonicNanos() - begun) * 1e-9;
  std::printf("{\"bytes\":%lu,\"seconds\":%.6f,\"cpuSeconds\":%.6f}\n",
              static_cast<unsigned long>(bytes), seconds, cpuSeconds() - cpu);
  return sink == 1 ? 3 : 0;  // the checksums are not to be optimised away
}
