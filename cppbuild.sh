#!/usr/bin/env bash
# Builds the native library and its tests. A person, Maven and CI call this one script.
#
#   ./cppbuild.sh            the static library and its headers, into cppbuild/<platform>
#   ./cppbuild.sh test       the tests, built and run: coverage, address+undefined, thread sanitizer
#   ./cppbuild.sh test asan  one of plain, asan, tsan
#   ./cppbuild.sh bench      the programs that the benchmarks run beside Java: a bare ring, and the engine alone
#   ./cppbuild.sh tidy       clang-tidy, warnings are errors
#   ./cppbuild.sh format     clang-format, checked (format-apply: applied)
#   ./cppbuild.sh clean
set -euo pipefail
cd "$(dirname "$0")"

CXX=${CXX:-g++}
case "$(uname -m)" in
  x86_64) PLATFORM=linux-x86_64; AVX2=-mavx2 ;;
  aarch64) PLATFORM=linux-arm64; AVX2= ;;
  *) echo "cppbuild.sh: no build for $(uname -m); linux-x86_64 and linux-arm64 are known" >&2; exit 1 ;;
esac
# No build needs CUDA; where its headers are, our prototypes are compared with them.
CUDA_INCLUDE="-isystem ${CUDA_HOME:-/usr/local/cuda}/include"
SOURCE=src/main/cpp
OUT=cppbuild/$PLATFORM
WARNINGS="-Wall -Wextra -Wswitch-enum -Werror"
COMMON="-std=c++20 -pthread -fPIC -fvisibility=hidden -D_GNU_SOURCE -I$SOURCE $WARNINGS"
JOBS=$(nproc)

sources() { find "$SOURCE" -name '*.cpp' | sort; }
test_sources() { find src/test/cpp -maxdepth 1 -name '*.cpp' | sort; }

# compile FLAGS OBJECTS_DIR SOURCES...: only what is older than its sources, JOBS at a time.
compile() {
  local flags=$1 dir=$2; shift 2
  mkdir -p "$dir"
  local file object extra
  for file in "$@"; do
    object=$dir/$(echo "$file" | tr / _).o
    extra=
    [[ $file == */ChecksumAvx2.cpp ]] && extra=$AVX2
    [[ $file == */CudaSignatures.cpp ]] && extra=$CUDA_INCLUDE
    if [[ -e $object ]] && [[ -z $(find "$SOURCE" src/test/cpp cppbuild.sh -newer "$object" \
        \( -name '*.h' -o -path "$file" -o -name cppbuild.sh \) -print -quit 2>/dev/null) ]]; then
      continue
    fi
    echo "$CXX $COMMON $flags $extra -c $file -o $object"
  done | xargs -P "$JOBS" -I{} sh -c '{}'
}

objects() { local dir=$1; shift; for file in "$@"; do echo "$dir/$(echo "$file" | tr / _).o"; done; }

build_library() {
  # shellcheck disable=SC2046
  compile "-O3 -g" "$OUT/obj" $(sources)
  mkdir -p "$OUT/lib" "$OUT/include"
  rm -f "$OUT/lib/libspillway.a"
  # shellcheck disable=SC2046
  ar rcs "$OUT/lib/libspillway.a" $(objects "$OUT/obj" $(sources))
  local include; include=$PWD/$OUT/include
  (cd "$SOURCE" && find . -name '*.h' -exec cp --parents {} "$include" \;)
  # liburing goes in statically: the JAR needs no package at run time.
  cp "$("$CXX" -print-file-name=liburing.a)" "$OUT/lib/"
}

