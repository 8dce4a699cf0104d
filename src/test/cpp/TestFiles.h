#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/Status.h"
#include "disk/BlockFile.h"

namespace spillway {

// A directory of its own on the disk, gone at the end of the test. `root` chooses the file system.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(const std::string& root = std::getenv("SPILLWAY_TEST_ROOT")) {
    std::string pattern = root + "/spillway-test-XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline FileOptions fileOptions(const std::string& directory, uint32_t payloadBytes = 8192,
                               uint64_t slots = 64) {
  FileOptions options;
  options.directory = directory;
  options.nameSpace = "test";
  options.capacityBytes = roundUp(payloadBytes, 4096) * slots;
  options.groups = {{payloadBytes, 16}};
  return options;
}

// A block file as an engine has it once nothing can be refused any more.
struct ClaimedFile : BlockFile {
  explicit ClaimedFile(const FileOptions& options, const FileCalls& calls = realFileCalls())
      : BlockFile(options, calls) {
    claim();
  }
};

// The error that opening gives; fails the test where it opens.
template <typename Open>
OpenError openError(Open open) {
  try {
    open();
  } catch (const OpenError& failure) {
    return failure;
  }
  ADD_FAILURE() << "opened, though it should have been refused";
  return OpenError(OpenReason::kPath, 0, "");
}

}  // namespace spillway
