#include <sys/mman.h>

#include <atomic>
#include <cstring>

#include "EmulatedCuda.h"
#include "device/CudaCopyPlan.h"

namespace spillway {
namespace {

// A copier over emulated device memory, with staging slots of its own.
class CopierUnderTest {
 public:
  static constexpr uint32_t kSlots = 8;

  CopierUnderTest(EmulatedCuda& cuda, const std::vector<PieceTable>& groups, int device = 0)
      : slotBytes_(roundUp(groups[0].payloadBytes, 4096)),
        staging_(kSlots * slotBytes_, "nothing"),
        copier_(makeCudaCopier(cuda.runtime(), device, groups, kSlots)) {}
  ~CopierUnderTest() {
    if (!attached_) return;
    reap(copier_->pending());  // of a test that has failed half-way
    copier_->detach();
  }

  Status attach() {
    Status status = copier_->attach({staging_.data(), slotBytes_, kSlots}, [this] { woken_++; });
    attached_ = status.ok();
    return status;
  }
  void detach() {
    attached_ = false;
    copier_->detach();
  }
  uint8_t* slot(uint32_t index) { return staging_.data() + index * slotBytes_; }
  Status start(CopyDirection direction, uint32_t block, uint32_t token, CopyEvent after = {}) {
    return copier_->start(
        {direction, GroupIndex{0}, DeviceBlock{block}, slot(token), after, token});
  }
  // Waits for so many copies; answers their tokens in the order in which they were complete.
  std::vector<uint32_t> reap(size_t wanted) {
    std::vector<uint32_t> all;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (all.size() < wanted && std::chrono::steady_clock::now() < until) {
      std::vector<uint32_t> tokens(kSlots);
      uint32_t count = 0;
      failure = copier_->reap(tokens, count);
      all.insert(all.end(), tokens.begin(), tokens.begin() + count);
      if (!failure.ok()) break;
      if (count == 0) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    return all;
  }
  std::vector<uint8_t> staged(uint32_t token, uint64_t bytes) {
    return {slot(token), slot(token) + bytes};
  }
  DeviceCopier& operator*() { return *copier_; }
  uint64_t woken() const { return woken_; }

  Status failure;

 private:
  uint64_t slotBytes_;
  HostMemory staging_;
  std::atomic<uint64_t> woken_{0};
  std::unique_ptr<DeviceCopier> copier_;
  bool attached_ = false;
};

const CudaCopyPlan::Within kAnywhere = [](const uint8_t*, const uint8_t*) { return true; };

PieceTable tableOf(std::vector<Piece> pieces) {
  PieceTable table{std::move(pieces), 0, 4};
  for (const Piece& piece : table.pieces) table.payloadBytes += piece.bytes;
  return table;
}

uint8_t* at(uint64_t address) { return reinterpret_cast<uint8_t*>(address); }

// Shows: V193: neighbours on one side only stay apart.
TEST(CudaCopyPlanTest, v193RangesAreMergedOnlyWhereBothSidesAreContiguous) {
  // K and V of one block lie one behind the other in one tensor of 200 bytes a block.
  const auto merged = CudaCopyPlan::of(tableOf({{at(1000), 200, 100}, {at(1100), 200, 100}}), 1000,
                                       false, kAnywhere);
  ASSERT_EQ(merged.ops.size(), 1u);
  EXPECT_EQ(merged.ops[0].bytes, 200u);
  EXPECT_EQ(merged.ops[0].rows, 1u);
  // The same places, but the second moves at another stride from block to block.
  const auto apart = CudaCopyPlan::of(tableOf({{at(1000), 200, 100}, {at(1100), 300, 100}}), 1000,
                                      false, kAnywhere);
  EXPECT_EQ(apart.ops.size(), 2u);
  EXPECT_EQ(apart.ops[1].staging, 100u);
}

// Shows: V52 V54: tensors of one size at one distance are rows of one copy; another distance is
// another.
TEST(CudaCopyPlanTest, tensorsAtOneDistanceAreOneCopyOfRows) {
  std::vector<Piece> pieces;
  for (uint64_t layer = 0; layer < 5; layer++) pieces.push_back({at(10'000 * (layer + 1)), 64, 64});
  pieces.push_back({at(90'000), 64, 64});
  const auto plan = CudaCopyPlan::of(tableOf(pieces), 1 << 20, true, kAnywhere);
  ASSERT_EQ(plan.ops.size(), 2u);
  EXPECT_EQ(plan.ops[0].rows, 5u);
  EXPECT_EQ(plan.ops[0].pitch, 10'000u);
  EXPECT_EQ(plan.ops[1].rows, 1u);
  EXPECT_EQ(plan.ops[1].staging, 5u * 64);
  EXPECT_FALSE(plan.batched) << "two calls do";
  EXPECT_EQ(plan.ranges, 6u);
}

TEST(CudaCopyPlanTest, aPitchBeyondTheDevicesIsNoRowAndManyCopiesAreABatchWhereThereIsOne) {
  std::vector<Piece> pieces;
  for (uint64_t layer = 0; layer < 5; layer++) pieces.push_back({at(10'000 * (layer + 1)), 64, 64});
  EXPECT_EQ(CudaCopyPlan::of(tableOf(pieces), 9'999, false, kAnywhere).ops.size(), 5u);
  EXPECT_FALSE(CudaCopyPlan::of(tableOf(pieces), 9'999, false, kAnywhere).batched);
  EXPECT_TRUE(CudaCopyPlan::of(tableOf(pieces), 9'999, true, kAnywhere).batched);
}

// A row copy must not leave its allocation: tensors that are neighbours by chance stay apart.
TEST(CudaCopyPlanTest, rowsStayInOneAllocation) {
  std::vector<Piece> pieces;
  for (uint64_t layer = 0; layer < 4; layer++) pieces.push_back({at(10'000 * (layer + 1)), 64, 64});
  const auto two = [](const uint8_t* first, const uint8_t* last) {
    return (reinterpret_cast<uint64_t>(first) < 30'000) ==
           (reinterpret_cast<uint64_t>(last) < 30'000);
  };
  const auto plan = CudaCopyPlan::of(tableOf(pieces), 1 << 20, false, two);
  ASSERT_EQ(plan.ops.size(), 2u);
  EXPECT_EQ(plan.ops[0].rows, 2u);
  EXPECT_EQ(plan.ops[1].rows, 2u);
}

struct Form {
  const char* configuration;
  const char* usedCall;
};

class CudaCopierForms : public testing::TestWithParam<Form> {};

// Shows: V53 V54 V55 V56: odd sizes, gaps, odd counts of blocks, in each form that a runtime
// offers.
TEST_P(CudaCopierForms, v53EveryFormPacksPiecesByteForByteAndLeavesGapsAlone) {
  for (int seed = 1; seed <= 20; seed++) {
    EmulatedCuda cuda(std::string(GetParam().configuration) + " seed=" + std::to_string(seed));
    CudaTensors tensors(cuda, {2112, 9216, 512, 513, 4224}, 5, 37);
    CopierUnderTest copier(cuda, tensors.groups);
    ASSERT_TRUE(copier.attach().ok());
    const uint64_t payload = tensors.groups[0].payloadBytes;
    const std::vector<uint8_t> gaps = tensors.tensor(1);
    for (uint32_t block = 0; block < 5; block++) {
      tensors.write(block, pattern(payload, block));
      ASSERT_TRUE(copier.start(CopyDirection::kToHost, block, block).ok());
    }
    ASSERT_EQ(copier.reap(5).size(), 5u) << copier.failure.cause;
    for (uint32_t block = 0; block < 5; block++) {
      ASSERT_EQ(copier.staged(block, payload), pattern(payload, block)) << "seed " << seed;
      const auto other = pattern(payload, 100 + block);
      std::memcpy(copier.slot(block), other.data(), payload);
      ASSERT_TRUE(copier.start(CopyDirection::kToDevice, 4 - block, block).ok());
    }
    ASSERT_EQ(copier.reap(5).size(), 5u);
    for (uint32_t block = 0; block < 5; block++) {
      ASSERT_EQ(tensors.read(4 - block), pattern(payload, 100 + block)) << "seed " << seed;
    }
    const std::vector<uint8_t> after = tensors.tensor(1);
    for (uint64_t byte = 0; byte < after.size(); byte++) {
      if (byte % (9216 + 37) >= 9216) {
        ASSERT_EQ(after[byte], gaps[byte]) << "gap at " << byte;
      }
    }
    EXPECT_GT(cuda.calls(GetParam().usedCall), 0u);
    copier.detach();
    EXPECT_EQ(cuda.alive(), 5u) << "only the tensors are left";
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudaCopierForms,
                         testing::Values(Form{"version=13000", "cudaMemcpyBatchAsync"},
                                         Form{"version=12080 driver=12040", "cudaMemcpyAsync"},
                                         Form{"version=13000 hostpointers=0", "cudaMemcpyAsync"},
                                         Form{"version=12080", "cudaMemcpyBatchAsync"},
                                         Form{"version=12040", "cudaMemcpyAsync"},
                                         Form{"version=11080", "cudaMemcpyAsync"}));

TEST(CudaCopierTest, layersAtOneDistanceAreCopiedAsRows) {
  EmulatedCuda cuda("version=12040");
  CudaTensors tensors(cuda, {64 * 512}, 1);
  // Eight layers in one allocation, of which each block has 512 bytes.
  PieceTable table{{}, 0, 8};
  for (uint64_t layer = 0; layer < 8; layer++) {
    table.pieces.push_back({at(tensors.address(0)) + layer * 8 * 512, 512, 512});
    table.payloadBytes += 512;
  }
  const std::vector<PieceTable> groups = {table};
  CopierUnderTest copier(cuda, groups);
  ASSERT_TRUE(copier.attach().ok());
  const auto bytes = pattern(table.payloadBytes, 3);
  std::memcpy(copier.slot(0), bytes.data(), bytes.size());
  ASSERT_TRUE(copier.start(CopyDirection::kToDevice, 5, 0).ok());
  ASSERT_EQ(copier.reap(1).size(), 1u);
  const auto all = tensors.read(0);
  for (uint64_t layer = 0; layer < 8; layer++) {
    EXPECT_EQ(0, std::memcmp(all.data() + (layer * 8 + 5) * 512, bytes.data() + layer * 512, 512));
  }
  EXPECT_EQ(cuda.calls("cudaMemcpy2DAsync"), 1u);
  ASSERT_TRUE(copier.start(CopyDirection::kToHost, 5, 1).ok());
  ASSERT_EQ(copier.reap(1).size(), 1u);
  EXPECT_EQ(copier.staged(1, bytes.size()), bytes);
}

// Shows: V49: over 30 rounds a store behind its event is never torn; the control without it is.
TEST(CudaCopierTest, v49AStoreIsOrderedBehindTheComputeWriteAndTheControlIsNot) {
  int wrong[2] = {0, 0};
  for (int barrier = 0; barrier < 2; barrier++) {
    EmulatedCuda cuda("seed=7 micros=300");
    CudaTensors tensors(cuda, {8192, 4096, 4096}, 4);
    CopierUnderTest copier(cuda, tensors.groups);
    ASSERT_TRUE(copier.attach().ok());
    const CudaStream compute = cuda.stream();
    const CudaEvent computed = cuda.event();
    for (int round = 0; round < 30; round++) {
      const int value = 1 + round;
      cuda.kernel(compute, tensors.address(0), value, 8192, 200);
      ASSERT_EQ(cuda.runtime().calls().eventRecord(computed, compute), 0);
      const CopyEvent after{reinterpret_cast<uint64_t>(computed), 0, CopyEventKind::kCudaEvent};
      ASSERT_TRUE(
          copier.start(CopyDirection::kToHost, 0, 0, barrier == 1 ? after : CopyEvent{}).ok());
      ASSERT_EQ(copier.reap(1).size(), 1u);
      wrong[barrier] += copier.staged(0, 8192) != std::vector<uint8_t>(8192, value) ? 1 : 0;
      while (cuda.runtime().calls().streamQuery(compute) == kCudaErrorNotReady) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
    ASSERT_EQ(cuda.runtime().calls().eventDestroy(computed), 0);
    ASSERT_EQ(cuda.runtime().calls().streamDestroy(compute), 0);
  }
  EXPECT_GT(wrong[0], 0) << "a control that cannot fail shows nothing";
  EXPECT_EQ(wrong[1], 0);
}

// Shows: V50: a load, too, begins only after whoever used its block last; a stream stands for all
// in it.
TEST(CudaCopierTest, v50ALoadWaitsForTheLastUseOfItsBlock) {
  for (const CopyEventKind kind : {CopyEventKind::kCudaEvent, CopyEventKind::kCudaStream}) {
    EmulatedCuda cuda("seed=3 micros=100");
    CudaTensors tensors(cuda, {4096}, 4);
    CopierUnderTest copier(cuda, tensors.groups);
    ASSERT_TRUE(copier.attach().ok());
    const CudaStream compute = cuda.stream();
    const CudaEvent used = cuda.event();
    for (int round = 0; round < 10; round++) {
      cuda.kernel(compute, tensors.address(0), 0x55, 4096, 300);  // the last use writes it
      ASSERT_EQ(cuda.runtime().calls().eventRecord(used, compute), 0);
      const auto bytes = pattern(4096, round);
      std::memcpy(copier.slot(1), bytes.data(), bytes.size());
      const void* address = kind == CopyEventKind::kCudaEvent ? used : compute;
      ASSERT_TRUE(
          copier
              .start(CopyDirection::kToDevice, 0, 1, {reinterpret_cast<uint64_t>(address), 0, kind})
              .ok());
      ASSERT_EQ(copier.reap(1).size(), 1u);
      ASSERT_EQ(tensors.read(0), bytes) << "round " << round;
    }
    ASSERT_EQ(cuda.runtime().calls().eventDestroy(used), 0);
    ASSERT_EQ(cuda.runtime().calls().streamDestroy(compute), 0);
  }
}

// Shows: F55: however late the bytes come, a copy is over only then.
TEST(CudaCopierTest, f55ACopyIsOverOnlyWithItsEvent) {
  for (int seed = 1; seed <= 10; seed++) {
    EmulatedCuda cuda("micros=5000 seed=" + std::to_string(seed));
    CudaTensors tensors(cuda, {4096}, 4);
    CopierUnderTest copier(cuda, tensors.groups);
    ASSERT_TRUE(copier.attach().ok());
    tensors.write(1, pattern(4096, seed));
    ASSERT_TRUE(copier.start(CopyDirection::kToHost, 1, 3).ok());
    EXPECT_EQ(copier.reap(1), std::vector<uint32_t>{3});
    EXPECT_EQ(copier.staged(3, 4096), pattern(4096, seed)) << "told before it was there";
  }
}

// Shows: V64: what a copy needs is made before the first and never after.
TEST(CudaCopierTest, v64EventsAreMadeBeforehandAndNothingIsMadeOnABlocksWay) {
  EmulatedCuda cuda("micros=0");
  CudaTensors tensors(cuda, {4096, 512, 512}, 4);
  CopierUnderTest copier(cuda, tensors.groups);
  ASSERT_TRUE(copier.attach().ok());
  const uint64_t alive = cuda.alive();
  const uint64_t made = cuda.calls("cudaEventCreateWithFlags");
  for (int round = 0; round < 50; round++) {
    ASSERT_TRUE(copier.start(CopyDirection::kToHost, round % 4, round % 8).ok());
    ASSERT_EQ(copier.reap(1).size(), 1u);
  }
  EXPECT_EQ(cuda.calls("cudaEventCreateWithFlags"), made);
  EXPECT_EQ(cuda.alive(), alive);
}

// Shows: V51: sources of stores are read in the order of the stream, those of loads in any.
TEST(CudaCopierTest, v51AWordAndAnEventHoldACopyBack) {
  EmulatedCuda cuda("seed=5");
  CudaTensors tensors(cuda, {4096, 512, 512, 512}, 4);
  CopierUnderTest copier(cuda, tensors.groups);
  ASSERT_TRUE(copier.attach().ok());
  alignas(8) std::atomic<uint64_t> word{1};
  const CopyEvent after{reinterpret_cast<uint64_t>(&word), 2};
  ASSERT_TRUE(copier.start(CopyDirection::kToHost, 0, 0, after).ok());
  ASSERT_TRUE(copier.start(CopyDirection::kToHost, 1, 1).ok());
  EXPECT_EQ(copier.reap(1), std::vector<uint32_t>{1}) << "it does not hold others back";
  EXPECT_EQ((*copier).pending(), 1u);
  tensors.write(0, pattern(5632, 9));
  word = 2;
  EXPECT_EQ(copier.reap(1), std::vector<uint32_t>{0});
  EXPECT_EQ(copier.staged(0, 5632), pattern(5632, 9));
  ASSERT_TRUE(copier.start(CopyDirection::kToHost, 0, 0, {after.address, 3}).ok());
  EXPECT_TRUE((*copier).withdraw(0));
  EXPECT_FALSE((*copier).withdraw(0));
  EXPECT_EQ((*copier).pending(), 0u);
}

// Shows: V186 V189: chunks of whole slots; each is given back.
TEST(CudaCopierTest, v186StagingIsRegisteredInChunksOfWholeSlots) {
  EmulatedCuda cuda("micros=0");
  CudaTensors tensors(cuda, {20 << 20}, 2);
  CopierUnderTest copier(cuda, tensors.groups);
  ASSERT_TRUE(copier.attach().ok());
  EXPECT_EQ(cuda.calls("cudaHostRegister"), 3u) << "8 slots of 20 MiB, 3 a chunk";
  for (uint32_t token = 0; token < 8; token++) {
    ASSERT_TRUE(copier.start(CopyDirection::kToHost, 0, token).ok());
  }
  EXPECT_EQ(copier.reap(8).size(), 8u) << "no copy crosses from one chunk into another";
  copier.detach();
  EXPECT_EQ(cuda.calls("cudaHostUnregister"), 3u);
  EXPECT_EQ(cuda.alive(), 1u);
}

TEST(CudaCopierTest, v186SlotsThatAreNoWholePagesAreRefused) {
  EmulatedCuda cuda("");
  CudaTensors tensors(cuda, {4096}, 2);
  auto copier = makeCudaCopier(cuda.runtime(), 0, tensors.groups, 2);
  HostMemory memory(1 << 20, "");
  const Status status = copier->attach({memory.data(), 5000, 2}, [] {});
  EXPECT_NE(status.cause.find("5000 bytes a slot; whole pages would be right"), std::string::npos);
  EXPECT_EQ(cuda.alive(), 1u);
}

// Shows: V187: whoever captures a graph elsewhere is not disturbed.
TEST(CudaCopierTest, v187TheLanesThreadBreaksNoCapture) {
  EmulatedCuda cuda("");
  CudaTensors tensors(cuda, {4096}, 2);
  CopierUnderTest copier(cuda, tensors.groups);
  ASSERT_TRUE(copier.attach().ok());
  EXPECT_EQ(cuda.captureMode(), kCudaCaptureModeRelaxed);
}

// Shows: V185: whatever fails while it attaches is told by name, and what was taken is given back.
TEST(CudaCopierTest, v185AFailureWhileAttachingIsNamedAndLeavesNothing) {
  for (const char* call :
       {"cudaSetDevice", "cudaThreadExchangeStreamCaptureMode", "cudaDeviceGetStreamPriorityRange",
        "cudaStreamCreateWithPriority", "cudaEventCreateWithFlags", "cudaHostRegister",
        "cudaDeviceGetAttribute"}) {
    EmulatedCuda cuda("");
    CudaTensors tensors(cuda, {4096}, 2);
    cuda.configure(std::string("fail=") + call + ":1:2");
    CopierUnderTest copier(cuda, tensors.groups);
    const Status status = copier.attach();
    EXPECT_EQ(status.error, 2);
    EXPECT_EQ(status.cause, std::string(call) + ": cudaErrorMemoryAllocation (as emulated)");
    EXPECT_EQ(cuda.alive(), 1u) << call;
    cuda.configure("");
  }
}

// Shows: F18 F19 V12 V18 V19 V52: a failing call is told once, with its name, and nothing of that
// event is ever reported as done; all that was under way is handed back when the stream is idle.
TEST(CudaCopierTest, f19AFailureIsToldOnceAndHandsBackOnlyWhatIsIdle) {
  for (const char* call : {"cudaMemcpyAsync", "cudaEventRecord", "cudaEventQuery",
                           "cudaLaunchHostFunc", "cudaMemcpyBatchAsync"}) {
    const bool batch = std::string(call) == "cudaMemcpyBatchAsync";
    EmulatedCuda cuda(batch ? "" : "version=12040");
    CudaTensors tensors(cuda, {4096, 512, 512, 700}, 4);
    CopierUnderTest copier(cuda, tensors.groups);
    ASSERT_TRUE(copier.attach().ok());
    cuda.configure(std::string(batch ? "" : "version=12040 ") + "fail=" + call + ":1:719");
    for (uint32_t token = 0; token < 4; token++) {
      static_cast<void>(copier.start(CopyDirection::kToHost, token, token));
    }
    const auto before = copier.reap(4);
    EXPECT_FALSE(copier.failure.ok()) << call;
    EXPECT_EQ(copier.failure.error, 719);
    EXPECT_NE(copier.failure.cause.find(std::string(call) + ": cudaErrorLaunchFailure"),
              std::string::npos)
        << copier.failure.cause;
    const uint32_t left = (*copier).pending();
    EXPECT_GT(left, 0u) << call;
    EXPECT_EQ(copier.reap(left).size(), left) << call;
    EXPECT_TRUE(copier.failure.ok()) << "told once";
    EXPECT_FALSE(copier.start(CopyDirection::kToHost, 0, 0).ok()) << "sticky";
    copier.detach();
    EXPECT_EQ(cuda.alive(), 4u) << call;
  }
}

// A copy of which a part has begun when a later part fails still belongs to the device.
TEST(CudaCopierTest, aCopyThatFailsHalfWayKeepsItsSlotUntilTheStreamIsIdle) {
  EmulatedCuda cuda("version=12040 micros=20000 seed=11");
  CudaTensors tensors(cuda, {4096, 512, 700}, 4);
  CopierUnderTest copier(cuda, tensors.groups);
  ASSERT_TRUE(copier.attach().ok());
  cuda.configure("version=12040 micros=20000 seed=11 fail=cudaMemcpyAsync:3:1");
  ASSERT_TRUE(copier.start(CopyDirection::kToHost, 0, 0).ok());
  EXPECT_EQ((*copier).pending(), 1u);
  EXPECT_TRUE(copier.reap(1).empty());
  EXPECT_EQ(copier.reap(1), std::vector<uint32_t>{0});
  EXPECT_EQ(cuda.runtime().calls().getErrorName(1), std::string("cudaErrorInvalidValue"));
}

TEST(CudaCopierTest, aLostDeviceGivesEverythingBack) {
  EmulatedCuda cuda("");
  CudaTensors tensors(cuda, {4096, 512, 700}, 4);
  {
    CopierUnderTest copier(cuda, tensors.groups);
    ASSERT_TRUE(copier.attach().ok());
    cuda.configure("lose=2");
    for (uint32_t token = 0; token < 4; token++) {
      // The device may be lost while they are still being started.
      static_cast<void>(copier.start(CopyDirection::kToHost, token, token));
    }
    const auto before = copier.reap(4);
    EXPECT_LE(before.size(), 1u);
    EXPECT_EQ(copier.failure.error, 719);
    const uint32_t left = (*copier).pending();
    EXPECT_EQ(copier.reap(left).size(), left);
    EXPECT_EQ((*copier).pending(), 0u);
  }
  cuda.configure("");
}

// The default stream has the handle 0.
TEST(CudaCopierTest, theDefaultStreamIsWaitedFor) {
  EmulatedCuda cuda("seed=3 micros=100");
  CudaTensors tensors(cuda, {4096}, 4);
  CopierUnderTest copier(cuda, tensors.groups);
  ASSERT_TRUE(copier.attach().ok());
  for (int round = 1; round < 10; round++) {
    cuda.kernel(nullptr, tensors.address(0), round, 4096, 300);
    ASSERT_TRUE(
        copier.start(CopyDirection::kToHost, 0, 1, {0, 0, CopyEventKind::kCudaStream}).ok());
    ASSERT_EQ(copier.reap(1).size(), 1u);
    ASSERT_EQ(copier.staged(1, 4096), std::vector<uint8_t>(4096, round));
  }
}

// Shows: V59: staging in small pages does as well as in huge ones.
TEST(CudaCopierTest, v59SmallPagesAndHugeOnesGiveTheSameBytes) {
  EmulatedCuda cuda("seed=9");
  CudaTensors tensors(cuda, {2112, 9216}, 4);
  constexpr uint64_t kSlotBytes = 12288;
  const HostMemory huge(4 * kSlotBytes, "nothing");
  void* raw =
      mmap(nullptr, 4 * kSlotBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(raw, MAP_FAILED);
  madvise(raw, 4 * kSlotBytes, MADV_NOHUGEPAGE);
  tensors.write(2, pattern(11328, 5));
  for (uint8_t* memory : {huge.data(), static_cast<uint8_t*>(raw)}) {
    auto copier = makeCudaCopier(cuda.runtime(), 0, tensors.groups, 4);
    ASSERT_TRUE(copier->attach({memory, kSlotBytes, 4}, [] {}).ok());
    ASSERT_TRUE(
        copier
            ->start(
                {CopyDirection::kToHost, GroupIndex{0}, DeviceBlock{2}, memory + kSlotBytes, {}, 1})
            .ok());
    uint32_t count = 0;
    std::vector<uint32_t> tokens(4);
    while (count == 0) ASSERT_TRUE(copier->reap(tokens, count).ok());
    EXPECT_EQ(std::vector<uint8_t>(memory + kSlotBytes, memory + kSlotBytes + 11328),
              pattern(11328, 5));
    copier->detach();
  }
  munmap(raw, 4 * kSlotBytes);
}

// Shows: case86: memory is freed by another thread, whose own device stays what it was.
TEST(CudaRuntimeTest, case86AFreeFromAnotherThreadLeavesItsDeviceAlone) {
  EmulatedCuda cuda("");
  const CudaMemory memory(cuda.runtime(), 2);
  uint64_t address = 0;
  ASSERT_TRUE(memory.allocate(4096, address).ok());
  std::thread collector([&] {
    ASSERT_EQ(cuda.runtime().calls().setDevice(1), 0);
    EXPECT_TRUE(memory.release(address).ok());
    int device = -1;
    ASSERT_EQ(cuda.runtime().calls().getDevice(&device), 0);
    EXPECT_EQ(device, 1);
  });
  collector.join();
  EXPECT_EQ(cuda.alive(), 0u);
}

// Whoever sleeps is woken.
TEST(CudaCopierTest, theDeviceCallsWhenCopiesMayBeComplete) {
  EmulatedCuda cuda("micros=2000");
  CudaTensors tensors(cuda, {4096}, 4);
  CopierUnderTest copier(cuda, tensors.groups);
  ASSERT_TRUE(copier.attach().ok());
  EXPECT_FALSE((*copier).willWake());
  for (uint32_t token = 0; token < 4; token++) {
    ASSERT_TRUE(copier.start(CopyDirection::kToHost, token, token).ok());
  }
  EXPECT_EQ(copier.reap(4).size(), 4u);
  copier.detach();
  EXPECT_GE(copier.woken(), 1u);
}

// A call comes behind what was begun before it was asked for: not at once, and again and again
// while nothing is complete.
TEST(CudaCopierTest, theCallWaitsForTheCopyItIsAskedFor) {
  EmulatedCuda cuda("micros=10");
  CudaTensors tensors(cuda, {4096}, 4);
  CopierUnderTest copier(cuda, tensors.groups);
  ASSERT_TRUE(copier.attach().ok());
  const CudaStream compute = cuda.stream();
  cuda.kernel(compute, tensors.address(0), 0x33, 4096, 200'000);
  const CopyEvent after{reinterpret_cast<uint64_t>(compute), 0, CopyEventKind::kCudaStream};
  ASSERT_TRUE(copier.start(CopyDirection::kToHost, 0, 0, after).ok());
  uint64_t looks = 0;
  while (cuda.runtime().calls().streamQuery(compute) == kCudaErrorNotReady) {
    std::vector<uint32_t> tokens(1);
    uint32_t count = 0;
    ASSERT_TRUE((*copier).reap(tokens, count).ok());
    looks++;
    if (count > 0) break;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  EXPECT_GT(looks, 10u) << "too few looks show nothing";
  EXPECT_LE(cuda.calls("cudaLaunchHostFunc"), 2u) << "called while nothing was complete";
  if ((*copier).pending() > 0) {
    EXPECT_EQ(copier.reap(1).size(), 1u);
  }
  ASSERT_EQ(cuda.runtime().calls().streamDestroy(compute), 0);
}

// Each rank has its device, also where a thread has used another before.
TEST(CudaCopierTest, theDeviceIsSetOnTheThread) {
  EmulatedCuda cuda("");
  CudaTensors tensors(cuda, {4096}, 4, 0, 2);
  CopierUnderTest copier(cuda, tensors.groups, 2);
  ASSERT_TRUE(copier.attach().ok());
  ASSERT_TRUE(copier.start(CopyDirection::kToHost, 1, 1).ok());
  EXPECT_EQ(copier.reap(1).size(), 1u) << copier.failure.cause;
}

// Shows: V191: the form of the batch copy goes by the version; before 12.8 there is none.
TEST(CudaRuntimeTest, v191TheBatchCopyIsTakenByVersion) {
  const EmulatedCuda thirteen("version=13000");
  EXPECT_NE(thirteen.runtime().calls().memcpyBatch13, nullptr);
  const EmulatedCuda twelve("version=12080");
  EXPECT_NE(twelve.runtime().calls().memcpyBatch12, nullptr);
  EXPECT_EQ(twelve.runtime().calls().memcpyBatch13, nullptr);
  const EmulatedCuda eleven("version=11080");
  EXPECT_FALSE(eleven.runtime().hasBatchCopy());
}

TEST(CudaRuntimeTest, case51AMissingRuntimeOrDeviceIsSaidAndNothingHangs) {
  std::string why;
  EXPECT_EQ(CudaRuntime::load("/nowhere/libcudart.so", why), nullptr);
  EXPECT_NE(why.find("no CUDA runtime at the given path: /nowhere/libcudart.so"),
            std::string::npos);
  EXPECT_NE(describeCuda("/nowhere/libcudart.so").find("usable=0"), std::string::npos);
  EmulatedCuda none("devices=0");
  const std::string text = describeCuda(none.path());
  EXPECT_NE(text.find("usable=0"), std::string::npos);
  EXPECT_NE(text.find("cudaGetDeviceCount: cudaErrorNoDevice"), std::string::npos) << text;
  const std::string well = describeCuda(EmulatedCuda("devices=2").path());
  EXPECT_NE(well.find("usable=1"), std::string::npos);
  EXPECT_NE(well.find("device.1.freeBytes="), std::string::npos) << well;
}

TEST(CudaRuntimeTest, aLibraryThatIsNoRuntimeIsRefusedWithWhatItLacks) {
  std::string why;
  EXPECT_EQ(CudaRuntime::load("libm.so.6", why), nullptr);
  EXPECT_NE(why.find("libm.so.6 lacks cudaRuntimeGetVersion"), std::string::npos) << why;
}

}  // namespace
}  // namespace spillway
