#include "base/Checksum.h"

namespace spillway {
namespace {

using Kernel = uint64_t (*)(const void*, size_t, uint64_t);

bool hasAvx2() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") != 0;
#else
  return false;
#endif
}

const Kernel kKernel = hasAvx2() ? checksumAvx2 : checksumBaseline;

}  // namespace

uint64_t checksum(const void* data, size_t bytes, uint64_t seed) {
  return kKernel(data, bytes, seed);
}

const char* checksumKernel() {
#if defined(__x86_64__)
  return kKernel == checksumAvx2 ? "avx2" : "sse2";
#else
  return "generic";
#endif
}

}  // namespace spillway
