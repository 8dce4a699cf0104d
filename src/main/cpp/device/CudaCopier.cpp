#include <dlfcn.h>

#include <array>
#include <memory>

#include "device/CudaRuntime.h"

namespace spillway {
namespace {

using GetInt = int (*)(int*);
using GetErrorString = const char* (*)(int);

struct LibraryCloser {
  void operator()(void* library) const { dlclose(library); }
};
using Library = std::unique_ptr<void, LibraryCloser>;

// A runtime that the process has loaded already is shared; else the newest one that is installed.
Library openRuntime() {
  constexpr std::array kNames = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"};
  for (const int mode : {RTLD_NOW | RTLD_NOLOAD, RTLD_NOW}) {
    for (const char* name : kNames) {
      if (void* library = dlopen(name, mode)) return Library(library);
    }
  }
  return nullptr;
}

}  // namespace

CudaFindings probeCuda() {
  CudaFindings found;
  const Library library = openRuntime();
  if (!library) {
    found.text = "no CUDA runtime (libcudart.so.13, .12 or .11.0) on the library path";
    return found;
  }
  const auto runtimeVersion =
      reinterpret_cast<GetInt>(dlsym(library.get(), "cudaRuntimeGetVersion"));
  const auto driverVersion = reinterpret_cast<GetInt>(dlsym(library.get(), "cudaDriverGetVersion"));
  const auto deviceCount = reinterpret_cast<GetInt>(dlsym(library.get(), "cudaGetDeviceCount"));
  const auto errorString =
      reinterpret_cast<GetErrorString>(dlsym(library.get(), "cudaGetErrorString"));
  found.batchCopy = batchCopyUsable({0, dlsym(library.get(), "cudaMemcpyBatchAsync")});
  if (!runtimeVersion || !driverVersion || !deviceCount || !errorString) {
    found.text = "a CUDA runtime without the expected entry points";
    return found;
  }
  int error = runtimeVersion(&found.runtimeVersion);
  if (error == 0) error = driverVersion(&found.driverVersion);
  if (error == 0) error = deviceCount(&found.devices);
  found.usable = error == 0 && found.devices > 0;
  found.text = found.usable ? std::to_string(found.devices) + " device(s), runtime " +
                                  std::to_string(found.runtimeVersion) + ", driver " +
                                  std::to_string(found.driverVersion)
                            : std::string("CUDA runtime found, no usable device: ") +
                                  (error != 0 ? errorString(error) : "none attached");
  return found;
}

}  // namespace spillway
