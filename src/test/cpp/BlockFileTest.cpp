#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "TestFiles.h"

namespace spillway {
namespace {

std::string blocksPath(const std::string& directory) { return directory + "/rank-0-of-1.blocks"; }

bool says(const OpenError& failure, const std::string& text) {
  return std::string(failure.what()).find(text) != std::string::npos;
}

TEST(BlockFileTest, isPreallocatedPrivateAndHasItsSlots) {
  TemporaryDirectory directory;
  ClaimedFile file(fileOptions(directory.path(), 10496, 10));
  struct stat status {};
  ASSERT_EQ(stat(file.path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  EXPECT_EQ(static_cast<uint64_t>(status.st_size), file.fileBytes());
  EXPECT_GE(static_cast<uint64_t>(status.st_blocks) * 512, file.fileBytes());
  EXPECT_EQ(file.regions()[0].slotCount, 10u);
  EXPECT_EQ(file.regions()[0].slotBytes, 12288u);
}

// V38, in our stronger form: at least a page, more where the kernel asks for more.
TEST(BlockFileTest, v38DefaultAlignmentIs4096) {
  TemporaryDirectory directory;
  EXPECT_EQ(ClaimedFile(fileOptions(directory.path())).alignment(), 4096u);
}

// V39 and F4: 4224 bytes need 8192 at 4096 and 4608 at 512; only powers of two are alignments.
TEST(BlockFileTest, f4V39SlotsAreRoundedUpToTheAlignment) {
  TemporaryDirectory first;
  EXPECT_EQ(ClaimedFile(fileOptions(first.path(), 4224)).regions()[0].slotBytes, 8192u);
  TemporaryDirectory second;
  FileOptions options = fileOptions(second.path(), 4224);
  options.alignment = 512;
  EXPECT_EQ(ClaimedFile(options).regions()[0].slotBytes, 4608u);
  options.alignment = 3000;
  EXPECT_TRUE(says(openError([&] { ClaimedFile file(options); }), "alignment 3000"));
}

TEST(BlockFileTest, v43OffsetsAreMultiplesOfTheAlignment) {
  TemporaryDirectory directory;
  FileOptions options = fileOptions(directory.path(), 4224);
  options.groups.push_back({539648, 528});
  options.capacityBytes = 64 << 20;
  ClaimedFile file(options);
  for (uint32_t group = 0; group < 2; group++) {
    for (uint32_t slot = 0; slot < file.regions()[group].slotCount; slot++) {
      ASSERT_EQ(file.offsetOf(GroupIndex{group}, DiskSlot{slot}) % file.alignment(), 0u);
    }
  }
}

// V44, V46: room for 2 x 4224 raw bytes is one padded slot, or two in the page cache.
TEST(BlockFileTest, v44V46CapacityIsCountedInPaddedSlots) {
  TemporaryDirectory first;
  FileOptions options = fileOptions(first.path(), 4224);
  options.capacityBytes = 2 * 4224;
  EXPECT_EQ(ClaimedFile(options).regions()[0].slotCount, 1u);
  TemporaryDirectory second;
  options.directory = second.path();
  options.direct = false;
  ClaimedFile buffered(options);
  EXPECT_EQ(buffered.regions()[0].slotCount, 2u);
  EXPECT_EQ(buffered.regions()[0].slotBytes, 4224u);
  EXPECT_FALSE(buffered.direct());
}

TEST(BlockFileTest, v45CapacityBelowOneSlotIsRefused) {
  TemporaryDirectory directory;
  FileOptions options = fileOptions(directory.path(), 8192);
  options.capacityBytes = 8191;
  const OpenError failure = openError([&] { ClaimedFile file(options); });
  EXPECT_EQ(failure.reason(), OpenReason::kConfiguration);
  EXPECT_TRUE(says(failure, "capacity 8191 bytes gives 0 slots of 8192 bytes")) << failure.what();
  EXPECT_FALSE(std::filesystem::exists(blocksPath(directory.path())));
}

TEST(BlockFileTest, groupsShareTheCapacityByTokens) {
  TemporaryDirectory directory;
  FileOptions options = fileOptions(directory.path());
  options.groups = {{4096, 16}, {8192, 32}};
  options.capacityBytes = 48 * 4096;
  ClaimedFile file(options);
  EXPECT_EQ(file.regions()[0].slotCount, 24u);
  EXPECT_EQ(file.regions()[1].slotCount, 12u);
}

// Case 9: what the file system asks for beats device and page; zero means no direct I/O.
TEST(BlockFileTest, case9TheLargestAlignmentIsUsedAndZeroIsRefused) {
  TemporaryDirectory directory;
  FileCalls calls = realFileCalls();
  calls.directAlignment = [](int, uint32_t& memory, uint32_t& offset) {
    memory = 512;
    offset = 16384;
    return true;
  };
  EXPECT_EQ(ClaimedFile(fileOptions(directory.path()), calls).regions()[0].slotBytes, 16384u);
  TemporaryDirectory second;
  calls.directAlignment = [](int, uint32_t& memory, uint32_t& offset) {
    memory = offset = 0;
    return true;
  };
  const OpenError failure = openError([&] { ClaimedFile file(fileOptions(second.path()), calls); });
  EXPECT_EQ(failure.reason(), OpenReason::kDirectIo);
  EXPECT_TRUE(says(failure, "page cache"));
}

TEST(BlockFileTest, v58AnAlignmentBelowTheKernelsIsRefused) {
  TemporaryDirectory directory;
  FileCalls calls = realFileCalls();
  calls.directAlignment = [](int, uint32_t& memory, uint32_t& offset) {
    memory = offset = 4096;
    return true;
  };
  FileOptions options = fileOptions(directory.path());
  options.alignment = 512;
  EXPECT_TRUE(says(openError([&] { ClaimedFile file(options, calls); }), "from 4096"));
  options.direct = false;
  EXPECT_EQ(ClaimedFile(options, calls).alignment(), 1u);
}

// Case 7: success at open proves nothing on tmpfs; it is recognised, taken, and said.
TEST(BlockFileTest, case7TmpfsIsRecognisedAsMemory) {
  TemporaryDirectory directory("/dev/shm");
  ClaimedFile file(fileOptions(directory.path()));
  EXPECT_EQ(file.fileSystem(), "tmpfs");
  EXPECT_FALSE(file.direct());
  EXPECT_NE(file.notice().find("in memory, not on a disk"), std::string::npos);
}

// Case 47: no fallocate is a refusal that names the ways out, and zero-fill is one.
TEST(BlockFileTest, case47WithoutFallocateItRefusesOrFillsWithZerosWhenAsked) {
  for (const auto fallocate : {+[](int, int, off_t, off_t) {
                                 errno = EOPNOTSUPP;
                                 return -1;
                               },
                               +[](int, int, off_t, off_t) {
                                 errno = EINVAL;
                                 return -1;
                               }}) {
    TemporaryDirectory directory;
    FileCalls calls = realFileCalls();
    calls.fallocate = fallocate;
    FileOptions options = fileOptions(directory.path());
    const OpenError failure = openError([&] { ClaimedFile file(options, calls); });
    EXPECT_EQ(failure.reason(), OpenReason::kSpace);
    EXPECT_TRUE(says(failure, "ask for zero-filled or sparse allocation"));
    options.allocation = Allocation::kZeroFill;
    ClaimedFile file(options, calls);
    struct stat status {};
    ASSERT_EQ(stat(file.path().c_str(), &status), 0);
    EXPECT_GE(static_cast<uint64_t>(status.st_blocks) * 512, file.fileBytes() - 65536);
    EXPECT_NE(file.notice().find("writing zeros"), std::string::npos);
  }
}

TEST(BlockFileTest, sparseIsSaid) {
  TemporaryDirectory directory;
  FileOptions options = fileOptions(directory.path());
  options.allocation = Allocation::kSparse;
  EXPECT_NE(ClaimedFile(options).notice().find("not reserved"), std::string::npos);
}

// F3: a disk smaller than the capacity is seen at open.
TEST(BlockFileTest, f3TooLittleSpaceIsRefusedAtOpenAndLeavesNothing) {
  TemporaryDirectory directory;
  FileOptions options = fileOptions(directory.path(), 1 << 20);
  options.capacityBytes = uint64_t{1} << 43;
  const OpenError failure = openError([&] { ClaimedFile file(options); });
  EXPECT_EQ(failure.reason(), OpenReason::kSpace);
  EXPECT_TRUE(says(failure, "are free; lower the capacity")) << failure.what();
  EXPECT_FALSE(std::filesystem::exists(blocksPath(directory.path())));
}

// F1, V205: each path that cannot work is refused with its name and what is wrong with it.
TEST(BlockFileTest, f1PathsThatCannotWorkAreRefusedByName) {
  TemporaryDirectory directory;
  std::ofstream(directory.path() + "/plain") << "x";
  OpenError failure =
      openError([&] { ClaimedFile f(fileOptions(directory.path() + "/plain/sub")); });
  EXPECT_EQ(failure.reason(), OpenReason::kPath);
  EXPECT_TRUE(says(failure, directory.path() + "/plain/sub")) << failure.what();
  EXPECT_TRUE(says(failure, "ENOTDIR")) << failure.what();

  std::filesystem::create_directory_symlink(directory.path(), directory.path() + "/link");
  failure = openError([&] { ClaimedFile f(fileOptions(directory.path() + "/link")); });
  EXPECT_EQ(failure.reason(), OpenReason::kSymlink);

  std::filesystem::create_symlink("plain", blocksPath(directory.path()));
  failure = openError([&] { ClaimedFile f(fileOptions(directory.path())); });
  EXPECT_EQ(failure.reason(), OpenReason::kSymlink);
  EXPECT_TRUE(says(failure, "rank-0-of-1.blocks"));
}

TEST(BlockFileTest, f1NoPermissionIsRefusedByName) {
  TemporaryDirectory directory;
  chmod(directory.path().c_str(), 0500);
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && setuid(65534) != 0) _exit(9);
    try {
      ClaimedFile file(fileOptions(directory.path() + "/sub"));
    } catch (const OpenError& failure) {
      _exit(failure.reason() == OpenReason::kPermission && says(failure, "EACCES") ? 0 : 1);
    }
    _exit(2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// F2: a second owner is refused with the pid of the first, and touches nothing.
TEST(BlockFileTest, f2ASecondOwnerIsRefusedWithThePidOfTheFirst) {
  TemporaryDirectory directory;
  ClaimedFile first(fileOptions(directory.path()));
  const OpenError failure = openError([&] { ClaimedFile second(fileOptions(directory.path())); });
  EXPECT_EQ(failure.reason(), OpenReason::kLocked);
  EXPECT_TRUE(says(failure, "pid " + std::to_string(getpid()))) << failure.what();
  EXPECT_TRUE(std::filesystem::exists(first.path()));
}

TEST(BlockFileTest, theLockOfADeadOwnerIsTakenOver) {
  TemporaryDirectory directory;
  const pid_t child = fork();
  if (child == 0) {
    new ClaimedFile(fileOptions(directory.path()));
    raise(SIGKILL);
  }
  waitpid(child, nullptr, 0);
  ClaimedFile second(fileOptions(directory.path()));
  EXPECT_EQ(second.epoch(), 2u);
}

TEST(BlockFileTest, theEpochRisesAtEveryOpen) {
  TemporaryDirectory directory;
  for (uint64_t epoch = 1; epoch < 5; epoch++) {
    EXPECT_EQ(ClaimedFile(fileOptions(directory.path())).epoch(), epoch);
  }
}

TEST(BlockFileTest, aTornSuperblockLeavesTheOtherCopy) {
  TemporaryDirectory directory;
  { ClaimedFile file(fileOptions(directory.path())); }
  const int raw = open(blocksPath(directory.path()).c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(pwrite(raw, "torn", 4, 100), 4);
  close(raw);
  EXPECT_EQ(ClaimedFile(fileOptions(directory.path())).epoch(), 2u);
}

TEST(BlockFileTest, anotherProgramsFileIsRefusedAndKept) {
  TemporaryDirectory directory;
  std::ofstream(blocksPath(directory.path())) << std::string(8192, 'z');
  const OpenError failure = openError([&] { ClaimedFile file(fileOptions(directory.path())); });
  EXPECT_EQ(failure.reason(), OpenReason::kLayout);
  std::ifstream kept(blocksPath(directory.path()));
  EXPECT_EQ(kept.get(), 'z');
}

TEST(BlockFileTest, aSmallFileThatIsNotOursIsRefusedAndKept) {
  for (const size_t bytes : {size_t{1}, size_t{33}, size_t{4096}, size_t{65536}}) {
    TemporaryDirectory directory;
    std::ofstream(blocksPath(directory.path())) << std::string(bytes, 'z');
    EXPECT_EQ(openError([&] { ClaimedFile f(fileOptions(directory.path())); }).reason(),
              OpenReason::kLayout);
    EXPECT_EQ(std::filesystem::file_size(blocksPath(directory.path())), bytes);
  }
}

TEST(BlockFileTest, anOpenThatWasCutShortIsTakenOver) {
  TemporaryDirectory directory;
  std::ofstream(blocksPath(directory.path())).flush();
  EXPECT_EQ(ClaimedFile(fileOptions(directory.path())).epoch(), 1u);
  TemporaryDirectory second;
  std::ofstream(blocksPath(second.path())) << std::string(200'000, '\0');
  EXPECT_EQ(ClaimedFile(fileOptions(second.path())).epoch(), 1u);
}

TEST(BlockFileTest, aRefusedCapacityTakesNoSpaceFromAnExistingFile) {
  TemporaryDirectory directory;
  { ClaimedFile file(fileOptions(directory.path(), 1 << 20, 4)); }
  const uint64_t before = std::filesystem::file_size(blocksPath(directory.path()));
  FileOptions options = fileOptions(directory.path(), 1 << 20, 4);
  options.capacityBytes = uint64_t{1} << 43;
  EXPECT_EQ(openError([&] { ClaimedFile f(options); }).reason(), OpenReason::kSpace);
  EXPECT_EQ(std::filesystem::file_size(blocksPath(directory.path())), before);
  FileCalls calls = realFileCalls();
  calls.fallocate = [](int file, int, off_t, off_t bytes) {
    EXPECT_EQ(ftruncate(file, bytes), 0);
    errno = ENOSPC;
    return -1;
  };
  options = fileOptions(directory.path(), 1 << 20, 8);
  EXPECT_EQ(openError([&] { ClaimedFile f(options, calls); }).error(), ENOSPC);
  EXPECT_EQ(std::filesystem::file_size(blocksPath(directory.path())), before);
}

TEST(BlockFileTest, openersThatRaceForAFreshDirectoryLeaveOneOwnerAndItsFile) {
  for (int round = 0; round < 20; round++) {
    TemporaryDirectory directory;
    std::vector<std::unique_ptr<BlockFile>> files(4);
    std::vector<std::thread> openers;
    for (auto& file : files) {
      openers.emplace_back([&] {
        try {
          file = std::make_unique<ClaimedFile>(fileOptions(directory.path()));
        } catch (const OpenError& failure) {
          EXPECT_TRUE(failure.reason() == OpenReason::kLocked) << failure.what();
        }
      });
    }
    for (auto& opener : openers) opener.join();
    EXPECT_EQ(std::count_if(files.begin(), files.end(), [](auto& file) { return file != nullptr; }),
              1);
    EXPECT_TRUE(std::filesystem::exists(blocksPath(directory.path())));
  }
}

TEST(BlockFileTest, anotherLayoutIsRefusedByTheFieldThatDiffers) {
  TemporaryDirectory directory;
  { ClaimedFile file(fileOptions(directory.path())); }
  FileOptions options = fileOptions(directory.path());
  options.nameSpace = "other";
  EXPECT_TRUE(says(openError([&] { ClaimedFile f(options); }),
                   "namespace is \"test\" in the file and \"other\" here"));
  options = fileOptions(directory.path(), 12288);
  EXPECT_TRUE(says(openError([&] { ClaimedFile f(options); }), "block bytes is 8192 in the file"));
  options = fileOptions(directory.path());
  options.groups[0].blockTokens = 32;
  EXPECT_TRUE(says(openError([&] { ClaimedFile f(options); }), "block tokens is 16 in the file"));
  options = fileOptions(directory.path());
  options.fingerprint = 99;
  EXPECT_TRUE(says(openError([&] { ClaimedFile f(options); }), "layout fingerprint is"));
}

// Content has an identity that stays with it, and a discarded one is another; the epoch goes on.
TEST(BlockFileTest, anotherLayoutIsDiscardedWhereThatIsAskedFor) {
  TemporaryDirectory directory;
  FileOptions options = fileOptions(directory.path());
  uint64_t identity = 0;
  {
    ClaimedFile file(options);
    identity = file.identity();
    EXPECT_NE(identity, 0u);
  }
  EXPECT_EQ(ClaimedFile(options).identity(), identity);
  options.nameSpace = "other";
  EXPECT_TRUE(says(openError([&] { ClaimedFile file(options); }), "discardOther"));
  options.discardOther = true;
  ClaimedFile file(options);
  EXPECT_NE(file.identity(), identity);
  EXPECT_EQ(file.epoch(), 3u);
  EXPECT_NE(file.notice().find("namespace is \"test\""), std::string::npos);
}

// Only a file that begins as ours may be emptied.
TEST(BlockFileTest, aDamagedSuperblockIsDiscardedOnlyWhereTheFileIsOurs) {
  TemporaryDirectory directory;
  FileOptions options = fileOptions(directory.path());
  { ClaimedFile file(options); }
  for (const off_t at : {100, 16384 + 100}) {
    std::fstream file(blocksPath(directory.path()), std::ios::in | std::ios::out);
    file.seekp(at);
    file.put('x');
  }
  EXPECT_TRUE(says(openError([&] { ClaimedFile file(options); }), "damaged"));
  options.discardOther = true;
  EXPECT_EQ(ClaimedFile(options).epoch(), 1u);
  std::ofstream(blocksPath(directory.path())) << std::string(100'000, 'z');
  EXPECT_TRUE(says(openError([&] { ClaimedFile file(options); }), "not a Spillway block file"));
}

TEST(BlockFileTest, whatIsNotKeptIsUnlinkedOnceOpen) {
  TemporaryDirectory directory;
  FileOptions options = fileOptions(directory.path());
  options.keepNothing = true;
  ClaimedFile file(options);
  EXPECT_NE(access(file.path().c_str(), F_OK), 0);
  EXPECT_EQ(file.regions()[0].slotCount, 64u);
}

// Records beside the file and what is to stay free count as well.
TEST(BlockFileTest, theFloorOfFreeSpaceIsKept) {
  TemporaryDirectory directory;
  FileOptions options = fileOptions(directory.path());
  options.freeFloorBytes = uint64_t{1} << 60;
  const OpenError floor = openError([&] { ClaimedFile file(options); });
  EXPECT_EQ(floor.reason(), OpenReason::kSpace);
  EXPECT_TRUE(says(floor, "1152921504606846976 are to stay free"));
  options.freeFloorBytes = 0;
  options.slotRecordBytes = uint64_t{1} << 54;
  EXPECT_EQ(openError([&] { ClaimedFile file(options); }).reason(), OpenReason::kSpace);
  EXPECT_NE(access(blocksPath(directory.path()).c_str(), F_OK), 0);
}

// What records take up already is not asked for again; those of another capacity are made anew.
TEST(BlockFileTest, recordsThatAreThereNeedNoMoreSpace) {
  TemporaryDirectory directory;
  FileOptions options = fileOptions(directory.path());
  options.slotRecordBytes = uint64_t{1} << 36;
  EXPECT_EQ(openError([&] { ClaimedFile file(options); }).reason(), OpenReason::kSpace);
  const std::string records = directory.path() + "/rank-0-of-1.index";
  { std::ofstream file(records); }
  ASSERT_EQ(truncate(records.c_str(), static_cast<off_t>(4096 + 64 * options.slotRecordBytes)), 0);
  { ClaimedFile file(options); }
  options.capacityBytes *= 2;
  EXPECT_EQ(openError([&] { ClaimedFile file(options); }).reason(), OpenReason::kSpace);
}

// Decided first, destroyed last: an open that is refused, by whatever comes behind, changes
// nothing.
TEST(BlockFileTest, anOpenThatIsRefusedLeavesWhatIsThere) {
  TemporaryDirectory directory;
  const FileOptions options = fileOptions(directory.path());
  uint64_t bytes = 0;
  uint64_t identity = 0;
  {
    ClaimedFile file(options);
    bytes = file.fileBytes();
    identity = file.identity();
  }
  FileOptions other = options;
  other.nameSpace = "other";
  other.discardOther = true;
  other.capacityBytes = uint64_t{1} << 40;
  EXPECT_EQ(openError([&] { ClaimedFile file(other); }).reason(), OpenReason::kSpace);
  EXPECT_EQ(std::filesystem::file_size(blocksPath(directory.path())), bytes);
  other.capacityBytes = 8 * 8192;
  { BlockFile file(other); }  // and then something else of the engine was refused
  { BlockFile file(fileOptions(directory.path(), 8192, 8)); }
  EXPECT_EQ(std::filesystem::file_size(blocksPath(directory.path())), bytes);
  EXPECT_EQ(ClaimedFile(options).identity(), identity);
}

void rewriteSuperblocks(const std::string& path, const std::function<void(Superblock&)>& change) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  for (const int at : {0, 16384}) {
    Superblock superblock{};
    file.seekg(at).read(reinterpret_cast<char*>(&superblock), sizeof(superblock));
    change(superblock);
    seal(superblock);
    file.seekp(at).write(reinterpret_cast<const char*>(&superblock), sizeof(superblock));
  }
}

// It is the high half of a generation; one that has no room there would let generations repeat.
TEST(BlockFileTest, anEpochWithoutRoomForAnotherIsRefused) {
  for (const uint64_t epoch : {uint64_t{1} << 32, UINT64_MAX}) {
    TemporaryDirectory directory;
    FileOptions options = fileOptions(directory.path());
    { ClaimedFile file(options); }
    rewriteSuperblocks(blocksPath(directory.path()), [&](Superblock& s) { s.epoch = epoch; });
    EXPECT_TRUE(says(openError([&] { ClaimedFile file(options); }),
                     "epoch is " + std::to_string(epoch) + " in the file and at most 4294967293"));
    options.discardOther = true;
    EXPECT_EQ(ClaimedFile(options).epoch(), 1u);
  }
}

TEST(BlockFileTest, aNameSpaceWithoutItsZeroIsReadNoFurther) {
  Superblock found{};
  found.version = kFormatVersion;
  found.nameSpace.fill('n');
  std::memset(found.regions.data(), 'r', sizeof(found.regions));
  const auto text = difference(found, Superblock{});
  ASSERT_TRUE(text.has_value());
  EXPECT_EQ(*text, "namespace is \"" + std::string(256, 'n') + "\" in the file and \"\" here");
}

// A sparse file, and one whose filling was cut short: what is missing is filled, data stays.
TEST(BlockFileTest, zerosAreWrittenWhereNothingIs) {
  TemporaryDirectory directory;
  FileOptions options = fileOptions(directory.path(), 65536, 64);
  options.allocation = Allocation::kSparse;
  { ClaimedFile file(options); }
  const std::string path = blocksPath(directory.path());
  constexpr int kDataAt = 65536 + 7 * 65536;
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(kDataAt).write("data", 4);
  }
  options.allocation = Allocation::kZeroFill;
  struct stat status {};
  for (const bool cutShort : {false, true}) {
    if (cutShort) std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
    ClaimedFile file(options);
    ASSERT_EQ(stat(path.c_str(), &status), 0);
    EXPECT_EQ(static_cast<uint64_t>(status.st_size), file.fileBytes());
    EXPECT_GE(static_cast<uint64_t>(status.st_blocks) * 512, file.fileBytes());
    std::array<char, 4> data{};
    std::ifstream(path, std::ios::binary).seekg(kDataAt).read(data.data(), 4);
    EXPECT_EQ(std::string(data.data(), 4), "data");
  }
}

TEST(BlockFileTest, aPipeIsRefusedForWhatItIs) {
  TemporaryDirectory directory;
  ASSERT_EQ(mkfifo(blocksPath(directory.path()).c_str(), 0600), 0);
  EXPECT_TRUE(says(openError([&] { ClaimedFile file(fileOptions(directory.path())); }),
                   "is not a regular file"));
}

TEST(BlockFileTest, aDirectoryThatIsMadeIsItsOwnersAlone) {
  TemporaryDirectory directory;
  const mode_t before = umask(0);
  ClaimedFile file(fileOptions(directory.path() + "/made"));
  umask(before);
  struct stat status {};
  ASSERT_EQ(stat((directory.path() + "/made").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);
}

TEST(BlockFileTest, theCapacityMayChangeBetweenOpens) {
  TemporaryDirectory directory;
  { ClaimedFile file(fileOptions(directory.path(), 8192, 64)); }
  { EXPECT_EQ(ClaimedFile(fileOptions(directory.path(), 8192, 128)).regions()[0].slotCount, 128u); }
  ClaimedFile smaller(fileOptions(directory.path(), 8192, 8));
  EXPECT_EQ(std::filesystem::file_size(smaller.path()), smaller.fileBytes());
}

// Blocks of 16 and 64 tokens: four slots of the one and one of the other in each band.
TEST(BlockFileTest, aSlotLiesWhereItLiesAtEveryCapacity) {
  TemporaryDirectory directory;
  FileOptions options = fileOptions(directory.path());
  options.groups = {{8192, 16}, {20000, 64}};
  constexpr uint64_t kBandBytes = 4 * 8192 + 20480;
  for (const uint64_t bands : {10, 3, 20}) {
    options.capacityBytes = bands * kBandBytes;
    ClaimedFile file(options);
    EXPECT_EQ(file.regions()[0].slotCount, 4 * bands);
    EXPECT_EQ(file.regions()[1].slotCount, bands);
    EXPECT_EQ(file.fileBytes(), 65536 + bands * kBandBytes);
    EXPECT_EQ(file.offsetOf(GroupIndex{0}, DiskSlot{9}), 65536 + 2 * kBandBytes + 8192);
    EXPECT_EQ(file.offsetOf(GroupIndex{1}, DiskSlot{2}), 65536 + 2 * kBandBytes + 4 * 8192);
  }
}

TEST(BlockFileTest, noTwoSlotsShareAByteAndNoneIsWasted) {
  TemporaryDirectory directory;
  FileOptions options = fileOptions(directory.path());
  options.groups = {{4224, 528}, {12288, 784}, {4096, 1056}};
  options.capacityBytes = 2 << 20;
  ClaimedFile file(options);
  std::map<uint64_t, uint64_t> slots;  // from their offset to their end
  for (uint32_t group = 0; group < 3; group++) {
    for (uint32_t slot = 0; slot < file.regions()[group].slotCount; slot++) {
      const uint64_t at = file.offsetOf(GroupIndex{group}, DiskSlot{slot});
      EXPECT_TRUE(slots.emplace(at, at + file.regions()[group].slotBytes).second);
    }
  }
  uint64_t end = 65536;
  for (const auto& [from, to] : slots) {
    EXPECT_EQ(from, end);
    end = to;
  }
  EXPECT_EQ(end, file.fileBytes());
}

TEST(BlockFileTest, aBandCoversTheSameTokensOfEveryGroup) {
  EXPECT_EQ(bandSlots({16}), (std::vector<uint32_t>{1}));
  EXPECT_EQ(bandSlots({64, 16}), (std::vector<uint32_t>{1, 4}));
  EXPECT_EQ(bandSlots({528, 784}), (std::vector<uint32_t>{3, 2}));
  EXPECT_EQ(bandSlots({1000, 1001}), (std::vector<uint32_t>{1, 1}));
  for (uint32_t tokens = 1; tokens < 3000; tokens += 7) {
    const auto slots = bandSlots({16, tokens});
    const double ratio = 16.0 * slots[0] / (static_cast<double>(tokens) * slots[1]);
    EXPECT_NEAR(ratio, 1, 0.041) << tokens;
  }
}

TEST(BlockFileTest, aSlotOutsideItsRegionIsAnEngineFault) {
  TemporaryDirectory directory;
  ClaimedFile file(fileOptions(directory.path(), 8192, 4));
  EXPECT_DEATH((void)file.offsetOf(GroupIndex{0}, DiskSlot{4}), "slot 4 of 4");
}

TEST(SuperblockTest, everyBitCounts) {
  Superblock superblock{};
  seal(superblock);
  EXPECT_TRUE(intact(superblock));
  superblock.nameSpace[200] ^= 1;
  EXPECT_FALSE(intact(superblock));
}

TEST(SuperblockTest, aNewerFormatIsRefusedBySayingSo) {
  Superblock found{};
  seal(found);
  found.version = kFormatVersion + 1;
  const auto text = difference(found, Superblock{});
  ASSERT_TRUE(text.has_value());
  EXPECT_EQ(*text, "format version is " + std::to_string(kFormatVersion + 1) + " in the file and " +
                       std::to_string(kFormatVersion) + " here");
}

}  // namespace
}  // namespace spillway
