#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <set>
#include <sstream>

#include "base/Status.h"
#include "staging/StagingSlots.h"

namespace spillway {
namespace {

TEST(StagingSlotsTest, handsOutEachSlotOnceAndThenNone) {
  StagingSlots slots(4, 4096);
  std::set<uint32_t> seen;
  for (int i = 0; i < 4; i++) seen.insert(slots.acquire().index);
  EXPECT_EQ(seen.size(), 4u);
  EXPECT_FALSE(slots.acquire().valid());
}

// A child of the process must not share the pages, or a write of either would move them.
TEST(StagingSlotsTest, f55PinnedPagesAreNotForChildren) {
  StagingSlots slots(4, 4096);
  const auto address = reinterpret_cast<uintptr_t>(slots.memory().data());
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  bool within = false;
  bool kept = false;
  while (std::getline(maps, line)) {
    uintptr_t from = 0;
    uintptr_t to = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2) {
      within = from <= address && address < to;
    }
    if (within && line.rfind("VmFlags:", 0) == 0) {
      kept = line.find(" dc") != std::string::npos;
    }
  }
  EXPECT_TRUE(kept);
}

TEST(StagingSlotsTest, aReleasedSlotComesBack) {
  StagingSlots slots(1, 4096);
  const StagingSlot slot = slots.acquire();
  slots.release(slot);
  EXPECT_EQ(slots.acquire(), slot);
}

TEST(StagingSlotsTest, releasingTwiceIsAnEngineFault) {
  StagingSlots slots(1, 4096);
  const StagingSlot slot = slots.acquire();
  slots.release(slot);
  EXPECT_DEATH(slots.release(slot), "slot 0 is released but was not busy");
}

TEST(StagingSlotsTest, aReleasedSlotIsPoisoned) {
  StagingSlots slots(2, 4096);
  const StagingSlot slot = slots.acquire();
  slots.data(slot)[5] = 1;
  slots.release(slot);
  EXPECT_EQ(slots.data(slot)[5], 0xdb);
}

TEST(StagingSlotsTest, slotsLieAtAlignedAddresses) {
  StagingSlots slots(3, 12288);
  EXPECT_EQ(reinterpret_cast<uint64_t>(slots.data(StagingSlot{0})) % 4096, 0u);
  EXPECT_EQ(slots.data(StagingSlot{2}) - slots.data(StagingSlot{0}), 24576);
}

TEST(HostMemoryTest, liesOnAHugePageBoundaryAndIsNotInherited) {
  HostMemory memory(3 << 20, "");
  EXPECT_EQ(reinterpret_cast<uint64_t>(memory.data()) % (2 << 20), 0u);
  std::ostringstream address;
  address << std::hex << reinterpret_cast<uint64_t>(memory.data()) << "-";
  std::ifstream smaps("/proc/self/smaps");
  std::string line;
  bool found = false;
  bool dontFork = false;
  while (std::getline(smaps, line)) {
    if (line.rfind(address.str(), 0) == 0) found = true;
    if (found && line.rfind("VmFlags:", 0) == 0) {
      dontFork = line.find(" dc") != std::string::npos;
      break;
    }
  }
  EXPECT_TRUE(dontFork) << line;
}

// Case 83 and F7: "out of memory" must say which memory, how much, and what to change.
TEST(HostMemoryTest, f7Case83TooMuchStagingSaysHostMemoryBytesAndRemedy) {
  try {
    HostMemory memory(uint64_t{900} << 30, "lower stagingBytes");
    FAIL();
  } catch (const OpenError& failure) {
    EXPECT_EQ(failure.reason(), OpenReason::kHostMemory);
    const std::string message = failure.what();
    EXPECT_NE(message.find("host memory: 966367641600 bytes asked"), std::string::npos) << message;
    EXPECT_NE(message.find("lower stagingBytes"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace spillway
