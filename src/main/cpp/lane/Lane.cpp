#include "lane/Lane.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <system_error>

#include "base/Check.h"

namespace spillway {
namespace {

// While the ring is full only a completion can help, and one system call for a third of the depth
// is enough; this bounds how long a single finished block then waits for its neighbours.
constexpr int64_t kFullWaitNanos = 1'000'000;
// A copy that waits for its event is looked at this often; nothing signals a sequence word.
constexpr int64_t kCopyWaitNanos = 50'000;
// One whose end the device calls out is looked at all the same: a device may be lost in silence.
constexpr int64_t kWokenCopyWaitNanos = 1'000'000;
// After the ring has failed, its last completions are looked for this often.
constexpr int64_t kBrokenWaitNanos = 10'000'000;
constexpr int64_t kRetryNanos = 50'000;
constexpr uint32_t kNotifyBatch = 64;
constexpr uint32_t kFullWaitDivisor = 3;
// Commands on their way: two for each transfer that is open would do.
constexpr uint32_t kCommandsPerBlock = 4;
// A block may be told of three times: copied, ended, quiet.
constexpr uint32_t kRecordsPerBlock = 3;

// Whether a cancel or a drain means this block.
bool names(const DownRecord& command, const DownRecord& block) {
  return ((command.ticket ^ block.ticket) & command.checksumSeed) == 0;
}

// What a completion that was no plain success shows.
FaultCause causeOf(const BlockTransfer& transfer, Progress progress) {
  if (progress == Progress::kResume || progress == Progress::kShort) return FaultCause::kShort;
  if (verdictOf(-transfer.lastError()) == IoVerdict::kRetry) return FaultCause::kTransient;
  const bool writes = transfer.ioDirection() == IoDirection::kWrite;
  return writes ? FaultCause::kWriteError : FaultCause::kReadError;
}

}  // namespace

Lane::Lane(LaneParts parts, const char* name)
    : parts_(std::move(parts)),
      name_(name),
      staging_(parts_.stagingSlots, parts_.stagingSlotBytes),
      transfers_(parts_.stagingSlots),
      waiting_(parts_.blocksInFlightMax),
      ioQueue_(parts_.stagingSlots),
      completions_(parts_.queueDepth),
      copied_(parts_.stagingSlots),
      down_(parts_.blocksInFlightMax),
      commands_(kCommandsPerBlock * parts_.blocksInFlightMax),
      up_(kRecordsPerBlock * parts_.blocksInFlightMax),
      overFuture_(over_.get_future()) {
  CHECK(parts_.file != nullptr && parts_.groups != nullptr && parts_.pollWaker != nullptr &&
            parts_.failure != nullptr,
        "a lane of %u slots without its parts", parts_.stagingSlots);
  CHECK(parts_.queueDepth > 0 && parts_.queueDepth <= parts_.stagingSlots, "depth %u, %u slots",
        parts_.queueDepth, parts_.stagingSlots);
  CHECK(parts_.groups->size() == parts_.file->regions().size(), "%zu groups and %zu regions",
        parts_.groups->size(), parts_.file->regions().size());
  retries_.reserve(parts_.stagingSlots);
  misconfigured_.reserve(kMisconfiguredMax);
}

Lane::~Lane() { CHECK(!thread_.joinable(), "the thread of %s outlives its lane", name_); }

void Lane::endThread() {
  if (!thread_.joinable()) return;
  close();
  thread_.join();
}

Status Lane::open() {
  std::future<Status> started = started_.get_future();
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& failure) {
    return Status::fatal(failure.code().value(),
                         "no lane thread could be started: " + std::string(failure.what()));
  }
  Status status = started.get();
  if (!status.ok()) thread_.join();
  return status;
}

void Lane::submitted() {
  if (sleeping_.exchange(false, std::memory_order_acq_rel)) parts_.ring->wake();
}

bool Lane::command(const DownRecord& record) {
  if (!commands_.push(record)) return false;
  parts_.ring->wake();
  return true;
}

void Lane::close() {
  closing_.store(true, std::memory_order_seq_cst);
  parts_.ring->wake();
}

bool Lane::join(int64_t nanos) {
  if (!thread_.joinable()) return true;
  if (overFuture_.wait_for(std::chrono::nanoseconds(nanos)) != std::future_status::ready) {
    giveUp();
    thread_.detach();
    return false;
  }
  thread_.join();
  return true;
}

