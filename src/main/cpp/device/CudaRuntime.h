#pragma once

#include <string>

namespace spillway {

// What was found of CUDA on this machine, for `doctor` and the open report. Nothing is linked: the
// runtime is looked for when asked.
struct CudaFindings {
  bool usable = false;
  int runtimeVersion = 0;
  int driverVersion = 0;
  int devices = 0;
  bool batchCopy = false;
  std::string text;  // found what, or why not
};

CudaFindings probeCuda();

// How a driver's look-up of an entry point may answer. The query can say "success" with a null
// pointer, so both must be looked at.
struct EntryPointAnswer {
  int error = 0;
  void* pointer = nullptr;
};

// The batch copy is used only where the look-up succeeded and gave an address; otherwise blocks are
// copied a range at a time.
constexpr bool batchCopyUsable(const EntryPointAnswer& answer) {
  return answer.error == 0 && answer.pointer != nullptr;
}

}  // namespace spillway
