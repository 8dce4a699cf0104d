#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "base/BlockCipher.h"
#include "base/BoundedQueue.h"
#include "base/Checksum.h"
#include "base/Clock.h"
#include "base/Fifo.h"
#include "base/Ids.h"
#include "base/Waker.h"

namespace spillway {
namespace {

TEST(IdsTest, aFreshIdIsInvalidAndAnIndexIsNot) {
  EXPECT_FALSE(DiskSlot{}.valid());
  EXPECT_TRUE(DiskSlot{0}.valid());
}

TEST(IdsTest, roundsToMultiplesThatNeedNotBePowersOfTwo) {
  EXPECT_EQ(roundUp(4224, 4096), 8192u);
  EXPECT_EQ(roundUp(4224, 3000), 6000u);
  EXPECT_EQ(roundDown(6000, 512), 5632u);
}

TEST(BoundedQueueTest, refusesWhenFullAndGivesBackInOrder) {
  BoundedQueue<int> queue(4);
  for (int i = 0; i < 4; i++) EXPECT_TRUE(queue.push(i));
  EXPECT_FALSE(queue.push(4));
  std::vector<int> items(8);
  EXPECT_EQ(queue.pop(items), 4u);
  EXPECT_EQ(items[3], 3);
  EXPECT_TRUE(queue.empty());
}

TEST(BoundedQueueTest, passesEverythingBetweenTwoThreads) {
  constexpr int kCount = 100'000;
  BoundedQueue<int> queue(64);
  std::thread producer([&] {
    for (int i = 0; i < kCount;) i += queue.push(i) ? 1 : 0;
  });
  std::vector<int> items(16);
  int expected = 0;
  while (expected < kCount) {
    const size_t count = queue.pop(items);
    for (size_t i = 0; i < count; i++) ASSERT_EQ(items[i], expected++);
  }
  producer.join();
}

TEST(FifoTest, keepsOrderAcrossItsEnd) {
  Fifo<int> fifo(3);
  fifo.push(1);
  fifo.push(2);
  EXPECT_EQ(fifo.pop(), 1);
  fifo.push(3);
  fifo.push(4);
  EXPECT_EQ(fifo.front(), 2);
  EXPECT_EQ(fifo.pop(), 2);
  EXPECT_EQ(fifo.pop(), 3);
  EXPECT_EQ(fifo.pop(), 4);
  EXPECT_TRUE(fifo.empty());
}

TEST(FifoTest, aFullOneIsAnEngineFault) {
  Fifo<int> fifo(1);
  fifo.push(1);
  EXPECT_DEATH(fifo.push(2), "1 items of 1");
}

TEST(WakerTest, aSignalBeforeTheSleepIsNotLost) {
  Waker waker;
  waker.signal();
  waker.prepare();
  waker.await(-1);
}

TEST(WakerTest, sleepsNoLongerThanItsBound) {
  Waker waker;
  waker.prepare();
  const int64_t begun = monotonicNanos();
  waker.await(1'000'000);
  EXPECT_GE(monotonicNanos() - begun, 900'000);
}

TEST(WakerTest, isWokenByAnotherThread) {
  Waker waker;
  waker.prepare();
  std::thread other([&] { waker.notify(); });
  waker.await(-1);
  other.join();
}

TEST(ChecksumTest, allKernelsAgreeAtEveryLength) {
  std::vector<uint8_t> bytes(70'000);
  for (size_t i = 0; i < bytes.size(); i++) bytes[i] = static_cast<uint8_t>(i * 131 >> 3);
  for (size_t length : {0, 1, 16, 127, 128, 240, 241, 1024, 4096, 4097, 65'536, 70'000}) {
    const uint64_t expected = checksumBaseline(bytes.data(), length, 7);
    EXPECT_EQ(checksum(bytes.data(), length, 7), expected) << length;
  }
}

TEST(ChecksumTest, seedAndEveryByteCount) {
  std::vector<uint8_t> bytes(4096, 1);
  const uint64_t before = checksum(bytes.data(), bytes.size(), 1);
  EXPECT_NE(checksum(bytes.data(), bytes.size(), 2), before);
  bytes[4095] ^= 1;
  EXPECT_NE(checksum(bytes.data(), bytes.size(), 1), before);
}

// A build that falls to scalar code reads 4 GB/s at this size; the vector bodies read 20 and more.
// Only reported here, since sanitizers run this too; the benchmark module has the gate.
TEST(ChecksumTest, saysHowFastItIs) {
  std::vector<uint8_t> bytes(1 << 20, 3);
  uint64_t sum = 0;
  const int64_t begun = monotonicNanos();
  for (int i = 0; i < 64; i++) sum += checksum(bytes.data(), bytes.size(), sum);
  const double seconds = static_cast<double>(monotonicNanos() - begun) / 1e9;
  RecordProperty("checksumGBps", std::to_string(64.0 / 1024 * 1.073741824 / seconds));
  EXPECT_NE(sum, 0u);
  EXPECT_STRNE(checksumKernel(), "");
}

std::vector<uint8_t> fromHex(const std::string& text) {
  std::vector<uint8_t> bytes;
  for (size_t at = 0; at < text.size(); at += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoi(text.substr(at, 2), nullptr, 16)));
  }
  return bytes;
}

// Vector 10 of IEEE 1619: our seed is the data unit's number.
TEST(BlockCipherTest, isTheOneOfTheStandard) {
  const auto key = fromHex(
      "2718281828459045235360287471352662497757247093699959574966967627"
      "3141592653589793238462643383279502884197169399375105820974944592");
  std::string why;
  const auto cipher = BlockCipher::make(key.data(), why);
  if (cipher == nullptr) GTEST_SKIP() << why;
  std::vector<uint8_t> plain(512);
  for (size_t i = 0; i < plain.size(); i++) plain[i] = static_cast<uint8_t>(i);
  auto data = plain;
  ASSERT_TRUE(cipher->encrypt(data.data(), 512, 0xff));
  const auto expected = fromHex("1c3b3a102f770386e4836c99e370cf9bea00803f5e482357a4ae12d414a3e63b");
  EXPECT_EQ(std::vector<uint8_t>(data.begin(), data.begin() + 32), expected);
  ASSERT_TRUE(cipher->decrypt(data.data(), 512, 0xff));
  EXPECT_EQ(data, plain);
  ASSERT_TRUE(cipher->encrypt(data.data(), 512, 0xff));
  ASSERT_TRUE(cipher->decrypt(data.data(), 512, 0xfe));
  EXPECT_NE(data, plain);
}

TEST(BlockCipherTest, aKeyOfTwoSameHalvesIsRefused) {
  const std::vector<uint8_t> key(kCipherKeyBytes, 7);
  std::string why;
  EXPECT_EQ(BlockCipher::make(key.data(), why), nullptr);
  EXPECT_FALSE(why.empty());
}

}  // namespace
}  // namespace spillway
