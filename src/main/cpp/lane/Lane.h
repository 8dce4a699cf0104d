#pragma once

#include <atomic>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/BlockCipher.h"
#include "base/BoundedQueue.h"
#include "base/Clock.h"
#include "base/Fifo.h"
#include "base/Records.h"
#include "base/Waker.h"
#include "device/DeviceCopier.h"
#include "disk/BlockFile.h"
#include "disk/Ring.h"
#include "lane/BlockTransfer.h"
#include "lane/EngineFailure.h"
#include "staging/StagingSlots.h"

namespace spillway {

// What a lane is made of. File, piece tables and the poller's waker are the engine's and outlive
// it.
struct LaneParts {
  const BlockFile* file = nullptr;
  const std::vector<PieceTable>* groups = nullptr;
  Waker* pollWaker = nullptr;
  EngineFailure* failure = nullptr;
  std::unique_ptr<Ring> ring;
  std::unique_ptr<DeviceCopier> copier;
  std::unique_ptr<BlockCipher> cipher;  // null: blocks lie on disk as they are
  uint32_t queueDepth = 0;
  uint32_t stagingSlots = 0;
  uint64_t stagingSlotBytes = 0;
  uint32_t blocksInFlightMax = 0;
  Clock clock = monotonicNanos;
};

// Counters of a lane. Written by its thread, read by any.
struct LaneCounters {
  std::atomic<uint64_t> ended{0};
  std::atomic<uint64_t> faulted{0};
  std::atomic<uint64_t> resumed{0};  // requests that came back short and were continued
  std::atomic<uint64_t> retried{0};  // requests that the kernel refused for the moment
  std::atomic<uint64_t> strays{0};   // completions that belonged to no request in flight
  std::atomic<uint64_t> inFlightMax{0};
  std::atomic<uint64_t> busyNanos{0};      // time with at least one request in flight
  std::atomic<uint64_t> inFlightNanos{0};  // the sum over that time of the requests in flight
  // Completions that were no plain success: seen = recovered + ended + discarded, cause by cause.
  std::atomic<uint64_t> faults[kFaultFates][kFaultCauses] = {};
};

// Carries blocks one way between device and disk: the only place that knows device, staging and
// disk together. It has a thread, a ring, staging slots and a copier of its own, so that loads
// never wait behind stores. Loop: take in, issue, enter the kernel once, then work on what has
// finished. More staging slots than ring depth let the next requests leave before finished blocks
// are worked on.
//
// Disk faults end their block and nothing else. A failure of ring or copier is fatal: the first
// cause is kept, and every block, present and future, ends as ENGINE_FAILED.
class Lane {
 public:
  explicit Lane(LaneParts parts, const char* name);
  virtual ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Starts the thread and waits until ring and copier are ready, or why not.
  Status open();
  // Whether it was the device that could not be set up.
  bool deviceRefused() const { return deviceRefused_; }
  const char* copierText() const { return parts_.copier->describe(); }
  // Asks the thread to cancel what has not started, to finish what has, and to end.
  void close();
  // Waits for that; false when the kernel or the device still owns memory after `nanos`. Then the
  // thread, and all it may still touch, must be left alone for ever; device memory it touches no
  // more.
  bool join(int64_t nanos);
  // Waits without a bound for a thread that join() gave up.
  void awaitOver() const { overFuture_.wait(); }

  // Producer's side. False when the queue is full.
  bool submit(const DownRecord& record) { return down_.push(record); }
  void submitted();
  // A cancel or a drain. It overtakes the queue, and sees all that was submitted before it.
  bool command(const DownRecord& record);
  // Consumer's side.
  size_t poll(std::span<UpRecord> target) { return up_.pop(target); }
  bool hasEndings() const { return !up_.empty(); }

  const LaneCounters& counters() const { return counters_; }
  const RingMode& ringMode() const { return parts_.ring->mode(); }
  RingCounters ringCounters() const { return parts_.ring->counters(); }
  PageKind stagingPages() const { return staging_.memory().pages(); }
  uint32_t stagingSlots() const { return staging_.slotCount(); }
  bool broken() const { return parts_.failure->broken(); }

 protected:
  // For the destructors of derived lanes: the thread must be gone before what it calls is.
  void endThread();

  // Moves queued blocks to where their first step can be taken, as far as that costs no copying.
  virtual void takeIn() = 0;
  // Copies and checksums a few blocks: work for the processor, done after the ring was fed.
  virtual void settle() = 0;
  virtual bool hasWork() const = 0;
  // The ring has moved all bytes of the block.
  virtual void onMoved(BlockTransfer& transfer) = 0;
  // The copier is done with the block.
  virtual void onCopied(BlockTransfer& transfer) = 0;
  // The block ends now; it must not be found in a line of the derived lane's any more.
  virtual void onForgotten(BlockTransfer&) {}
  // The ring has moved all bytes of a block that had been abandoned.
  virtual void onMovedForNobody(BlockTransfer& transfer) { letGo(transfer); }

