#include "device/CudaRuntime.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <thread>
#include <utility>

namespace spillway {
namespace {

constexpr int kBatchCopySince = 12080;
constexpr int kBatchCopyFormOf13 = 13000;

template <typename Call>
bool find(void* library, const char* name, Call& call, std::string& missing) {
  call = reinterpret_cast<Call>(dlsym(library, name));
  if (call == nullptr) missing += std::string(missing.empty() ? "" : ", ") + name;
  return call != nullptr;
}

// One line of a file of the kernel, or "".
std::string firstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// As the system's folders are named; "" where CUDA does not say.
std::string busIdOf(const CudaRuntime& runtime, int device) {
  std::array<char, 32> id{};
  if (runtime.calls().deviceGetPCIBusId(id.data(), id.size(), device) != kCudaSuccess) return "";
  std::string lower;
  for (const char* letter = id.data(); *letter != 0; letter++) {
    lower += static_cast<char>(std::tolower(static_cast<unsigned char>(*letter)));
  }
  return lower;
}

// The driver's name for it. CUDA's own call has another form in each version.
std::string nameOf(const std::string& busId) {
  std::ifstream file("/proc/driver/nvidia/gpus/" + busId + "/information");
  for (std::string line; std::getline(file, line);) {
    const size_t value = line.find_first_not_of(" \t", line.find(':') + 1);
    if (line.rfind("Model:", 0) == 0 && value != std::string::npos) return line.substr(value);
  }
  return "";
}

std::string linkOf(const std::string& busId) {
  const std::string folder = "/sys/bus/pci/devices/" + busId;
  const std::string speed = firstLine(folder + "/current_link_speed");
  const std::string width = firstLine(folder + "/current_link_width");
  return speed.empty() ? "" : speed + " x" + width;
}

// Does something with a device on a thread of its own: which device is current is a thread's
// affair, and putting back the one that was would make a context there.
template <typename Action>
Status onDevice(const CudaRuntime& runtime, int device, Action action) {
  Status status;
  std::thread([&] {
    int mode = kCudaCaptureModeRelaxed;
    status = runtime.check("cudaThreadExchangeStreamCaptureMode",
                           runtime.calls().threadExchangeStreamCaptureMode(&mode));
    if (status.ok()) status = runtime.check("cudaSetDevice", runtime.calls().setDevice(device));
    if (status.ok()) status = action();
  }).join();
  return status;
}

void describeDevice(const CudaRuntime& runtime, int device, std::ostringstream& text) {
  size_t free = 0;
  size_t total = 0;
  const Status asked = onDevice(runtime, device, [&] {
    return runtime.check("cudaMemGetInfo", runtime.calls().memGetInfo(&free, &total));
  });
  if (asked.ok()) {
    text << "device." << device << ".freeBytes=" << free << "\n"
         << "device." << device << ".totalBytes=" << total << "\n";
  }
  const std::string busId = busIdOf(runtime, device);
  text << "device." << device << ".name=" << nameOf(busId) << "\n"
       << "device." << device << ".link=" << linkOf(busId) << "\n";
}

}  // namespace

const CudaRuntime* CudaRuntime::load(const std::string& path, std::string& why) {
  static std::mutex mutex;
  static auto& loaded = *new std::map<std::string, std::unique_ptr<CudaRuntime>>;
  const std::lock_guard lock(mutex);
  if (const auto known = loaded.find(path); known != loaded.end()) return known->second.get();
  std::unique_ptr<CudaRuntime> runtime;
  if (path.empty()) {
    runtime = look(why);
  } else if (void* library = dlopen(path.c_str(), RTLD_NOW)) {
    runtime = of(library, path, why);
  } else {
    why = std::string("no CUDA runtime at the given path: ") + dlerror();
  }
  if (!runtime) return nullptr;
  return loaded.emplace(path, std::move(runtime)).first->second.get();
}

std::unique_ptr<CudaRuntime> CudaRuntime::of(void* library, const std::string& name,
                                             std::string& why) {
  std::unique_ptr<CudaRuntime> runtime(new CudaRuntime);
  runtime->library_ = name;
  return runtime->resolve(library, why) ? std::move(runtime) : nullptr;
}

// A runtime that the process has loaded already is shared; else the newest that is installed and
// that the driver can work with, or, where it can with none, the newest.
std::unique_ptr<CudaRuntime> CudaRuntime::look(std::string& why) {
  constexpr std::array kNames = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"};
  for (const char* name : kNames) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_NOLOAD)) return of(library, name, why);
  }
  std::unique_ptr<CudaRuntime> newest;
  for (const char* name : kNames) {
    void* library = dlopen(name, RTLD_NOW);
    auto runtime = library == nullptr ? nullptr : of(library, name, why);
    if (!runtime) continue;
    int devices = 0;
    if (runtime->calls().getDeviceCount(&devices) != kCudaErrorInsufficientDriver) return runtime;
    if (!newest) newest = std::move(runtime);
  }
  if (!newest && why.empty()) {
    why = "no CUDA runtime (libcudart.so.13, .12 or .11.0) is loaded or on the library path";
  }
  return newest;
}

