#include "KvEngine.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <sstream>
#include <vector>

#include "base/BlockCipher.h"
#include "base/Check.h"
#include "base/Checksum.h"
#include "base/FaultPlan.h"
#include "base/Status.h"
#include "base/Waker.h"
#include "device/CudaRuntime.h"
#include "device/DeviceCopier.h"
#include "device/FaultyCopier.h"
#include "disk/BlockFile.h"
#include "disk/FaultyRing.h"
#include "disk/Ring.h"
#include "lane/LoadLane.h"
#include "lane/StoreLane.h"

namespace spillway {
namespace {

constexpr uint32_t kQueueDepthMax = 4096;
constexpr uint32_t kStagingSlotsMin = 2;
constexpr int64_t kCloseNanosMax = int64_t{86'400} * 365 * 1'000'000'000;

struct OpenPlan {
  FileOptions file;
  std::vector<PieceTable> pieces;
  FaultPlan faults;
  const CudaRuntime* cuda = nullptr;  // null where the device is the host
};

// Java has checked the values; what is checked again here is what memory safety rests on.
OpenPlan readPlan(const char* directory, const char* nameSpace, const char* cudaLibrary,
                  const OpenRecord& record) {
  if (record.version != kRecordVersion) {
    throw OpenError(OpenReason::kConfiguration, 0,
                    "record version " + std::to_string(record.version) + " from Java, " +
                        std::to_string(kRecordVersion) + " in the native library: mixed JARs");
  }
  CHECK(record.groupCount >= 1 && record.groupCount <= kGroupsMax, "%u groups", record.groupCount);
  CHECK(record.queueDepth >= 1 && record.queueDepth <= kQueueDepthMax, "depth %u",
        record.queueDepth);
  OpenPlan plan;
  const auto* groups = reinterpret_cast<const GroupRecord*>(&record + 1);
  const auto* pieces = reinterpret_cast<const PieceRecord*>(groups + record.groupCount);
  for (uint32_t group = 0; group < record.groupCount; group++) {
    PieceTable table;
    table.deviceBlocks = groups[group].deviceBlocks;
    for (uint32_t piece = 0; piece < groups[group].pieceCount; piece++, pieces++) {
      table.pieces.push_back(
          {reinterpret_cast<uint8_t*>(pieces->base), pieces->stride, pieces->bytes});
      table.payloadBytes += pieces->bytes;
    }
    CHECK(table.payloadBytes > 0 && table.payloadBytes <= UINT32_MAX, "group %u", group);
    plan.file.groups.push_back(
        {static_cast<uint32_t>(table.payloadBytes), groups[group].blockTokens});
    plan.pieces.push_back(std::move(table));
  }
  plan.faults.seed = record.faultSeed;
  const auto* faults = reinterpret_cast<const FaultRecord*>(pieces);
  for (uint32_t i = 0; i < record.faultCount; i++) {
    FaultRule rule;
    rule.kind = static_cast<FaultKind>(faults[i].kind);
    rule.direction = static_cast<FaultDirection>(faults[i].direction);
    rule.error = faults[i].error;
    rule.rate = faults[i].rate;
    rule.delayNanos = faults[i].delayNanos;
    plan.faults.rules.push_back(rule);
  }
  plan.file.directory = directory;
  plan.file.nameSpace = nameSpace;
  plan.file.rank = record.rank;
  plan.file.rankCount = record.rankCount;
  plan.file.fingerprint = record.fingerprint;
  plan.file.capacityBytes = record.capacityBytes;
  plan.file.direct = record.direct != 0;
  plan.file.alignment = record.alignment;
  plan.file.allocation = static_cast<Allocation>(record.allocation);
  plan.file.lockWaitNanos = record.lockWaitNanos;
  plan.file.keepNothing = (record.keeping & kKeepNothing) != 0;
  plan.file.discardOther = (record.keeping & kDiscardOther) != 0;
  plan.file.freeFloorBytes = record.freeFloorBytes;
  plan.file.slotRecordBytes = record.slotRecordBytes;
  plan.file.cipher = record.cipherKey == 0 ? 0 : kCipherAes256Xts;
  if (static_cast<DeviceKind>(record.deviceKind) == DeviceKind::kCuda) {
    std::string why;
    plan.cuda = CudaRuntime::load(cudaLibrary, why);
    if (plan.cuda == nullptr) throw OpenError(OpenReason::kDevice, 0, why);
  }
  return plan;
}

uint64_t stagingSlotBytesFor(const BlockFile& file) {
  uint64_t largest = 0;
  for (const Region& region : file.regions()) {
    largest = std::max<uint64_t>(largest, region.slotBytes);
  }
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return roundUp(largest, std::max<uint64_t>(page, file.alignment()));
}

const char* name(PageKind pages) {
  switch (pages) {
    case PageKind::kHugeTlb:
      return "hugetlb";
    case PageKind::kTransparentHuge:
      return "thp";
    case PageKind::kSmall:
      return "small";
  }
  return "unknown";
}

void fill(int64_t*& target, uint64_t value) { *target++ = static_cast<int64_t>(value); }

void fillLane(int64_t*& target, const Lane& lane) {
  const LaneCounters& lanes = lane.counters();
  const RingCounters ring = lane.ringCounters();
  fill(target, lanes.ended);
  fill(target, lanes.faulted);
  fill(target, lanes.resumed);
  fill(target, lanes.retried);
  fill(target, lanes.strays);
  fill(target, lanes.inFlightMax);
  fill(target, lanes.busyNanos);
  fill(target, lanes.inFlightNanos);
  fill(target, ring.enters);
  fill(target, ring.submitRetries);
  fill(target, ring.overflows);
  for (const auto& fate : lanes.faults) {
    for (const auto& cause : fate) fill(target, cause);
  }
  for (const uint64_t injected : ring.injected) fill(target, injected);
}

// Blocks of which nothing more will be told.
uint32_t quietOf(std::span<const UpRecord> records) {
  return static_cast<uint32_t>(std::count_if(
      records.begin(), records.end(), [](const UpRecord& up) { return (up.kind & kQuiet) != 0; }));
}

thread_local std::string threadText;

const char* keep(std::string text) {
  threadText = std::move(text);
  return threadText.c_str();
}

}  // namespace

// What exists between open and close. The lanes use the rest, so they are ended first.
struct KvEngine::State {
  State(const char* directory, const char* nameSpace, const char* cudaLibrary,
        const OpenRecord& record)
      : State(readPlan(directory, nameSpace, cudaLibrary, record), record) {}

