// The engine without Java: what its lanes cost beside a bare ring, with all their work or a part.
//
//   engine-lanes MODE WORK DIR SLOTS BLOCK_BYTES DEPTH SECONDS SEED
//
//   MODE   fill (stores every slot once, at the least), load, store (random slots), or both at once
//   WORK   all, none (blocks go between disk and staging only), checksum, copy
//
// Prints one line: {"bytes":N,"seconds":S,"cpuSeconds":C,"depth":D,"enters":E}, where depth is the
// mean of requests in flight and enters counts system calls of the lanes' rings a block. What is
// left out is left out by the linker (--wrap), not by the library, and only here.
#include <sys/resource.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "KvEngine.h"
#include "base/Clock.h"
#include "base/Ids.h"
#include "device/DeviceCopier.h"

namespace spillway {
namespace {

bool skipsChecksum = false;
bool skipsCopy = false;

// Copies nothing, at once.
class IdleCopier final : public DeviceCopier {
 public:
  Status attach(const StagingMemory&, std::function<void()>) override { return Status::well(); }
  Status start(const CopyRequest& request) override {
    tokens_.push_back(request.token);
    return Status::well();
  }
  Status reap(std::span<uint32_t> tokens, uint32_t& count) override {
    for (count = 0; count < tokens.size() && !tokens_.empty(); tokens_.pop_back()) {
      tokens[count++] = tokens_.back();
    }
    return Status::well();
  }
  bool withdraw(uint32_t) override { return false; }
  uint32_t pending() const override { return static_cast<uint32_t>(tokens_.size()); }

 private:
  std::vector<uint32_t> tokens_;
};

}  // namespace

using Groups = std::vector<PieceTable>;
extern "C" {
uint64_t __real__ZN8spillway8checksumEPKvmm(const void* data, size_t bytes, uint64_t seed);
uint64_t __wrap__ZN8spillway8checksumEPKvmm(const void* data, size_t bytes, uint64_t seed) {
  return skipsChecksum ? 0 : __real__ZN8spillway8checksumEPKvmm(data, bytes, seed);
}
std::unique_ptr<DeviceCopier>
__real__ZN8spillway14makeHostCopierERKSt6vectorINS_10PieceTableESaIS1_EEj(const Groups& groups,
                                                                          uint32_t pendingMax);
std::unique_ptr<DeviceCopier>
__wrap__ZN8spillway14makeHostCopierERKSt6vectorINS_10PieceTableESaIS1_EEj(const Groups& groups,
                                                                          uint32_t pendingMax) {
  if (skipsCopy) return std::make_unique<IdleCopier>();
  return __real__ZN8spillway14makeHostCopierERKSt6vectorINS_10PieceTableESaIS1_EEj(groups,
                                                                                   pendingMax);
}
}

namespace {

constexpr uint32_t kDeviceBlocks = 256;  // of each direction
constexpr uint32_t kBatch = 32;
constexpr uint64_t kSeed = 7;  // one pattern and one seed: every slot has the same checksum

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "engine-lanes: %s\n", what.c_str());
  std::exit(1);
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
  uint64_t slots = 0;
  uint32_t blockBytes = 0;
  uint64_t expected = 0;
  std::mt19937_64 random;
  uint64_t nextSlot = 0;
  uint32_t nextBlock[2] = {};
};

// Keeps this many blocks of one direction on their way.
class Flow {
 public:
  Flow(Run& run, KvEngine& engine, Operation operation)
      : run_(run), engine_(engine), operation_(operation), records_(kBatch) {}

  void feed(uint64_t most) {
    while (open_ + kBatch <= kDeviceBlocks && begun_ < most) {
      for (DownRecord& record : records_) next(record);
      if (engine_.submit(records_.data(), kBatch) != kBatch) fail("a batch was not taken");
      open_ += kBatch;
      begun_ += kBatch;
    }
  }
  bool ended(const UpRecord& up) {
    if (static_cast<Operation>(up.ticket >> 32) != operation_) return false;
    if (static_cast<Outcome>(up.outcome) != Outcome::kDone) fail("a block did not end well");
    open_--;
    return true;
  }
  uint32_t open() const { return open_; }

 private:
  void next(DownRecord& record) {
    const bool loads = operation_ == Operation::kLoad;
    record = {};
    record.ticket = static_cast<uint64_t>(operation_) << 32;
    record.operation = static_cast<uint16_t>(operation_);
    record.slot =
        static_cast<uint32_t>((run_.mode == "fill" ? run_.nextSlot++ : run_.random()) % run_.slots);
    record.deviceBlock = (loads ? kDeviceBlocks : 0) + run_.nextBlock[loads]++ % kDeviceBlocks;
    record.checksumSeed = kSeed;
    record.expectedChecksum = run_.expected;
  }

