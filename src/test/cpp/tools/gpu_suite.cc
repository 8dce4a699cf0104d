// The device path on a real GPU: what the emulated runtime cannot show. One program, no CUDA and no
// Java needed to build or start it; under four minutes.
//
//   gpu-suite [--library PATH] [--directory DIR] [--quick]
//
// A line a check, "PASS name" or "FAIL name: why", and a line a figure, "FIGURE name value unit".
// Ends with 0 where all passed, 1 where one failed, 77 where there is no GPU, with the reason.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "KvEngine.h"
#include "base/Checksum.h"
#include "base/FaultPlan.h"
#include "device/CudaRuntime.h"
#include "device/DeviceCopier.h"
#include "staging/StagingSlots.h"

namespace spillway {
namespace {

constexpr int kDeviceToDevice = 3;

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

struct Suite {
  const CudaRuntime* cuda = nullptr;
  std::string library;
  std::string directory = "/var/tmp";
  bool quick = false;
  int failures = 0;

  void check(const std::string& name, const std::function<std::string()>& body) {
    const std::string why = body();
    if (why.empty()) {
      std::printf("PASS %s\n", name.c_str());
    } else {
      std::printf("FAIL %s: %s\n", name.c_str(), why.c_str());
      failures++;
    }
    std::fflush(stdout);
  }
  static void figure(const std::string& name, double value, const char* unit) {
    std::printf("FIGURE %-44s %10.3f %s\n", name.c_str(), value, unit);
    std::fflush(stdout);
  }
};

// Tensors of one group on device 0.
struct Tensors {
  CudaMemory memory;
  PieceTable table;
  std::vector<uint64_t> allocations;
  std::string failure;

  // `together` puts all tensors into one allocation at one distance, so that rows can be copied.
  Tensors(const Suite& suite, const std::vector<uint64_t>& pieceBytes, uint32_t blocks,
          bool together)
      : memory(*suite.cuda, 0) {
    table.deviceBlocks = blocks;
    uint64_t all = 0;
    for (const uint64_t bytes : pieceBytes) all += bytes * blocks;
    uint64_t base = together ? allocate(all) : 0;
    for (const uint64_t bytes : pieceBytes) {
      const uint64_t place = together ? base : allocate(bytes * blocks);
      table.pieces.push_back({reinterpret_cast<uint8_t*>(place), bytes, bytes});
      table.payloadBytes += bytes;
      base += bytes * blocks;
    }
  }
  ~Tensors() {
    for (const uint64_t address : allocations) static_cast<void>(memory.release(address));
  }
  Tensors(const Tensors&) = delete;
  Tensors& operator=(const Tensors&) = delete;

