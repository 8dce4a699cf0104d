#include "base/BlockCipher.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace spillway {
namespace {

// What is used of <openssl/evp.h>; its types are opaque here.
struct Crypto {
  void* (*contextNew)();
  void (*contextFree)(void* context);
  const void* (*aes256Xts)();
  int (*init)(void* context, const void* cipher, void* engine, const uint8_t* key,
              const uint8_t* tweak, int encrypt);
  int (*update)(void* context, uint8_t* out, int* outBytes, const uint8_t* in, int inBytes);
};

template <typename Function>
bool find(void* library, const char* name, Function& target) {
  target = reinterpret_cast<Function>(dlsym(library, name));
  return target != nullptr;
}

// Never unloaded: it may have threads' data of its own.
const Crypto* loadCrypto() {
  static Crypto crypto{};
  for (const char* name : {"libcrypto.so.3", "libcrypto.so.1.1"}) {
    void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    if (find(library, "EVP_CIPHER_CTX_new", crypto.contextNew) &&
        find(library, "EVP_CIPHER_CTX_free", crypto.contextFree) &&
        find(library, "EVP_aes_256_xts", crypto.aes256Xts) &&
        find(library, "EVP_CipherInit_ex", crypto.init) &&
        find(library, "EVP_CipherUpdate", crypto.update)) {
      return &crypto;
    }
    dlclose(library);
  }
  return nullptr;
}

// XTS bounds a data unit to 2^20 AES blocks; units of a mebibyte are well below.
constexpr uint32_t kUnitBytes = 1U << 20;

class EvpCipher final : public BlockCipher {
 public:
  explicit EvpCipher(const Crypto& crypto)
      : crypto_(crypto), encrypting_(crypto.contextNew()), decrypting_(crypto.contextNew()) {}
  ~EvpCipher() override {
    crypto_.contextFree(encrypting_);  // which wipes the key
    crypto_.contextFree(decrypting_);
  }
  EvpCipher(const EvpCipher&) = delete;
  EvpCipher& operator=(const EvpCipher&) = delete;

  bool take(const uint8_t* key) {
    const void* cipher = crypto_.aes256Xts();
    return encrypting_ != nullptr && decrypting_ != nullptr &&
           crypto_.init(encrypting_, cipher, nullptr, key, nullptr, 1) == 1 &&
           crypto_.init(decrypting_, cipher, nullptr, key, nullptr, 0) == 1;
  }

  bool encrypt(uint8_t* data, uint32_t bytes, uint64_t seed) override {
    return run(encrypting_, 1, data, bytes, seed);
  }
  bool decrypt(uint8_t* data, uint32_t bytes, uint64_t seed) override {
    return run(decrypting_, 0, data, bytes, seed);
  }

 private:
  // The last unit takes what would be too short for one of its own.
  bool run(void* context, int encrypt, uint8_t* data, uint32_t bytes, uint64_t seed) const {
    uint32_t unit = 0;
    for (uint32_t at = 0; at < bytes; unit++) {
      const uint32_t left = bytes - at;
      const uint32_t length = left >= kUnitBytes + kCipherBytesMin ? kUnitBytes : left;
      std::array<uint8_t, 16> tweak{};
      std::memcpy(tweak.data(), &seed, sizeof(seed));
      std::memcpy(tweak.data() + sizeof(seed), &unit, sizeof(unit));
      int written = 0;
      if (crypto_.init(context, nullptr, nullptr, nullptr, tweak.data(), encrypt) != 1 ||
          crypto_.update(context, data + at, &written, data + at, static_cast<int>(length)) != 1 ||
          written != static_cast<int>(length)) {
        return false;
      }
      at += length;
    }
    return true;
  }

  const Crypto& crypto_;
  void* encrypting_;
  void* decrypting_;
};

}  // namespace

std::unique_ptr<BlockCipher> BlockCipher::make(const uint8_t* key, std::string& why) {
  static const Crypto* crypto = loadCrypto();
  if (crypto == nullptr) {
    why = "no libcrypto.so.3 or .so.1.1 on this machine; the package libssl3 has it";
    return nullptr;
  }
  auto cipher = std::make_unique<EvpCipher>(*crypto);
  if (!cipher->take(key)) {
    why = "libcrypto does not take the key; two different halves of 32 bytes would be right";
    return nullptr;
  }
  return cipher;
}

}  // namespace spillway
