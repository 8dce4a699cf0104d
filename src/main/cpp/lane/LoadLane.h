#pragma once

#include "lane/Lane.h"

namespace spillway {

// Disk to device: a staging slot, the read, the checksum, and only if it matches the copy in. A
// block that is only to be verified ends before the copy.
class LoadLane final : public Lane {
 public:
  explicit LoadLane(LaneParts parts);
  ~LoadLane() override { endThread(); }

 protected:
  void takeIn() override;
  void settle() override;
  bool hasWork() const override { return !whole_.empty(); }
  void onMoved(BlockTransfer& transfer) override;
  void onCopied(BlockTransfer& transfer) override;
  // Verified all the same: a fault of the disk counts, whoever still waits for the block.
  void onForgotten(BlockTransfer& transfer) override;
  void onMovedForNobody(BlockTransfer& transfer) override { whole_.push(&transfer); }

 private:
  void verify(BlockTransfer& transfer);
  // Compares the checksum, and counts a block that differs.
  bool isIntact(BlockTransfer& transfer, FaultFate fate);

  Fifo<BlockTransfer*> whole_;  // read, not yet verified
};

}  // namespace spillway
