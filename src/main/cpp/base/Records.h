#pragma once

#include <cstddef>
#include <cstdint>

// The records that cross the JNI line, little endian, in memory that Java views as a ByteBuffer.
// RecordLayout.java holds the same offsets and compares them with recordLayout() when it loads.
// They may change before 1.0; a record of another version is refused by its number.

namespace spillway {

constexpr uint32_t kRecordVersion = 5;

enum class Operation : uint16_t {
  kStore = 1,
  kLoad = 2,
  // A slot on disk is written, read and compared in place; no device block takes part.
  kProbe = 3,
  // Of blocks already submitted: those whose ticket agrees with `ticket` in the bits of
  // `checksumSeed`. Cancel ends them now, and those that kernel or device hold are quiet later.
  kCancel = 4,
  // Drain ends those of them that have not started, lets the others finish, and has the stores
  // among these say when their device block is copied.
  kDrain = 5,
  // A block is read and its checksum compared, in the lane of the loads; no device block takes
  // part.
  kVerify = 6,
};

// Down: one block to move, or a word about blocks on their way. `deadlineNanos` counts from here
// (0: none). The copy of a store, or the copy onto the device of a load, starts after the event,
// which is of `eventKind` (CopyEventKind) and where none is given is now.
struct DownRecord {
  uint64_t ticket;
  uint16_t operation;
  uint16_t group;
  uint32_t deviceBlock;
  uint32_t slot;
  uint16_t path;
  uint16_t eventKind;
  uint64_t checksumSeed;
  uint64_t expectedChecksum;
  uint64_t deadlineNanos;
  uint64_t eventAddress;
  uint64_t eventValue;
};
static_assert(sizeof(DownRecord) == 64);
static_assert(offsetof(DownRecord, operation) == 8 && offsetof(DownRecord, group) == 10);
static_assert(offsetof(DownRecord, deviceBlock) == 12 && offsetof(DownRecord, slot) == 16);
static_assert(offsetof(DownRecord, path) == 20 && offsetof(DownRecord, eventKind) == 22);
static_assert(offsetof(DownRecord, checksumSeed) == 24);
static_assert(offsetof(DownRecord, expectedChecksum) == 32);
static_assert(offsetof(DownRecord, deadlineNanos) == 40);
static_assert(offsetof(DownRecord, eventAddress) == 48 && offsetof(DownRecord, eventValue) == 56);

// Bits of UpRecord::kind.
constexpr uint16_t kEnded = 1;   // the outcome is known
constexpr uint16_t kQuiet = 2;   // neither kernel nor device can touch the block's memory any more
constexpr uint16_t kMedium = 4;  // the place on disk is to blame, not the moment
constexpr uint16_t kCopied = 8;  // a store's device block is copied; no ending
constexpr uint16_t kCapacity = 16;  // the file system has no room or takes no writes

// Up: how one block ended. Nanoseconds are those spent in each stage.
struct UpRecord {
  uint64_t ticket;
  uint16_t kind;
  uint16_t outcome;
  int32_t error;
  uint16_t stage;
  uint16_t attempts;
  uint32_t bytesDone;
  uint64_t checksum;
  uint64_t queuedNanos;
  uint64_t ioNanos;
  uint64_t verifyNanos;
  uint64_t copyNanos;
};
static_assert(sizeof(UpRecord) == 64);
static_assert(offsetof(UpRecord, kind) == 8 && offsetof(UpRecord, outcome) == 10);
static_assert(offsetof(UpRecord, error) == 12 && offsetof(UpRecord, stage) == 16);
static_assert(offsetof(UpRecord, bytesDone) == 20 && offsetof(UpRecord, checksum) == 24);
static_assert(offsetof(UpRecord, queuedNanos) == 32 && offsetof(UpRecord, copyNanos) == 56);

enum class EngineKind : uint32_t { kAuto = 0, kUring = 1, kThreads = 2 };
enum class DeviceKind : uint32_t { kHost = 0, kCuda = 1 };
// What becomes of a block file that is there, and of this one: bits.
enum Keeping : uint32_t {
  kKeepNothing = 1,   // unlinked once open: its blocks cannot outlive the process
  kDiscardOther = 2,  // a file of another layout or name space is emptied, not refused
};
enum class Allocation : uint32_t { kPreallocate = 0, kZeroFill = 1, kSparse = 2 };

// What an engine is opened with, followed in memory by `groupCount` GroupRecords and then by the
// PieceRecords of all groups, in order.
struct OpenRecord {
  uint32_t version;
  uint32_t rank;
  uint32_t rankCount;
  uint32_t groupCount;
  uint64_t capacityBytes;
  uint64_t stagingBytesMax;  // per lane
  uint32_t queueDepth;
  uint32_t engineKind;
  uint32_t direct;     // 1: O_DIRECT, 0: the page cache was asked for
  uint32_t alignment;  // 0: ask the kernel
  uint32_t allocation;
  uint32_t blocksInFlightMax;
  uint64_t fingerprint;
  uint64_t lockWaitNanos;
  uint64_t faultSeed;
  uint32_t faultCount;  // FaultRecords behind the pieces: faults to make, for trials only
  uint32_t deviceKind;
  uint32_t deviceOrdinal;
  uint32_t keeping;  // Keeping
  uint64_t freeFloorBytes;
  uint64_t slotRecordBytes;  // beside the file, for each slot
  uint64_t cipherKey;        // address of kCipherKeyBytes, read while opening; 0: no encryption
};
static_assert(sizeof(OpenRecord) == 120);

struct GroupRecord {
  uint32_t blockTokens;
  uint32_t pieceCount;
  uint64_t deviceBlocks;
};
static_assert(sizeof(GroupRecord) == 16);

// Bytes of one block in one tensor: block b lies at base + b * stride.
struct PieceRecord {
  uint64_t base;
  uint64_t stride;
  uint64_t bytes;
};
static_assert(sizeof(PieceRecord) == 24);

// One kind of fault to make, at a rate.
struct FaultRecord {
  uint32_t kind;       // FaultKind
  uint32_t direction;  // FaultDirection
  int32_t error;
  uint32_t reserved;
  double rate;
  int64_t delayNanos;
};
static_assert(sizeof(FaultRecord) == 32);

}  // namespace spillway
