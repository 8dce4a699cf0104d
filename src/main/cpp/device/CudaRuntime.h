#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/Status.h"

namespace spillway {

// The CUDA runtime as we call it. Nothing is linked and no header of CUDA is needed: the prototypes
// are ours, and CudaSignatures.cpp compares them with the real ones where those are installed. Only
// entry points whose form is the same in CUDA 11, 12 and 13 are used, but for the batch copy, whose
// form goes by the version of the runtime.
using CudaError = int;
using CudaStream = void*;
using CudaEvent = void*;

constexpr CudaError kCudaSuccess = 0;
constexpr CudaError kCudaErrorInsufficientDriver = 35;
constexpr CudaError kCudaErrorNotReady = 600;

constexpr int kCudaHostToDevice = 1;
constexpr int kCudaDeviceToHost = 2;
constexpr unsigned kCudaStreamNonBlocking = 1;
constexpr unsigned kCudaEventDisableTiming = 2;
constexpr unsigned kCudaHostRegisterPortable = 1;
constexpr int kCudaCaptureModeRelaxed = 2;
constexpr int kCudaAttributeMaxPitch = 11;
constexpr int kCudaAttributeHostPointerForRegistered = 91;

// When a batch copy may read its sources.
constexpr int kCudaSourceStreamOrdered = 1;
constexpr int kCudaSourceAnyOrder = 3;
constexpr unsigned kCudaCopyPreferOverlap = 1;

struct CudaLocation {
  int type = 0;
  int id = 0;
};

struct CudaCopyAttributes {
  int sourceAccessOrder = 0;
  CudaLocation source;
  CudaLocation target;
  unsigned flags = 0;
};

struct CudaCalls {
  CudaError (*runtimeGetVersion)(int*);
  CudaError (*driverGetVersion)(int*);
  CudaError (*getDeviceCount)(int*);
  CudaError (*setDevice)(int);
  CudaError (*getDevice)(int*);
  CudaError (*deviceGetAttribute)(int*, int, int);
  CudaError (*deviceGetPCIBusId)(char*, int, int);
  CudaError (*memGetInfo)(size_t*, size_t*);
  CudaError (*malloc)(void**, size_t);
  CudaError (*free)(void*);
  CudaError (*memcpy)(void*, const void*, size_t, int);
  CudaError (*memset)(void*, int, size_t);
  CudaError (*memcpyAsync)(void*, const void*, size_t, int, CudaStream);
  CudaError (*memcpy2DAsync)(void*, size_t, const void*, size_t, size_t, size_t, int, CudaStream);
  CudaError (*hostRegister)(void*, size_t, unsigned);
  CudaError (*hostUnregister)(void*);
  CudaError (*deviceGetStreamPriorityRange)(int*, int*);
  CudaError (*streamCreateWithPriority)(CudaStream*, unsigned, int);
  CudaError (*streamDestroy)(CudaStream);
  CudaError (*streamQuery)(CudaStream);
  CudaError (*streamSynchronize)(CudaStream);
  CudaError (*streamWaitEvent)(CudaStream, CudaEvent, unsigned);
  CudaError (*threadExchangeStreamCaptureMode)(int*);
  CudaError (*eventCreateWithFlags)(CudaEvent*, unsigned);
  CudaError (*eventDestroy)(CudaEvent);
  CudaError (*eventRecord)(CudaEvent, CudaStream);
  CudaError (*eventQuery)(CudaEvent);
  CudaError (*launchHostFunc)(CudaStream, void (*)(void*), void*);
  const char* (*getErrorName)(CudaError);
  const char* (*getErrorString)(CudaError);
  // 12.8 and 12.9 have a place for the index of the first failure, which 13 dropped.
  CudaError (*memcpyBatch12)(void**, void**, size_t*, size_t, CudaCopyAttributes*, size_t*, size_t,
                             size_t*, CudaStream);
  CudaError (*memcpyBatch13)(void* const*, const void* const*, const size_t*, size_t,
                             CudaCopyAttributes*, size_t*, size_t, CudaStream);
  // Of the driver, where it is loaded: base and size of the allocation that an address lies in.
  CudaError (*memGetAddressRange)(uint64_t*, size_t*, uint64_t);
};

// How the look-up of an entry point may answer. It can say "success" with a null pointer, so both
// must be looked at.
struct EntryPointAnswer {
  int error = 0;
  void* pointer = nullptr;
};

// The batch copy is used only where the look-up succeeded and gave an address; otherwise blocks are
// copied a range at a time.
constexpr bool batchCopyUsable(const EntryPointAnswer& answer) {
  return answer.error == 0 && answer.pointer != nullptr;
}

// A runtime that was found. Loaded once for each path and never unloaded: streams and events of a
// lane that was left behind may still need it.
class CudaRuntime {
 public:
  // Loads the library at `path`, or, where that is empty, the one that the process has loaded
  // already, else the newest that is installed. Null with the reason in `why`. Any thread.
  static const CudaRuntime* load(const std::string& path, std::string& why);

  const CudaCalls& calls() const { return calls_; }
  const std::string& library() const { return library_; }
  int version() const { return version_; }
  bool hasBatchCopy() const { return calls_.memcpyBatch12 || calls_.memcpyBatch13; }
  // Whether the context is gone for good, and with it all that was under way.
  static bool isLost(CudaError error);

  // Well, or fatal with the call, the error's name and its text.
  Status check(const char* call, CudaError error) const;

 private:
  CudaRuntime() = default;
  bool resolve(void* library, std::string& why);
  void resolveBatchCopy(void* library);
  static std::unique_ptr<CudaRuntime> of(void* library, const std::string& name, std::string& why);
  static std::unique_ptr<CudaRuntime> look(std::string& why);

  CudaCalls calls_{};
  std::string library_;
  int version_ = 0;
};

// What was found of CUDA on this machine, as lines "key=value", for `doctor` and for callers who
// want to know before they open. Any thread.
std::string describeCuda(const std::string& path);

// Device memory for the replay, for tests and for whoever has no allocator of their own. Each call
// does its work on a thread of its own, so that the caller's device, last error and captures are
// left alone.
class CudaMemory {
 public:
  CudaMemory(const CudaRuntime& runtime, int device) : runtime_(runtime), device_(device) {}
  Status allocate(uint64_t bytes, uint64_t& address) const;
  Status release(uint64_t address) const;
  // Copies between device and any host memory, and waits for it.
  Status read(uint64_t address, void* target, uint64_t bytes) const;
  Status write(uint64_t address, const void* source, uint64_t bytes) const;

 private:
  Status settle() const;

  const CudaRuntime& runtime_;
  int device_;
};

}  // namespace spillway
