// A file system that passes everything on to a directory and fails where it is told to:
//
//   fault-fs BACKING_DIRECTORY MOUNT_POINT [FUSE_OPTION...]
//
// Rules are lines written to the file "ctl" in its root, which answers what they did when read:
//
//   OPERATION FILE OFFSET LENGTH ACTION ARGUMENT COUNT
//
//   OPERATION  read, write or sync
//   FILE       part of the file's name, or * for any
//   OFFSET     first byte that the rule covers; LENGTH how many, 0 for all behind it
//   ACTION     errno N     answered instead, nothing is moved
//              short N     only the first N bytes are moved (reads; the kernel makes -EIO of
//              writes) hang MS     answered that many milliseconds late corrupt N   reads: N bytes
//              differ; writes: what is stored differs in N bytes lost 0      writes: answered as
//              done, nothing is stored
//   COUNT      how often, 0 for ever
//
// "clear" drops all rules; their counts are kept. The first rule that covers an operation decides.
#define FUSE_USE_VERSION 31
#include <dirent.h>
#include <fcntl.h>
#include <fuse3/fuse.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Rule {
  std::string operation;
  std::string file;
  int64_t offset = 0;
  int64_t length = 0;
  std::string action;
  int64_t argument = 0;
  int64_t left = 0;  // -1 for ever
};

std::string backing;
std::mutex mutex;
std::vector<Rule> rules;
std::map<std::string, int64_t> hits;  // by operation and action

bool isControl(const char* path) { return std::strcmp(path, "/ctl") == 0; }
std::string behind(const char* path) { return backing + path; }
int answer(int result) { return result < 0 ? -errno : result; }

std::string told() {
  const std::scoped_lock lock(mutex);
  std::ostringstream text;
  for (const auto& [what, count] : hits) text << what << ' ' << count << '\n';
  return text.str();
}

int addRules(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  const std::scoped_lock lock(mutex);
  while (std::getline(lines, line)) {
    if (line == "clear") {
      rules.clear();
      continue;
    }
    Rule rule;
    std::istringstream words(line);
    words >> rule.operation >> rule.file >> rule.offset >> rule.length >> rule.action >>
        rule.argument >> rule.left;
    if (words.fail() || rule.left < 0) return -EINVAL;
    if (rule.left == 0) rule.left = -1;
    rules.push_back(rule);
  }
  return 0;
}

std::optional<Rule> ruleFor(const char* operation, const char* path, int64_t offset, size_t size) {
  const std::scoped_lock lock(mutex);
  for (Rule& rule : rules) {
    const int64_t end = rule.length == 0 ? INT64_MAX : rule.offset + rule.length;
    const bool covers = rule.offset < offset + static_cast<int64_t>(size) && offset < end;
    const bool named = rule.file == "*" || std::strstr(path, rule.file.c_str()) != nullptr;
    if (rule.operation != operation || !covers || !named || rule.left == 0) continue;
    if (rule.left > 0) rule.left--;
    hits[rule.operation + ' ' + rule.action]++;
    return rule;
  }
  return std::nullopt;
}

void damage(char* bytes, int64_t count, size_t size) {
  const int64_t until = std::min<int64_t>(count, static_cast<int64_t>(size));
  for (int64_t i = 0; i < until; i++) bytes[i] = static_cast<char>(bytes[i] ^ 0x5a);
}

int getAttributes(const char* path, struct stat* status, fuse_file_info*) {
  if (isControl(path)) {
    std::memset(status, 0, sizeof(*status));
    status->st_mode = S_IFREG | 0600;
    status->st_nlink = 1;
    return 0;
  }
  return answer(lstat(behind(path).c_str(), status));
}

int openFile(const char* path, fuse_file_info* info) {
  info->direct_io = 1;
  if (isControl(path)) return 0;
  // Not O_DIRECT below: the kernel hands over buffers of any alignment.
  const int fd = open(behind(path).c_str(), info->flags & ~(O_DIRECT | O_NOFOLLOW));
  if (fd < 0) return -errno;
  info->fh = static_cast<uint64_t>(fd);
  return 0;
}

int createFile(const char* path, mode_t mode, fuse_file_info* info) {
  info->direct_io = 1;
  const int flags = (info->flags & ~(O_DIRECT | O_NOFOLLOW)) | O_CREAT;
  const int fd = open(behind(path).c_str(), flags, mode);
  if (fd < 0) return -errno;
  info->fh = static_cast<uint64_t>(fd);
  return 0;
}

