#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/Check.h"
#include "base/Fifo.h"
#include "base/Ids.h"
#include "device/CudaCopyPlan.h"
#include "device/CudaRuntime.h"
#include "device/DeviceCopier.h"

namespace spillway {
namespace {

// Staging is registered in chunks of whole slots of about this size: no copy crosses from one into
// another, and none takes long.
constexpr uint64_t kRegisterChunkBytes = uint64_t{64} << 20;

// Copies of one lane, in order, in a stream of its own that gives way to whoever computes. A copy
// is complete when the event behind it is. The first failure is kept: it is told of once, nothing
// is started any more, and what was under way is handed back when the stream holds nothing of it.
class CudaCopier final : public DeviceCopier {
 public:
  CudaCopier(const CudaRuntime& runtime, int device, const std::vector<PieceTable>& groups,
             uint32_t pendingMax)
      : runtime_(runtime),
        calls_(runtime.calls()),
        device_(device),
        groups_(groups),
        waiting_(pendingMax),
        pending_(pendingMax) {}

  ~CudaCopier() override { CHECK(stream_ == nullptr, "device %d is still attached", device_); }

  Status attach(const StagingMemory& staging, std::function<void()> wake) override {
    call_->wake = std::move(wake);
    Status status = setUp(staging);
    if (!status.ok()) detach();
    return status;
  }

  // Nothing can be done about what fails here: the first cause has been told.
  void detach() override {
    CHECK(pending() == 0, "%u copies are pending", pending());
    awaitCall();
    for (CudaEvent event : done_) static_cast<void>(calls_.eventDestroy(event));
    for (CudaEvent event : before_) static_cast<void>(calls_.eventDestroy(event));
    if (stream_ != nullptr) static_cast<void>(calls_.streamDestroy(stream_));
    if (calling_ != nullptr) static_cast<void>(calls_.streamDestroy(calling_));
    while (!chunks_.empty()) {
      static_cast<void>(calls_.hostUnregister(chunks_.back()));
      chunks_.pop_back();
    }
    done_.clear();
    before_.clear();
    stream_ = nullptr;
    calling_ = nullptr;
  }

  Status start(const CopyRequest& request) override {
    CHECK(request.token < done_.size(), "token %u of %zu", request.token, done_.size());
    CHECK(request.group.index < groups_.size(), "group %u of %zu", request.group.index,
          groups_.size());
    CHECK(request.block.index < groups_[request.group.index].deviceBlocks, "device block %u",
          request.block.index);
    if (!failure_.ok()) return failure_;
    if (request.after.kind == CopyEventKind::kWord && !wordReached(request.after)) {
      waiting_.push(request);
    } else {
      begin(request);
    }
    return Status::well();
  }

  Status reap(std::span<uint32_t> tokens, uint32_t& count) override {
    count = 0;
    startReached();
    if (failure_.ok()) reapReady(tokens, count);
    if (failure_.ok() && !pending_.empty()) askForCall();
    if (told_) reapLeft(tokens, count);
    if (failure_.ok() || told_) return Status::well();
    told_ = true;
    return failure_;
  }

  bool usesProcessor() const override { return false; }

  bool willWake() const override { return waiting_.empty() && call_->asked.load(); }

  bool withdraw(uint32_t token) override {
    return waiting_.removeIf([&](const CopyRequest& request) { return request.token == token; }) >
           0;
  }

  uint32_t pending() const override { return waiting_.count() + pending_.count(); }

  const char* describe() const override { return text_.c_str(); }

 private:
  Status setUp(const StagingMemory& staging) {
    Status status = runtime_.check("cudaSetDevice", calls_.setDevice(device_));
    if (!status.ok()) return status;
    // A graph that another thread captures must not be broken by what this one registers.
    int mode = kCudaCaptureModeRelaxed;
    status = runtime_.check("cudaThreadExchangeStreamCaptureMode",
                            calls_.threadExchangeStreamCaptureMode(&mode));
    if (status.ok()) status = makeStream();
    if (status.ok()) status = makeEvents(staging.slots);
    if (status.ok()) status = registerStaging(staging);
    if (status.ok()) status = planCopies();
    return status;
  }