  uint64_t allocate(uint64_t bytes) {
    uint64_t address = 0;
    const Status status = memory.allocate(bytes, address);
    if (!status.ok()) failure = status.cause;
    allocations.push_back(address);
    return address;
  }
  static uint64_t at(const Piece& piece, uint32_t block) {
    return reinterpret_cast<uint64_t>(piece.base) + block * piece.stride;
  }
  void write(uint32_t block, const std::vector<uint8_t>& bytes) {
    uint64_t from = 0;
    for (const Piece& piece : table.pieces) {
      note(memory.write(at(piece, block), bytes.data() + from, piece.bytes));
      from += piece.bytes;
    }
  }
  std::vector<uint8_t> read(uint32_t block) {
    std::vector<uint8_t> bytes(table.payloadBytes);
    uint64_t from = 0;
    for (const Piece& piece : table.pieces) {
      note(memory.read(at(piece, block), bytes.data() + from, piece.bytes));
      from += piece.bytes;
    }
    return bytes;
  }
  void note(const Status& status) {
    if (!status.ok() && failure.empty()) failure = status.cause;
  }
};

std::vector<uint8_t> pattern(uint64_t bytes, uint32_t number) {
  std::vector<uint8_t> all(bytes);
  for (uint64_t i = 0; i < bytes; i++) {
    all[i] = static_cast<uint8_t>(number * 31 + i * 7 + (i >> 8) + 1);
  }
  return all;
}

// How an engine differs from the usual one: over device 0, without faults.
struct Setup {
  EngineKind kind = EngineKind::kAuto;
  DeviceKind deviceKind = DeviceKind::kCuda;
  uint32_t ordinal = 0;
  std::vector<FaultRecord> faults;
};

// An engine over these blocks and a file in a folder of its own.
class Engine {
 public:
  Engine(const Suite& suite, const PieceTable& table, uint64_t slots, const Setup& setup = {})
      : folder_(std::filesystem::path(suite.directory) /
                ("gpu-suite-" + std::to_string(getpid()) + "-" + std::to_string(next_++))) {
    std::filesystem::create_directories(folder_);
    std::vector<uint64_t> words((sizeof(OpenRecord) + sizeof(GroupRecord) +
                                 table.pieces.size() * sizeof(PieceRecord) +
                                 setup.faults.size() * sizeof(FaultRecord)) /
                                8);
    auto* record = reinterpret_cast<OpenRecord*>(words.data());
    record->version = kRecordVersion;
    record->rankCount = 1;
    record->groupCount = 1;
    record->capacityBytes = roundUp(table.payloadBytes, 4096) * slots;
    record->stagingBytesMax = uint64_t{256} << 20;
    record->queueDepth = 32;
    record->engineKind = static_cast<uint32_t>(setup.kind);
    record->direct = 1;
    record->blocksInFlightMax = 4096;
    record->fingerprint = table.payloadBytes;
    record->faultSeed = 7;
    record->faultCount = static_cast<uint32_t>(setup.faults.size());
    record->deviceKind = static_cast<uint32_t>(setup.deviceKind);
    record->deviceOrdinal = setup.ordinal;
    auto* group = reinterpret_cast<GroupRecord*>(record + 1);
    *group = {16, static_cast<uint32_t>(table.pieces.size()), table.deviceBlocks};
    auto* pieces = reinterpret_cast<PieceRecord*>(group + 1);
    for (const Piece& piece : table.pieces) {
      *pieces++ = {reinterpret_cast<uint64_t>(piece.base), piece.stride, piece.bytes};
    }
    std::copy(setup.faults.begin(), setup.faults.end(), reinterpret_cast<FaultRecord*>(pieces));
    opened = engine_.open(folder_.c_str(), "gpu-suite", suite.library.c_str(), record) == 0;
    message = engine_.message();
  }
  ~Engine() {
    close();
    std::filesystem::remove_all(folder_);
  }
  bool close() {
    const bool well = !opened || engine_.close(30'000'000'000) == 0;
    opened = false;
    return well;
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  DownRecord down(Operation operation, uint32_t slot, uint32_t block) {
    DownRecord record{};
    record.ticket = ++ticket_;
    record.operation = static_cast<uint16_t>(operation);
    record.deviceBlock = block;
    record.slot = slot;
    record.checksumSeed = slot + 3;
    record.expectedChecksum = sums_[slot];
    slotOf_[record.ticket] = slot;
    return record;
  }
  void submit(const DownRecord& record) {
    if (engine_.submit(&record, 1) == 1) under_++;
  }
  // Waits for all that was submitted; answers how many did not end well.
  uint32_t awaitAll() {
    uint32_t bad = 0;
    const auto begun = Clock::now();
    while (under_ > 0) {
      if (secondsSince(begun) > 60) return under_;
      engine_.await(1'000'000'000);
      UpRecord ups[256];
      const int32_t count = engine_.poll(ups, 256);
      for (int32_t i = 0; i < count; i++) {
        if ((ups[i].kind & kEnded) != 0) {
          const bool well = static_cast<Outcome>(ups[i].outcome) == Outcome::kDone;
          outcomes[slotOf_[ups[i].ticket]] = static_cast<Outcome>(ups[i].outcome);
          if (well) sums_[slotOf_[ups[i].ticket]] = ups[i].checksum;
          bad += well ? 0 : 1;
        }
        under_ -= (ups[i].kind & kQuiet) != 0 ? 1 : 0;
      }
    }
    return bad;
  }
  std::string describe() const { return engine_.describe(); }

  bool opened = false;
  std::string message;
  std::map<uint32_t, Outcome> outcomes;  // of the last transfer of each slot

 private:
  static inline int next_ = 0;
  std::filesystem::path folder_;
  KvEngine engine_;
  uint64_t ticket_ = 0;
  uint32_t under_ = 0;
  std::map<uint32_t, uint64_t> sums_;
  std::map<uint64_t, uint32_t> slotOf_;
};

// Stores and loads every block, each to another place, and compares every byte.
std::string roundTrip(const Suite& suite, const std::vector<uint64_t>& pieces, bool together,
                      EngineKind kind) {
  const uint32_t blocks = suite.quick ? 8 : 64;
  Tensors tensors(suite, pieces, blocks, together);
  if (!tensors.failure.empty()) return tensors.failure;
  for (uint32_t block = 0; block < blocks; block++) {
    tensors.write(block, pattern(tensors.table.payloadBytes, block));
  }
  Engine engine(suite, tensors.table, blocks, {kind, DeviceKind::kCuda, 0, {}});
  if (!engine.opened) return engine.message;
  for (uint32_t block = 0; block < blocks; block++) {
    engine.submit(engine.down(Operation::kStore, block, block));
  }
  if (engine.awaitAll() > 0) return "stores failed: " + engine.describe();
  const std::vector<uint8_t> garbage(tensors.table.payloadBytes, 0xee);
  for (uint32_t block = 0; block < blocks; block++) tensors.write(block, garbage);
  for (uint32_t block = 0; block < blocks; block++) {
    engine.submit(engine.down(Operation::kLoad, block, blocks - 1 - block));
  }
  if (engine.awaitAll() > 0) return "loads failed: " + engine.describe();
  for (uint32_t block = 0; block < blocks; block++) {
    if (tensors.read(blocks - 1 - block) != pattern(tensors.table.payloadBytes, block)) {
      return "block " + std::to_string(block) + " came back with other bytes";
    }
  }
  return tensors.failure;
}

// Faults of the disk end the blocks they hit, and no other: those are not written on the device.
std::string faults(const Suite& suite, EngineKind kind) {
  const uint32_t blocks = 64;
  Tensors tensors(suite, std::vector<uint64_t>(8, 4096), blocks, false);
  if (!tensors.failure.empty()) return tensors.failure;
  const std::vector<uint8_t> garbage(tensors.table.payloadBytes, 0xee);
  Setup setup{kind, DeviceKind::kCuda, 0, {}};
  const std::vector<std::pair<FaultKind, int32_t>> kinds = {{FaultKind::kError, EIO},
                                                            {FaultKind::kShort, 0},
                                                            {FaultKind::kCorrupt, 0},
                                                            {FaultKind::kCopyDelay, 0}};
  for (const auto& [fault, error] : kinds) {
    setup.faults.push_back({static_cast<uint32_t>(fault),
                            static_cast<uint32_t>(FaultDirection::kRead), error, 0, 0.15, 300'000});
  }
  Engine engine(suite, tensors.table, blocks, setup);
  if (!engine.opened) return engine.message;
  for (uint32_t block = 0; block < blocks; block++) {
    tensors.write(block, pattern(tensors.table.payloadBytes, block));
    engine.submit(engine.down(Operation::kStore, block, block));
  }
  if (engine.awaitAll() > 0) return "stores failed: " + engine.describe();
  for (uint32_t block = 0; block < blocks; block++) {
    tensors.write(block, garbage);
    engine.submit(engine.down(Operation::kLoad, block, block));
  }
  const uint32_t bad = engine.awaitAll();
  if (bad == 0 || bad == blocks) return std::to_string(bad) + " of 64 loads failed";
  for (uint32_t block = 0; block < blocks; block++) {
    const bool well = engine.outcomes[block] == Outcome::kDone;
    const auto right = well ? pattern(tensors.table.payloadBytes, block) : garbage;
    if (tensors.read(block) != right) return "wrong bytes in block " + std::to_string(block);
  }
  return tensors.failure;
}

// A copy that fails ends its engine, which closes all the same; the next one works.
std::string copyFailure(const Suite& suite) {
  Tensors tensors(suite, {65'536}, 4, false);
  if (!tensors.failure.empty()) return tensors.failure;
  Setup setup;
  setup.faults.push_back({static_cast<uint32_t>(FaultKind::kCopyError),
                          static_cast<uint32_t>(FaultDirection::kAny), 700, 0, 1.0, 0});
  Engine engine(suite, tensors.table, 4, setup);
  if (!engine.opened) return engine.message;
  for (uint32_t block = 0; block < 4; block++) {
    engine.submit(engine.down(Operation::kStore, block, block));
  }
  engine.awaitAll();
  for (uint32_t block = 0; block < 4; block++) {
    if (engine.outcomes[block] != Outcome::kEngineFailed) return "a store outlived the copier";
  }
  if (!engine.close()) return "it did not close";
  return roundTrip(suite, {65'536}, false, EngineKind::kAuto);
}

// A copier with staging of its own, driven by hand.
class Copier {
 public:
  Copier(const Suite& suite, const std::vector<PieceTable>& groups, uint32_t slots)
      : slots_(slots),
        slotBytes_(roundUp(groups[0].payloadBytes, 4096)),
        staging_(slots * slotBytes_, "use a machine with more"),
        copier_(makeCudaCopier(*suite.cuda, 0, groups, slots)) {
    status_ = copier_->attach({staging_.data(), slotBytes_, slots}, [] {});
    attached_ = status_.ok();
  }
  ~Copier() {
    if (!attached_) return;
    std::vector<uint32_t> tokens(slots_);
    while (copier_->pending() > 0) {
      uint32_t count = 0;
      static_cast<void>(copier_->reap(tokens, count));
    }
    copier_->detach();
  }
  const Status& status() const { return status_; }

  // Copies `count` blocks with all slots in use; answers seconds, or a negative number.
  double run(CopyDirection direction, uint32_t blocks, uint32_t count, CopyEvent after = {}) {
    std::vector<uint32_t> free;
    for (uint32_t slot = 0; slot < slots_; slot++) free.push_back(slot);
    std::vector<uint32_t> tokens(slots_);
    const auto begun = Clock::now();
    uint32_t started = 0;
    uint32_t done = 0;
    while (done < count) {
      while (started < count && !free.empty()) {
        const uint32_t slot = free.back();
        free.pop_back();
        status_ = copier_->start({direction, GroupIndex{0}, DeviceBlock{started % blocks},
                                  staging_.data() + slot * slotBytes_, after, slot});
        if (!status_.ok()) return -1;
        started++;
      }
      uint32_t reaped = 0;
      status_ = copier_->reap(tokens, reaped);
      if (!status_.ok()) return -1;
      free.insert(free.end(), tokens.begin(), tokens.begin() + reaped);
      done += reaped;
    }
    return secondsSince(begun);
  }
  uint8_t* staging() { return staging_.data(); }
  uint64_t slotBytes() const { return slotBytes_; }

 private:
  uint32_t slots_;
  uint64_t slotBytes_;
  HostMemory staging_;
  std::unique_ptr<DeviceCopier> copier_;
  Status status_;
  bool attached_ = false;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The floor: the same bytes by bare calls over pinned memory, in one stream.
double bare(const Suite& suite, Copier& copier, const Tensors& tensors, CopyDirection direction,
            uint32_t slots, uint32_t count) {
  const CudaCalls& calls = suite.cuda->calls();
  CudaStream stream = nullptr;
  if (calls.streamCreateWithPriority(&stream, kCudaStreamNonBlocking, 0) != kCudaSuccess) return -1;
  const Piece& piece = tensors.table.pieces[0];
  const auto begun = Clock::now();
  for (uint32_t i = 0; i < count; i++) {
    uint8_t* host = copier.staging() + (i % slots) * copier.slotBytes();
    uint8_t* device = piece.base + (i % tensors.table.deviceBlocks) * piece.stride;
    const bool down = direction == CopyDirection::kToHost;
    if (calls.memcpyAsync(down ? host : device, down ? device : host, piece.bytes,
                          down ? kCudaDeviceToHost : kCudaHostToDevice, stream) != kCudaSuccess) {
      return -1;
    }
  }
  while (calls.streamQuery(stream) == kCudaErrorNotReady) {
  }
  const double seconds = secondsSince(begun);
  static_cast<void>(calls.streamDestroy(stream));
  return seconds;
}

std::string bandwidth(const Suite& suite) {
  const uint64_t blockBytes = 262'144;
  const uint32_t slots = 64;
  const uint32_t count = suite.quick ? 64 : 8192;
  Tensors tensors(suite, {blockBytes}, 256, false);
  if (!tensors.failure.empty()) return tensors.failure;
  const std::vector<PieceTable> groups = {tensors.table};
  Copier copier(suite, groups, slots);
  Copier other(suite, groups, slots);
  if (!copier.status().ok()) return copier.status().cause;
  if (!other.status().ok()) return other.status().cause;
  const double gigabytes = static_cast<double>(blockBytes) * count / 1e9;
  const int rounds = suite.quick ? 1 : 11;
  for (const CopyDirection direction : {CopyDirection::kToDevice, CopyDirection::kToHost}) {
    const std::string name = direction == CopyDirection::kToDevice ? "H2D" : "D2H";
    std::vector<double> ours;
    std::vector<double> floors;
    std::vector<double> ratios;
    for (int round = 0; round < rounds; round++) {
      const double floor = bare(suite, copier, tensors, direction, slots, count);
      const double mine = copier.run(direction, 256, count);
      if (mine <= 0 || floor <= 0) return name + ": " + copier.status().cause;
      ours.push_back(gigabytes / mine);
      floors.push_back(gigabytes / floor);
      ratios.push_back(floor / mine);
    }
    Suite::figure(name + " of 256 KiB blocks", median(ours), "GB/s");
    Suite::figure(name + " bare cudaMemcpyAsync", median(floors), "GB/s");
    Suite::figure(name + " ours beside bare", median(ratios), "");
  }
  double back = 0;
  std::thread loads([&] { back = other.run(CopyDirection::kToHost, 256, count); });
  const double forth = copier.run(CopyDirection::kToDevice, 256, count);
  loads.join();
  if (forth <= 0 || back <= 0) return "both at once: " + copier.status().cause;
  Suite::figure("both directions at once, sum", gigabytes / forth + gigabytes / back, "GB/s");
  return "";
}

// How long one block takes with the device idle, and while another stream keeps its memory busy.
std::string latency(const Suite& suite) {
  Tensors tensors(suite, {262'144}, 16, false);
  Tensors busy(suite, {uint64_t{256} << 20}, 2, false);
  if (!tensors.failure.empty()) return tensors.failure;
  if (!busy.failure.empty()) return busy.failure;
  const std::vector<PieceTable> groups = {tensors.table};
  Copier copier(suite, groups, 4);
  if (!copier.status().ok()) return copier.status().cause;
  const int rounds = suite.quick ? 10 : 1000;
  for (const bool loaded : {false, true}) {
    std::atomic<bool> stop{false};
    bool refused = false;
    std::thread work;
    if (loaded && !suite.quick) {
      work = std::thread([&] {
        const CudaCalls& calls = suite.cuda->calls();
        static_cast<void>(calls.setDevice(0));
        CudaStream stream = nullptr;
        if (calls.streamCreateWithPriority(&stream, kCudaStreamNonBlocking, -1) != kCudaSuccess)
          return;
        const Piece& piece = busy.table.pieces[0];
        while (!stop.load()) {
          for (int i = 0; i < 8; i++) {
            refused =
                refused || calls.memcpyAsync(piece.base, piece.base + piece.stride, piece.bytes,
                                             kDeviceToDevice, stream) != kCudaSuccess;
          }
          while (calls.streamQuery(stream) == kCudaErrorNotReady) std::this_thread::yield();
        }
        static_cast<void>(calls.streamDestroy(stream));
      });
    }
    std::vector<double> micros;
    for (int round = 0; round < rounds; round++) {
      micros.push_back(copier.run(CopyDirection::kToDevice, 16, 1) * 1e6);
    }
    stop = true;
    if (work.joinable()) work.join();
    if (refused) return "no work on the device";
    std::sort(micros.begin(), micros.end());
    if (micros[0] < 0) return copier.status().cause;
    const std::string name =
        loaded ? "H2D of one block, device busy, " : "H2D of one block, idle, ";
    Suite::figure(name + "p50", micros[micros.size() / 2], "us");
    Suite::figure(name + "p99", micros[micros.size() * 99 / 100], "us");
  }
  return "";
}

// Disk, checksum and copies together: how much of the disk's own rate a load keeps.
std::string engineRate(const Suite& suite) {
  const uint32_t blocks = suite.quick ? 16 : 1024;
  Tensors tensors(suite, std::vector<uint64_t>(64, 4096), blocks, true);
  if (!tensors.failure.empty()) return tensors.failure;
  Engine engine(suite, tensors.table, blocks);
  if (!engine.opened) return engine.message;
  const double gigabytes = static_cast<double>(tensors.table.payloadBytes) * blocks / 1e9;
  for (const Operation operation : {Operation::kStore, Operation::kLoad}) {
    std::vector<double> rates;
    for (int round = 0; round < (suite.quick ? 1 : 7); round++) {
      const auto begun = Clock::now();
      for (uint32_t block = 0; block < blocks; block++) {
        engine.submit(engine.down(operation, block, block));
      }
      if (engine.awaitAll() > 0) return engine.describe();
      rates.push_back(gigabytes / secondsSince(begun));
    }
    Suite::figure(
        operation == Operation::kStore ? "engine, device to disk" : "engine, disk to device",
        median(rates), "GB/s");
  }
  return "";
}

// Loads through the whole engine beside its two stages alone: the disk with its checksum, and the
// copy. Stages that overlap cost the slower one, not the sum; shown where the copy is a fair share.
std::string overlap(const Suite& suite) {
  const uint32_t blocks = suite.quick ? 16 : 1024;
  const uint64_t blockBytes = 262'144;
  Tensors tensors(suite, {blockBytes}, blocks, false);
  if (!tensors.failure.empty()) return tensors.failure;
  const std::vector<PieceTable> groups = {tensors.table};
  Copier copier(suite, groups, 64);
  if (!copier.status().ok()) return copier.status().cause;
  std::vector<uint8_t> host(blockBytes * blocks);
  const PieceTable onHost{{{host.data(), blockBytes, blockBytes}}, blockBytes, blocks};
  std::vector<double> wholes;
  std::vector<double> disks;
  std::vector<double> copies;
  for (int round = 0; round < (suite.quick ? 1 : 7); round++) {
    for (const DeviceKind kind : {DeviceKind::kCuda, DeviceKind::kHost}) {
      const bool cuda = kind == DeviceKind::kCuda;
      Engine engine(suite, cuda ? tensors.table : onHost, blocks, {EngineKind::kAuto, kind, 0, {}});
      if (!engine.opened) return engine.message;
      double seconds = 0;
      for (const Operation operation : {Operation::kStore, Operation::kLoad}) {
        const auto begun = Clock::now();
        for (uint32_t block = 0; block < blocks; block++) {
          engine.submit(engine.down(operation, block, block));
        }
        if (engine.awaitAll() > 0) return engine.describe();
        seconds = secondsSince(begun);
      }
      (cuda ? wholes : disks).push_back(seconds);
    }
    copies.push_back(copier.run(CopyDirection::kToDevice, blocks, blocks));
    if (copies.back() < 0) return copier.status().cause;
  }
  const double whole = median(wholes);
  const double disk = median(disks);
  const double copy = median(copies);
  Suite::figure("load: the whole beside its slowest stage", whole / std::max(disk, copy), "");
  Suite::figure("load: the copy's share of both stages", copy / (disk + copy), "");
  const bool fairShare = copy > 0.2 * disk && disk > 0.2 * copy;
  if (!suite.quick && fairShare && whole > 0.95 * (disk + copy)) return "the stages do not overlap";
  return "";
}

// V49 on the real thing: a store behind its event is whole, the control is not.
std::string ordering(const Suite& suite, bool barrier, int& torn) {
  Tensors tensors(suite, {262'144}, 2, false);
  Tensors source(suite, {uint64_t{suite.quick ? 1U : 512U} << 20}, 2, false);
  if (!tensors.failure.empty()) return tensors.failure;
  if (!source.failure.empty()) return source.failure;
  const std::vector<PieceTable> groups = {tensors.table};
  Copier copier(suite, groups, 2);
  if (!copier.status().ok()) return copier.status().cause;
  const CudaCalls& calls = suite.cuda->calls();
  CudaStream compute = nullptr;
  CudaEvent computed = nullptr;
  if (calls.streamCreateWithPriority(&compute, kCudaStreamNonBlocking, 0) != kCudaSuccess ||
      calls.eventCreateWithFlags(&computed, kCudaEventDisableTiming) != kCudaSuccess) {
    return "no stream and event";
  }
  const Piece& slow = source.table.pieces[0];
  const Piece& piece = tensors.table.pieces[0];
  const auto slowly = [&] {
    return calls.memcpyAsync(slow.base, slow.base + slow.stride, slow.bytes, kDeviceToDevice,
                             compute) == kCudaSuccess;
  };
  for (int round = 0; round < (suite.quick ? 3 : 30); round++) {
    const auto old = pattern(262'144, 1000 + round);
    const auto fresh = pattern(262'144, round);
    tensors.write(0, old);
    tensors.write(1, fresh);
    // Slow work first, then the block is "computed".
    if (!slowly() || !slowly() || !slowly() || !slowly() ||
        calls.memcpyAsync(piece.base, piece.base + piece.stride, piece.bytes, kDeviceToDevice,
                          compute) != kCudaSuccess ||
        calls.eventRecord(computed, compute) != kCudaSuccess) {
      return "no work on the device";
    }
    const CopyEvent after{reinterpret_cast<uint64_t>(computed), 0, CopyEventKind::kCudaEvent};
    if (copier.run(CopyDirection::kToHost, 1, 1, barrier ? after : CopyEvent{}) < 0) {
      return copier.status().cause;
    }
    // The last slot is handed out first.
    const uint8_t* staged = copier.staging() + copier.slotBytes();
    torn += std::memcmp(staged, fresh.data(), fresh.size()) != 0 ? 1 : 0;
    while (calls.streamQuery(compute) == kCudaErrorNotReady) std::this_thread::yield();
  }
  static_cast<void>(calls.eventDestroy(computed));
  static_cast<void>(calls.streamDestroy(compute));
  return tensors.failure;
}

int run(Suite& suite) {
  std::string why;
  suite.cuda = CudaRuntime::load(suite.library, why);
  const std::string found = describeCuda(suite.library);
  if (suite.cuda == nullptr || found.find("usable=1") == std::string::npos) {
    const size_t at = found.find("why=");
    std::printf("SKIP no GPU: %s\n", at == std::string::npos ? "" : found.substr(at + 4).c_str());
    return 77;
  }
  std::printf("%s", found.c_str());
  static_cast<void>(suite.cuda->calls().setDevice(0));
  const std::vector<uint64_t> even(64, 4096);
  const std::vector<uint64_t> uneven = {2112, 9216, 4096, 700, 10'496, 4224, 513, 18'432};
  for (const EngineKind kind : {EngineKind::kAuto, EngineKind::kThreads}) {
    const std::string engine = kind == EngineKind::kAuto ? ", ring" : ", threads";
    suite.check("round trip, one piece" + engine,
                [&] { return roundTrip(suite, {262'144}, false, kind); });
    suite.check("round trip, 64 pieces at one distance" + engine,
                [&] { return roundTrip(suite, even, true, kind); });
    suite.check("round trip, 64 tensors of their own" + engine,
                [&] { return roundTrip(suite, even, false, kind); });
    suite.check("round trip, pieces apart" + engine,
                [&] { return roundTrip(suite, uneven, false, kind); });
  }
  for (const EngineKind kind : {EngineKind::kAuto, EngineKind::kThreads}) {
    const std::string engine = kind == EngineKind::kAuto ? ", ring" : ", threads";
    suite.check("faults end the blocks they hit" + engine, [&] { return faults(suite, kind); });
  }
  suite.check("a copy that fails ends its engine, the next works",
              [&] { return copyFailure(suite); });
  suite.check("staging in several chunks of registration",
              [&] { return roundTrip(suite, {3'098'112}, false, EngineKind::kAuto); });
  suite.check("a device that is not there is refused by name", [&]() -> std::string {
    Tensors tensors(suite, {4096}, 2, false);
    const Engine engine(suite, tensors.table, 2, {EngineKind::kAuto, DeviceKind::kCuda, 99, {}});
    if (engine.opened) return "it opened";
    return engine.message.find("cudaErrorInvalidDevice") == std::string::npos ? engine.message : "";
  });
  suite.check("V49: a store behind its event is never torn", [&]() -> std::string {
    int torn = 0;
    std::string failure = ordering(suite, true, torn);
    return failure.empty() && torn > 0 ? std::to_string(torn) + " are torn" : failure;
  });
  suite.check("V49: the control without it is", [&]() -> std::string {
    int torn = 0;
    std::string failure = ordering(suite, false, torn);
    return failure.empty() && torn == 0 ? "none is torn, so it shows nothing" : failure;
  });
  suite.check("bandwidth", [&] { return bandwidth(suite); });
  suite.check("latency", [&] { return latency(suite); });
  suite.check("engine rate", [&] { return engineRate(suite); });
  suite.check("overlap of disk and copies", [&] { return overlap(suite); });
  std::printf("%s\n", suite.failures == 0 ? "all passed" : "some failed");
  return suite.failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace spillway

int main(int count, char** arguments) {
  spillway::Suite suite;
  for (int i = 1; i < count; i++) {
    const std::string word = arguments[i];
    if (word == "--quick") {
      suite.quick = true;
    } else if (i + 1 < count && word == "--library") {
      suite.library = arguments[++i];
    } else if (i + 1 < count && word == "--directory") {
      suite.directory = arguments[++i];
    } else {
      std::fprintf(stderr, "gpu-suite: unknown argument %s\n", word.c_str());
      return 2;
    }
  }
  return spillway::run(suite);
}
