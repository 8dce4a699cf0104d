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
// After the ring has failed, its last completions are looked for this often.
constexpr int64_t kBrokenWaitNanos = 10'000'000;
constexpr int64_t kRetryNanos = 50'000;
constexpr uint32_t kNotifyBatch = 64;
constexpr uint32_t kFullWaitDivisor = 3;

}  // namespace

Lane::Lane(LaneParts parts, const char* name)
    : parts_(std::move(parts)),
      name_(name),
      staging_(parts_.stagingSlots, parts_.stagingSlotBytes),
      transfers_(parts_.stagingSlots),
      ioQueue_(parts_.stagingSlots),
      completions_(parts_.queueDepth),
      copied_(parts_.stagingSlots),
      down_(parts_.blocksInFlightMax),
      up_(parts_.blocksInFlightMax),
      overFuture_(over_.get_future()) {
  CHECK(parts_.file != nullptr && parts_.groups != nullptr && parts_.pollWaker != nullptr &&
            parts_.failure != nullptr,
        "a lane of %u slots without its parts", parts_.stagingSlots);
  CHECK(parts_.queueDepth > 0 && parts_.queueDepth <= parts_.stagingSlots, "depth %u, %u slots",
        parts_.queueDepth, parts_.stagingSlots);
  CHECK(parts_.groups->size() == parts_.file->regions().size(), "%zu groups and %zu regions",
        parts_.groups->size(), parts_.file->regions().size());
  retries_.reserve(parts_.stagingSlots);
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

void Lane::close() {
  closing_.store(true, std::memory_order_seq_cst);
  parts_.ring->wake();
}

bool Lane::join(int64_t nanos) {
  if (!thread_.joinable()) return true;
  if (overFuture_.wait_for(std::chrono::nanoseconds(nanos)) != std::future_status::ready) {
    thread_.detach();
    return false;
  }
  thread_.join();
  return true;
}

void Lane::run() {
  pthread_setname_np(pthread_self(), name_);
  const Status status = startUp();
  started_.set_value(status);
  if (!status.ok()) return;
  while (!finished()) step();
  parts_.ring->stop();
  over_.set_value();
}

Status Lane::startUp() {
  try {
    Status attached = parts_.copier->attach();
    if (!attached.ok()) return attached;
    const HostMemory& memory = staging_.memory();
    return parts_.ring->start({parts_.file->descriptor(), memory.data(), memory.bytes()});
  } catch (const std::bad_alloc&) {
    return Status::fatal(0, "host memory ran out while a lane started");
  }
}

bool Lane::finished() const {
  return closing_.load() && down_.empty() && staging_.freeCount() == staging_.slotCount();
}

// The order is the point: the ring is fed before finished blocks are worked on, so that the disk is
// never idle while the processor is busy, and the kernel is entered once a round.
void Lane::step() {
  if (broken()) {
    refuseQueued(Outcome::kEngineFailed);
  } else if (closing_.load()) {
    refuseQueued(Outcome::kCancelled);
  }
  if (broken() || closing_.load()) withdrawCopies();
  if (!broken()) {
    takeIn();
    retryDue();
    issue();
  }
  const bool work = !broken() && hasWork();
  enter(work);
  if (work) settle();
  reapCopies();
  if (broken()) failAll();
  notifyPoller();
}

// Waking the poller costs three system calls. While more blocks are in line it is woken for many
// endings at once, but no later than after the first round that adds none.
void Lane::notifyPoller() {
  const bool backlog = !down_.empty() || !ioQueue_.empty();
  const bool grew = reported_ > reportedBefore_;
  reportedBefore_ = reported_;
  if (reported_ == 0 || (backlog && grew && reported_ < kNotifyBatch)) return;
  parts_.pollWaker->notify();
  reported_ = 0;
  reportedBefore_ = 0;
}

BlockTransfer* Lane::admit() {
  DownRecord record;
  const StagingSlot slot = staging_.acquire();
  CHECK(slot.valid() && down_.pop({&record, 1}) == 1, "admit with %u slots free",
        staging_.freeCount());
  CHECK(record.group < parts_.file->regions().size(), "group %u", record.group);
  const Region& region = parts_.file->regions()[record.group];
  CHECK(region.slotBytes <= staging_.slotBytes(), "%u bytes in a staging slot of %lu",
        region.slotBytes, static_cast<unsigned long>(staging_.slotBytes()));
  const Extent extent{parts_.file->offsetOf(GroupIndex{record.group}, DiskSlot{record.slot}),
                      region.payloadBytes, region.slotBytes};
  BlockTransfer& transfer = transfers_[slot.index];
  transfer.begin(record, extent, slot, staging_.data(slot), now());
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
  if (inFlight_ == parts_.queueDepth || staging_.freeCount() == 0) return true;
  sleeping_.exchange(true, std::memory_order_acq_rel);
  return down_.empty() && !finished();
}

uint32_t Lane::waitCount() const {
  const bool full = inFlight_ == parts_.queueDepth;
  return full ? std::max(1U, parts_.queueDepth / kFullWaitDivisor) : 1;
}

// Negative: until something completes or somebody calls.
int64_t Lane::waitNanos() const {
  int64_t nanos = -1;
  const auto bound = [&](int64_t limit) { nanos = nanos < 0 ? limit : std::min(nanos, limit); };
  if (waitCount() > 1) bound(kFullWaitNanos);
  if (parts_.copier->pending() > 0) bound(kCopyWaitNanos);
  if (broken()) bound(kBrokenWaitNanos);
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
  const bool store = transfer.isStore();
  const Stage stage = store ? Stage::kWriting : Stage::kReading;
  if (broken()) return;  // failAll() ends it: nothing in flight any more
  transfer.ioNanos = now() - transfer.ioStartedAt;
  switch (progress) {
    case Progress::kWhole:
      return onMoved(transfer);
    case Progress::kResume:
      counters_.resumed.fetch_add(1, std::memory_order_relaxed);
      return queueIo(transfer);
    case Progress::kRetryLater:
      return retryLater(transfer);
    case Progress::kShort:
      return fault(transfer, Outcome::kShort, stage, 0);
    case Progress::kFailed:
      return fault(transfer, store ? Outcome::kWriteError : Outcome::kReadError, stage,
                   transfer.lastError());
    case Progress::kBroken:
      parts_.failure->set(Status::fatal(0, "the kernel counts more bytes than were asked for"));
  }
}

void Lane::retryLater(BlockTransfer& transfer) {
  counters_.retried.fetch_add(1, std::memory_order_relaxed);
  transfer.retryAt = now() + (kRetryNanos << transfer.retries());
  retries_.push_back(transfer.slot.index);
}

void Lane::startCopy(BlockTransfer& transfer, CopyDirection direction) {
  CHECK(!transfer.inFlight && !transfer.copying, "ticket %lu is in use",
        static_cast<unsigned long>(transfer.record.ticket));
  transfer.copyStartedAt = now();
  const DownRecord& record = transfer.record;
  const Status status = parts_.copier->start({direction,
                                              GroupIndex{record.group},
                                              DeviceBlock{record.deviceBlock},
                                              transfer.data,
                                              {record.eventAddress, record.eventValue},
                                              transfer.slot.index});
  transfer.copying = status.ok();
  if (!status.ok()) parts_.failure->set(status);
}

void Lane::reapCopies() {
  if (parts_.copier->pending() == 0) return;
  uint32_t count = 0;
  const Status status = parts_.copier->reap(copied_, count);
  for (uint32_t i = 0; i < count; i++) {
    CHECK(copied_[i] < transfers_.size(), "token %u of %zu", copied_[i], transfers_.size());
    BlockTransfer& transfer = transfers_[copied_[i]];
    CHECK(transfer.copying, "token %u is copied twice", copied_[i]);
    transfer.copying = false;
    transfer.copyNanos = now() - transfer.copyStartedAt;
    if (!broken()) onCopied(transfer);
  }
  if (!status.ok()) parts_.failure->set(status);
}

void Lane::fault(BlockTransfer& transfer, Outcome outcome, Stage stage, int32_t error) {
  counters_.faulted.fetch_add(1, std::memory_order_relaxed);
  transfer.fault(outcome, stage, error);
  end(transfer);
}

// Only here does a staging slot come free: after the kernel's completion and after the copy.
void Lane::end(BlockTransfer& transfer) {
  CHECK(!transfer.inFlight && !transfer.copying, "ticket %lu is still in use",
        static_cast<unsigned long>(transfer.record.ticket));
  report(transfer.ended(now()));
  staging_.release(transfer.slot);
}

void Lane::report(const UpRecord& record) {
  counters_.ended.fetch_add(1, std::memory_order_relaxed);
  const bool pushed = up_.push(record);
  CHECK(pushed, "no room for an ending among %lu", static_cast<unsigned long>(up_.capacity()));
  reported_++;
}

// Ends blocks that have not been given a staging slot.
void Lane::refuseQueued(Outcome outcome) {
  DownRecord record;
  while (down_.pop({&record, 1}) == 1) {
    BlockTransfer refused;
    refused.begin(record, {}, {}, nullptr, now());
    refused.fault(outcome, Stage::kQueued, 0);
    report(refused.ended(now()));
  }
}

// After the ring has failed: what the kernel never took is not in its hands.
void Lane::withdrawIo() {
  const uint32_t count = parts_.ring->withdraw(completions_);
  for (uint32_t i = 0; i < count; i++) onCompletion(completions_[i]);
}

// Copies that wait for an event have not begun; nobody may be left to raise it.
void Lane::withdrawCopies() {
  const uint32_t count = parts_.copier->withdraw(copied_);
  for (uint32_t i = 0; i < count; i++) {
    BlockTransfer& transfer = transfers_[copied_[i]];
    transfer.copying = false;
    const bool failed = broken();
    fault(transfer, failed ? Outcome::kEngineFailed : Outcome::kCancelled, Stage::kCopying,
          failed ? parts_.failure->cause().error : 0);
  }
}

// Ends every block that neither the kernel nor the device holds; the others follow as they let go.
void Lane::failAll() {
  ioQueue_.clear();
  retries_.clear();
  onBreakDown();
  const int32_t error = parts_.failure->cause().error;
  for (BlockTransfer& transfer : transfers_) {
    const bool over =
        transfer.state == TransferState::kDone || transfer.state == TransferState::kFaulted;
    if (over || transfer.inFlight || transfer.copying) continue;
    fault(transfer, Outcome::kEngineFailed, Stage::kQueued, error);
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
