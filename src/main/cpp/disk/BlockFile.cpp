#include "disk/BlockFile.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "base/Check.h"
#include "base/Clock.h"
#include "base/Status.h"

namespace spillway {
namespace {

constexpr uint64_t kHeaderBytesMin = 65536;
// Large enough, and aligned enough, for a direct transfer on any file system that we know.
constexpr uint64_t kUnitBytes = 65536;
constexpr uint64_t kRecordsHeaderBytes = 4096;
constexpr uint32_t kPageBytes = 4096;
constexpr uint32_t kAlignmentMax = 1U << 20;
// The scheduler's side keeps arrays with an entry for each slot.
constexpr uint64_t kSlotsMax = uint64_t{1} << 28;
constexpr uint64_t kLockWaitMax = uint64_t{86'400} * 365 * 1'000'000'000;
// A killed process may look alive for a moment while the kernel takes it down.
constexpr int64_t kDyingNanos = 500'000'000;
constexpr uint64_t kBandUnitsMax = uint64_t{1} << 16;
constexpr uint64_t kBandTolerance = 50;
constexpr uint64_t kZeroFillBytes = uint64_t{1} << 20;

std::string errnoText(int error) {
  return std::string(strerrorname_np(error)) + ", " + strerrordesc_np(error);
}

[[noreturn]] void fail(OpenReason reason, int error, const std::string& message) {
  throw OpenError(reason, error, error == 0 ? message : message + ": " + errnoText(error));
}

OpenReason pathReason(int error) {
  switch (error) {
    case EACCES:
    case EPERM:
    case EROFS:
      return OpenReason::kPermission;
    case ELOOP:
      return OpenReason::kSymlink;
    case ENOSPC:
    case EDQUOT:
      return OpenReason::kSpace;
    default:
      return OpenReason::kPath;
  }
}

struct FileSystemName {
  uint64_t magic;
  const char* name;
};
constexpr uint64_t kXfsMagic = 0x58465342;
constexpr uint64_t kZfsMagic = 0x2fc12fc1;
constexpr uint64_t kBcachefsMagic = 0xca451a4e;
constexpr FileSystemName kFileSystems[] = {
    {EXT4_SUPER_MAGIC, "ext4"},   {kXfsMagic, "xfs"},           {TMPFS_MAGIC, "tmpfs"},
    {RAMFS_MAGIC, "ramfs"},       {BTRFS_SUPER_MAGIC, "btrfs"}, {OVERLAYFS_SUPER_MAGIC, "overlay"},
    {FUSE_SUPER_MAGIC, "fuse"},   {NFS_SUPER_MAGIC, "nfs"},     {kZfsMagic, "zfs"},
    {kBcachefsMagic, "bcachefs"},
};

std::string fileSystemName(uint64_t magic) {
  for (const FileSystemName& known : kFileSystems) {
    if (known.magic == magic) return known.name;
  }
  std::ostringstream text;
  text << "0x" << std::hex << magic;
  return text.str();
}

struct FreeBytes {
  void operator()(uint8_t* bytes) const { std::free(bytes); }
};
using AlignedBytes = std::unique_ptr<uint8_t, FreeBytes>;

AlignedBytes alignedBytes(uint64_t bytes) {
  AlignedBytes memory(static_cast<uint8_t*>(std::aligned_alloc(kUnitBytes, bytes)));
  if (!memory) fail(OpenReason::kHostMemory, ENOMEM, std::to_string(bytes) + " bytes of buffer");
  std::memset(memory.get(), 0, bytes);
  return memory;
}

// Start time of a process in clock ticks since boot, 0 where there is no such process any more.
uint64_t startTimeOf(uint64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const size_t nameEnd = line.rfind(')');
  if (nameEnd == std::string::npos) return 0;
  std::istringstream fields(line.substr(nameEnd + 1));
  std::string field;
  fields >> field;  // field 3, the state: zombie or dead are not alive
  if (field == "Z" || field == "X") return 0;
  for (int i = 0; i < 18; i++) fields >> field;  // the start time is field 22
  uint64_t ticks = 0;
  fields >> ticks;
  return ticks;
}

bool kernelAlignment(int file, uint32_t& memory, uint32_t& offset) {
  struct statx status {};
  if (statx(file, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) != 0) return false;
  if ((status.stx_mask & STATX_DIOALIGN) == 0) return false;
  memory = status.stx_dio_mem_align;
  offset = status.stx_dio_offset_align;
  return true;
}

// Logical block size of the device under the file, 0 where there is none to ask.
uint32_t logicalBlockBytes(int file) {
  struct stat status {};
  if (fstat(file, &status) != 0) return 0;
  const std::string device = "/sys/dev/block/" + std::to_string(major(status.st_dev)) + ":" +
                             std::to_string(minor(status.st_dev));
  for (const char* queue : {"/queue/logical_block_size", "/../queue/logical_block_size"}) {
    std::ifstream value(device + queue);
    uint32_t bytes = 0;
    if (value >> bytes) return bytes;
  }
  return 0;
}

ssize_t readWhole(int file, uint8_t* data, uint64_t bytes, uint64_t offset) {
  ssize_t moved = -1;
  do {
    moved = pread(file, data, bytes, static_cast<off_t>(offset));
  } while (moved < 0 && errno == EINTR);
  return moved;
}

ssize_t writeWhole(int file, const uint8_t* data, uint64_t bytes, uint64_t offset) {
  ssize_t moved = -1;
  do {
    moved = pwrite(file, data, bytes, static_cast<off_t>(offset));
  } while (moved < 0 && errno == EINTR);
  return moved;
}

// The superblock at an offset, empty where there are not that many bytes.
Superblock readSuperblock(int file, uint64_t offset) {
  Superblock superblock{};
  const AlignedBytes bytes = alignedBytes(kUnitBytes);
  const ssize_t moved = readWhole(file, bytes.get(), kUnitBytes, offset);
  if (moved < 0) fail(OpenReason::kPath, errno, "reading the superblock");
  if (moved >= static_cast<ssize_t>(sizeof(superblock))) {
    std::memcpy(&superblock, bytes.get(), sizeof(superblock));
  }
  return superblock;
}

bool blank(const Superblock& superblock) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&superblock);
  return std::all_of(bytes, bytes + sizeof(superblock), [](uint8_t byte) { return byte == 0; });
}

// When a process began that began so many clock ticks after boot, in words.
std::string sinceText(uint64_t ticks) {
  std::ifstream file("/proc/stat");
  std::string word;
  time_t boot = 0;
  while (file >> word) {
    if (word == "btime" && file >> boot) break;
  }
  const auto started =
      boot + static_cast<time_t>(ticks / static_cast<uint64_t>(std::max(1L, sysconf(_SC_CLK_TCK))));
  struct tm parts {};
  std::array<char, 32> text{};
  gmtime_r(&started, &parts);
  strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text.data();
}

std::string ownerText(const Superblock& superblock) {
  const std::string pid =
      std::to_string(superblock.ownerPid) + ", since " + sinceText(superblock.ownerStart);
  if (superblock.ownerPid == static_cast<uint64_t>(getpid())) {
    return "this process (pid " + pid +
           ") has it open already, or closed it while the kernel still owned its memory";
  }
  return "pid " + pid + " has it open";
}

bool ownerLives(const Superblock& superblock) {
  return superblock.ownerPid != 0 && superblock.ownerStart != 0 &&
         startTimeOf(superblock.ownerPid) == superblock.ownerStart;
}

uint64_t drawIdentity() {
  uint64_t identity = 0;
  while (identity == 0) {
    if (getrandom(&identity, sizeof(identity), 0) != sizeof(identity)) {
      identity = static_cast<uint64_t>(monotonicNanos()) ^ static_cast<uint64_t>(getpid()) << 40;
    }
  }
  return identity;
}

void makeDirectory(const std::string& directory) {
  std::error_code error;
  if (std::filesystem::is_symlink(directory, error)) {
    fail(OpenReason::kSymlink, 0,
         directory + " is a symbolic link; give the directory that it points to, " +
             std::filesystem::read_symlink(directory, error).string());
  }
  const std::filesystem::path wanted(directory);
  if (wanted.has_parent_path()) std::filesystem::create_directories(wanted.parent_path(), error);
  // KV can be turned back into prompts: the last one is nobody else's from its first moment.
  if (!error && mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    error.assign(errno, std::generic_category());
  }
  if (!error && !std::filesystem::is_directory(wanted, error) && !error) {
    error.assign(ENOTDIR, std::generic_category());
  }
  if (error)
    fail(pathReason(error.value()), error.value(), "cannot make the directory " + directory);
}

}  // namespace