  // The next queued block in a staging slot of its own, or null when there is none of either.
  BlockTransfer* admit();
  bool canAdmit() const { return !waiting_.empty() && staging_.freeCount() > 0; }
  // Puts a block in line for the ring.
  void queueIo(BlockTransfer& transfer);
  void startCopy(BlockTransfer& transfer, CopyDirection direction);
  uint32_t queuedIo() const { return ioQueue_.count(); }
  // Places of the ring that nothing is in or in line for.
  uint32_t freePlaces() const {
    const uint32_t taken = ioQueue_.count() + inFlight_;
    return taken < parts_.queueDepth ? parts_.queueDepth - taken : 0;
  }
  uint32_t queueDepth() const { return parts_.queueDepth; }
  void end(BlockTransfer& transfer);
  void fault(BlockTransfer& transfer, Outcome outcome, Stage stage, int32_t error);
  // The memory of an abandoned block has come free.
  void letGo(BlockTransfer& transfer);
  void countFault(FaultFate fate, FaultCause cause);
  BlockCipher* cipher() const { return parts_.cipher.get(); }
  // Ends the lane, and the other with it, once this round is over.
  void breakWith(const std::string& cause) { parts_.failure->set(Status::fatal(0, cause)); }
  const PieceTable& piecesOf(const BlockTransfer& transfer) const {
    return (*parts_.groups)[transfer.record.group];
  }
  int64_t now() const { return parts_.clock(); }

  // At most so much is copied or checksummed before the ring is fed again: places that come free
  // meanwhile stand empty.
  static constexpr uint32_t kSettleBatch = 8;
  static constexpr uint64_t kSettleBytes = uint64_t{512} << 10;

 private:
  struct Waiting {
    DownRecord record;
    int64_t acceptedAt = 0;
  };

  void giveUp();
  bool mayTouchDevice();
  void abandonAll();
  void run();
  Status startUp();
  void step();
  void takeDown();
  void obey(const DownRecord& command);
  void expireDue();
  void noteDeadline(int64_t expiresAt);
  void abandon(BlockTransfer& transfer, Outcome outcome);
  void forget(BlockTransfer& transfer);
  void drain(BlockTransfer& transfer);
  void tellCopied(BlockTransfer& transfer);
  void endWaiting(const Waiting& waiting, Outcome outcome);
  void noteMisconfigured(const BlockTransfer& transfer);
  void notifyPoller();
  void wakePoller();
  bool finished() const;
  void feed();
  void issue();
  void retryDue();
  void enter(bool work);
  bool mayWait();
  uint32_t waitCount() const;
  int64_t waitNanos() const;
  void onCompletion(const IoCompletion& completion);
  void onProgress(BlockTransfer& transfer, Progress progress);
  void retryLater(BlockTransfer& transfer);
  void reapCopies();
  void failAll();
  void withdrawIo();
  void withdrawCopies();
  void refuseWaiting(Outcome outcome);
  void report(const UpRecord& record);
  void countInFlight(int32_t change);

  LaneParts parts_;
  const char* name_;
  StagingSlots staging_;
  std::vector<BlockTransfer> transfers_;  // one for each staging slot
  Fifo<Waiting> waiting_;                 // accepted, without a staging slot yet
  Fifo<uint32_t> ioQueue_;                // transfers in line for the ring
  std::vector<uint32_t> retries_;         // transfers that wait for their retryAt
  std::vector<IoCompletion> completions_;
  std::vector<uint32_t> copied_;
  uint32_t inFlight_ = 0;
  int64_t inFlightSince_ = 0;

  int64_t nextDeadline_ = INT64_MAX;
  // The last slots that the kernel refused as EINVAL and its kin, one after the other.
  static constexpr uint32_t kMisconfiguredMax = 8;
  std::vector<uint64_t> misconfigured_;

  BoundedQueue<DownRecord> down_;
  BoundedQueue<DownRecord> commands_;
  BoundedQueue<UpRecord> up_;
  uint32_t reported_ = 0;  // endings since the poller was last woken
  uint32_t reportedBefore_ = 0;
  bool deviceRefused_ = false;  // written before started_ is set

  std::atomic<bool> sleeping_{false};
  std::atomic<bool> closing_{false};
  std::atomic<bool> givenUp_{false};
  std::atomic<bool> touchesDevice_{false};
  bool quit_ = false;  // the lane's own: it has seen that it was given up
  LaneCounters counters_;
  std::promise<Status> started_;
  std::promise<void> over_;
  std::future<void> overFuture_;
  std::thread thread_;
};

}  // namespace spillway
