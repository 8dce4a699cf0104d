#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "TestFiles.h"
#include "base/Checksum.h"
#include "device/DeviceCopier.h"
#include "disk/Ring.h"
#include "lane/LoadLane.h"
#include "lane/StoreLane.h"

namespace spillway {

// A ring over memory instead of a file, whose answers a test may bend. Completes in the order of
// preparation; `hold` keeps completions back until they are let go.
class MemoryRing final : public Ring {
 public:
  explicit MemoryRing(std::vector<uint8_t>& disk) : disk_(disk) {}

  // What the kernel is to say of a request, after the bytes were moved; by default what moved.
  std::function<int32_t(const IoRequest&, int32_t moved)> answer;
  // A stray completion that comes before each real one, where set.
  std::function<uint64_t(const IoRequest&)> stray;
  // Completions that one enter hands over, at the most.
  size_t mostAtOnce = SIZE_MAX;
  // Every request that was made, in order.
  std::vector<IoRequest> requests;

  Status start(const RingTarget&) override { return failStart; }
  void stop() override {}
  void prepare(const IoRequest& request) override {
    const std::lock_guard lock(mutex_);
    prepared_.push_back(request);
  }
  uint32_t prepared() const override { return static_cast<uint32_t>(prepared_.size()); }

  Status enter(uint32_t waitFor, int64_t timeoutNanos, std::span<IoCompletion> completions,
               uint32_t& count) override {
    std::unique_lock lock(mutex_);
    enters++;
    count = 0;
    if (!failEnter.ok() && takesNothing) return failEnter;
    for (const IoRequest& request : prepared_) complete(request);
    prepared_.clear();
    const auto ready = [&] { return woken_ || (!held_ && completed_.size() >= waitFor); };
    if (timeoutNanos < 0) {
      changed_.wait(lock, ready);
    } else {
      changed_.wait_for(lock, std::chrono::nanoseconds(timeoutNanos), ready);
    }
    woken_ = false;
    count = 0;
    const size_t most = std::min(completions.size(), mostAtOnce);
    while (!held_ && count < most && !completed_.empty()) {
      completions[count++] = completed_.front();
      completed_.pop_front();
    }
    return failEnter;
  }
  uint32_t withdraw(std::span<IoCompletion> completions) override {
    const std::lock_guard lock(mutex_);
    uint32_t count = 0;
    for (const IoRequest& request : prepared_) completions[count++] = {request.userData, -125};
    prepared_.clear();
    return count;
  }
  void wake() override {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    changed_.notify_all();
  }
  void hold() {
    const std::lock_guard lock(mutex_);
    held_ = true;
  }
  void letGo() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }
  // Waits, without a clock, until the ring has taken `count` requests.
  void awaitRequests(size_t count) {
    std::unique_lock lock(mutex_);
    taken_.wait(lock, [&] { return requests.size() >= count; });
  }
  const RingMode& mode() const override { return mode_; }
  RingCounters counters() const override { return {enters, 0, 0}; }

  Status failStart;
  Status failEnter;
  bool takesNothing = false;  // of what was prepared, where enter fails
  std::atomic<uint64_t> enters{0};

 private:
  void complete(const IoRequest& request) {
    requests.push_back(request);
    taken_.notify_all();
    uint8_t* at = disk_.data() + request.offset;
    const bool read = request.direction == IoDirection::kRead;
    const auto whole = static_cast<int32_t>(request.bytes);
    const int32_t result = answer ? answer(request, whole) : whole;
    const auto moved = static_cast<size_t>(std::clamp(result, 0, whole));
    std::memcpy(read ? request.data : at, read ? at : request.data, moved);
    if (stray) completed_.push_back({stray(request), whole});
    completed_.push_back({request.userData, result});
  }

  std::vector<uint8_t>& disk_;
  RingMode mode_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable taken_;
  std::vector<IoRequest> prepared_;
  std::deque<IoCompletion> completed_;
  bool held_ = false;
  bool woken_ = false;
};

// A copier in front of the real host copier that can fail, or hold copies back.
class BendableCopier final : public DeviceCopier {
 public:
  BendableCopier(const std::vector<PieceTable>& groups, uint32_t pendingMax)
      : real_(makeHostCopier(groups, pendingMax)) {}

