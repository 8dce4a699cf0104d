#include "lane/StoreLane.h"

#include <cstring>

#include "base/Check.h"
#include "base/Checksum.h"

namespace spillway {

void StoreLane::settle() {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < kSettleBatch && bytes < kSettleBytes && hasWork(); i++) {
    BlockTransfer* transfer = admit();
    bytes += transfer->extent.payloadBytes;
    transfer->advance(TransferEvent::kStarted);
    if (transfer->operation() == Operation::kProbe) {
      startProbe(*transfer);
    } else {
      startCopy(*transfer, CopyDirection::kToHost);
    }
  }
}

// Words that no other probe writes and no block holds.
void StoreLane::startProbe(BlockTransfer& transfer) {
  uint64_t word = transfer.record.checksumSeed;
  for (uint32_t at = 0; at + sizeof(word) <= transfer.extent.transferBytes; at += sizeof(word)) {
    word += 0x9e3779b97f4a7c15;
    std::memcpy(transfer.data + at, &word, sizeof(word));
  }
  transfer.checksum =
      checksum(transfer.data, transfer.extent.transferBytes, transfer.record.checksumSeed);
  queueIo(transfer);
}

void StoreLane::onProbed(BlockTransfer& transfer) {
  const uint64_t found =
      checksum(transfer.data, transfer.extent.transferBytes, transfer.record.checksumSeed);
  if (found != transfer.checksum) {
    countFault(FaultFate::kSeen, FaultCause::kCorrupt);
    countFault(FaultFate::kEnded, FaultCause::kCorrupt);
    fault(transfer, Outcome::kCorrupt, Stage::kVerifying, 0);
    return;
  }
  transfer.advance(TransferEvent::kMovedWhole);
  end(transfer);
}

// Copies run ahead of the ring by one depth and no more: that keeps it fed.
bool StoreLane::hasWork() const { return canAdmit() && queuedIo() < queueDepth(); }

// The checksum is of the very bytes that are written, and of the payload only; the tail that fills
// the slot up to the alignment is zero, never what an earlier block left there.
void StoreLane::onCopied(BlockTransfer& transfer) {
  CHECK(transfer.state == TransferState::kCopying, "state %d", static_cast<int>(transfer.state));
  const int64_t begun = now();
  const Extent& extent = transfer.extent;
  CHECK(extent.payloadBytes == piecesOf(transfer).payloadBytes, "%u bytes of payload",
        extent.payloadBytes);
  std::memset(transfer.data + extent.payloadBytes, 0, extent.transferBytes - extent.payloadBytes);
  transfer.checksum = checksum(transfer.data, extent.payloadBytes, transfer.record.checksumSeed);
  if (cipher() != nullptr &&
      !cipher()->encrypt(transfer.data, extent.payloadBytes, transfer.record.checksumSeed)) {
    breakWith("a block could not be encrypted");
  }
  transfer.verifyNanos = now() - begun;
  transfer.advance(TransferEvent::kCopied);
  queueIo(transfer);
}

void StoreLane::onMoved(BlockTransfer& transfer) {
  const bool probe = transfer.operation() == Operation::kProbe;
  if (probe && transfer.state == TransferState::kReading) return onProbed(transfer);
  if (probe) {
    transfer.turnToReading();
    std::memset(transfer.data, 0, transfer.extent.transferBytes);
    queueIo(transfer);
    return;
  }
  transfer.advance(TransferEvent::kMovedWhole);
  end(transfer);
}

}  // namespace spillway
