#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "TestFiles.h"
#include "disk/UringRing.h"
#include "staging/StagingSlots.h"

namespace spillway {
namespace {

constexpr uint32_t kBytes = 4096;

// A ring on a file of 64 pages whose page p is filled with the byte p.
class RingTest : public testing::TestWithParam<bool> {
 protected:
  RingTest() : memory_(64 * kBytes, "") {
    const std::string path = directory_.path() + "/pages";
    file_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    for (uint32_t page = 0; page < 64; page++) {
      const std::vector<uint8_t> bytes(kBytes, static_cast<uint8_t>(page));
      EXPECT_EQ(pwrite(file_, bytes.data(), kBytes, page * kBytes), kBytes);
    }
  }
  ~RingTest() override { close(file_); }

  void SetUp() override {
    if (!GetParam()) return;
    if (const std::string refusal = uringRefusal(); !refusal.empty()) GTEST_SKIP() << refusal;
  }

  std::unique_ptr<Ring> startRing(uint32_t depth) {
    auto ring = GetParam() ? makeUringRing(depth) : makeThreadRing(depth);
    EXPECT_TRUE(ring->start(target()).ok());
    return ring;
  }
  RingTarget target() const { return {file_, memory_.data(), memory_.bytes()}; }
  uint8_t* page(uint32_t index) { return memory_.data() + index * kBytes; }
  IoRequest read(uint32_t index) {
    return {IoDirection::kRead, page(index), kBytes, uint64_t{index} * kBytes, index};
  }

  // Enters until `wanted` completions have come.
  static std::vector<IoCompletion> collect(Ring& ring, size_t wanted) {
    std::vector<IoCompletion> all;
    std::vector<IoCompletion> some(64);
    while (all.size() < wanted) {
      uint32_t count = 0;
      const Status status = ring.enter(1, -1, some, count);
      if (!status.ok()) {
        ADD_FAILURE() << status.cause;
        break;
      }
      all.insert(all.end(), some.begin(), some.begin() + count);
    }
    return all;
  }