  State(OpenPlan plan, const OpenRecord& openRecord)
      : record(openRecord),
        pieces(std::move(plan.pieces)),
        faults(std::move(plan.faults)),
        cuda(plan.cuda),
        kind(chooseKind()),
        file(plan.file),
        newFile{file},
        store(parts()),
        load(parts()) {
    start(store);
    start(load);
    file.claim();
    newFile.kept = true;
  }

  // An engine that cannot be opened leaves no file that was not there before.
  struct NewFile {
    BlockFile& file;
    bool kept = false;
    ~NewFile() {
      if (!kept) file.removeIfCreated();
    }
  };

  EngineKind chooseKind() {
    const auto asked = static_cast<EngineKind>(record.engineKind);
    if (asked == EngineKind::kThreads) {
      kindReason = "asked for";
      return EngineKind::kThreads;
    }
    const std::string refusal = uringRefusal();
    if (refusal.empty()) return EngineKind::kUring;
    if (asked == EngineKind::kUring) {
      throw OpenError(OpenReason::kRing, 0,
                      "io_uring cannot be used: " + refusal + "; or choose the thread engine");
    }
    kindReason = refusal;
    return EngineKind::kThreads;
  }

  LaneParts parts() {
    LaneParts parts;
    parts.file = &file;
    parts.groups = &pieces;
    parts.pollWaker = &pollWaker;
    parts.failure = &failure;
    parts.stagingSlotBytes = stagingSlotBytesFor(file);
    // Twice the depth, so that the next requests leave before finished blocks are worked on; fewer
    // where blocks are so large that the staging bound is met first.
    const uint64_t affordable = record.stagingBytesMax / parts.stagingSlotBytes;
    if (affordable < kStagingSlotsMin) {
      throw OpenError(OpenReason::kConfiguration, 0,
                      "stagingBytes is " + std::to_string(record.stagingBytesMax) +
                          "; at least two slots of " + std::to_string(parts.stagingSlotBytes) +
                          " bytes would be right");
    }
    parts.stagingSlots = static_cast<uint32_t>(
        std::min<uint64_t>(affordable, std::max(kStagingSlotsMin, 2 * record.queueDepth)));
    parts.queueDepth = std::min(record.queueDepth, parts.stagingSlots - 1);
    depth = parts.queueDepth;
    if (depth < record.queueDepth) {
      notice = "the depth is " + std::to_string(depth) + ", not " +
               std::to_string(record.queueDepth) + ": stagingBytes holds " +
               std::to_string(parts.stagingSlots) + " slots of " +
               std::to_string(parts.stagingSlotBytes) + " bytes";
    }
    parts.blocksInFlightMax = record.blocksInFlightMax;
    parts.ring = kind == EngineKind::kUring ? makeUringRing(depth) : makeThreadRing(depth);
    parts.copier = makeCopier(parts.stagingSlots);
    parts.cipher = makeCipher();
    if (!faults.empty()) {
      const uint64_t lane = faultyLanes++;  // each lane has faults of its own
      const FaultPlan plan{faults.seed + lane, faults.rules};
      parts.ring = std::make_unique<FaultyRing>(std::move(parts.ring), plan, depth);
      parts.copier =
          std::make_unique<FaultyCopier>(std::move(parts.copier), plan, parts.stagingSlots);
    }
    return parts;
  }