// From here on device memory is the caller's: who opened the engine may unmap it now. One of the
// two sides sees the other's word, so a copy that has begun is waited for and none begins any more.
void Lane::giveUp() {
  givenUp_.store(true);
  parts_.ring->wake();
  while (touchesDevice_.load()) std::this_thread::yield();
}

bool Lane::mayTouchDevice() {
  // A call of CUDA may block for long, and touches nothing by itself.
  touchesDevice_.store(parts_.copier->usesProcessor());
  if (!givenUp_.load()) return true;
  touchesDevice_.store(false);
  return false;
}

void Lane::run() {
  pthread_setname_np(pthread_self(), name_);
  const Status status = startUp();
  started_.set_value(status);
  if (!status.ok()) return;
  while (!finished()) step();
  parts_.ring->stop();
  parts_.copier->detach();
  over_.set_value();
}

Status Lane::startUp() {
  try {
    const HostMemory& memory = staging_.memory();
    Status status =
        parts_.copier->attach({memory.data(), staging_.slotBytes(), staging_.slotCount()},
                              [this] { parts_.ring->wake(); });
    if (!status.ok()) {
      deviceRefused_ = true;
      return status;
    }
    status = parts_.ring->start({parts_.file->descriptor(), memory.data(), memory.bytes()});
    if (!status.ok()) parts_.copier->detach();
    return status;
  } catch (const std::bad_alloc&) {
    parts_.copier->detach();
    return Status::fatal(0, "host memory ran out while a lane started");
  }
}

bool Lane::finished() const {
  return closing_.load() && down_.empty() && waiting_.empty() &&
         staging_.freeCount() == staging_.slotCount();
}

// The order is the point: the ring is fed before finished blocks are worked on, so that the disk is
// never idle while the processor is busy, and the kernel is entered once a round.
void Lane::step() {
  const uint32_t before = reported_;
  takeDown();
  if (broken()) {
    refuseWaiting(Outcome::kEngineFailed);
  } else if (closing_.load()) {
    refuseWaiting(Outcome::kCancelled);
  }
  expireDue();
  if (givenUp_.load() && !quit_) abandonAll();
  if (broken() || closing_.load()) withdrawCopies();
  if (reported_ != before) wakePoller();  // the lane may be about to sleep
  if (!broken()) feed();
  const bool work = !broken() && hasWork();
  enter(work);
  if (work && !broken()) {
    // What the kernel has just given back would stand empty for as long as a block takes.
    feed();
    enter(work);
  }
  if (work && !broken()) settle();
  reapCopies();
  if (broken()) failAll();
  notifyPoller();
}

void Lane::feed() {
  takeIn();
  retryDue();
  issue();
}

// Commands are looked at first and obeyed last, so that each finds what was submitted before it.
void Lane::takeDown() {
  DownRecord orders[16];
  const size_t count = commands_.pop(orders);
  DownRecord record;
  int64_t time = 0;
  while (down_.pop({&record, 1}) == 1) {
    if (time == 0) time = now();  // after the record was there, however late that was
    waiting_.push({record, time});
    const auto bound = static_cast<int64_t>(record.deadlineNanos);
    if (bound != 0) noteDeadline(time + bound);
  }
  for (size_t i = 0; i < count; i++) obey(orders[i]);
}

void Lane::obey(const DownRecord& command) {
  const bool cancels = static_cast<Operation>(command.operation) == Operation::kCancel;
  waiting_.removeIf([&](const Waiting& waiting) {
    if (!names(command, waiting.record)) return false;
    endWaiting(waiting, Outcome::kCancelled);
    return true;
  });
  for (BlockTransfer& transfer : transfers_) {
    if (transfer.isOver() || transfer.isAbandoned() || !names(command, transfer.record)) continue;
    if (cancels) {
      abandon(transfer, Outcome::kCancelled);
    } else {
      drain(transfer);
    }
  }
}

// Ends a block now. Where kernel or device hold its memory it is quiet later; nothing can call a
// request back that the kernel has begun.
void Lane::abandon(BlockTransfer& transfer, Outcome outcome) {
  if (transfer.copying && parts_.copier->withdraw(transfer.slot.index)) transfer.copying = false;
  Stage stage = Stage::kQueued;
  if (transfer.copying) {
    stage = Stage::kCopying;
  } else if (transfer.inFlight) {
    stage = transfer.ioDirection() == IoDirection::kWrite ? Stage::kWriting : Stage::kReading;
  }
  if (transfer.isFree()) {
    forget(transfer);
    fault(transfer, outcome, stage, 0);
    return;
  }
  counters_.faulted.fetch_add(1, std::memory_order_relaxed);
  transfer.abandon(outcome, stage, 0);
  counters_.ended.fetch_add(1, std::memory_order_relaxed);
  report(transfer.ended(now()));
}