int closeFile(const char* path, fuse_file_info* info) {
  if (!isControl(path)) close(static_cast<int>(info->fh));
  return 0;
}

int readFile(const char* path, char* buffer, size_t size, off_t offset, fuse_file_info* info) {
  if (isControl(path)) {
    const std::string text = told();
    if (offset >= static_cast<off_t>(text.size())) return 0;
    const size_t count = std::min(size, text.size() - static_cast<size_t>(offset));
    std::memcpy(buffer, text.data() + offset, count);
    return static_cast<int>(count);
  }
  const std::optional<Rule> rule = ruleFor("read", path, offset, size);
  if (rule && rule->action == "errno") return static_cast<int>(-rule->argument);
  if (rule && rule->action == "short") size = std::min<size_t>(size, rule->argument);
  if (rule && rule->action == "hang") {
    std::this_thread::sleep_for(std::chrono::milliseconds(rule->argument));
  }
  const int count =
      answer(static_cast<int>(pread(static_cast<int>(info->fh), buffer, size, offset)));
  if (rule && rule->action == "corrupt" && count > 0) damage(buffer, rule->argument, count);
  return count;
}

int writeFile(const char* path, const char* buffer, size_t size, off_t offset,
              fuse_file_info* info) {
  if (isControl(path)) {
    const int status = addRules(std::string(buffer, size));
    return status == 0 ? static_cast<int>(size) : status;
  }
  const std::optional<Rule> rule = ruleFor("write", path, offset, size);
  if (rule && rule->action == "errno") return static_cast<int>(-rule->argument);
  if (rule && rule->action == "lost") return static_cast<int>(size);
  if (rule && rule->action == "short") size = std::min<size_t>(size, rule->argument);
  if (rule && rule->action == "hang") {
    std::this_thread::sleep_for(std::chrono::milliseconds(rule->argument));
  }
  std::vector<char> damaged;
  if (rule && rule->action == "corrupt") {
    damaged.assign(buffer, buffer + size);
    damage(damaged.data(), rule->argument, size);
    buffer = damaged.data();
  }
  return answer(static_cast<int>(pwrite(static_cast<int>(info->fh), buffer, size, offset)));
}

int syncFile(const char* path, int, fuse_file_info* info) {
  if (isControl(path)) return 0;
  const std::optional<Rule> rule = ruleFor("sync", path, 0, 1);
  if (rule && rule->action == "errno") return static_cast<int>(-rule->argument);
  return answer(fdatasync(static_cast<int>(info->fh)));
}

int allocate(const char* path, int mode, off_t offset, off_t length, fuse_file_info* info) {
  if (isControl(path)) return -EINVAL;
  return answer(fallocate(static_cast<int>(info->fh), mode, offset, length));
}

int resize(const char* path, off_t size, fuse_file_info*) {
  return isControl(path) ? 0 : answer(truncate(behind(path).c_str(), size));
}

int removeFile(const char* path) { return answer(unlink(behind(path).c_str())); }

int spaceOf(const char*, struct statvfs* status) {
  return answer(statvfs(backing.c_str(), status));
}

int listFiles(const char* path, void* buffer, fuse_fill_dir_t fill, off_t, fuse_file_info*,
              fuse_readdir_flags) {
  DIR* directory = opendir(behind(path).c_str());
  if (directory == nullptr) return -errno;
  while (const dirent* entry = readdir(directory)) {
    fill(buffer, entry->d_name, nullptr, 0, static_cast<fuse_fill_dir_flags>(0));
  }
  closedir(directory);
  return 0;
}

int changeMode(const char* path, mode_t mode, fuse_file_info*) {
  return answer(chmod(behind(path).c_str(), mode));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: fault-fs BACKING_DIRECTORY MOUNT_POINT [FUSE_OPTION...]\n");
    return 2;
  }
  backing = argv[1];
  fuse_operations operations{};
  operations.getattr = getAttributes;
  operations.open = openFile;
  operations.create = createFile;
  operations.release = closeFile;
  operations.read = readFile;
  operations.write = writeFile;
  operations.fsync = syncFile;
  operations.fallocate = allocate;
  operations.truncate = resize;
  operations.unlink = removeFile;
  operations.statfs = spaceOf;
  operations.readdir = listFiles;
  operations.chmod = changeMode;
  std::vector<char*> arguments{argv[0]};
  arguments.insert(arguments.end(), argv + 2, argv + argc);
  return fuse_main(static_cast<int>(arguments.size()), arguments.data(), &operations, nullptr);
}