  Status makeStream() {
    int least = 0;
    int greatest = 0;
    Status status = runtime_.check("cudaDeviceGetStreamPriorityRange",
                                   calls_.deviceGetStreamPriorityRange(&least, &greatest));
    if (!status.ok()) return status;
    for (CudaStream* stream : {&stream_, &calling_}) {
      status =
          runtime_.check("cudaStreamCreateWithPriority",
                         calls_.streamCreateWithPriority(stream, kCudaStreamNonBlocking, least));
      if (!status.ok()) break;
    }
    return status;
  }

  // All that will ever be needed, so that none is made on a block's way.
  Status makeEvents(uint32_t count) {
    for (auto* events : {&done_, &before_}) {
      for (uint32_t i = 0; i < count; i++) {
        CudaEvent event = nullptr;
        Status status =
            runtime_.check("cudaEventCreateWithFlags",
                           calls_.eventCreateWithFlags(&event, kCudaEventDisableTiming));
        if (!status.ok()) return status;
        events->push_back(event);
      }
    }
    return Status::well();
  }

  Status registerStaging(const StagingMemory& staging) {
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    const auto address = reinterpret_cast<uint64_t>(staging.data);
    if (address % page != 0 || staging.slotBytes % page != 0) {
      return Status::fatal(-1, "staging of " + std::to_string(staging.slotBytes) +
                                   " bytes a slot; whole pages would be right");
    }
    const uint64_t slotsInChunk = std::max<uint64_t>(1, kRegisterChunkBytes / staging.slotBytes);
    for (uint64_t slot = 0; slot < staging.slots; slot += slotsInChunk) {
      const uint64_t slots = std::min<uint64_t>(slotsInChunk, staging.slots - slot);
      uint8_t* chunk = staging.data + slot * staging.slotBytes;
      Status status = runtime_.check(
          "cudaHostRegister",
          calls_.hostRegister(chunk, slots * staging.slotBytes, kCudaHostRegisterPortable));
      if (!status.ok()) return status;
      chunks_.push_back(chunk);
    }
    return Status::well();
  }

  Status planCopies() {
    int pitchMax = 0;
    Status status =
        runtime_.check("cudaDeviceGetAttribute",
                       calls_.deviceGetAttribute(&pitchMax, kCudaAttributeMaxPitch, device_));
    if (!status.ok()) return status;
    int hostPointers = 0;
    status = runtime_.check(
        "cudaDeviceGetAttribute",
        calls_.deviceGetAttribute(&hostPointers, kCudaAttributeHostPointerForRegistered, device_));
    if (!status.ok()) return status;
    // A batch is given the addresses of registered memory as the host knows them.
    const bool batch = runtime_.hasBatchCopy() && hostPointers != 0;
    text_ = "cuda device " + std::to_string(device_) + ", runtime " +
            std::to_string(runtime_.version()) + ", ";
    for (const PieceTable& table : groups_) {
      plans_.push_back(CudaCopyPlan::of(
          table, static_cast<uint64_t>(std::max(0, pitchMax)), batch,
          [&](const uint8_t* first, const uint8_t* last) { return inOneAllocation(first, last); }));
      const CudaCopyPlan& plan = plans_.back();
      if (plans_.size() > 1) text_ += "; ";
      text_ += std::to_string(plan.ranges) + " ranges a block in " +
               (plan.batched ? "one batch" : std::to_string(plan.ops.size()) + " copies");
      if (plan.ranges > targets_.size()) {
        targets_.resize(plan.ranges);
        sources_.resize(plan.ranges);
        sizes_.resize(plan.ranges);
      }
    }
    return Status::well();
  }

  bool inOneAllocation(const uint8_t* first, const uint8_t* last) const {
    uint64_t base = 0;
    size_t bytes = 0;
    const auto address = reinterpret_cast<uint64_t>(first);
    if (calls_.memGetAddressRange == nullptr ||
        calls_.memGetAddressRange(&base, &bytes, address) != kCudaSuccess) {
      return false;
    }
    return reinterpret_cast<uint64_t>(last) - base < bytes;
  }