// Nobody waits for them any more; what kernel or device still hold is kept until they let go.
void Lane::abandonAll() {
  for (BlockTransfer& transfer : transfers_) {
    if (!transfer.isOver() && !transfer.isAbandoned()) abandon(transfer, Outcome::kCancelled);
  }
  parts_.copier->quit();
  quit_ = true;
}

void Lane::forget(BlockTransfer& transfer) {
  const uint32_t index = transfer.slot.index;
  ioQueue_.removeIf([&](uint32_t queued) { return queued == index; });
  std::erase(retries_, index);
  onForgotten(transfer);
}

// A block that has not started ends here; one that has goes on, and a store of them says when its
// device block is the caller's again.
void Lane::drain(BlockTransfer& transfer) {
  if (transfer.copying && parts_.copier->withdraw(transfer.slot.index)) transfer.copying = false;
  const bool waitsToCopy = transfer.isFree() && transfer.state == TransferState::kCopying;
  if (!transfer.hasStarted() || waitsToCopy) {
    abandon(transfer, Outcome::kCancelled);
  } else if (transfer.operation() == Operation::kStore) {
    transfer.tellCopied = true;
    if (!transfer.copying) tellCopied(transfer);
  }
}

void Lane::tellCopied(BlockTransfer& transfer) {
  if (!transfer.tellCopied || transfer.toldCopied) return;
  transfer.toldCopied = true;
  UpRecord up{};
  up.ticket = transfer.record.ticket;
  up.kind = kCopied;
  report(up);
}

void Lane::noteDeadline(int64_t expiresAt) { nextDeadline_ = std::min(nextDeadline_, expiresAt); }

// Looks at every block, but only when the earliest deadline that was noted has passed.
void Lane::expireDue() {
  if (nextDeadline_ == INT64_MAX) return;
  const int64_t time = now();
  if (time < nextDeadline_) return;
  nextDeadline_ = INT64_MAX;
  waiting_.removeIf([&](const Waiting& waiting) {
    if (waiting.record.deadlineNanos == 0) return false;
    const int64_t until = waiting.acceptedAt + static_cast<int64_t>(waiting.record.deadlineNanos);
    if (until > time) {
      noteDeadline(until);
      return false;
    }
    endWaiting(waiting, Outcome::kExpired);
    return true;
  });
  for (BlockTransfer& transfer : transfers_) {
    if (transfer.isOver() || transfer.isAbandoned() || transfer.expiresAt() == 0) continue;
    if (transfer.expiresAt() > time) {
      noteDeadline(transfer.expiresAt());
    } else {
      abandon(transfer, broken() ? Outcome::kEngineFailed : Outcome::kExpired);
    }
  }
}

// Waking the poller costs three system calls. While more blocks are in line it is woken for many
// endings at once, but no later than after the first round that adds none.
void Lane::notifyPoller() {
  const bool backlog = !waiting_.empty() || !ioQueue_.empty();
  const bool grew = reported_ > reportedBefore_;
  reportedBefore_ = reported_;
  if (reported_ == 0 || (backlog && grew && reported_ < kNotifyBatch)) return;
  wakePoller();
}

void Lane::wakePoller() {
  parts_.pollWaker->notify();
  reported_ = 0;
  reportedBefore_ = 0;
}

BlockTransfer* Lane::admit() {
  const StagingSlot slot = staging_.acquire();
  CHECK(slot.valid(), "admit with %u slots free", staging_.freeCount());
  const Waiting waiting = waiting_.pop();
  const DownRecord& record = waiting.record;
  CHECK(record.group < parts_.file->regions().size(), "group %u", record.group);
  const Region& region = parts_.file->regions()[record.group];
  CHECK(region.slotBytes <= staging_.slotBytes(), "%u bytes in a staging slot of %lu",
        region.slotBytes, static_cast<unsigned long>(staging_.slotBytes()));
  const Extent extent{parts_.file->offsetOf(GroupIndex{record.group}, DiskSlot{record.slot}),
                      region.payloadBytes, region.slotBytes};
  BlockTransfer& transfer = transfers_[slot.index];
  transfer.begin(record, extent, slot, staging_.data(slot), waiting.acceptedAt);
  return &transfer;
}

