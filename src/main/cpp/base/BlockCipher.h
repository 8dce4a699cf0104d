#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace spillway {

constexpr uint32_t kCipherKeyBytes = 64;  // AES-256-XTS: two keys of 32
constexpr uint32_t kCipherBytesMin = 16;  // the shortest that XTS can do
constexpr uint32_t kCipherAes256Xts = 1;  // as the superblock numbers it

// AES-256-XTS over the payload of a block, in place and of the same length, through the libcrypto
// of the system (OpenSSL 1.1 or 3), which is found when it is asked for. Every block has a tweak of
// its own: the seed of its checksum, which no other write to this file has. One object serves one
// thread.
class BlockCipher {
 public:
  // Null where it cannot be, with the reason.
  static std::unique_ptr<BlockCipher> make(const uint8_t* key, std::string& why);
  virtual ~BlockCipher() = default;

  // False where the library refuses, which it has no reason to.
  virtual bool encrypt(uint8_t* data, uint32_t bytes, uint64_t seed) = 0;
  virtual bool decrypt(uint8_t* data, uint32_t bytes, uint64_t seed) = 0;
};

}  // namespace spillway