  void startReached() {
    if (waiting_.empty()) return;
    waiting_.removeIf([&](const CopyRequest& request) {
      if (!failure_.ok() || !wordReached(request.after)) return false;
      begin(request);
      return true;
    });
  }

  // From here on the device may touch the slot, so the copy is pending whatever happens.
  void begin(const CopyRequest& request) {
    pending_.push(request.token);
    failure_ = order(request);
    if (failure_.ok()) failure_ = copy(request);
    if (failure_.ok()) {
      failure_ =
          runtime_.check("cudaEventRecord", calls_.eventRecord(done_[request.token], stream_));
    }
  }

  // The stream goes on when the caller's moment has come.
  Status order(const CopyRequest& request) {
    CudaEvent event = nullptr;
    switch (request.after.kind) {
      case CopyEventKind::kWord:
        return Status::well();
      case CopyEventKind::kCudaEvent:
        event = reinterpret_cast<CudaEvent>(request.after.address);
        break;
      case CopyEventKind::kCudaStream: {
        event = before_[request.token];
        Status status = runtime_.check(
            "cudaEventRecord",
            calls_.eventRecord(event, reinterpret_cast<CudaStream>(request.after.address)));
        if (!status.ok()) return status;
        break;
      }
    }
    return runtime_.check("cudaStreamWaitEvent", calls_.streamWaitEvent(stream_, event, 0));
  }

  Status copy(const CopyRequest& request) {
    const CudaCopyPlan& plan = plans_[request.group.index];
    if (plan.batched) return copyInOneBatch(plan, request);
    const bool down = request.direction == CopyDirection::kToHost;
    const int kind = down ? kCudaDeviceToHost : kCudaHostToDevice;
    for (const CudaCopyOp& op : plan.ops) {
      uint8_t* device = op.base + request.block.index * op.stride;
      uint8_t* host = request.staging + op.staging;
      uint8_t* target = down ? host : device;
      const uint8_t* source = down ? device : host;
      Status status;
      if (op.rows == 1) {
        status = runtime_.check("cudaMemcpyAsync",
                                calls_.memcpyAsync(target, source, op.bytes, kind, stream_));
      } else {
        const uint64_t targetPitch = down ? op.bytes : op.pitch;
        const uint64_t sourcePitch = down ? op.pitch : op.bytes;
        status = runtime_.check("cudaMemcpy2DAsync",
                                calls_.memcpy2DAsync(target, targetPitch, source, sourcePitch,
                                                     op.bytes, op.rows, kind, stream_));
      }
      if (!status.ok()) return status;
    }
    return Status::well();
  }

  // A store's source is whole only when the stream comes to it; a load's is a slot that stays as it
  // is until the copy's event.
  Status copyInOneBatch(const CudaCopyPlan& plan, const CopyRequest& request) {
    const bool down = request.direction == CopyDirection::kToHost;
    size_t count = 0;
    for (const CudaCopyOp& op : plan.ops) {
      for (uint32_t row = 0; row < op.rows; row++, count++) {
        uint8_t* device = op.base + request.block.index * op.stride + row * op.pitch;
        uint8_t* host = request.staging + op.staging + row * op.bytes;
        targets_[count] = down ? host : device;
        sources_[count] = down ? device : host;
        sizes_[count] = op.bytes;
      }
    }
    CudaCopyAttributes attributes;
    attributes.sourceAccessOrder = down ? kCudaSourceStreamOrdered : kCudaSourceAnyOrder;
    attributes.flags = kCudaCopyPreferOverlap;
    size_t from = 0;  // the attributes are those of all copies from the first on
    CudaError error = kCudaSuccess;
    if (calls_.memcpyBatch13 != nullptr) {
      error = calls_.memcpyBatch13(targets_.data(), sources_.data(), sizes_.data(), count,
                                   &attributes, &from, 1, stream_);
    } else {
      size_t failed = 0;
      error = calls_.memcpyBatch12(targets_.data(), sources_.data(), sizes_.data(), count,
                                   &attributes, &from, 1, &failed, stream_);
    }
    return runtime_.check("cudaMemcpyBatchAsync", error);
  }