void Lane::queueIo(BlockTransfer& transfer) { ioQueue_.push(transfer.slot.index); }

void Lane::issue() {
  while (inFlight_ < parts_.queueDepth && !ioQueue_.empty()) {
    BlockTransfer& transfer = transfers_[ioQueue_.pop()];
    if (transfer.ioStartedAt == 0) transfer.ioStartedAt = now();
    countInFlight(+1);
    const IoRequest request = transfer.submit();
    // Before the line: direct I/O refuses an unaligned offset or length, one request in thousands.
    CHECK(request.offset % parts_.file->alignment() == 0, "offset %lu",
          static_cast<unsigned long>(request.offset));
    CHECK(request.bytes % parts_.file->alignment() == 0, "%u bytes", request.bytes);
    parts_.ring->prepare(request);
  }
}

void Lane::retryDue() {
  if (retries_.empty()) return;
  const int64_t time = now();
  std::erase_if(retries_, [&](uint32_t index) {
    const bool due = transfers_[index].retryAt <= time;
    if (due) queueIo(transfers_[index]);
    return due;
  });
}

// One system call: hands over what was prepared and, where there is nothing else to do, waits.
void Lane::enter(bool work) {
  const bool wait = !work && mayWait();
  if (!wait && parts_.ring->prepared() == 0 && inFlight_ == 0) return;
  if (work && parts_.ring->prepared() == 0) return;
  uint32_t count = 0;
  const Status status =
      parts_.ring->enter(wait ? waitCount() : 0, wait ? waitNanos() : 0, completions_, count);
  sleeping_.exchange(false, std::memory_order_acq_rel);
  for (uint32_t i = 0; i < count; i++) onCompletion(completions_[i]);
  if (status.ok()) return;
  parts_.failure->set(status);
  withdrawIo();
  const timespec pause{0, kBrokenWaitNanos};
  nanosleep(&pause, nullptr);  // what is still in flight may yet complete
}

// Announces that the lane is about to sleep, then looks once more: whoever submits or closes does
// it in the other order, so one of the two sees the other. With a full ring or no free slot a
// submission could not be acted on, so nobody need wake the lane for it.
bool Lane::mayWait() {
  if (!commands_.empty()) return false;
  if (inFlight_ == parts_.queueDepth || staging_.freeCount() == 0) return true;
  sleeping_.exchange(true, std::memory_order_acq_rel);
  return down_.empty() && commands_.empty() && !finished();
}

uint32_t Lane::waitCount() const {
  const bool full = inFlight_ == parts_.queueDepth;
  return full ? std::max(1U, parts_.queueDepth / kFullWaitDivisor) : 1;
}

// Negative: until something completes or somebody calls.
int64_t Lane::waitNanos() const {
  if (givenUp_.load()) return kBrokenWaitNanos;
  int64_t nanos = -1;
  const auto bound = [&](int64_t limit) { nanos = nanos < 0 ? limit : std::min(nanos, limit); };
  if (waitCount() > 1) bound(kFullWaitNanos);
  if (parts_.copier->pending() > 0) {
    bound(parts_.copier->willWake() ? kWokenCopyWaitNanos : kCopyWaitNanos);
  }
  if (broken()) bound(kBrokenWaitNanos);
  if (nextDeadline_ != INT64_MAX) bound(std::max<int64_t>(0, nextDeadline_ - now()));
  for (const uint32_t index : retries_) {
    bound(std::max<int64_t>(0, transfers_[index].retryAt - now()));
  }
  return nanos;
}

