#pragma once

#include "lane/Lane.h"

namespace spillway {

// Device to disk: a staging slot, the copy out, the checksum of the frozen bytes, the write. Probes
// of slots go the same way, with a pattern in the place of the copy, and are read back.
class StoreLane final : public Lane {
 public:
  explicit StoreLane(LaneParts parts) : Lane(std::move(parts), "spillway-store") {}
  ~StoreLane() override { endThread(); }

 protected:
  void takeIn() override {}
  void settle() override;
  bool hasWork() const override;
  void onMoved(BlockTransfer& transfer) override;
  void onCopied(BlockTransfer& transfer) override;

 private:
  void startProbe(BlockTransfer& transfer);
  void onProbed(BlockTransfer& transfer);
};

}  // namespace spillway
