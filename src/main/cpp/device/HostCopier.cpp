#include <atomic>
#include <cstring>

#include "base/Check.h"
#include "device/DeviceCopier.h"

namespace spillway {
namespace {

class HostCopier final : public DeviceCopier {
 public:
  HostCopier(const std::vector<PieceTable>& groups, uint32_t pendingMax) : groups_(groups) {
    waiting_.reserve(pendingMax);
    finished_.reserve(pendingMax);
  }

  Status attach(const StagingMemory&, std::function<void()>) override { return Status::well(); }

  Status start(const CopyRequest& request) override {
    CHECK(pending() < waiting_.capacity(), "%u copies pending of %zu", pending(),
          waiting_.capacity());
    if (wordReached(request.after)) {
      copy(request);
    } else {
      waiting_.push_back(request);
    }
    return Status::well();
  }

  Status reap(std::span<uint32_t> tokens, uint32_t& count) override {
    startReached();
    CHECK(!tokens.empty(), "no room for %u tokens", pending());
    count = 0;
    while (count < tokens.size() && !finished_.empty()) {
      tokens[count++] = finished_.back();
      finished_.pop_back();
    }
    return Status::well();
  }

  bool withdraw(uint32_t token) override {
    return std::erase_if(waiting_,
                         [&](const CopyRequest& request) { return request.token == token; }) > 0;
  }

  uint32_t pending() const override {
    return static_cast<uint32_t>(waiting_.size() + finished_.size());
  }

 private:
  void startReached() {
    size_t kept = 0;
    for (const CopyRequest& request : waiting_) {
      if (wordReached(request.after)) {
        copy(request);
      } else {
        waiting_[kept++] = request;
      }
    }
    waiting_.resize(kept);
  }

  void copy(const CopyRequest& request) {
    CHECK(request.group.index < groups_.size(), "group %u of %zu", request.group.index,
          groups_.size());
    CHECK(request.staging != nullptr, "no staging slot for token %u", request.token);
    const PieceTable& table = groups_[request.group.index];
    CHECK(request.block.index < table.deviceBlocks, "device block %u of %lu", request.block.index,
          static_cast<unsigned long>(table.deviceBlocks));
    uint8_t* staging = request.staging;
    const uint8_t* end = staging + table.payloadBytes;
    for (const Piece& piece : table.pieces) {
      uint8_t* device = piece.base + request.block.index * piece.stride;
      if (request.direction == CopyDirection::kToHost) {
        std::memcpy(staging, device, piece.bytes);
      } else {
        std::memcpy(device, staging, piece.bytes);
      }
      staging += piece.bytes;
    }
    CHECK(staging == end, "%zd bytes of payload left", end - staging);
    finished_.push_back(request.token);
  }

  const std::vector<PieceTable>& groups_;
  std::vector<CopyRequest> waiting_;
  std::vector<uint32_t> finished_;
};

}  // namespace

bool wordReached(const CopyEvent& event) {
  if (event.kind != CopyEventKind::kWord) return false;
  if (event.address == 0) return true;
  // The address was given by the caller of store or load as that of an aligned 64-bit word.
  auto* word = reinterpret_cast<std::atomic<uint64_t>*>(event.address);
  return word->load(std::memory_order_acquire) >= event.value;
}

std::unique_ptr<DeviceCopier> makeHostCopier(const std::vector<PieceTable>& groups,
                                             uint32_t pendingMax) {
  return std::make_unique<HostCopier>(groups, pendingMax);
}

}  // namespace spillway