void Lane::onCompletion(const IoCompletion& completion) {
  const uint32_t index = BlockTransfer::indexOf(completion.userData);
  if (index >= transfers_.size() || !transfers_[index].expects(completion.userData)) {
    counters_.strays.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  countInFlight(-1);
  BlockTransfer& transfer = transfers_[index];
  onProgress(transfer, transfer.onIo(completion.result, std::max(1U, parts_.file->alignment())));
}

void Lane::onProgress(BlockTransfer& transfer, Progress progress) {
  const bool writes = transfer.ioDirection() == IoDirection::kWrite;
  const Stage stage = writes ? Stage::kWriting : Stage::kReading;
  const bool plain = progress == Progress::kWhole || progress == Progress::kBroken;
  if (!plain) countFault(FaultFate::kSeen, causeOf(transfer, progress));
  if (broken() || transfer.isAbandoned()) {
    if (!plain) countFault(FaultFate::kDiscarded, causeOf(transfer, progress));
    if (broken()) return;  // failAll() ends it: nothing in flight any more
    return progress == Progress::kWhole ? onMovedForNobody(transfer) : letGo(transfer);
  }
  transfer.ioNanos = now() - transfer.ioStartedAt;
  switch (progress) {
    case Progress::kWhole:
      misconfigured_.clear();
      return onMoved(transfer);
    case Progress::kResume:
      countFault(FaultFate::kRecovered, FaultCause::kShort);
      counters_.resumed.fetch_add(1, std::memory_order_relaxed);
      return queueIo(transfer);
    case Progress::kRetryLater:
      countFault(FaultFate::kRecovered, FaultCause::kTransient);
      return retryLater(transfer);
    case Progress::kShort:
      countFault(FaultFate::kEnded, FaultCause::kShort);
      return fault(transfer, Outcome::kShort, stage, 0);
    case Progress::kFailed:
      countFault(FaultFate::kEnded, causeOf(transfer, progress));
      noteMisconfigured(transfer);
      return fault(transfer, writes ? Outcome::kWriteError : Outcome::kReadError, stage,
                   transfer.lastError());
    case Progress::kBroken:
      parts_.failure->set(Status::fatal(0, "the kernel counts more bytes than were asked for"));
  }
}

void Lane::countFault(FaultFate fate, FaultCause cause) {
  counters_.faults[static_cast<size_t>(fate)][static_cast<size_t>(cause)].fetch_add(
      1, std::memory_order_relaxed);
}

// One slot that is refused as malformed may be a freak of one device; eight different ones in a row
// are a tier that cannot work, and would be a cache that only fails.
void Lane::noteMisconfigured(const BlockTransfer& transfer) {
  const int32_t error = transfer.lastError();
  if (!blamesConfiguration(error)) {
    misconfigured_.clear();
    return;
  }
  const uint64_t offset = transfer.extent.offset;
  if (std::find(misconfigured_.begin(), misconfigured_.end(), offset) != misconfigured_.end()) {
    return;
  }
  misconfigured_.push_back(offset);
  if (misconfigured_.size() < kMisconfiguredMax) return;
  parts_.failure->set(Status::fatal(
      error, std::to_string(kMisconfiguredMax) + " slots in a row were refused with " +
                 errorName(error) + ": " + parts_.file->path() +
                 " does not take these requests any more; the tier is off until it is reopened"));
}

void Lane::retryLater(BlockTransfer& transfer) {
  counters_.retried.fetch_add(1, std::memory_order_relaxed);
  transfer.retryAt = now() + (kRetryNanos << transfer.retries());
  retries_.push_back(transfer.slot.index);
}

void Lane::startCopy(BlockTransfer& transfer, CopyDirection direction) {
  CHECK(!transfer.inFlight && !transfer.copying, "ticket %lu is in use",
        static_cast<unsigned long>(transfer.record.ticket));
  if (!mayTouchDevice()) return abandon(transfer, Outcome::kCancelled);
  transfer.copyStartedAt = now();
  const DownRecord& record = transfer.record;
  const Status status = parts_.copier->start(
      {direction,
       GroupIndex{record.group},
       DeviceBlock{record.deviceBlock},
       transfer.data,
       {record.eventAddress, record.eventValue, static_cast<CopyEventKind>(record.eventKind)},
       transfer.slot.index});
  touchesDevice_.store(false);
  transfer.copying = status.ok();
  if (!status.ok()) parts_.failure->set(status);
}

void Lane::reapCopies() {
  if (parts_.copier->pending() == 0 || (!quit_ && !mayTouchDevice())) return;
  uint32_t count = 0;
  const Status status = parts_.copier->reap(copied_, count);
  touchesDevice_.store(false);
  for (uint32_t i = 0; i < count; i++) {
    CHECK(copied_[i] < transfers_.size(), "token %u of %zu", copied_[i], transfers_.size());
    BlockTransfer& transfer = transfers_[copied_[i]];
    CHECK(transfer.copying, "token %u is copied twice", copied_[i]);
    transfer.copying = false;
    transfer.copyNanos = now() - transfer.copyStartedAt;
    tellCopied(transfer);
    if (broken()) continue;
    if (transfer.isAbandoned()) {
      letGo(transfer);
    } else {
      onCopied(transfer);
    }
  }
  if (!status.ok()) parts_.failure->set(status);
}

void Lane::fault(BlockTransfer& transfer, Outcome outcome, Stage stage, int32_t error) {
  counters_.faulted.fetch_add(1, std::memory_order_relaxed);
  transfer.fault(outcome, stage, error);
  end(transfer);
}

// Only here and in letGo() does a staging slot come free: after the kernel's completion and after
// the copy.
void Lane::end(BlockTransfer& transfer) {
  CHECK(transfer.isFree(), "ticket %lu is still in use",
        static_cast<unsigned long>(transfer.record.ticket));
  counters_.ended.fetch_add(1, std::memory_order_relaxed);
  report(transfer.ended(now()));
  staging_.release(transfer.slot);
}

void Lane::letGo(BlockTransfer& transfer) {
  CHECK(transfer.isFree(), "ticket %lu is still in use",
        static_cast<unsigned long>(transfer.record.ticket));
  report(transfer.quiet(now()));
  staging_.release(transfer.slot);
}

void Lane::report(const UpRecord& record) {
  const bool pushed = up_.push(record);
  CHECK(pushed, "no room for an ending among %lu", static_cast<unsigned long>(up_.capacity()));
  reported_++;
}

// Ends a block that has not been given a staging slot.
void Lane::endWaiting(const Waiting& waiting, Outcome outcome) {
  BlockTransfer refused;
  refused.begin(waiting.record, {}, {}, nullptr, waiting.acceptedAt);
  refused.fault(outcome, Stage::kQueued, 0);
  counters_.ended.fetch_add(1, std::memory_order_relaxed);
  counters_.faulted.fetch_add(1, std::memory_order_relaxed);
  report(refused.ended(now()));
}

void Lane::refuseWaiting(Outcome outcome) {
  while (!waiting_.empty()) endWaiting(waiting_.pop(), outcome);
}

// After the ring has failed: what the kernel never took is not in its hands.
void Lane::withdrawIo() {
  const uint32_t count = parts_.ring->withdraw(completions_);
  for (uint32_t i = 0; i < count; i++) onCompletion(completions_[i]);
}

// Copies that wait for an event have not begun; nobody may be left to raise it.
void Lane::withdrawCopies() {
  if (parts_.copier->pending() == 0) return;
  const bool failed = broken();
  for (BlockTransfer& transfer : transfers_) {
    if (!transfer.copying || !parts_.copier->withdraw(transfer.slot.index)) continue;
    transfer.copying = false;
    if (transfer.isAbandoned()) {
      letGo(transfer);
    } else {
      fault(transfer, failed ? Outcome::kEngineFailed : Outcome::kCancelled, Stage::kCopying,
            failed ? parts_.failure->cause().error : 0);
    }
  }
}

// Ends every block that neither the kernel nor the device holds; the others follow as they let go.
void Lane::failAll() {
  const int32_t error = parts_.failure->cause().error;
  for (BlockTransfer& transfer : transfers_) {
    if (transfer.isOver() || !transfer.isFree()) continue;
    forget(transfer);
    if (transfer.isAbandoned()) {
      letGo(transfer);
    } else {
      fault(transfer, Outcome::kEngineFailed, Stage::kQueued, error);
    }
  }
}

void Lane::countInFlight(int32_t change) {
  const int64_t time = now();
  if (inFlight_ > 0) {
    const auto elapsed = static_cast<uint64_t>(time - inFlightSince_);
    counters_.busyNanos.fetch_add(elapsed, std::memory_order_relaxed);
    counters_.inFlightNanos.fetch_add(elapsed * inFlight_, std::memory_order_relaxed);
  }
  inFlightSince_ = time;
  inFlight_ = static_cast<uint32_t>(static_cast<int32_t>(inFlight_) + change);
  CHECK(inFlight_ <= parts_.queueDepth, "%u in flight at depth %u", inFlight_, parts_.queueDepth);
  if (inFlight_ > counters_.inFlightMax.load(std::memory_order_relaxed)) {
    counters_.inFlightMax.store(inFlight_, std::memory_order_relaxed);
  }
}

}  // namespace spillway