  TemporaryDirectory directory_;
  HostMemory memory_;
  int file_ = -1;
};

TEST_P(RingTest, readsWhatWasAskedAndSaysSo) {
  auto ring = startRing(8);
  for (uint32_t i = 0; i < 8; i++) ring->prepare(read(i));
  const auto completions = collect(*ring, 8);
  for (const IoCompletion& completion : completions) {
    EXPECT_EQ(completion.result, static_cast<int32_t>(kBytes));
    EXPECT_EQ(page(static_cast<uint32_t>(completion.userData))[17], completion.userData);
  }
}

TEST_P(RingTest, writesReachTheFile) {
  auto ring = startRing(4);
  std::fill_n(page(3), kBytes, uint8_t{0x5a});
  ring->prepare({IoDirection::kWrite, page(3), kBytes, 9 * kBytes, 1});
  EXPECT_EQ(collect(*ring, 1)[0].result, static_cast<int32_t>(kBytes));
  std::vector<uint8_t> bytes(kBytes);
  ASSERT_EQ(pread(file_, bytes.data(), kBytes, 9 * kBytes), kBytes);
  EXPECT_EQ(bytes[4095], 0x5a);
}

TEST_P(RingTest, aShortCountAndTheEndOfFileComeBackAsTheyAre) {
  auto ring = startRing(4);
  ring->prepare({IoDirection::kRead, page(0), 2 * kBytes, 63 * kBytes, 1});
  EXPECT_EQ(collect(*ring, 1)[0].result, static_cast<int32_t>(kBytes));
  ring->prepare({IoDirection::kRead, page(0), kBytes, 64 * kBytes, 1});
  EXPECT_EQ(collect(*ring, 1)[0].result, 0);
}

// Case 16: the returned value is the error; errno may say anything.
TEST_P(RingTest, case16TheKernelsErrorIsKept) {
  const int writeOnly = open((directory_.path() + "/pages").c_str(), O_WRONLY | O_CLOEXEC);
  auto ring = GetParam() ? makeUringRing(4) : makeThreadRing(4);
  ASSERT_TRUE(ring->start({writeOnly, memory_.data(), memory_.bytes()}).ok());
  errno = 0;
  ring->prepare(read(1));
  EXPECT_EQ(collect(*ring, 1)[0].result, -EBADF);
  close(writeOnly);
}

TEST_P(RingTest, aSleepingRingIsWoken) {
  auto ring = startRing(4);
  std::vector<IoCompletion> some(4);
  for (int round = 0; round < 3; round++) {
    std::thread other([&] { ring->wake(); });
    uint32_t count = 1;
    EXPECT_TRUE(ring->enter(1, -1, some, count).ok());
    EXPECT_EQ(count, 0u);
    other.join();
  }
}

TEST_P(RingTest, aWaitEndsAtItsBound) {
  auto ring = startRing(4);
  std::vector<IoCompletion> some(4);
  uint32_t count = 1;
  EXPECT_TRUE(ring->enter(1, 1'000'000, some, count).ok());
  EXPECT_EQ(count, 0u);
}

TEST(IoVerdictTest, namesWhatIsWorthAnotherTry) {
  for (const int error : {EINTR, EAGAIN, ENOMEM, EBUSY}) {
    EXPECT_EQ(verdictOf(-error), IoVerdict::kRetry);
  }
  for (const int error : {EIO, ENOSPC, EINVAL, EBADF, EFBIG}) {
    EXPECT_EQ(verdictOf(-error), IoVerdict::kFailed);
  }
  EXPECT_EQ(verdictOf(0), IoVerdict::kMoved);
}

INSTANTIATE_TEST_SUITE_P(Engines, RingTest, testing::Bool(),
                         [](const auto& which) { return which.param ? "uring" : "threads"; });

class UringRingTest : public RingTest {};
INSTANTIATE_TEST_SUITE_P(Uring, UringRingTest, testing::Values(true),
                         [](const auto&) { return "uring"; });

// Hides half of what is offered: the kernel may take fewer entries than it was given.
int enterHalf(io_uring* ring, unsigned toSubmit, unsigned, unsigned flags, void* argument,
              size_t bytes) {
  return enterKernel(ring, (toSubmit + 1) / 2, 0, flags, argument, bytes);
}

TEST_P(UringRingTest, case24TheRestOfAPartialSubmitStaysQueued) {
  UringRing ring(16, enterHalf);
  ASSERT_TRUE(ring.start(target()).ok());
  for (uint32_t i = 0; i < 16; i++) ring.prepare(read(i));
  auto completions = collect(ring, 16);
  std::sort(completions.begin(), completions.end(),
            [](const auto& a, const auto& b) { return a.userData < b.userData; });
  for (uint32_t i = 0; i < 16; i++) EXPECT_EQ(completions[i].userData, i);
}

int refusals = 0;
int refusal = 0;
int enterRefusing(io_uring* ring, unsigned toSubmit, unsigned waitFor, unsigned flags,
                  void* argument, size_t bytes) {
  if (refusals > 0) {
    refusals--;
    return -refusal;
  }
  return enterKernel(ring, toSubmit, waitFor, flags, argument, bytes);
}

TEST_P(UringRingTest, case24ASubmitThatIsPutOffIsRepeated) {
  for (const int error : {EAGAIN, ENOMEM, EBUSY, EINTR}) {
    refusals = 3;
    refusal = error;
    UringRing ring(4, enterRefusing);
    ASSERT_TRUE(ring.start(target()).ok());
    ring.prepare(read(7));
    EXPECT_EQ(collect(ring, 1)[0].result, static_cast<int32_t>(kBytes)) << error;
    EXPECT_EQ(ring.counters().submitRetries, error == EINTR ? 0u : 3u);
  }
}

TEST_P(UringRingTest, aRingThatCannotSubmitIsFatalWithItsCause) {
  refusals = 1;
  refusal = ENXIO;
  UringRing ring(4, enterRefusing);
  ASSERT_TRUE(ring.start(target()).ok());
  std::vector<IoCompletion> some(4);
  uint32_t count = 0;
  const Status status = ring.enter(1, -1, some, count);
  EXPECT_EQ(status.error, ENXIO);
  EXPECT_EQ(status.cause, "io_uring_enter gave ENXIO");
}

TEST_P(UringRingTest, whatTheKernelNeverTookIsTakenBack) {
  refusals = 1;
  refusal = ENXIO;
  UringRing ring(4, enterRefusing);
  ASSERT_TRUE(ring.start(target()).ok());
  for (uint32_t i = 0; i < 4; i++) ring.prepare(read(i));
  std::vector<IoCompletion> some(4);
  uint32_t count = 0;
  EXPECT_FALSE(ring.enter(0, 0, some, count).ok());
  ASSERT_EQ(ring.withdraw(some), 4u);
  for (uint32_t i = 0; i < 4; i++) EXPECT_EQ(some[i].userData, i);
  EXPECT_EQ(ring.prepared(), 0u);
  EXPECT_TRUE(ring.enter(0, 0, some, count).ok());
  EXPECT_EQ(count, 0u) << "a request left after it was taken back";
}

TEST_P(UringRingTest, saysWhatItHas) {
  auto ring = startRing(8);
  EXPECT_TRUE(ring->mode().registeredFile);
  EXPECT_TRUE(ring->mode().registeredBuffers) << ring->mode().notice;
  EXPECT_EQ(ring->counters().overflows, 0u);
}

// Case 18: too little lockable memory means unregistered buffers, said with limit, need and remedy.
TEST_P(UringRingTest, case18ALowMemlockLimitFallsBackAndSaysSo) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit low{65536, 65536};
    setrlimit(RLIMIT_MEMLOCK, &low);
    if (geteuid() == 0 && setuid(65534) != 0) _exit(9);
    HostMemory staging(8 << 20, "");
    UringRing ring(4);
    if (!ring.start({file_, staging.data(), staging.bytes()}).ok()) _exit(1);
    const RingMode& mode = ring.mode();
    if (mode.registeredBuffers) _exit(2);
    if (mode.notice.find("needs 8388608 bytes") == std::string::npos) _exit(3);
    if (mode.notice.find("limit is 65536; raise it with ulimit -l") == std::string::npos) _exit(4);
    ring.prepare({IoDirection::kRead, staging.data(), kBytes, 5 * kBytes, 1});
    _exit(collect(ring, 1)[0].result == kBytes && staging.data()[0] == 5 ? 0 : 5);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace spillway
