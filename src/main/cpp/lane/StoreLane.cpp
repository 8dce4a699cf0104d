#include "lane/StoreLane.h"

#include <cstring>

#include "base/Check.h"
#include "base/Checksum.h"

namespace spillway {

void StoreLane::settle() {
  for (uint32_t i = 0; i < kSettleBatch && hasWork(); i++) {
    BlockTransfer* transfer = admit();
    transfer->advance(TransferEvent::kStarted);
    startCopy(*transfer, CopyDirection::kToHost);
  }
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
  transfer.verifyNanos = now() - begun;
  transfer.advance(TransferEvent::kCopied);
  queueIo(transfer);
}

void StoreLane::onMoved(BlockTransfer& transfer) {
  transfer.advance(TransferEvent::kMovedWhole);
  end(transfer);
}

}  // namespace spillway
