#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "device/CudaRuntime.h"
#include "device/DeviceCopier.h"
#include "staging/StagingSlots.h"

namespace spillway {

// The runtime without a GPU that cppbuild.sh puts beside the test program, and what it tells tests.
// Each has a copy of the library, and so a machine, of its own.
class EmulatedCuda {
 public:
  explicit EmulatedCuda(const std::string& configuration) {
    namespace fs = std::filesystem;
    const fs::path program = fs::read_symlink("/proc/self/exe");
    folder_ = fs::path(std::getenv("SPILLWAY_TEST_ROOT")) /
              ("emulated-cuda-" + std::to_string(getpid()) + "-" + std::to_string(next_++));
    fs::create_directories(folder_);
    path_ = (folder_ / "libcudart.so").string();
    fs::copy_file(program.parent_path() / "libcudart-emulated.so", path_);
    handle_ = dlopen(path_.c_str(), RTLD_NOW);
    EXPECT_NE(handle_, nullptr) << dlerror();
    configure(configuration);
    std::string why;
    runtime_ = CudaRuntime::load(path_, why);
    EXPECT_NE(runtime_, nullptr) << why;
  }
  ~EmulatedCuda() {
    EXPECT_EQ(violations(), "");
    stop();
    std::filesystem::remove_all(folder_);
  }
  EmulatedCuda(const EmulatedCuda&) = delete;
  EmulatedCuda& operator=(const EmulatedCuda&) = delete;

  const CudaRuntime& runtime() const { return *runtime_; }
  const std::string& path() const { return path_; }

  // Nothing moves any more on this machine.
  void stop() { call<void (*)()>("emulatedCudaStop")(); }
  void configure(const std::string& text) {
    call<void (*)(const char*)>("emulatedCudaConfigure")(text.c_str());
  }
  // Writes a value into device memory, in a stream, after some time.
  void kernel(CudaStream stream, uint64_t address, int value, size_t bytes, unsigned micros) {
    ASSERT_EQ(call<int (*)(void*, void*, int, size_t, unsigned)>("emulatedCudaKernel")(
                  stream, reinterpret_cast<void*>(address), value, bytes, micros),
              0);
  }
  uint64_t calls(const char* name) {
    return call<uint64_t (*)(const char*)>("emulatedCudaCalls")(name);
  }
  // Streams, events, registrations and allocations that there are.
  uint64_t alive() { return call<uint64_t (*)()>("emulatedCudaAlive")(); }
  std::string violations() const { return call<const char* (*)()>("emulatedCudaViolations")(); }
  int captureMode() { return call<int (*)()>("emulatedCudaCaptureMode")(); }

  CudaStream stream() {
    CudaStream stream = nullptr;
    EXPECT_EQ(runtime_->calls().streamCreateWithPriority(&stream, kCudaStreamNonBlocking, 0), 0);
    return stream;
  }
  CudaEvent event() {
    CudaEvent event = nullptr;
    EXPECT_EQ(runtime_->calls().eventCreateWithFlags(&event, kCudaEventDisableTiming), 0);
    return event;
  }

 private:
  template <typename Call>
  Call call(const char* name) const {
    return reinterpret_cast<Call>(dlsym(handle_, name));
  }

  static inline int next_ = 0;
  std::filesystem::path folder_;
  std::string path_;
  void* handle_ = nullptr;
  const CudaRuntime* runtime_ = nullptr;
};

// Device memory of one group: so many tensors of blocks of so many bytes, with gaps between blocks.
class CudaTensors {
 public:
  CudaTensors(EmulatedCuda& cuda, std::vector<uint64_t> pieceBytes, uint64_t blocks,
              uint64_t gap = 0, int device = 0)
      : memory_(cuda.runtime(), device) {
    PieceTable table;
    table.deviceBlocks = blocks;
    for (const uint64_t bytes : pieceBytes) {
      uint64_t address = 0;
      EXPECT_TRUE(memory_.allocate((bytes + gap) * blocks, address).ok());
      addresses_.push_back(address);
      table.pieces.push_back({reinterpret_cast<uint8_t*>(address), bytes + gap, bytes});
      table.payloadBytes += bytes;
    }
    groups.push_back(table);
  }
  ~CudaTensors() {
    for (const uint64_t address : addresses_) EXPECT_TRUE(memory_.release(address).ok());
  }
  CudaTensors(const CudaTensors&) = delete;
  CudaTensors& operator=(const CudaTensors&) = delete;

  // Every piece of a block, back to back.
  std::vector<uint8_t> read(uint32_t block) const {
    std::vector<uint8_t> bytes(groups[0].payloadBytes);
    uint64_t at = 0;
    for (const Piece& piece : groups[0].pieces) {
      EXPECT_TRUE(memory_.read(place(piece, block), bytes.data() + at, piece.bytes).ok());
      at += piece.bytes;
    }
    return bytes;
  }
  void write(uint32_t block, const std::vector<uint8_t>& bytes) const {
    uint64_t at = 0;
    for (const Piece& piece : groups[0].pieces) {
      EXPECT_TRUE(memory_.write(place(piece, block), bytes.data() + at, piece.bytes).ok());
      at += piece.bytes;
    }
  }
  // All bytes of one tensor, gaps included.
  std::vector<uint8_t> tensor(uint32_t piece) const {
    const Piece& table = groups[0].pieces[piece];
    std::vector<uint8_t> bytes(table.stride * groups[0].deviceBlocks);
    EXPECT_TRUE(memory_.read(addresses_[piece], bytes.data(), bytes.size()).ok());
    return bytes;
  }
  uint64_t address(uint32_t piece) const { return addresses_[piece]; }

  std::vector<PieceTable> groups;

 private:
  static uint64_t place(const Piece& piece, uint32_t block) {
    return reinterpret_cast<uint64_t>(piece.base) + block * piece.stride;
  }

  CudaMemory memory_;
  std::vector<uint64_t> addresses_;
};

// Bytes that differ from block to block and from place to place.
inline std::vector<uint8_t> pattern(uint64_t bytes, uint32_t number) {
  std::vector<uint8_t> all(bytes);
  for (uint64_t i = 0; i < bytes; i++) {
    all[i] = static_cast<uint8_t>(number * 31 + i * 7 + (i >> 8) + 1);
  }
  return all;
}

}  // namespace spillway