bool CudaRuntime::resolve(void* library, std::string& why) {
  std::string missing;
  find(library, "cudaRuntimeGetVersion", calls_.runtimeGetVersion, missing);
  find(library, "cudaDriverGetVersion", calls_.driverGetVersion, missing);
  find(library, "cudaGetDeviceCount", calls_.getDeviceCount, missing);
  find(library, "cudaSetDevice", calls_.setDevice, missing);
  find(library, "cudaGetDevice", calls_.getDevice, missing);
  find(library, "cudaDeviceGetAttribute", calls_.deviceGetAttribute, missing);
  find(library, "cudaDeviceGetPCIBusId", calls_.deviceGetPCIBusId, missing);
  find(library, "cudaMemGetInfo", calls_.memGetInfo, missing);
  find(library, "cudaMalloc", calls_.malloc, missing);
  find(library, "cudaFree", calls_.free, missing);
  find(library, "cudaMemcpy", calls_.memcpy, missing);
  find(library, "cudaMemset", calls_.memset, missing);
  find(library, "cudaMemcpyAsync", calls_.memcpyAsync, missing);
  find(library, "cudaMemcpy2DAsync", calls_.memcpy2DAsync, missing);
  find(library, "cudaHostRegister", calls_.hostRegister, missing);
  find(library, "cudaHostUnregister", calls_.hostUnregister, missing);
  find(library, "cudaDeviceGetStreamPriorityRange", calls_.deviceGetStreamPriorityRange, missing);
  find(library, "cudaStreamCreateWithPriority", calls_.streamCreateWithPriority, missing);
  find(library, "cudaStreamDestroy", calls_.streamDestroy, missing);
  find(library, "cudaStreamQuery", calls_.streamQuery, missing);
  find(library, "cudaStreamSynchronize", calls_.streamSynchronize, missing);
  find(library, "cudaStreamWaitEvent", calls_.streamWaitEvent, missing);
  find(library, "cudaThreadExchangeStreamCaptureMode", calls_.threadExchangeStreamCaptureMode,
       missing);
  find(library, "cudaEventCreateWithFlags", calls_.eventCreateWithFlags, missing);
  find(library, "cudaEventDestroy", calls_.eventDestroy, missing);
  find(library, "cudaEventRecord", calls_.eventRecord, missing);
  find(library, "cudaEventQuery", calls_.eventQuery, missing);
  find(library, "cudaLaunchHostFunc", calls_.launchHostFunc, missing);
  find(library, "cudaGetErrorName", calls_.getErrorName, missing);
  find(library, "cudaGetErrorString", calls_.getErrorString, missing);
  if (!missing.empty()) {
    why = library_ + " lacks " + missing + "; a CUDA runtime of 11 or later would be right";
    return false;
  }
  const CudaError error = calls_.runtimeGetVersion(&version_);
  if (error != kCudaSuccess) {
    why = check("cudaRuntimeGetVersion", error).cause;
    return false;
  }
  resolveBatchCopy(library);
  void* driver = dlsym(library, "cuMemGetAddressRange_v2");
  if (driver == nullptr) {
    if (void* cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)) {
      driver = dlsym(cuda, "cuMemGetAddressRange_v2");
    }
  }
  calls_.memGetAddressRange = reinterpret_cast<decltype(calls_.memGetAddressRange)>(driver);
  return true;
}