  Run& run_;
  KvEngine& engine_;
  Operation operation_;
  std::vector<DownRecord> records_;
  uint32_t open_ = 0;
  uint64_t begun_ = 0;
};

uint64_t go(Run& run, KvEngine& engine, int64_t nanos) {
  const bool fills = run.mode == "fill";
  Flow loads(run, engine, Operation::kLoad);
  Flow stores(run, engine, Operation::kStore);
  std::vector<UpRecord> ups(2 * kDeviceBlocks);
  const int64_t until = monotonicNanos() + nanos;
  uint64_t count = 0;
  for (bool over = false; !over || loads.open() + stores.open() > 0;) {
    over = over || (fills ? run.nextSlot >= run.slots : monotonicNanos() >= until);
    if (!over && (run.mode == "load" || run.mode == "both")) loads.feed(UINT64_MAX);
    if (!over && run.mode != "load") stores.feed(fills ? run.slots : UINT64_MAX);
    const int32_t ended = engine.poll(ups.data(), static_cast<int32_t>(ups.size()));
    for (int32_t i = 0; i < ended; i++) {
      if (!loads.ended(ups[i]) && !stores.ended(ups[i])) fail("an ending of no block");
    }
    count += static_cast<uint64_t>(ended);
    if (ended == 0) engine.await(1'000'000'000);
  }
  return count * run.blockBytes;
}

struct Opening {
  OpenRecord record;
  GroupRecord group;
  PieceRecord piece;
};

int report(const Run& run, KvEngine& engine, uint64_t bytes, double seconds, double cpu) {
  int64_t counters[KvEngine::kCounterCount] = {};
  engine.counters(counters);
  const int64_t* store = counters;
  const int64_t* load = counters + KvEngine::kLaneCounterCount;
  const int64_t busy = std::max(store[6], load[6]);
  const double depth =
      busy == 0 ? 0 : static_cast<double>(store[7] + load[7]) / static_cast<double>(busy);
  std::printf(
      "{\"bytes\":%lu,\"seconds\":%.6f,\"cpuSeconds\":%.6f,\"depth\":%.2f,\"enters\":%.3f}\n",
      static_cast<unsigned long>(bytes), seconds, cpu, depth,
      static_cast<double>(store[8] + load[8]) * run.blockBytes / static_cast<double>(bytes));
  return 0;
}

int main(char** argv) {
  Run run;
  run.mode = argv[1];
  const std::string work = argv[2];
  const bool checks = work == "all" || work == "checksum";
  skipsCopy = work == "none" || work == "checksum";
  run.slots = std::strtoull(argv[4], nullptr, 10);
  run.blockBytes = static_cast<uint32_t>(std::strtoul(argv[5], nullptr, 10));
  run.random.seed(std::strtoull(argv[8], nullptr, 10));
  const int64_t device = mapHostMemory(int64_t{2} * kDeviceBlocks * run.blockBytes);
  if (device == 0) fail(memoryFailure());
  std::memset(reinterpret_cast<void*>(device), 0x5a, size_t{2} * kDeviceBlocks * run.blockBytes);
  run.expected = checks ? static_cast<uint64_t>(checksumOf(device, run.blockBytes, kSeed)) : 0;

  Opening opening{};
  OpenRecord& record = opening.record;
  record.version = kRecordVersion;
  record.rankCount = 1;
  record.groupCount = 1;
  record.capacityBytes = run.slots * run.blockBytes;
  record.stagingBytesMax = uint64_t{256} << 20;
  record.queueDepth = static_cast<uint32_t>(std::strtoul(argv[6], nullptr, 10));
  record.direct = 1;
  record.blocksInFlightMax = 16384;
  opening.group = {16, 1, 2 * kDeviceBlocks};
  opening.piece = {static_cast<uint64_t>(device), run.blockBytes, run.blockBytes};
  KvEngine engine;
  if (engine.open(argv[3], "benchmark", "", &record) != 0) fail(engine.message());
  skipsChecksum = !checks;  // the superblock has been checked
  const double cpu = cpuSeconds();
  const int64_t begun = monotonicNanos();
  const uint64_t bytes = go(run, engine, static_cast<int64_t>(std::strtod(argv[7], nullptr) * 1e9));
  const double seconds = static_cast<double>(monotonicNanos() - begun) * 1e-9;
  report(run, engine, bytes, seconds, cpuSeconds() - cpu);
  return engine.close(INT64_MAX / 4);
}

}  // namespace
}  // namespace spillway

int main(int argc, char** argv) {
  if (argc != 9) {
    std::fprintf(stderr,
                 "usage: engine-lanes MODE WORK DIR SLOTS BLOCK_BYTES DEPTH SECONDS SEED\n");
    return 2;
  }
  return spillway::main(argv);
}