const FileCalls& realFileCalls() {
  static const FileCalls calls{::fallocate, kernelAlignment};
  return calls;
}

// The smallest band in which no group has more than two parts in a hundred too many or too few.
// Worked example: blocks of 16 and 1056 tokens have 66 slots and 1, those of 528 and 784 have 3 and
// 2 (1584 tokens and 1568).
std::vector<uint32_t> bandSlots(const std::vector<uint32_t>& blockTokens) {
  const uint64_t finest = *std::min_element(blockTokens.begin(), blockTokens.end());
  std::vector<uint32_t> slots(blockTokens.size());
  for (uint64_t units = 1; units <= kBandUnitsMax; units++) {
    const uint64_t wanted = units * finest;
    bool close = true;
    for (size_t group = 0; group < blockTokens.size(); group++) {
      const uint64_t tokens = blockTokens[group];
      slots[group] = static_cast<uint32_t>(std::max<uint64_t>(1, (wanted + tokens / 2) / tokens));
      const uint64_t held = slots[group] * tokens;
      const uint64_t off = held > wanted ? held - wanted : wanted - held;
      close = close && off * kBandTolerance <= wanted;
    }
    if (close) break;
  }
  return slots;
}

int reserveFile(const std::string& path, uint64_t bytes) {
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return errno;
  int result = 0;
  do {
    result = fallocate(file, 0, 0, static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  const int error = result == 0 ? 0 : errno;
  close(file);
  return error;
}

BlockFile::BlockFile(const FileOptions& options, const FileCalls& calls)
    : options_(options), calls_(calls) {
  makeDirectory(options.directory);
  path_ = options.directory + "/rank-" + std::to_string(options.rank) + "-of-" +
          std::to_string(options.rankCount) + ".blocks";
  try {
    openAndLock(options);
    chooseAlignment(options, calls);
    layOut(options);
    adopt(options);
    checkSpace(options);
  } catch (...) {
    removeIfCreated();
    releaseFile();
    throw;
  }
}

void BlockFile::claim() {
  try {
    if (!discardReason_.empty()) discardContent();
    allocate(options_, calls_);
    probe();
    superblock_ = wanted(options_);
    raiseEpoch(epoch_ + 1);
    if (options_.keepNothing) removeAll();
  } catch (...) {
    removeIfCreated();
    throw;
  }
}

BlockFile::~BlockFile() { releaseFile(); }

// Only under the lock: a file that somebody else got hold of first is theirs.
void BlockFile::removeIfCreated() {
  if (created_ && locked_) unlink(path_.c_str());
}

// With what an earlier process has left beside it; the lock is ours.
void BlockFile::removeAll() {
  const std::string records = recordsPath();
  for (const std::string& path : {records, records + ".new", path_}) {
    if (unlink(path.c_str()) != 0 && errno != ENOENT) {
      fail(pathReason(errno), errno, "unlinking " + path);
    }
  }
}

std::string BlockFile::recordsPath() const {
  return path_.substr(0, path_.size() - std::strlen(".blocks")) + ".index";
}

void BlockFile::releaseFile() {
  if (file_ < 0) return;
  // A closed ring may keep the file for some time yet. All requests have landed, so the lock is
  // given up now and the next open need not wait for that.
  struct flock whole {};
  whole.l_type = F_UNLCK;
  whole.l_whence = SEEK_SET;
  fcntl(file_, F_OFD_SETLK, &whole);
  close(file_);
  file_ = -1;
  locked_ = false;
}

// A file may be unlinked by an open that failed while this one waited for its lock; then the lock
// is on a file that nobody can find, and it begins anew.
void BlockFile::openAndLock(const FileOptions& options) {
  const auto wait = static_cast<int64_t>(std::min<uint64_t>(options.lockWaitNanos, kLockWaitMax));
  const int64_t until = monotonicNanos() + wait;
  while (true) {
    openFile(options);
    checkOurs();
    lock(until);
    if (isAtItsPath()) return;
    releaseFile();
  }
}

// Whether somebody has a lock for reading, as a verification takes.
bool BlockFile::isBeingRead() const {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  return fcntl(file_, F_OFD_GETLK, &whole) == 0 && whole.l_type == F_RDLCK;
}

bool BlockFile::isAtItsPath() const {
  struct stat opened {};
  struct stat found {};
  return fstat(file_, &opened) == 0 && lstat(path_.c_str(), &found) == 0 &&
         opened.st_dev == found.st_dev && opened.st_ino == found.st_ino;
}

void BlockFile::openFile(const FileOptions& options) {
  struct statfs status {};
  if (statfs(options.directory.c_str(), &status) != 0) {
    fail(pathReason(errno), errno, options.directory);
  }
  const auto magic = static_cast<uint64_t>(status.f_type);
  fileSystem_ = fileSystemName(magic);
  memoryBacked_ = magic == TMPFS_MAGIC || magic == RAMFS_MAGIC;
  direct_ = options.direct && !memoryBacked_;
  if (memoryBacked_ && notice_.empty()) {
    say(options.directory + " is " + fileSystem_ + ": blocks lie in memory, not on a disk");
  }
  created_ = false;
  struct stat found {};
  const bool other = lstat(path_.c_str(), &found) == 0 && !S_ISREG(found.st_mode);
  if (other && !S_ISLNK(found.st_mode)) {  // a pipe would be waited for
    fail(OpenReason::kPath, 0, path_ + " is not a regular file");
  }
  const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (direct_ ? O_DIRECT : 0);
  // Another opener may make it, or take it away, between the two calls.
  constexpr int kTriesMax = 100;
  for (int tries = 0; tries < kTriesMax; tries++) {
    file_ = open(path_.c_str(), flags);
    if (file_ >= 0 || errno != ENOENT) break;
    file_ = open(path_.c_str(), flags | O_CREAT | O_EXCL, 0600);
    created_ = file_ >= 0;
    if (file_ >= 0 || errno != EEXIST) break;
  }
  if (file_ >= 0) return;
  if (errno == EINVAL && direct_) {
    fail(OpenReason::kDirectIo, EINVAL,
         path_ + " cannot be opened for direct I/O on " + fileSystem_ +
             "; use another file system, or ask for the page cache (directIo false)");
  }
  const int error = errno;
  fail(pathReason(error), error,
       (error == ELOOP ? "a symbolic link is not followed: " : "") + path_);
}

void BlockFile::checkOurs() const {
  struct stat status {};
  if (fstat(file_, &status) != 0) fail(OpenReason::kPath, errno, path_);
  if (!S_ISREG(status.st_mode)) fail(OpenReason::kPath, 0, path_ + " is not a regular file");
  if (status.st_uid != geteuid()) {
    fail(OpenReason::kPermission, 0,
         path_ + " belongs to user " + std::to_string(status.st_uid) + ", this process is user " +
             std::to_string(geteuid()));
  }
}

// An open file description lock, on the very descriptor that the ring uses: it dies with the last
// request in flight, not before. So after a kill the lock may be held for seconds by nobody, and is
// waited for; the lock of a living owner is not.
void BlockFile::lock(int64_t until) {
  const int64_t begun = monotonicNanos();
  while (true) {
    struct flock whole {};
    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    if (fcntl(file_, F_OFD_SETLK, &whole) == 0) {
      locked_ = true;
      return;
    }
    if (errno != EAGAIN && errno != EACCES)
      fail(OpenReason::kLocked, errno, "cannot lock " + path_);
    const Superblock superblock = readSuperblock(file_, 0);
    const int64_t now = monotonicNanos();
    const bool own = superblock.ownerPid == static_cast<uint64_t>(getpid());
    const bool settled = own || now - begun >= kDyingNanos || now >= until;
    if (settled && isBeingRead()) {
      fail(OpenReason::kLocked, 0, path_ + " is being verified; open it when that is over");
    }
    if (ownerLives(superblock) && settled) {
      fail(OpenReason::kLocked, 0,
           path_ + " is locked: " + ownerText(superblock) + "; one engine a rank and directory");
    }
    if (now >= until) {
      fail(OpenReason::kLocked, 0,
           path_ +
               " is still locked: by requests in flight of a process that ended, or by one that "
               "is not seen from here (pid " +
               std::to_string(superblock.ownerPid) + " where it runs); open it when that has gone");
    }
    const timespec pause{0, 20'000'000};
    nanosleep(&pause, nullptr);
  }
}

// The largest of what file system, device and page ask for. What the kernel says is a floor for an
// alignment given by hand as well.
void BlockFile::chooseAlignment(const FileOptions& options, const FileCalls& calls) {
  if (!direct_ && !memoryBacked_) {
    alignment_ = 1;
    return;
  }
  uint32_t memory = 0;
  uint32_t offset = 0;
  const bool told = direct_ && calls.directAlignment(file_, memory, offset);
  if (told && offset == 0) {
    fail(OpenReason::kDirectIo, 0,
         fileSystem_ + " does no direct I/O on " + path_ +
             "; use another file system, or ask for the page cache (directIo false)");
  }
  const uint32_t device = told || memoryBacked_ ? 0 : logicalBlockBytes(file_);
  const uint32_t floor = std::max({memory, offset, device, 1U});
  const uint32_t chosen = options.alignment != 0 ? options.alignment : std::max(floor, kPageBytes);
  if (!std::has_single_bit(chosen) || chosen < floor || chosen > kAlignmentMax) {
    fail(OpenReason::kConfiguration, 0,
         "alignment " + std::to_string(chosen) + " for " + path_ + ": a power of two from " +
             std::to_string(floor) + " (what " + fileSystem_ + " asks for) to " +
             std::to_string(kAlignmentMax) + " would be right");
  }
  alignment_ = chosen;
}

// Slots of all groups cover the same number of tokens, as far as whole bands do.
void BlockFile::layOut(const FileOptions& options) {
  headerBytes_ = std::max<uint64_t>(kHeaderBytesMin, uint64_t{4} * alignment_);
  shapeBand(options);
  const uint64_t bands = options.capacityBytes / bandBytes_;
  uint64_t slots = 0;
  for (Region& region : regions_) {
    region.slotCount = bands * region.bandSlots;
    slots += region.slotCount;
  }
  if (bands == 0 || slots > kSlotsMax) {
    fail(OpenReason::kConfiguration, 0,
         "capacity " + std::to_string(options.capacityBytes) + " bytes gives " +
             std::to_string(slots) + " slots of " + std::to_string(regions_[0].slotBytes) +
             " bytes (alignment " + std::to_string(alignment_) + ", group 0 of " +
             std::to_string(regions_.size()) + "); at least " + std::to_string(bandBytes_) +
             " bytes and at most " + std::to_string(kSlotsMax) + " slots would be right");
  }
  fileBytes_ = headerBytes_ + bands * bandBytes_;
  CHECK(headerBytes_ % alignment_ == 0 && bandBytes_ % alignment_ == 0,
        "header of %lu and bands of %lu bytes", static_cast<unsigned long>(headerBytes_),
        static_cast<unsigned long>(bandBytes_));
}

// A function of the groups alone, so that it is the same at every capacity.
void BlockFile::shapeBand(const FileOptions& options) {
  std::vector<uint32_t> tokens;
  for (const GroupShape& group : options.groups) tokens.push_back(group.blockTokens);
  const std::vector<uint32_t> slots = bandSlots(tokens);
  for (size_t group = 0; group < options.groups.size(); group++) {
    const GroupShape& shape = options.groups[group];
    Region region;
    region.offset = headerBytes_ + bandBytes_;
    region.slotBytes = static_cast<uint32_t>(roundUp(shape.payloadBytes, alignment_));
    region.payloadBytes = shape.payloadBytes;
    region.bandSlots = slots[group];
    bandBytes_ += uint64_t{region.bandSlots} * region.slotBytes;
    regions_.push_back(region);
  }
}

Superblock BlockFile::wanted(const FileOptions& options) const {
  Superblock superblock{};
  superblock.alignment = alignment_;
  superblock.fingerprint = options.fingerprint;
  superblock.rank = options.rank;
  superblock.rankCount = options.rankCount;
  superblock.groupCount = static_cast<uint32_t>(options.groups.size());
  superblock.headerBytes = static_cast<uint32_t>(headerBytes_);
  superblock.identity = identity_;
  superblock.cipher = options.cipher;
  superblock.ownerPid = static_cast<uint64_t>(getpid());
  superblock.ownerStart = startTimeOf(superblock.ownerPid);
  options.nameSpace.copy(superblock.nameSpace.data(), kNameSpaceBytesMax);
  for (size_t group = 0; group < regions_.size(); group++) {
    const Region& region = regions_[group];
    superblock.regions[group] = {region.offset,
                                 region.slotCount,
                                 region.slotBytes,
                                 region.payloadBytes,
                                 options.groups[group].blockTokens,
                                 region.bandSlots};
  }
  return superblock;
}

// Takes over a file that an earlier owner of the same layout left; refuses any other.
void BlockFile::adopt(const FileOptions& options) {
  identity_ = drawIdentity();
  if (created_) return;
  const Superblock first = readSuperblock(file_, 0);
  const Superblock second = readSuperblock(file_, headerBytes_ / 4);
  if (!intact(first) && !intact(second)) {
    if (headerIsBlank()) return;  // an open that was cut short before its superblock
    if (options.discardOther && (hasMagic(first) || hasMagic(second))) {
      discardReason_ = "its superblock was damaged";
      return;
    }
    fail(OpenReason::kLayout, 0,
         path_ + " is not a Spillway block file, or its superblock is damaged" +
             otherVersion(first) + "; move it away");
  }
  const bool firstCounts = intact(first) && (!intact(second) || first.epoch >= second.epoch);
  const Superblock& found = firstCounts ? first : second;
  auto text = difference(found, wanted(options));
  if (!text && found.epoch > kEpochMax) {
    text = "epoch is " + std::to_string(found.epoch) + " in the file and at most " +
           std::to_string(kEpochMax) + " here";
  }
  // Where content is discarded the epoch goes on, so that no generation comes again.
  epoch_ = found.epoch > kEpochMax ? 0 : found.epoch;
  if (text) {
    if (!options.discardOther) {
      fail(OpenReason::kLayout, 0,
           path_ + " holds another layout: " + *text +
               "; move it away, or ask for its content to be discarded (discardOther)");
    }
    discardReason_ = *text;
    return;
  }
  identity_ = found.identity;
}

void BlockFile::discardContent() {
  say("what " + path_ + " held is discarded: " + discardReason_);
  if (ftruncate(file_, 0) != 0) fail(pathReason(errno), errno, "emptying " + path_);
}

// Nothing, or zeros up to the trial area, or a first superblock that was torn: what an open of ours
// leaves that was cut short. Anything else may be somebody's.
bool BlockFile::headerIsBlank() const {
  struct stat status {};
  if (fstat(file_, &status) != 0) fail(OpenReason::kPath, errno, path_);
  if (status.st_size == 0) return true;
  if (static_cast<uint64_t>(status.st_size) < headerBytes_) return false;
  if (!blank(readSuperblock(file_, headerBytes_ / 4))) return false;
  if (hasMagic(readSuperblock(file_, 0))) return true;
  const AlignedBytes bytes = alignedBytes(roundUp(headerBytes_, kUnitBytes));
  const ssize_t moved = readWhole(file_, bytes.get(), headerBytes_, 0);
  return moved == static_cast<ssize_t>(headerBytes_) &&
         std::all_of(bytes.get(), bytes.get() + headerBytes_ / 4 * 3,
                     [](uint8_t byte) { return byte == 0; });
}

// Looked at first: a file system that runs out while it reserves keeps what it has taken.
// Records of another number of slots are written anew before the old ones go.
uint64_t BlockFile::recordBytesNeeded(const FileOptions& options) const {
  uint64_t bytes = 0;
  for (const Region& region : regions_) bytes += region.slotCount * options.slotRecordBytes;
  struct stat status {};
  const bool there = stat(recordsPath().c_str(), &status) == 0;
  const bool right = there && static_cast<uint64_t>(status.st_size) == kRecordsHeaderBytes + bytes;
  return right ? 0 : bytes;
}

void BlockFile::checkSpace(const FileOptions& options) const {
  if (options.allocation == Allocation::kSparse) return;
  struct stat status {};
  struct statfs space {};
  if (fstat(file_, &status) != 0 || fstatfs(file_, &space) != 0) {
    fail(OpenReason::kPath, errno, path_);
  }
  const auto allocatedBytes = static_cast<uint64_t>(status.st_blocks) * 512;
  const auto unit = static_cast<uint64_t>(space.f_frsize > 0 ? space.f_frsize : space.f_bsize);
  const uint64_t free = space.f_bavail * unit;
  uint64_t needed = fileBytes_ > allocatedBytes ? fileBytes_ - allocatedBytes : 0;
  needed += recordBytesNeeded(options);
  if (needed + options.freeFloorBytes <= free) return;
  const std::string floor =
      options.freeFloorBytes == 0
          ? ""
          : " and " + std::to_string(options.freeFloorBytes) + " are to stay free";
  fail(OpenReason::kSpace, ENOSPC,
       path_ + " needs " + std::to_string(needed) + " bytes, " + std::to_string(free) +
           " are free" + floor +
           (needed == 0 ? "; free some, or lower the floor" : "; lower the capacity"));
}

void BlockFile::allocate(const FileOptions& options, const FileCalls& calls) {
  struct stat status {};
  if (fstat(file_, &status) != 0) fail(OpenReason::kPath, errno, path_);
  if (fchmod(file_, 0600) != 0) fail(OpenReason::kPermission, errno, "mode 0600 on " + path_);
  const auto oldBytes = static_cast<uint64_t>(status.st_size);
  try {
    reserve(options, calls, oldBytes);
  } catch (...) {
    if (oldBytes < fileBytes_ && ftruncate(file_, status.st_size) != 0) {
      say("the size of " + path_ + " could not be set back");
    }
    throw;
  }
}

void BlockFile::reserve(const FileOptions& options, const FileCalls& calls, uint64_t oldBytes) {
  const auto bytes = static_cast<off_t>(fileBytes_);
  if (oldBytes > fileBytes_ || options.allocation == Allocation::kSparse) {
    if (ftruncate(file_, bytes) != 0) fail(pathReason(errno), errno, "size of " + path_);
  }
  switch (options.allocation) {
    case Allocation::kPreallocate: {
      int result = 0;
      do {
        result = calls.fallocate(file_, 0, 0, bytes);
      } while (result != 0 && errno == EINTR);
      if (result == 0) return;
      const bool unable = errno == EOPNOTSUPP || errno == EINVAL || errno == ENOSYS;
      fail(OpenReason::kSpace, errno,
           unable ? fileSystem_ + " cannot reserve space for " + path_ +
                        "; ask for zero-filled or sparse allocation"
                  : "reserving " + std::to_string(fileBytes_) + " bytes for " + path_);
    }
    case Allocation::kZeroFill:
      say("space of " + path_ + " is reserved by writing zeros");
      return zeroFill(std::min(oldBytes, fileBytes_));
    case Allocation::kSparse:
      say("space of " + path_ + " is not reserved: a full disk will show at some later store");
      return;
  }
}

// The file grows as it is filled, so that its size tells how far an open came that was cut short.
// Holes in what is there are of a time when it was sparse.
void BlockFile::zeroFill(uint64_t oldBytes) {
  for (off_t at = 0; at < static_cast<off_t>(oldBytes);) {
    const off_t hole = lseek(file_, at, SEEK_HOLE);
    if (hole < 0 || hole >= static_cast<off_t>(oldBytes)) break;
    const off_t data = lseek(file_, hole, SEEK_DATA);
    const uint64_t end = data < 0 ? oldBytes : std::min<uint64_t>(data, oldBytes);
    writeZeros(roundUp(static_cast<uint64_t>(hole), alignment_), roundDown(end, alignment_));
    at = static_cast<off_t>(end);
  }
  writeZeros(roundDown(oldBytes, alignment_), fileBytes_);
}

void BlockFile::writeZeros(uint64_t from, uint64_t to) {
  const AlignedBytes zeros = alignedBytes(kZeroFillBytes);
  for (uint64_t at = from; at < to;) {
    const uint64_t bytes = std::min(kZeroFillBytes, to - at);
    const ssize_t moved = writeWhole(file_, zeros.get(), bytes, at);
    const int error = moved < 0 ? errno : ENOSPC;
    const uint64_t whole = moved < 0 ? 0 : roundDown(static_cast<uint64_t>(moved), alignment_);
    if (whole == 0) fail(pathReason(error), error, "zero-filling " + path_);
    at += whole;
  }
}

// A flag that was accepted proves nothing: write and read back one aligned unit.
void BlockFile::probe() {
  const uint64_t bytes = std::max(alignment_, kPageBytes);
  const uint64_t at = headerBytes_ / 4 * 3;
  const AlignedBytes out = alignedBytes(roundUp(bytes, kUnitBytes));
  const AlignedBytes in = alignedBytes(roundUp(bytes, kUnitBytes));
  std::memset(out.get(), 0xa5, bytes);
  const auto wantedBytes = static_cast<ssize_t>(bytes);
  const ssize_t written = writeWhole(file_, out.get(), bytes, at);
  const int writeError = errno;
  const ssize_t read = written == wantedBytes ? readWhole(file_, in.get(), bytes, at) : -1;
  const int readError = errno;
  if (written != wantedBytes || read != wantedBytes) {
    const bool writing = written != wantedBytes;
    const int error = writing ? writeError : readError;
    fail(error == EINVAL ? OpenReason::kDirectIo : pathReason(error), error,
         std::string("trial ") + (writing ? "write" : "read") + " of " + std::to_string(bytes) +
             " bytes in " + path_ + " (" + fileSystem_ + ", alignment " +
             std::to_string(alignment_) + ")");
  }
  if (std::memcmp(out.get(), in.get(), bytes) != 0) {
    fail(OpenReason::kPath, 0, path_ + " does not give back what was written");
  }
}

int BlockFile::punch(GroupIndex group, DiskSlot slot) const {
  int result = 0;
  do {
    result = calls_.fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                              static_cast<off_t>(offsetOf(group, slot)),
                              regions_[group.index].slotBytes);
  } while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : errno;
}

void BlockFile::raiseEpoch(uint64_t epoch) {
  CHECK(epoch >= epoch_, "epoch %lu after %lu", static_cast<unsigned long>(epoch),
        static_cast<unsigned long>(epoch_));
  superblock_.epoch = epoch;
  writeSuperblock(superblock_);
  epoch_ = epoch;
}

// On disk before the first block of this epoch is written.
void BlockFile::writeSuperblock(Superblock superblock) {
  seal(superblock);
  const uint64_t bytes = std::max<uint64_t>(alignment_, kSuperblockBytes);
  const AlignedBytes unit = alignedBytes(roundUp(bytes, kUnitBytes));
  std::memcpy(unit.get(), &superblock, sizeof(superblock));
  // One copy after the other, each synced, so that a torn one leaves the other.
  for (const uint64_t at : {uint64_t{0}, headerBytes_ / 4}) {
    const ssize_t moved = writeWhole(file_, unit.get(), bytes, at);
    if (moved != static_cast<ssize_t>(bytes)) {
      const int error = moved < 0 ? errno : ENOSPC;
      fail(pathReason(error), error, "superblock of " + path_);
    }
    if (fdatasync(file_) != 0) fail(pathReason(errno), errno, "syncing the superblock of " + path_);
  }
}

void BlockFile::say(const std::string& sentence) {
  notice_ += notice_.empty() ? sentence : "\n" + sentence;
}

uint64_t BlockFile::offsetOf(GroupIndex group, DiskSlot slot) const {
  CHECK(group.index < regions_.size(), "group %u of %zu", group.index, regions_.size());
  const Region& region = regions_[group.index];
  CHECK(region.slotBytes >= region.payloadBytes, "slots of %u bytes for payloads of %u",
        region.slotBytes, region.payloadBytes);
  CHECK(slot.index < region.slotCount, "slot %u of %lu", slot.index,
        static_cast<unsigned long>(region.slotCount));
  const uint64_t offset = region.offset + slot.index / region.bandSlots * bandBytes_ +
                          uint64_t{slot.index % region.bandSlots} * region.slotBytes;
  CHECK(offset >= headerBytes_ && offset + region.slotBytes <= fileBytes_, "slot at %lu of %lu",
        static_cast<unsigned long>(offset), static_cast<unsigned long>(fileBytes_));
  CHECK(offset % alignment_ == 0, "slot at %lu, alignment %u", static_cast<unsigned long>(offset),
        alignment_);
  return offset;
}

}  // namespace spillway