  Status attach(const StagingMemory&, std::function<void()>) override { return failAttach; }
  Status start(const CopyRequest& request) override {
    if (starts++ == 0 && onFirstStart) onFirstStart();
    return failStart.ok() ? real_->start(request) : failStart;
  }
  Status reap(std::span<uint32_t> tokens, uint32_t& count) override {
    count = 0;
    if (!failReap.ok()) return std::exchange(failReap, Status::well());
    return held ? Status::well() : real_->reap(tokens, count);
  }
  bool withdraw(uint32_t token) override { return real_->withdraw(token); }
  uint32_t pending() const override { return real_->pending(); }

  std::function<void()> onFirstStart;  // on the lane's thread
  Status failAttach;
  Status failReap;  // once; then its copies are handed back
  Status failStart;
  std::atomic<int> starts{0};
  std::atomic<bool> held{false};

 private:
  std::unique_ptr<DeviceCopier> real_;
};

// A lane over a memory ring: 16 slots of 8192 bytes for payloads of 8000, device of 16 blocks.
template <typename SomeLane>
class LaneUnderTest {
 public:
  static constexpr uint32_t kPayload = 8000;
  static constexpr uint32_t kDepth = 4;

  explicit LaneUnderTest(uint32_t depth = kDepth)
      : device(16 * kPayload),
        file_(fileOptions(directory_.path(), kPayload, 16)),
        disk(file_.fileBytes()) {
    groups_.push_back({{{device.data(), kPayload, kPayload}}, kPayload, 16});
    auto memoryRing = std::make_unique<MemoryRing>(disk);
    auto bendable = std::make_unique<BendableCopier>(groups_, 2 * depth);
    ring = memoryRing.get();
    copier = bendable.get();
    LaneParts parts;
    parts.file = &file_;
    parts.groups = &groups_;
    parts.pollWaker = &waker_;
    parts.failure = &failure;
    parts.ring = std::move(memoryRing);
    parts.copier = std::move(bendable);
    parts.queueDepth = depth;
    parts.stagingSlots = 2 * depth;
    parts.stagingSlotBytes = 8192;
    parts.blocksInFlightMax = 64;
    lane = std::make_unique<SomeLane>(std::move(parts));
  }
  ~LaneUnderTest() {
    ring->letGo();
    copier->held = false;
    lane.reset();
  }

  uint64_t slotOffset(uint32_t slot) const { return file_.offsetOf(GroupIndex{0}, DiskSlot{slot}); }
  const BlockFile* file() const { return &file_; }
  const std::vector<PieceTable>* groups() const { return &groups_; }
  uint8_t* block(uint32_t index) { return device.data() + index * kPayload; }

  // Fills a slot on the disk, and answers the record that loads it into the block of that number.
  DownRecord stored(uint32_t slot, uint8_t fill) {
    std::fill_n(disk.data() + slotOffset(slot), kPayload, fill);
    DownRecord record = down(Operation::kLoad, slot);
    record.expectedChecksum =
        checksum(disk.data() + slotOffset(slot), kPayload, record.checksumSeed);
    return record;
  }
  static DownRecord down(Operation operation, uint32_t slot) {
    DownRecord record{};
    record.ticket = 100 + slot;
    record.operation = static_cast<uint16_t>(operation);
    record.deviceBlock = slot;
    record.slot = slot;
    record.checksumSeed = 40 + slot;
    return record;
  }
  void submit(const DownRecord& record) {
    ASSERT_TRUE(lane->submit(record));
    lane->submitted();
  }
  // Waits for the endings of `count` blocks and answers them by slot.
  std::vector<UpRecord> endings(size_t count) {
    std::vector<UpRecord> all(count);
    for (size_t have = 0; have < count;) {
      waker_.prepare();
      if (lane->hasEndings()) {
        waker_.cancel();
      } else {
        waker_.await(-1);
      }
      have += lane->poll(std::span(all).subspan(have));
    }
    std::sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.ticket < b.ticket; });
    return all;
  }

  EngineFailure failure;

 private:
  TemporaryDirectory directory_;
  std::vector<PieceTable> groups_;
  Waker waker_;

 public:
  std::vector<uint8_t> device;

 private:
  ClaimedFile file_;

 public:
  std::vector<uint8_t> disk;
  MemoryRing* ring = nullptr;
  BendableCopier* copier = nullptr;
  std::unique_ptr<SomeLane> lane;
};

}  // namespace spillway
