#include "lane/LoadLane.h"

#include "base/Check.h"
#include "base/Checksum.h"

namespace spillway {

LoadLane::LoadLane(LaneParts parts)
    : Lane(std::move(parts), "spillway-load"), whole_(stagingSlots()) {}

// As many as the ring has places for: a block waits in the queue, where it can still be cancelled,
// rather than in a slot, and the slots that are used are few and warm in the cache.
void LoadLane::takeIn() {
  while (freePlaces() > 0 && canAdmit()) {
    BlockTransfer* transfer = admit();
    transfer->advance(TransferEvent::kStarted);
    queueIo(*transfer);
  }
}

void LoadLane::onMoved(BlockTransfer& transfer) { whole_.push(&transfer); }

void LoadLane::settle() {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < kSettleBatch && bytes < kSettleBytes && hasWork(); i++) {
    BlockTransfer& transfer = *whole_.pop();
    bytes += transfer.extent.payloadBytes;
    verify(transfer);
  }
}

// Bytes that are torn, misplaced, stale or rotten differ in the checksum, whose seed names key and
// generation. They never reach the device.
void LoadLane::verify(BlockTransfer& transfer) {
  const bool abandoned = transfer.isAbandoned();
  CHECK(abandoned || transfer.state == TransferState::kReading, "state %d",
        static_cast<int>(transfer.state));
  CHECK(transfer.bytesMoved == transfer.extent.transferBytes, "%u of %u bytes", transfer.bytesMoved,
        transfer.extent.transferBytes);
  const bool intact = isIntact(transfer, abandoned ? FaultFate::kDiscarded : FaultFate::kEnded);
  if (abandoned) return letGo(transfer);
  if (!intact) return fault(transfer, Outcome::kCorrupt, Stage::kVerifying, 0);
  transfer.advance(TransferEvent::kMovedWhole);
  if (transfer.isOver()) return end(transfer);  // it was to be verified, no more
  startCopy(transfer, CopyDirection::kToDevice);
}

bool LoadLane::isIntact(BlockTransfer& transfer, FaultFate fate) {
  const int64_t begun = now();
  if (cipher() != nullptr && !cipher()->decrypt(transfer.data, transfer.extent.payloadBytes,
                                                transfer.record.checksumSeed)) {
    breakWith("a block could not be decrypted");
  }
  transfer.checksum =
      checksum(transfer.data, transfer.extent.payloadBytes, transfer.record.checksumSeed);
  transfer.verifyNanos = now() - begun;
  if (transfer.checksum == transfer.record.expectedChecksum) return true;
  countFault(FaultFate::kSeen, FaultCause::kCorrupt);
  countFault(fate, FaultCause::kCorrupt);
  return false;
}

void LoadLane::onForgotten(BlockTransfer& transfer) {
  const auto isThis = [&](const BlockTransfer* queued) { return queued == &transfer; };
  if (whole_.removeIf(isThis) > 0) isIntact(transfer, FaultFate::kDiscarded);
}

void LoadLane::onCopied(BlockTransfer& transfer) {
  transfer.advance(TransferEvent::kCopied);
  end(transfer);
}

}  // namespace spillway