  std::unique_ptr<DeviceCopier> makeCopier(uint32_t pendingMax) const {
    if (cuda == nullptr) return makeHostCopier(pieces, pendingMax);
    return makeCudaCopier(*cuda, static_cast<int>(record.deviceOrdinal), pieces, pendingMax);
  }

  // Each lane has its own: a cipher serves one thread.
  std::unique_ptr<BlockCipher> makeCipher() const {
    if (record.cipherKey == 0) return nullptr;
    for (const PieceTable& group : pieces) {
      CHECK(group.payloadBytes >= kCipherBytesMin, "blocks of %lu bytes",
            static_cast<unsigned long>(group.payloadBytes));
    }
    std::string why;
    auto cipher = BlockCipher::make(reinterpret_cast<const uint8_t*>(record.cipherKey), why);
    if (cipher == nullptr) {
      throw OpenError(OpenReason::kConfiguration, 0, "blocks cannot be encrypted: " + why);
    }
    return cipher;
  }

  static void start(Lane& lane) {
    const Status status = lane.open();
    if (status.ok()) return;
    const OpenReason reason = lane.deviceRefused() ? OpenReason::kDevice : OpenReason::kRing;
    throw OpenError(reason, status.error, status.cause);
  }

  bool inBounds(const DownRecord& down) const {
    if (down.operation < static_cast<uint16_t>(Operation::kStore) ||
        down.operation > static_cast<uint16_t>(Operation::kVerify)) {
      return false;
    }
    if (isCommand(down)) return true;
    if (down.group >= pieces.size() || down.path != 0) return false;
    const bool word = static_cast<CopyEventKind>(down.eventKind) == CopyEventKind::kWord;
    const bool known = down.eventKind <= static_cast<uint16_t>(CopyEventKind::kCudaStream);
    if (!known || (cuda == nullptr && !word)) return false;
    if (down.deadlineNanos > static_cast<uint64_t>(kCloseNanosMax)) return false;
    return down.slot < file.regions()[down.group].slotCount &&
           (!hasDeviceBlock(down) || down.deviceBlock < pieces[down.group].deviceBlocks);
  }

  static bool isCommand(const DownRecord& down) {
    const auto operation = static_cast<Operation>(down.operation);
    return operation == Operation::kCancel || operation == Operation::kDrain;
  }

  static bool hasDeviceBlock(const DownRecord& down) {
    const auto operation = static_cast<Operation>(down.operation);
    return operation == Operation::kStore || operation == Operation::kLoad;
  }