test_one() {
  local kind=$1 flags
  case $kind in
    plain) flags="-O1 -g --coverage" ;;
    asan) flags="-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer" ;;
    tsan) flags="-O1 -g -fsanitize=thread" ;;
    *) echo "cppbuild.sh: unknown test build $kind; plain, asan and tsan are known" >&2; exit 1 ;;
  esac
  local dir=$OUT/test-$kind
  # shellcheck disable=SC2046
  compile "$flags -DSPILLWAY_POISON" "$dir" $(sources) $(test_sources)
  # shellcheck disable=SC2046
  "$CXX" -pthread $flags -o "$dir/spillway-test" $(objects "$dir" $(sources) $(test_sources)) \
    -lgtest -lgmock -luring -ldl
  build_emulated_cuda "$dir" "$flags"
  find "$dir" -name '*.gcda' -delete
  echo "== C++ tests, $kind"
  TSAN_OPTIONS="halt_on_error=1 suppressions=src/test/cpp/tsan.supp" \
    timeout 300 "$dir/spillway-test" --gtest_brief=1 --gtest_output="xml:$dir/report.xml"
  if [[ $kind == plain ]] && command -v gcovr > /dev/null; then
    echo "== C++ coverage"
    gcovr --root . --filter "$SOURCE" "$dir" 2> /dev/null | grep -E '\.cpp|\.h|TOTAL|Lines'
  fi
}

build_bench() {
  mkdir -p "$OUT/bin"
  build_bench_tool bare-ring bare_ring
  # What a benchmark leaves out of the engine it leaves out here: the library has no switch for it.
  build_bench_tool engine-lanes engine_lanes -Wl,--wrap=_ZN8spillway8checksumEPKvmm \
    -Wl,--wrap=_ZN8spillway14makeHostCopierERKSt6vectorINS_10PieceTableESaIS1_EEj -ldl
}

build_bench_tool() {
  local program=$OUT/bin/$1 source=benchmarks/src/main/cpp/$2.cc; shift 2
  [[ $program -nt $source && $program -nt $OUT/lib/libspillway.a && $program -nt cppbuild.sh ]] ||
    "$CXX" $COMMON -O3 -o "$program" "$source" "$OUT/lib/libspillway.a" "$OUT/lib/liburing.a" "$@"
}

# Programs that the tests run things under.
build_tools() {
  mkdir -p "$OUT/bin"
  build_tool deny-io-uring deny_io_uring
  build_emulated_cuda "$OUT/bin" "-O2 -g"
  build_tool gpu-suite gpu_suite -O2 -D_GNU_SOURCE -I$SOURCE -static-libstdc++ -static-libgcc \
    "$OUT/lib/libspillway.a" "$OUT/lib/liburing.a" -ldl
  if [[ -e /usr/include/fuse3/fuse.h ]]; then
    build_tool fault-fs fault_fs -D_FILE_OFFSET_BITS=64 -lfuse3 # without it its tests are skipped
  fi
}

# A CUDA runtime without a GPU.
build_emulated_cuda() {
  local library=$1/libcudart-emulated.so source=src/test/cpp/tools/emulated_cuda.cc
  # shellcheck disable=SC2086
  [[ $library -nt $source && $library -nt cppbuild.sh ]] ||
    "$CXX" $COMMON $2 -shared -o "$library" "$source" -ldl
}

build_tool() {
  local program=$OUT/bin/$1 source=src/test/cpp/tools/$2.cc; shift 2
  [[ $program -nt $source && $program -nt cppbuild.sh ]] ||
    "$CXX" -std=c++20 -O1 -pthread $WARNINGS -o "$program" "$source" "$@"
}

case ${1:-install} in
  install) build_library; build_tools ;;
  bench) build_library; build_bench ;;
  test)
    if [[ $# -gt 1 ]]; then test_one "$2"; else for kind in plain asan tsan; do test_one "$kind"; done; fi ;;
  tidy)
    sources | grep -v Avx2 | xargs -P "$JOBS" -I{} clang-tidy --quiet --warnings-as-errors='*' {} -- \
      -std=c++20 -D_GNU_SOURCE -I$SOURCE $CUDA_INCLUDE -Wall -Wextra 2> /dev/null ;; # its count of warnings in system headers
  format) { find "$SOURCE" src/test/cpp benchmarks/src/main/cpp -name '*.h' -o -name '*.cpp' -o -name '*.cc'; } | xargs clang-format --dry-run --Werror ;;
  format-apply) { find "$SOURCE" src/test/cpp benchmarks/src/main/cpp -name '*.h' -o -name '*.cpp' -o -name '*.cc'; } | xargs clang-format -i ;;
  clean) rm -rf cppbuild ;;
  *) sed -n '2,11p' "$0"; exit 1 ;;
esac
