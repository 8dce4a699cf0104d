#include "disk/Superblock.h"

#include <cstddef>
#include <cstdio>
#include <cstring>

#include "base/Checksum.h"

namespace spillway {
namespace {

constexpr std::array<char, 8> kMagic = {'S', 'P', 'I', 'L', 'L', 'W', 'A', 'Y'};

uint64_t checkOf(const Superblock& superblock) {
  return checksum(&superblock, offsetof(Superblock, check), 0);
}

std::string differs(const std::string& field, const std::string& found, const std::string& wanted) {
  return field + " is " + found + " in the file and " + wanted + " here";
}

// A file's may lack the zero at its end.
template <size_t kBytes>
std::string textOf(const std::array<char, kBytes>& bytes) {
  return {bytes.data(), strnlen(bytes.data(), kBytes)};
}

std::string hex(uint64_t value) {
  std::array<char, 20> text{};
  std::snprintf(text.data(), text.size(), "%016lx", static_cast<unsigned long>(value));
  return text.data();
}

std::string cipherName(uint32_t cipher) {
  if (cipher > 1) return std::to_string(cipher);
  return cipher == 0 ? "none" : "AES-256-XTS";
}

std::optional<std::string> numberDifference(const std::string& field, uint64_t found,
                                            uint64_t wanted) {
  if (found == wanted) return std::nullopt;
  return differs(field, std::to_string(found), std::to_string(wanted));
}

std::optional<std::string> regionDifference(uint32_t group, const RegionRecord& found,
                                            const RegionRecord& wanted) {
  const std::string prefix = "group " + std::to_string(group) + ": ";
  if (auto text = numberDifference(prefix + "block bytes", found.payloadBytes, wanted.payloadBytes))
    return text;
  if (auto text = numberDifference(prefix + "block tokens", found.blockTokens, wanted.blockTokens))
    return text;
  if (auto text = numberDifference(prefix + "slots a band", found.bandSlots, wanted.bandSlots))
    return text;
  return numberDifference(prefix + "slot bytes", found.slotBytes, wanted.slotBytes);
}

}  // namespace

void seal(Superblock& superblock) {
  superblock.magic = kMagic;
  superblock.version = kFormatVersion;
  superblock.check = checkOf(superblock);
}

bool hasMagic(const Superblock& superblock) { return superblock.magic == kMagic; }

std::string otherVersion(const Superblock& damaged) {
  if (!hasMagic(damaged) || damaged.version == kFormatVersion) return "";
  return ", or of format version " + std::to_string(damaged.version) + " (" +
         std::to_string(kFormatVersion) + " is read here)";
}

bool intact(const Superblock& superblock) {
  return hasMagic(superblock) && superblock.check == checkOf(superblock);
}

std::optional<std::string> difference(const Superblock& found, const Superblock& wanted) {
  if (auto text = numberDifference("format version", found.version, kFormatVersion)) return text;
  const std::string foundName = textOf(found.nameSpace);
  const std::string wantedName = textOf(wanted.nameSpace);
  if (foundName != wantedName) {
    return differs("namespace", "\"" + foundName + "\"", "\"" + wantedName + "\"");
  }
  if (found.cipher != wanted.cipher) {
    return differs("cipher", cipherName(found.cipher), cipherName(wanted.cipher));
  }
  if (auto text = numberDifference("rank", found.rank, wanted.rank)) return text;
  if (auto text = numberDifference("rank count", found.rankCount, wanted.rankCount)) return text;
  if (auto text = numberDifference("group count", found.groupCount, wanted.groupCount)) return text;
  if (auto text = numberDifference("alignment", found.alignment, wanted.alignment)) return text;
  for (uint32_t group = 0; group < wanted.groupCount; group++) {
    auto text = regionDifference(group, found.regions[group], wanted.regions[group]);
    if (text) return text;
  }
  if (found.fingerprint != wanted.fingerprint) {
    return differs("layout fingerprint", hex(found.fingerprint), hex(wanted.fingerprint));
  }
  return std::nullopt;
}

}  // namespace spillway