  // Of the lane that reads.
  static bool reads(const DownRecord& down) {
    const auto operation = static_cast<Operation>(down.operation);
    return operation == Operation::kLoad || operation == Operation::kVerify;
  }

  // A transfer is all loads or all stores; which, only its sender knows.
  bool command(const DownRecord& down) { return load.command(down) && store.command(down); }

  const OpenRecord record;
  std::vector<PieceTable> pieces;
  FaultPlan faults;
  const CudaRuntime* cuda;
  std::string kindReason;
  EngineKind kind;
  BlockFile file;
  NewFile newFile;
  Waker pollWaker;
  EngineFailure failure;
  std::string notice;
  uint32_t depth = 0;
  uint64_t faultyLanes = 0;
  StoreLane store;
  LoadLane load;
  // Blocks accepted and not yet polled, by lane; the worker's thread only.
  uint32_t storesOutstanding = 0;
  uint32_t loadsOutstanding = 0;
};

KvEngine::KvEngine() : state_(nullptr) {}

KvEngine::~KvEngine() {
  CHECK(state_ == nullptr || closed_ || leaked_, "an engine is destroyed open, queue depth %u",
        state_->depth);
  if (!leaked_) delete state_;
}

int32_t KvEngine::open(const char* directory, const char* nameSpace, const char* cudaLibrary,
                       const OpenRecord* record) {
  try {
    state_ = new State(directory, nameSpace, cudaLibrary, *record);
    return 0;
  } catch (const OpenError& failure) {
    message_ = failure.what();
    error_ = failure.error();
    return static_cast<int32_t>(failure.reason());
  } catch (const std::bad_alloc&) {
    message_ = "host memory ran out while opening";
    return static_cast<int32_t>(OpenReason::kHostMemory);
  } catch (const std::exception& failure) {
    message_ = std::string("opening failed: ") + failure.what();
    return static_cast<int32_t>(OpenReason::kHostMemory);
  }
}

const char* KvEngine::message() const { return message_.c_str(); }

int32_t KvEngine::error() const { return error_; }

int32_t KvEngine::raiseEpoch(uint64_t epoch) {
  if (state_ == nullptr || closed_ || leaked_) return kClosed;
  try {
    if (epoch > state_->file.epoch()) state_->file.raiseEpoch(epoch);
    return 0;
  } catch (const OpenError& failure) {
    message_ = failure.what();
    error_ = failure.error();
    return static_cast<int32_t>(failure.reason());
  }
}

int32_t KvEngine::punch(uint32_t group, uint32_t slot) {
  if (state_ == nullptr || closed_ || leaked_) return kClosed;
  CHECK(group < state_->file.regions().size(), "group %u", group);
  CHECK(slot < state_->file.regions()[group].slotCount, "slot %u", slot);
  return state_->file.punch(GroupIndex{group}, DiskSlot{slot});
}

void KvEngine::discard() {
  if (state_ != nullptr) state_->newFile.kept = false;
}

int32_t KvEngine::submit(const DownRecord* records, int32_t count) {
  if (state_ == nullptr || closed_ || leaked_) return kClosed;
  State& state = *state_;
  for (int32_t i = 0; i < count; i++) {
    if (!state.inBounds(records[i])) return -i - 1;
  }
  int32_t accepted = 0;
  for (; accepted < count; accepted++) {
    if (State::isCommand(records[accepted])) {
      if (!state.command(records[accepted])) break;
      continue;
    }
    const bool loads = State::reads(records[accepted]);
    uint32_t& outstanding = loads ? state.loadsOutstanding : state.storesOutstanding;
    if (outstanding == state.record.blocksInFlightMax) break;
    Lane& lane = loads ? static_cast<Lane&>(state.load) : state.store;
    const bool pushed = lane.submit(records[accepted]);
    CHECK(pushed, "queue full with %u blocks outstanding", outstanding);
    outstanding++;
  }
  state.store.submitted();
  state.load.submitted();
  return accepted;
}

int32_t KvEngine::poll(UpRecord* target, int32_t capacity) {
  if (state_ == nullptr) return 0;
  CHECK(capacity > 0, "room for %d endings", capacity);
  const auto room = static_cast<size_t>(capacity);
  const size_t loads = state_->load.poll({target, room});
  const size_t stores = state_->store.poll({target + loads, room - loads});
  const uint32_t quietLoads = quietOf({target, loads});
  const uint32_t quietStores = quietOf({target + loads, stores});
  CHECK(quietLoads <= state_->loadsOutstanding && quietStores <= state_->storesOutstanding,
        "%u loads and %u stores are over, more than were begun", quietLoads, quietStores);
  state_->loadsOutstanding -= quietLoads;
  state_->storesOutstanding -= quietStores;
  return static_cast<int32_t>(loads + stores);
}

void KvEngine::await(int64_t nanos) {
  if (state_ == nullptr) return;
  Waker& waker = state_->pollWaker;
  waker.prepare();
  if (state_->load.hasEndings() || state_->store.hasEndings()) {
    waker.cancel();
    return;
  }
  waker.await(nanos);
}

void KvEngine::wake() {
  if (state_ != nullptr) state_->pollWaker.signal();
}

int32_t KvEngine::broken() const {
  if (state_ == nullptr) return 0;
  return state_->failure.broken() ? 1 : 0;
}

const char* KvEngine::describe() const {
  std::ostringstream text;
  if (state_ != nullptr) {
    const State& state = *state_;
    const RingMode& mode = state.load.ringMode();
    text << "kind=" << (state.kind == EngineKind::kUring ? "uring" : "threads") << "\n"
         << "kindReason=" << state.kindReason << "\n"
         << "direct=" << state.file.direct() << "\n"
         << "registered=" << mode.registeredBuffers << "\n"
         << "registeredFile=" << mode.registeredFile << "\n"
         << "singleIssuer=" << mode.singleIssuer << "\n"
         << "deferTaskrun=" << mode.deferTaskrun << "\n"
         << "alignment=" << state.file.alignment() << "\n"
         << "fileSystem=" << state.file.fileSystem() << "\n"
         << "path=" << state.file.path() << "\n"
         << "fileBytes=" << state.file.fileBytes() << "\n"
         << "epoch=" << state.file.epoch() << "\n"
         << "identity=" << state.file.identity() << "\n"
         << "queueDepth=" << state.depth << "\n"
         << "stagingSlots=" << state.load.stagingSlots() << "\n"
         << "stagingBytes=" << state.load.stagingSlots() * stagingSlotBytesFor(state.file) << "\n"
         << "stagingPages=" << name(state.load.stagingPages()) << "\n"
         << "checksum=" << checksumKernel() << "\n"
         << "cipher=" << (state.record.cipherKey == 0 ? "none" : "aes-256-xts") << "\n"
         << "device=" << state.load.copierText() << "\n";
    for (size_t group = 0; group < state.file.regions().size(); group++) {
      const Region& region = state.file.regions()[group];
      text << "slotCount." << group << "=" << region.slotCount << "\n"
           << "slotBytes." << group << "=" << region.slotBytes << "\n"
           << "regionOffset." << group << "=" << region.offset << "\n";
    }
    std::istringstream notices(state.file.notice() + "\n" + state.notice + "\n" + mode.notice);
    for (std::string line; std::getline(notices, line);) {
      if (!line.empty()) text << "notice=" << line << "\n";
    }
    if (!state.faults.empty()) text << "notice=faults are made on purpose: a trial\n";
    if (broken() != 0) text << "cause=" << state.failure.cause().cause << "\n";
  }
  return keep(text.str());
}

void KvEngine::counters(int64_t* target) const {
  std::fill(target, target + kCounterCount, 0);
  if (state_ == nullptr) return;
  fillLane(target, state_->store);
  fillLane(target, state_->load);
}

int32_t KvEngine::close(int64_t nanos) {
  if (state_ == nullptr || closed_ || leaked_) return leaked_ ? 1 : 0;
  state_->store.close();
  state_->load.close();
  const int64_t until = monotonicNanos() + std::min(nanos, kCloseNanosMax);
  const bool stores = state_->store.join(std::max<int64_t>(0, until - monotonicNanos()));
  const bool loads = state_->load.join(std::max<int64_t>(0, until - monotonicNanos()));
  closed_ = stores && loads;
  leaked_ = !closed_;
  return leaked_ ? 1 : 0;
}

namespace {

KvEngine* engineOf(int64_t engine) { return reinterpret_cast<KvEngine*>(engine); }

}  // namespace

int64_t engineNew() { return reinterpret_cast<int64_t>(new KvEngine); }

void engineDelete(int64_t engine) { delete engineOf(engine); }

int32_t engineOpen(int64_t engine, const char* directory, const char* nameSpace,
                   const char* cudaLibrary, int64_t record) {
  return engineOf(engine)->open(directory, nameSpace, cudaLibrary,
                                reinterpret_cast<const OpenRecord*>(record));
}

const char* engineMessage(int64_t engine) { return engineOf(engine)->message(); }

int32_t engineError(int64_t engine) { return engineOf(engine)->error(); }

int32_t engineRaiseEpoch(int64_t engine, int64_t epoch) {
  return engineOf(engine)->raiseEpoch(static_cast<uint64_t>(epoch));
}

int32_t enginePunch(int64_t engine, int32_t group, int32_t slot) {
  return engineOf(engine)->punch(static_cast<uint32_t>(group), static_cast<uint32_t>(slot));
}

void engineDiscard(int64_t engine) { engineOf(engine)->discard(); }

int32_t engineSubmit(int64_t engine, int64_t records, int32_t count) {
  return engineOf(engine)->submit(reinterpret_cast<const DownRecord*>(records), count);
}

int32_t enginePoll(int64_t engine, int64_t target, int32_t capacity) {
  return engineOf(engine)->poll(reinterpret_cast<UpRecord*>(target), capacity);
}

void engineAwait(int64_t engine, int64_t nanos) { engineOf(engine)->await(nanos); }

void engineWake(int64_t engine) { engineOf(engine)->wake(); }

int32_t engineBroken(int64_t engine) { return engineOf(engine)->broken(); }

const char* engineDescribe(int64_t engine) { return engineOf(engine)->describe(); }

void engineCounters(int64_t engine, int64_t target) {
  engineOf(engine)->counters(reinterpret_cast<int64_t*>(target));
}

int32_t engineClose(int64_t engine, int64_t nanos) { return engineOf(engine)->close(nanos); }

int64_t addressOf(const void* buffer) { return reinterpret_cast<int64_t>(buffer); }

uint64_t checksumOf(int64_t address, int64_t bytes, int64_t seed) {
  return checksum(reinterpret_cast<const void*>(address), static_cast<size_t>(bytes),
                  static_cast<uint64_t>(seed));
}

void recordLayout(int64_t target, int32_t count) {
  const std::array<size_t, 52> layout = {
      sizeof(DownRecord),
      offsetof(DownRecord, ticket),
      offsetof(DownRecord, operation),
      offsetof(DownRecord, group),
      offsetof(DownRecord, deviceBlock),
      offsetof(DownRecord, slot),
      offsetof(DownRecord, path),
      offsetof(DownRecord, eventKind),
      offsetof(DownRecord, checksumSeed),
      offsetof(DownRecord, expectedChecksum),
      offsetof(DownRecord, deadlineNanos),
      offsetof(DownRecord, eventAddress),
      offsetof(DownRecord, eventValue),
      sizeof(UpRecord),
      offsetof(UpRecord, ticket),
      offsetof(UpRecord, kind),
      offsetof(UpRecord, outcome),
      offsetof(UpRecord, error),
      offsetof(UpRecord, stage),
      offsetof(UpRecord, attempts),
      offsetof(UpRecord, bytesDone),
      offsetof(UpRecord, checksum),
      offsetof(UpRecord, queuedNanos),
      offsetof(UpRecord, ioNanos),
      offsetof(UpRecord, verifyNanos),
      offsetof(UpRecord, copyNanos),
      sizeof(OpenRecord),
      offsetof(OpenRecord, version),
      offsetof(OpenRecord, rank),
      offsetof(OpenRecord, rankCount),
      offsetof(OpenRecord, groupCount),
      offsetof(OpenRecord, capacityBytes),
      offsetof(OpenRecord, stagingBytesMax),
      offsetof(OpenRecord, queueDepth),
      offsetof(OpenRecord, engineKind),
      offsetof(OpenRecord, direct),
      offsetof(OpenRecord, alignment),
      offsetof(OpenRecord, allocation),
      offsetof(OpenRecord, blocksInFlightMax),
      offsetof(OpenRecord, fingerprint),
      offsetof(OpenRecord, lockWaitNanos),
      offsetof(OpenRecord, faultSeed),
      offsetof(OpenRecord, faultCount),
      offsetof(OpenRecord, deviceKind),
      offsetof(OpenRecord, deviceOrdinal),
      offsetof(OpenRecord, keeping),
      offsetof(OpenRecord, freeFloorBytes),
      offsetof(OpenRecord, slotRecordBytes),
      offsetof(OpenRecord, cipherKey),
      sizeof(GroupRecord),
      sizeof(PieceRecord),
      sizeof(FaultRecord),
  };
  auto* numbers = reinterpret_cast<int64_t*>(target);
  for (size_t i = 0; i < static_cast<size_t>(count); i++) {
    numbers[i] = i < layout.size() ? static_cast<int64_t>(layout[i]) : -1;
  }
}

int32_t fileReserve(const char* path, int64_t bytes) {
  return reserveFile(path, static_cast<uint64_t>(bytes));
}

const char* uringRefusalText() { return keep(uringRefusal()); }

const char* cudaText(const char* cudaLibrary) { return keep(describeCuda(cudaLibrary)); }

namespace {

// Does something with the memory of a device; 0, or the error with its text kept.
template <typename Action>
int32_t withCuda(const char* cudaLibrary, int32_t device, Action action) {
  std::string why;
  const CudaRuntime* runtime = CudaRuntime::load(cudaLibrary, why);
  if (runtime == nullptr) {
    keep(why);
    return -1;
  }
  const Status status = action(CudaMemory(*runtime, device));
  if (status.ok()) return 0;
  keep(status.cause);
  return status.error;
}

}  // namespace

int64_t cudaAllocate(const char* cudaLibrary, int32_t device, int64_t bytes) {
  uint64_t address = 0;
  const int32_t error = withCuda(cudaLibrary, device, [&](const CudaMemory& memory) {
    return memory.allocate(static_cast<uint64_t>(bytes), address);
  });
  return error == 0 ? static_cast<int64_t>(address) : 0;
}

int32_t cudaRelease(const char* cudaLibrary, int32_t device, int64_t address) {
  return withCuda(cudaLibrary, device, [&](const CudaMemory& memory) {
    return memory.release(static_cast<uint64_t>(address));
  });
}

int32_t cudaRead(const char* cudaLibrary, int32_t device, int64_t address, int64_t target,
                 int64_t bytes) {
  return withCuda(cudaLibrary, device, [&](const CudaMemory& memory) {
    return memory.read(static_cast<uint64_t>(address), reinterpret_cast<void*>(target),
                       static_cast<uint64_t>(bytes));
  });
}

int32_t cudaWrite(const char* cudaLibrary, int32_t device, int64_t address, int64_t source,
                  int64_t bytes) {
  return withCuda(cudaLibrary, device, [&](const CudaMemory& memory) {
    return memory.write(static_cast<uint64_t>(address), reinterpret_cast<const void*>(source),
                        static_cast<uint64_t>(bytes));
  });
}

int64_t mapHostMemory(int64_t bytes) {
  try {
    HostMemory memory(static_cast<uint64_t>(bytes), "use fewer or smaller device blocks");
    const auto address = reinterpret_cast<int64_t>(memory.data());
    memory.leak();
    return address;
  } catch (const OpenError& failure) {
    keep(failure.what());
    return 0;
  }
}

void unmapHostMemory(int64_t address, int64_t bytes) {
  constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;
  munmap(reinterpret_cast<void*>(address), roundUp(static_cast<uint64_t>(bytes), kHugePageBytes));
}

const char* memoryFailure() { return threadText.c_str(); }

}  // namespace spillway
