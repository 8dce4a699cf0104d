#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/Checksum.h"

namespace spillway {

uint64_t checksumBaseline(const void* data, size_t bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(data, bytes, seed);
}

}  // namespace spillway