  // The stream is in order: behind the first copy that is not complete none is.
  void reapReady(std::span<uint32_t> tokens, uint32_t& count) {
    while (!pending_.empty() && count < tokens.size()) {
      const uint32_t token = pending_.front();
      const CudaError answer = calls_.eventQuery(done_[token]);
      if (answer == kCudaErrorNotReady) return;
      failure_ = runtime_.check("cudaEventQuery", answer);
      if (!failure_.ok()) return;
      tokens[count++] = pending_.pop();
    }
  }

  // One call is on its way at a time, behind the copies that were begun before it. In a stream of
  // its own: a call holds up what is behind it.
  void askForCall() {
    if (call_->asked.exchange(true)) return;
    failure_ = runtime_.check("cudaStreamWaitEvent",
                              calls_.streamWaitEvent(calling_, done_[pending_.back()], 0));
    if (failure_.ok()) {
      failure_ = runtime_.check("cudaLaunchHostFunc",
                                calls_.launchHostFunc(calling_, &Call::arrive, call_.get()));
    }
    if (failure_.ok()) {
      callsAsked_++;
    } else {
      call_->asked.store(false);
    }
  }

  // Nothing may be called that is gone. A device that is lost calls nobody; should it do so after
  // all, what it calls is still there.
  void awaitCall() {
    while (call_->returned.load() < callsAsked_) {
      const CudaError answer = calls_.streamQuery(calling_);
      if (answer != kCudaErrorNotReady && answer != kCudaSuccess) {
        Call::keep(std::move(call_));
        call_ = std::make_unique<Call>();
        callsAsked_ = 0;
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
  }

  // After a failure: an idle stream has let go of everything, and so has a context that is gone.
  // Whatever else the query answers says nothing of what is under way.
  void reapLeft(std::span<uint32_t> tokens, uint32_t& count) {
    if (pending_.empty()) return;
    const CudaError answer = calls_.streamQuery(stream_);
    if (answer != kCudaSuccess && !CudaRuntime::isLost(answer)) return;
    while (!pending_.empty() && count < tokens.size()) tokens[count++] = pending_.pop();
  }

  // What a thread of the runtime's calls.
  struct Call {
    std::mutex mutex;
    std::function<void()> wake;
    std::atomic<bool> asked{false};
    std::atomic<uint64_t> returned{0};

    static void arrive(void* data) {
      auto* call = static_cast<Call*>(data);
      call->asked.store(false);
      {
        const std::lock_guard lock(call->mutex);
        if (call->wake) call->wake();
      }
      call->returned.fetch_add(1);
    }

    // For ever: somebody may still come.
    static void keep(std::unique_ptr<Call> call) {
      static std::mutex keeping;
      static auto& kept = *new std::vector<std::unique_ptr<Call>>;
      const std::lock_guard lock(keeping);
      {
        const std::lock_guard none(call->mutex);
        call->wake = nullptr;
      }
      kept.push_back(std::move(call));
    }
  };

  const CudaRuntime& runtime_;
  const CudaCalls& calls_;
  const int device_;
  const std::vector<PieceTable>& groups_;
  std::vector<CudaCopyPlan> plans_;
  CudaStream stream_ = nullptr;
  CudaStream calling_ = nullptr;   // for host functions
  std::vector<CudaEvent> done_;    // one for each token: behind its copy
  std::vector<CudaEvent> before_;  // one for each token: in the caller's stream
  std::vector<uint8_t*> chunks_;
  Fifo<CopyRequest> waiting_;  // for their word
  Fifo<uint32_t> pending_;     // tokens in the order of the stream
  std::vector<void*> targets_;
  std::vector<void*> sources_;
  std::vector<size_t> sizes_;
  std::unique_ptr<Call> call_ = std::make_unique<Call>();
  uint64_t callsAsked_ = 0;
  Status failure_;
  bool told_ = false;
  std::string text_ = "cuda";
};

}  // namespace

std::unique_ptr<DeviceCopier> makeCudaCopier(const CudaRuntime& runtime, int device,
                                             const std::vector<PieceTable>& groups,
                                             uint32_t pendingMax) {
  return std::make_unique<CudaCopier>(runtime, device, groups, pendingMax);
}

}  // namespace spillway
