#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace spillway {

constexpr uint32_t kFormatVersion = 3;
constexpr uint32_t kGroupsMax = 16;
constexpr uint32_t kNameSpaceBytesMax = 255;
constexpr uint64_t kSuperblockBytes = 4096;
// An epoch is the high half of a generation; two are left for the opens that raise it.
constexpr uint64_t kEpochMax = 0xfffffffd;

// Slots of one KV group within the file: `bandSlots` of them, from `offset` on, in each band.
struct RegionRecord {
  uint64_t offset;
  uint64_t slotCount;
  uint32_t slotBytes;
  uint32_t payloadBytes;
  uint32_t blockTokens;
  uint32_t bandSlots;
};
static_assert(sizeof(RegionRecord) == 32);

// The first 4096 bytes of a block file, and again one quarter of the header further on. The copy
// with the higher epoch counts; they are written one after the other, so that a torn one leaves the
// other.
struct Superblock {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t alignment;
  uint64_t epoch;
  uint64_t fingerprint;
  uint32_t rank;
  uint32_t rankCount;
  uint32_t groupCount;
  uint32_t headerBytes;
  uint64_t ownerPid;
  uint64_t ownerStart;  // clock ticks since boot, as /proc/<pid>/stat has it
  std::array<char, kNameSpaceBytesMax + 1> nameSpace;
  std::array<RegionRecord, kGroupsMax> regions;
  uint64_t identity;  // drawn when the content was begun
  uint32_t cipher;    // of the blocks: 0 none, 1 AES-256-XTS
  uint32_t reservedWord;
  std::array<uint8_t, kSuperblockBytes - 344 - kGroupsMax * sizeof(RegionRecord)> reserved;
  uint64_t check;  // XXH3-64 of all bytes before it
};
static_assert(sizeof(Superblock) == kSuperblockBytes);

// A superblock with its magic, version and check set; the rest is the caller's to fill first.
void seal(Superblock& superblock);

// Whether the bytes begin as a superblock does.
bool hasMagic(const Superblock& superblock);

// ", or of format version N (M is read here)" where damaged bytes begin as another version's
// superblock: a later one may have its check elsewhere. Else empty.
std::string otherVersion(const Superblock& damaged);

// Whether the bytes are a superblock, of any version, with an intact check.
bool intact(const Superblock& superblock);

// The first field in which a file's superblock differs from the one wanted, with both values, in
// words; nothing where the file can be used. Slot counts and owner may differ.
std::optional<std::string> difference(const Superblock& found, const Superblock& wanted);

}  // namespace spillway
