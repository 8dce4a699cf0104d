#pragma once

#include <cstddef>
#include <cstdint>

namespace spillway {

// XXH3-64 of `bytes` with `seed`. Runs the widest vector code that this processor has; the generic
// build of the library would fall to a fifth of that speed at 256 KiB and above.
uint64_t checksum(const void* data, size_t bytes, uint64_t seed);

// "avx2" or "sse2" (x86-64), "generic" elsewhere: which body checksum() runs.
const char* checksumKernel();

// The bodies, one a translation unit, each compiled for its own instruction set.
uint64_t checksumBaseline(const void* data, size_t bytes, uint64_t seed);
uint64_t checksumAvx2(const void* data, size_t bytes, uint64_t seed);

}  // namespace spillway