// A runtime that knows the batch copy is of no use over a driver that does not. The environment may
// say no: it is the youngest of these calls.
void CudaRuntime::resolveBatchCopy(void* library) {
  const char* wish = std::getenv("SPILLWAY_CUDA_BATCH");
  if (wish != nullptr && std::string(wish) == "0") return;
  int driver = 0;
  const CudaError asked = calls_.driverGetVersion(&driver);
  const bool known = version_ >= kBatchCopySince && driver >= kBatchCopySince;
  const EntryPointAnswer batch{asked != kCudaSuccess ? asked
                               : known               ? 0
                                                     : -1,
                               dlsym(library, "cudaMemcpyBatchAsync")};
  if (!batchCopyUsable(batch)) return;
  if (version_ >= kBatchCopyFormOf13) {
    calls_.memcpyBatch13 = reinterpret_cast<decltype(calls_.memcpyBatch13)>(batch.pointer);
  } else {
    calls_.memcpyBatch12 = reinterpret_cast<decltype(calls_.memcpyBatch12)>(batch.pointer);
  }
}

bool CudaRuntime::isLost(CudaError error) {
  constexpr std::array kLost = {4, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999};
  return std::find(kLost.begin(), kLost.end(), error) != kLost.end();
}

Status CudaRuntime::check(const char* call, CudaError error) const {
  if (error == kCudaSuccess) return Status::well();
  return Status::fatal(error, std::string(call) + ": " + calls_.getErrorName(error) + " (" +
                                  calls_.getErrorString(error) + ")");
}

std::string describeCuda(const std::string& path) {
  std::ostringstream text;
  std::string why;
  const CudaRuntime* runtime = CudaRuntime::load(path, why);
  if (runtime == nullptr) {
    text << "usable=0\nwhy=" << why << "\n";
    return text.str();
  }
  int driver = 0;
  int devices = 0;
  CudaError error = runtime->calls().driverGetVersion(&driver);
  const char* call = "cudaDriverGetVersion";
  if (error == kCudaSuccess) {
    error = runtime->calls().getDeviceCount(&devices);
    call = "cudaGetDeviceCount";
  }
  const bool usable = error == kCudaSuccess && devices > 0;
  text << "usable=" << usable << "\n";
  if (!usable) {
    text << "why=" << runtime->library() << " was found, and no device: "
         << (error == kCudaSuccess ? "none is attached" : runtime->check(call, error).cause)
         << "\n";
  }
  text << "library=" << runtime->library() << "\n"
       << "runtime=" << runtime->version() << "\n"
       << "driver=" << driver << "\n"
       << "devices=" << devices << "\n"
       << "batchCopy=" << runtime->hasBatchCopy() << "\n";
  for (int device = 0; usable && device < devices; device++) {
    describeDevice(*runtime, device, text);
  }
  return text.str();
}

Status CudaMemory::allocate(uint64_t bytes, uint64_t& address) const {
  return onDevice(runtime_, device_, [&] {
    void* memory = nullptr;
    Status status = runtime_.check("cudaMalloc", runtime_.calls().malloc(&memory, bytes));
    if (!status.ok()) return status;
    status = runtime_.check("cudaMemset", runtime_.calls().memset(memory, 0, bytes));
    if (status.ok()) status = settle();
    if (!status.ok()) static_cast<void>(runtime_.calls().free(memory));
    address = reinterpret_cast<uint64_t>(memory);
    return status;
  });
}

Status CudaMemory::release(uint64_t address) const {
  return onDevice(runtime_, device_, [&] {
    return runtime_.check("cudaFree", runtime_.calls().free(reinterpret_cast<void*>(address)));
  });
}

Status CudaMemory::read(uint64_t address, void* target, uint64_t bytes) const {
  return onDevice(runtime_, device_, [&] {
    return runtime_.check(
        "cudaMemcpy", runtime_.calls().memcpy(target, reinterpret_cast<const void*>(address), bytes,
                                              kCudaDeviceToHost));
  });
}

Status CudaMemory::write(uint64_t address, const void* source, uint64_t bytes) const {
  return onDevice(runtime_, device_, [&] {
    const Status status =
        runtime_.check("cudaMemcpy", runtime_.calls().memcpy(reinterpret_cast<void*>(address),
                                                             source, bytes, kCudaHostToDevice));
    return status.ok() ? settle() : status;
  });
}

// What is set or written from pageable memory may still be on its way when the call returns, and
// the lanes' streams wait for no other.
Status CudaMemory::settle() const {
  return runtime_.check("cudaStreamSynchronize", runtime_.calls().streamSynchronize(nullptr));
}

}  // namespace spillway
