#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <numeric>

#include "device/CudaRuntime.h"
#include "device/DeviceCopier.h"

namespace spillway {
namespace {

// Two tensors with gaps between their blocks: 3 of 5 bytes and 2 of 4.
struct TwoPieces {
  std::vector<uint8_t> first = std::vector<uint8_t>(20);
  std::vector<uint8_t> second = std::vector<uint8_t>(16);
  std::vector<PieceTable> groups;

  TwoPieces() {
    std::iota(first.begin(), first.end(), uint8_t{10});
    std::iota(second.begin(), second.end(), uint8_t{100});
    groups.push_back({{{first.data(), 5, 3}, {second.data(), 4, 2}}, 5, 4});
  }
};

uint32_t reapAll(DeviceCopier& copier) {
  std::vector<uint32_t> tokens(8);
  uint32_t count = 0;
  EXPECT_TRUE(copier.reap(tokens, count).ok());
  return count;
}

TEST(HostCopierTest, packsPiecesBackToBackAndLeavesGapsAlone) {
  TwoPieces memory;
  auto copier = makeHostCopier(memory.groups, 4);
  std::vector<uint8_t> staging(6, 0xee);
  const CopyRequest out{
      CopyDirection::kToHost, GroupIndex{0}, DeviceBlock{2}, staging.data(), {}, 9};
  ASSERT_TRUE(copier->start(out).ok());
  EXPECT_EQ(reapAll(*copier), 1u);
  EXPECT_EQ(staging, (std::vector<uint8_t>{20, 21, 22, 108, 109, 0xee}));

  const auto before = memory.first;
  std::fill(staging.begin(), staging.end(), uint8_t{1});
  const CopyRequest in{
      CopyDirection::kToDevice, GroupIndex{0}, DeviceBlock{0}, staging.data(), {}, 9};
  ASSERT_TRUE(copier->start(in).ok());
  EXPECT_EQ(memory.first[2], 1);
  EXPECT_EQ(memory.first[3], before[3]);
  EXPECT_EQ(memory.first[4], before[4]);
}

TEST(HostCopierTest, aCopyWaitsForItsEvent) {
  TwoPieces memory;
  auto copier = makeHostCopier(memory.groups, 4);
  alignas(8) std::atomic<uint64_t> computed{6};
  std::vector<uint8_t> staging(6);
  const CopyEvent after{reinterpret_cast<uint64_t>(&computed), 7};
  ASSERT_TRUE(
      copier
          ->start({CopyDirection::kToHost, GroupIndex{0}, DeviceBlock{0}, staging.data(), after, 1})
          .ok());
  EXPECT_EQ(reapAll(*copier), 0u);
  EXPECT_EQ(copier->pending(), 1u);
  memory.first[0] = 77;
  computed = 7;
  EXPECT_EQ(reapAll(*copier), 1u);
  EXPECT_EQ(staging[0], 77);
}

TEST(HostCopierTest, aBlockOutsideTheDeviceIsAnEngineFault) {
  TwoPieces memory;
  auto copier = makeHostCopier(memory.groups, 4);
  std::vector<uint8_t> staging(6);
  const CopyRequest request{
      CopyDirection::kToHost, GroupIndex{0}, DeviceBlock{4}, staging.data(), {}, 1};
  EXPECT_DEATH((void)copier->start(request), "device block 4 of 4");
}

// F8, V191: the look-up of the batch copy may fail, be missing, or say success with a null pointer.
TEST(CudaRuntimeTest, f8BatchCopyIsUsedOnlyWithStatusAndPointer) {
  int entry = 0;
  EXPECT_TRUE(batchCopyUsable({0, &entry}));
  EXPECT_FALSE(batchCopyUsable({0, nullptr}));
  EXPECT_FALSE(batchCopyUsable({500, nullptr}));
  EXPECT_FALSE(batchCopyUsable({500, &entry}));
}

TEST(CudaRuntimeTest, theProbeSaysFoundOrWhyNot) {
  const std::string text = describeCuda("");
  EXPECT_TRUE(text.find("usable=1") != std::string::npos || text.find("why=") != std::string::npos);
}

}  // namespace
}  // namespace spillway
