#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/Ids.h"
#include "base/Records.h"
#include "disk/Superblock.h"

struct statx;

namespace spillway {

// The kernel's answers that a test must be able to choose. Real by default.
struct FileCalls {
  int (*fallocate)(int file, int mode, off_t offset, off_t bytes);
  // Fills in the direct-I/O alignment of the file: memory, offset. Zero means no direct I/O;
  // answers false where the kernel does not say.
  bool (*directAlignment)(int file, uint32_t& memory, uint32_t& offset);
};
const FileCalls& realFileCalls();

// Slots of each group in a band, so that they cover about the same tokens.
std::vector<uint32_t> bandSlots(const std::vector<uint32_t>& blockTokens);

// Reserves space for a file that is there; 0, or the error. For what lies beside a block file.
int reserveFile(const std::string& path, uint64_t bytes);

// One KV group as the file sees it: opaque blocks of a size.
struct GroupShape {
  uint32_t payloadBytes;
  uint32_t blockTokens;
};

struct FileOptions {
  std::string directory;
  std::string nameSpace;
  uint32_t rank = 0;
  uint32_t rankCount = 1;
  uint64_t fingerprint = 0;
  uint64_t capacityBytes = 0;
  bool direct = true;
  uint32_t alignment = 0;  // 0: what kernel, device and page ask for
  Allocation allocation = Allocation::kPreallocate;
  uint64_t lockWaitNanos = 0;
  bool keepNothing = false;      // unlinked once open
  bool discardOther = false;     // another layout's content is emptied, not refused
  uint64_t freeFloorBytes = 0;   // that the file system must have left
  uint32_t cipher = 0;           // of the blocks, as the superblock numbers it
  uint64_t slotRecordBytes = 0;  // that somebody needs besides for each slot
  std::vector<GroupShape> groups;
};

// The slots of one group: `bandSlots` in each band of the file, the first at `offset`.
struct Region {
  uint64_t offset = 0;
  uint64_t slotCount = 0;
  uint32_t bandSlots = 0;
  uint32_t slotBytes = 0;  // the payload rounded up to the alignment: what one transfer moves
  uint32_t payloadBytes = 0;
};

// The slots of one rank in one directory: one preallocated file, 0600, locked by one owner, with
// equal slots for each KV group. A band holds a few slots of every group, in the proportion in
// which they cover the same tokens, and the file is one band after the other: so a slot lies where
// it lies at every capacity, and a file that grows or shrinks keeps what fits. Knows nothing of
// what the slots hold. The constructor checks everything that can be checked beforehand and throws
// OpenError, with what an earlier owner left untouched; `claim` makes the file ours. Afterwards the
// object is immutable and may be read by any thread.
class BlockFile {
 public:
  explicit BlockFile(const FileOptions& options, const FileCalls& calls = realFileCalls());
  ~BlockFile();
  BlockFile(const BlockFile&) = delete;
  BlockFile& operator=(const BlockFile&) = delete;

  // Empties, cuts or extends the file as the options ask, tries it, and raises its epoch: once, and
  // last, when all else that can be refused has been. Throws OpenError.
  void claim();

  int descriptor() const { return file_; }
  const std::string& path() const { return path_; }
  const std::string& fileSystem() const { return fileSystem_; }
  bool direct() const { return direct_; }
  uint32_t alignment() const { return alignment_; }
  uint64_t epoch() const { return epoch_; }
  // Of this content: drawn anew with every file that is begun, so that records beside it cannot be
  // taken for those of another.
  uint64_t identity() const { return superblock_.identity; }
  uint64_t fileBytes() const { return fileBytes_; }
  const std::vector<Region>& regions() const { return regions_; }
  // What the operator should know, one sentence a line; empty where all is as asked.
  const std::string& notice() const { return notice_; }

  uint64_t offsetOf(GroupIndex group, DiskSlot slot) const;
  // Writes a higher epoch to the file, before the first block of it: the ranks of one scheduler
  // agree on the highest. Throws OpenError. Not beside other calls.
  void raiseEpoch(uint64_t epoch);
  // Gives back what a slot takes up on disk, whose bytes are zeros then; 0, or the error. Not
  // beside I/O of the slot.
  int punch(GroupIndex group, DiskSlot slot) const;
  // Where this object made the file: unlinks it, because the open it was for has failed.
  void removeIfCreated();

 private:
  void openAndLock(const FileOptions& options);
  void openFile(const FileOptions& options);
  void checkOurs() const;
  void lock(int64_t until);
  bool isBeingRead() const;
  bool isAtItsPath() const;
  void chooseAlignment(const FileOptions& options, const FileCalls& calls);
  void layOut(const FileOptions& options);
  void shapeBand(const FileOptions& options);
  Superblock wanted(const FileOptions& options) const;
  void adopt(const FileOptions& options);
  bool headerIsBlank() const;
  void allocate(const FileOptions& options, const FileCalls& calls);
  void discardContent();
  void checkSpace(const FileOptions& options) const;
  uint64_t recordBytesNeeded(const FileOptions& options) const;
  std::string recordsPath() const;
  void reserve(const FileOptions& options, const FileCalls& calls, uint64_t oldBytes);
  void zeroFill(uint64_t oldBytes);
  void writeZeros(uint64_t from, uint64_t to);
  void probe();
  void writeSuperblock(Superblock superblock);
  void removeAll();
  void releaseFile();
  void say(const std::string& sentence);

  const FileOptions options_;
  const FileCalls calls_;
  std::string path_;
  std::string fileSystem_;
  std::string notice_;
  std::string discardReason_;  // why what is there must go; empty where it stays
  int file_ = -1;
  bool created_ = false;
  bool locked_ = false;
  bool memoryBacked_ = false;
  bool direct_ = false;
  uint32_t alignment_ = 1;
  uint64_t headerBytes_ = 0;
  uint64_t fileBytes_ = 0;
  uint64_t bandBytes_ = 0;
  uint64_t epoch_ = 0;
  uint64_t identity_ = 0;
  Superblock superblock_{};
  std::vector<Region> regions_;
};

}  // namespace spillway
