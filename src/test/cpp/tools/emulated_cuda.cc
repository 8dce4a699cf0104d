// A CUDA runtime without a GPU, with the symbols that CudaRuntime looks up. "Device" memory is
// memory of this process. Copies are asynchronous and at odds with whoever is careless: a copy
// reads its source at a seeded moment after its stream has come to it and writes its target at a
// later one, before its event; one whose source may be read in any order reads it at any moment.
// Strict: host memory that is not registered, memory of no or of another device, ranges out of
// bounds, handles that are gone and memory that goes while a copy may touch it are errors.
//
// Configured by the file `<this library>.conf`, or by emulatedCudaConfigure(): words, separated by
// blanks or line ends.
//
//   seed=N          of all moments                    devices=N     how many there are (4)
//   version=N       of the runtime (13000)            driver=N      of the driver (as the runtime)
//   hostpointers=0  no batches of registered memory   batch=0       no cudaMemcpyBatchAsync
//   micros=N        the latest moment (100)           pitch=N       the largest pitch of a 2-D copy
//   fail=CALL:N:E   the N-th call of CALL answers E   lose=N        the N-th copy loses its device
//   stall=N         the N-th copy never ends
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kInvalidValue = 1;
constexpr int kMemoryAllocation = 2;
constexpr int kNoDevice = 100;
constexpr int kInvalidDevice = 101;
constexpr int kInvalidHandle = 400;
constexpr int kNotReady = 600;
constexpr int kHostMemoryAlreadyRegistered = 712;
constexpr int kHostMemoryNotRegistered = 713;
constexpr int kLaunchFailure = 719;

using Time = std::chrono::steady_clock::time_point;
Time now() { return std::chrono::steady_clock::now(); }

struct Event {
  int device = 0;
  uint64_t recorded = 0;
  uint64_t reached = 0;
};

struct Range {
  uint8_t* target = nullptr;
  const uint8_t* source = nullptr;
  size_t bytes = 0;
  std::vector<uint8_t> read;
};

enum class Kind { kCopy, kRecord, kWait, kCall, kKernel };

struct Op {
  Kind kind = Kind::kCopy;
  std::vector<Range> ranges;
  bool anyOrder = false;  // the source may be read before the stream comes to the copy
  bool wasRead = false;
  bool begun = false;
  bool stalls = false;
  bool loses = false;
  Time due;
  std::shared_ptr<Event> event;
  uint64_t ticket = 0;
  void (*call)(void*) = nullptr;
  void* data = nullptr;
  uint8_t* place = nullptr;
  int value = 0;
  size_t bytes = 0;
  unsigned micros = 0;
};

struct Stream {
  int device = 0;
  bool busy = false;  // a host function of it is being called
  std::deque<Op> ops;
};

struct Allocation {
  size_t bytes = 0;
  int device = -1;  // of registered host memory: none
};

struct Failure {
  uint64_t at = 0;
  int error = 0;
};

struct Config {
  uint64_t seed = 1;
  int devices = 4;
  int version = 13000;
  int driver = 0;
  bool hostPointers = true;
  bool batch = true;
  unsigned micros = 100;
  int pitch = 0x7fffffff;
  uint64_t loseAt = 0;
  uint64_t stallAt = 0;
  std::multimap<std::string, Failure> failures;
};

// By thread; no thread_local, which leak sanitizers stumble over in libraries opened by the dozen.
struct PerThread {
  int device = 0;
  int captureMode = 0;
};

PerThread& mine() {
  static auto& mutex = *new std::mutex;
  static auto& all = *new std::map<std::thread::id, PerThread>;
  const std::lock_guard lock(mutex);
  return all[std::this_thread::get_id()];
}

class Machine {
 public:
  Machine() {
    std::string text;
    Dl_info info{};
    if (dladdr(reinterpret_cast<void*>(&now), &info) != 0 && info.dli_fname != nullptr) {
      std::ifstream file(std::string(info.dli_fname) + ".conf");
      std::stringstream all;
      all << file.rdbuf();
      text = all.str();
    }
    configure(text);
    thread_ = std::thread([this] { run(); });
  }

  // Nothing moves any more. A process that does not ask for it ends with the thread running.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
      work_.notify_one();
    }
    thread_.join();
  }

  void configure(const std::string& text) {
    const std::lock_guard lock(mutex_);
    config_ = Config();
    std::istringstream words(text);
    for (std::string word; words >> word;) take(word);
    dice_ = config_.seed;
    lost_.clear();
    calls_.clear();
    violations_.clear();
    copies_ = 0;
  }

  // Counts a call, and answers the error that it is to answer, or that of a device that is lost.
  int enter(const char* call) {
    const std::lock_guard lock(mutex_);
    const uint64_t count = ++calls_[call];
    const auto [begin, end] = config_.failures.equal_range(call);
    for (auto failure = begin; failure != end; failure++) {
      if (failure->second.at == count) return failure->second.error;
    }
    return lost_.count(mine().device) != 0 ? kLaunchFailure : 0;
  }

  int violation(int error, const std::string& what) {
    violations_ += what + "\n";
    return error;
  }

  std::mutex& mutex() { return mutex_; }
  const Config& config() const { return config_; }

  uint64_t count(const std::string& call) {
    const std::lock_guard lock(mutex_);
    return calls_[call];
  }

  std::string violations() {
    const std::lock_guard lock(mutex_);
    return violations_;
  }

  // Streams, events, registrations and allocations that there are.
  uint64_t alive() {
    const std::lock_guard lock(mutex_);
    return streams_.size() + events_.size() + registered_.size() + allocated_.size();
  }

  // Everything below is called with the mutex held.

  bool knowsDevice(int device) const { return device >= 0 && device < config_.devices; }

  static bool holds(const std::map<uint8_t*, Allocation>& all, const void* at, size_t bytes,
                    int device) {
    auto* place = static_cast<uint8_t*>(const_cast<void*>(at));
    auto after = all.upper_bound(place);
    if (after == all.begin()) return false;
    const auto& [begin, allocation] = *std::prev(after);
    return place + bytes <= begin + allocation.bytes && allocation.device == device;
  }

  bool isDevice(const void* at, size_t bytes, int device) const {
    return holds(allocated_, at, bytes, device);
  }
  bool isRegistered(const void* at, size_t bytes) const {
    return holds(registered_, at, bytes, -1);
  }

  int rangeOf(uint64_t address, uint64_t* base, size_t* bytes) const {
    auto* place = reinterpret_cast<uint8_t*>(address);
    const auto after = allocated_.upper_bound(place);
    if (after == allocated_.begin()) return kInvalidValue;
    const auto& [begin, allocation] = *std::prev(after);
    if (place >= begin + allocation.bytes) return kInvalidValue;
    *base = reinterpret_cast<uint64_t>(begin);
    *bytes = allocation.bytes;
    return 0;
  }

  // Null and one are the default stream of the calling thread's device.
  Stream* stream(void* handle) {
    if (reinterpret_cast<uintptr_t>(handle) <= 1) {
      auto& owned = defaults_[mine().device];
      if (owned == nullptr) {
        owned = std::make_unique<Stream>();
        owned->device = mine().device;
      }
      return owned.get();
    }
    const auto found = streams_.find(static_cast<Stream*>(handle));
    return found == streams_.end() ? nullptr : found->first;
  }
  std::shared_ptr<Event> event(void* handle) {
    const auto found = events_.find(static_cast<Event*>(handle));
    return found == events_.end() ? nullptr : found->second;
  }

  int allocate(void** address, size_t bytes) {
    if (!knowsDevice(mine().device)) return kInvalidDevice;
    auto* memory = static_cast<uint8_t*>(std::aligned_alloc(512, (bytes + 511) / 512 * 512));
    if (memory == nullptr) return kMemoryAllocation;
    std::memset(memory, 0xcd, bytes);
    allocated_[memory] = {bytes, mine().device};
    *address = memory;
    return 0;
  }
  int release(void* address) {
    const auto found = allocated_.find(static_cast<uint8_t*>(address));
    if (found == allocated_.end()) return violation(kInvalidValue, "free of no allocation");
    if (isTouched(found->first, found->second.bytes)) {
      return violation(kInvalidValue, "free of memory that a copy may touch");
    }
    std::free(found->first);
    allocated_.erase(found);
    return 0;
  }
  int registerHost(void* address, size_t bytes) {
    auto* begin = static_cast<uint8_t*>(address);
    if (reinterpret_cast<uintptr_t>(address) % 4096 != 0 || bytes % 4096 != 0) {
      return violation(kInvalidValue, "registration of parts of pages");
    }
    for (const auto& [other, allocation] : registered_) {
      if (begin < other + allocation.bytes && other < begin + bytes) {
        return kHostMemoryAlreadyRegistered;
      }
    }
    registered_[begin] = {bytes, -1};
    return 0;
  }
  int unregisterHost(void* address) {
    const auto found = registered_.find(static_cast<uint8_t*>(address));
    if (found == registered_.end()) return kHostMemoryNotRegistered;
    const bool touched = isTouched(found->first, found->second.bytes);
    if (touched) leaveAlone(found->first, found->second.bytes);
    registered_.erase(found);
    if (touched) return violation(kInvalidValue, "unregistering memory that a copy may touch");
    return 0;
  }

  int addStream(void** handle) {
    if (!knowsDevice(mine().device)) return kInvalidDevice;
    auto owned = std::make_unique<Stream>();
    owned->device = mine().device;
    Stream* stream = owned.get();
    streams_[stream] = std::move(owned);
    *handle = stream;
    return 0;
  }
  int dropStream(void* handle) {
    Stream* gone = stream(handle);
    if (gone == nullptr) return violation(kInvalidHandle, "destroying no stream");
    const bool atWork = !gone->ops.empty();  // a call that returns just now is none
    streams_.erase(gone);
    if (atWork) return violation(kInvalidHandle, "destroying a stream with work");
    return 0;
  }
  int addEvent(void** handle) {
    if (!knowsDevice(mine().device)) return kInvalidDevice;
    auto event = std::make_shared<Event>();
    event->device = mine().device;
    events_[event.get()] = event;
    *handle = event.get();
    return 0;
  }
  int dropEvent(void* handle) {
    if (events_.erase(static_cast<Event*>(handle)) == 0) {
      return violation(kInvalidHandle, "destroying no event");
    }
    return 0;
  }

  int record(void* eventHandle, void* streamHandle) {
    const auto recorded = event(eventHandle);
    Stream* in = stream(streamHandle);
    if (recorded == nullptr || in == nullptr) {
      return violation(kInvalidHandle, "recording with a handle that is gone");
    }
    if (recorded->device != in->device) {
      return violation(kInvalidHandle, "recording an event of another device");
    }
    Op op;
    op.kind = Kind::kRecord;
    op.event = recorded;
    op.ticket = ++recorded->recorded;
    push(*in, std::move(op));
    return 0;
  }
  int wait(void* streamHandle, void* eventHandle) {
    const auto awaited = event(eventHandle);
    Stream* in = stream(streamHandle);
    if (awaited == nullptr || in == nullptr) {
      return violation(kInvalidHandle, "waiting with a handle that is gone");
    }
    Op op;
    op.kind = Kind::kWait;
    op.event = awaited;
    op.ticket = awaited->recorded;
    push(*in, std::move(op));
    return 0;
  }
  int query(void* eventHandle) {
    const auto asked = event(eventHandle);
    if (asked == nullptr) return violation(kInvalidHandle, "a query of an event that is gone");
    if (lost_.count(asked->device) != 0) return kLaunchFailure;
    return asked->reached >= asked->recorded ? 0 : kNotReady;
  }
  int queryStream(void* handle) {
    Stream* asked = stream(handle);
    if (asked == nullptr) return violation(kInvalidHandle, "a query of a stream that is gone");
    if (lost_.count(asked->device) != 0) return kLaunchFailure;
    return asked->ops.empty() && !asked->busy ? 0 : kNotReady;
  }

  int copy(std::vector<Range> ranges, int kind, void* streamHandle, bool anyOrder) {
    Stream* in = stream(streamHandle);
    if (in == nullptr) return violation(kInvalidHandle, "a copy in a stream that is gone");
    for (const Range& range : ranges) {
      const bool down = kind == 2 || (kind == 4 && isDevice(range.source, range.bytes, in->device));
      const void* device = down ? range.source : range.target;
      const void* host = down ? range.target : range.source;
      if (!isDevice(device, range.bytes, in->device)) {
        return violation(kInvalidValue, "a copy of memory that this device does not have");
      }
      if (kind == 3 && isDevice(host, range.bytes, in->device)) continue;
      if (!isRegistered(host, range.bytes)) {
        return violation(kInvalidValue, "a copy of host memory that is not registered whole");
      }
    }
    Op op;
    op.ranges = std::move(ranges);
    op.anyOrder = anyOrder;
    copies_++;
    op.stalls = copies_ == config_.stallAt;
    op.loses = copies_ == config_.loseAt;
    push(*in, std::move(op));
    return 0;
  }
  int call(void* streamHandle, void (*function)(void*), void* data) {
    Stream* in = stream(streamHandle);
    if (in == nullptr) return violation(kInvalidHandle, "a call in a stream that is gone");
    Op op;
    op.kind = Kind::kCall;
    op.call = function;
    op.data = data;
    push(*in, std::move(op));
    return 0;
  }
  int kernel(void* streamHandle, void* place, int value, size_t bytes, unsigned micros) {
    Stream* in = stream(streamHandle);
    if (in == nullptr || !isDevice(place, bytes, in->device)) return kInvalidValue;
    Op op;
    op.kind = Kind::kKernel;
    op.place = static_cast<uint8_t*>(place);
    op.value = value;
    op.bytes = bytes;
    op.micros = micros;
    push(*in, std::move(op));
    return 0;
  }

 private:
  void take(const std::string& word) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) return;
    const std::string name = word.substr(0, equals);
    const std::string value = word.substr(equals + 1);
    if (name == "fail") {
      const size_t first = value.find(':');
      const size_t second = value.find(':', first + 1);
      config_.failures.emplace(
          value.substr(0, first),
          Failure{std::stoull(value.substr(first + 1)), std::stoi(value.substr(second + 1))});
      return;
    }
    const uint64_t number = std::stoull(value);
    if (name == "seed") config_.seed = number;
    if (name == "devices") config_.devices = static_cast<int>(number);
    if (name == "version") config_.version = static_cast<int>(number);
    if (name == "driver") config_.driver = static_cast<int>(number);
    if (name == "hostpointers") config_.hostPointers = number != 0;
    if (name == "batch") config_.batch = number != 0;
    if (name == "micros") config_.micros = static_cast<unsigned>(number);
    if (name == "pitch") config_.pitch = static_cast<int>(number);
    if (name == "lose") config_.loseAt = number;
    if (name == "stall") config_.stallAt = number;
  }

  uint64_t roll() {
    uint64_t word = dice_ += 0x9e3779b97f4a7c15;
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
    word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
    return word ^ (word >> 31);
  }

  // Half of all moments are at once, the others as late as they may be.
  Time moment(unsigned micros) {
    if (micros == 0 || roll() % 2 == 0) return now();
    return now() + std::chrono::microseconds(roll() % micros);
  }

  void push(Stream& stream, Op op) {
    op.due = moment(config_.micros);
    stream.ops.push_back(std::move(op));
    work_.notify_one();
  }

  static bool touches(const Op& op, const uint8_t* begin, size_t bytes) {
    return std::any_of(op.ranges.begin(), op.ranges.end(), [&](const Range& range) {
      return (range.target < begin + bytes && begin < range.target + range.bytes) ||
             (range.source < begin + bytes && begin < range.source + range.bytes);
    });
  }

  bool isTouched(const uint8_t* begin, size_t bytes) const {
    for (const auto& [stream, owned] : streams_) {
      if (lost_.count(stream->device) != 0) continue;
      for (const Op& op : stream->ops) {
        if (touches(op, begin, bytes)) return true;
      }
    }
    return false;
  }

  // Its owner may unmap it now: the violation is to be read, so nothing crashes before.
  void leaveAlone(const uint8_t* begin, size_t bytes) {
    for (const auto& [stream, owned] : streams_) {
      for (Op& op : stream->ops) {
        if (touches(op, begin, bytes)) op.ranges.clear();
      }
    }
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (!stopped_) {
      Time next = now() + std::chrono::milliseconds(2);
      bool moved = false;
      std::vector<Stream*> all;
      for (const auto& [stream, owned] : streams_) all.push_back(stream);
      for (const auto& [device, owned] : defaults_) all.push_back(owned.get());
      if (!all.empty()) std::rotate(all.begin(), all.begin() + roll() % all.size(), all.end());
      for (Stream* stream : all) {
        if (!isAlive(stream)) continue;  // destroyed meanwhile
        if (lost_.count(stream->device) != 0) {
          stream->ops.clear();
          continue;
        }
        readEarly(*stream);
        if (stream->ops.empty() || stream->busy) continue;
        moved |= advance(*stream, lock, next);
      }
      if (!moved) work_.wait_until(lock, next);
    }
  }

  bool isAlive(Stream* stream) const {
    const auto same = [&](const auto& each) { return each.second.get() == stream; };
    return streams_.count(stream) != 0 || std::any_of(defaults_.begin(), defaults_.end(), same);
  }

  // What may be read before its turn is, now and then.
  void readEarly(Stream& stream) {
    for (Op& op : stream.ops) {
      if (op.kind == Kind::kCopy && op.anyOrder && !op.wasRead && roll() % 2 == 0) read(op);
    }
  }

  static void read(Op& op) {
    for (Range& range : op.ranges) range.read.assign(range.source, range.source + range.bytes);
    op.wasRead = true;
  }

  // The head of a stream takes a step if its moment has come.
  bool advance(Stream& stream, std::unique_lock<std::mutex>& lock, Time& next) {
    Op& op = stream.ops.front();
    if (op.kind == Kind::kWait) {
      if (op.event->reached < op.ticket) return false;
      stream.ops.pop_front();
      return true;
    }
    if (op.kind == Kind::kRecord) {
      op.event->reached = std::max(op.event->reached, op.ticket);
      stream.ops.pop_front();
      return true;
    }
    if (!op.begun) {
      op.begun = true;
      op.due = op.kind == Kind::kKernel ? now() + std::chrono::microseconds(op.micros)
                                        : moment(config_.micros);
    }
    if (op.due > now()) {
      next = std::min(next, op.due);
      return false;
    }
    if (op.stalls) return false;
    if (op.loses) {
      lost_.insert(stream.device);
      return true;
    }
    if (op.kind == Kind::kCall) {
      const auto function = op.call;
      void* data = op.data;
      stream.ops.pop_front();
      stream.busy = true;
      lock.unlock();
      function(data);  // which may have the stream destroyed
      lock.lock();
      if (isAlive(&stream)) stream.busy = false;
      return true;
    }
    if (op.kind == Kind::kKernel) {
      std::memset(op.place, op.value, op.bytes);
      stream.ops.pop_front();
      return true;
    }
    if (!op.wasRead) {
      read(op);
      op.due = moment(config_.micros);
      return true;
    }
    if (op.ranges.size() > 1) {
      std::rotate(op.ranges.begin(), op.ranges.begin() + roll() % op.ranges.size(),
                  op.ranges.end());
    }
    for (Range& range : op.ranges) std::memcpy(range.target, range.read.data(), range.bytes);
    stream.ops.pop_front();
    return true;
  }

  std::mutex mutex_;
  std::condition_variable work_;
  std::thread thread_;
  bool stopped_ = false;
  Config config_;
  uint64_t dice_ = 1;
  std::map<Stream*, std::unique_ptr<Stream>> streams_;
  std::map<int, std::unique_ptr<Stream>> defaults_;
  std::map<Event*, std::shared_ptr<Event>> events_;
  std::map<uint8_t*, Allocation> allocated_;
  std::map<uint8_t*, Allocation> registered_;
  std::set<int> lost_;
  std::map<std::string, uint64_t> calls_;
  std::string violations_;
  uint64_t copies_ = 0;
};

// Never destroyed: its thread outlives every order of destruction.
Machine& machine() {
  static auto& only = *new Machine;
  return only;
}

using Lock = std::lock_guard<std::mutex>;

}  // namespace

// Counts the call and answers what it is to fail with; then the rest of the body holds the lock.
#define ENTER(name)                        \
  if (int error = machine().enter(name)) { \
    return error;                          \
  }                                        \
  const Lock lock(machine().mutex())

EXPORT int cudaRuntimeGetVersion(int* version) {
  ENTER("cudaRuntimeGetVersion");
  *version = machine().config().version;
  return 0;
}
EXPORT int cudaDriverGetVersion(int* version) {
  ENTER("cudaDriverGetVersion");
  const auto& config = machine().config();
  *version = config.driver != 0 ? config.driver : config.version;
  return 0;
}
EXPORT int cudaGetDeviceCount(int* count) {
  ENTER("cudaGetDeviceCount");
  *count = machine().config().devices;
  return *count == 0 ? kNoDevice : 0;
}
EXPORT int cudaSetDevice(int device) {
  ENTER("cudaSetDevice");
  if (machine().config().devices == 0) return kNoDevice;
  if (!machine().knowsDevice(device)) return kInvalidDevice;
  mine().device = device;
  return 0;
}
EXPORT int cudaGetDevice(int* device) {
  ENTER("cudaGetDevice");
  *device = mine().device;
  return machine().config().devices == 0 ? kNoDevice : 0;
}
EXPORT int cudaDeviceGetAttribute(int* value, int attribute, int device) {
  ENTER("cudaDeviceGetAttribute");
  if (!machine().knowsDevice(device)) return kInvalidDevice;
  if (attribute == 91) {
    *value = machine().config().hostPointers ? 1 : 0;
    return 0;
  }
  if (attribute != 11) return kInvalidValue;
  *value = machine().config().pitch;
  return 0;
}
EXPORT int cudaDeviceGetPCIBusId(char* id, int bytes, int device) {
  ENTER("cudaDeviceGetPCIBusId");
  if (!machine().knowsDevice(device) || bytes < 13) return kInvalidValue;
  std::strcpy(id, "FFFF:FF:00.0");
  return 0;
}
EXPORT int cudaMemGetInfo(size_t* free, size_t* total) {
  ENTER("cudaMemGetInfo");
  *total = size_t{16} << 30;
  *free = *total;
  return 0;
}
EXPORT int cudaMalloc(void** address, size_t bytes) {
  ENTER("cudaMalloc");
  return machine().allocate(address, bytes);
}
EXPORT int cudaFree(void* address) {
  ENTER("cudaFree");
  return machine().release(address);
}
EXPORT int cudaMemcpy(void* target, const void* source, size_t bytes, int kind) {
  ENTER("cudaMemcpy");
  const void* device = kind == 2 ? source : target;
  if (!machine().isDevice(device, bytes, mine().device)) {
    return machine().violation(kInvalidValue, "a copy of memory that this device does not have");
  }
  std::memcpy(target, source, bytes);
  return 0;
}
EXPORT int cudaMemset(void* target, int value, size_t bytes) {
  ENTER("cudaMemset");
  if (!machine().isDevice(target, bytes, mine().device)) return kInvalidValue;
  std::memset(target, value, bytes);
  return 0;
}
EXPORT int cudaMemcpyAsync(void* target, const void* source, size_t bytes, int kind, void* stream) {
  ENTER("cudaMemcpyAsync");
  std::vector<Range> ranges(1);
  ranges[0].target = static_cast<uint8_t*>(target);
  ranges[0].source = static_cast<const uint8_t*>(source);
  ranges[0].bytes = bytes;
  return machine().copy(std::move(ranges), kind, stream, false);
}
EXPORT int cudaMemcpy2DAsync(void* target, size_t targetPitch, const void* source,
                             size_t sourcePitch, size_t width, size_t height, int kind,
                             void* stream) {
  ENTER("cudaMemcpy2DAsync");
  const auto largest = static_cast<size_t>(machine().config().pitch);
  if (width > targetPitch || width > sourcePitch || targetPitch > largest ||
      sourcePitch > largest) {
    return machine().violation(kInvalidValue, "a pitch out of bounds");
  }
  uint64_t base = 0;
  size_t bytes = 0;
  const bool down = kind == 2;
  const auto* device = static_cast<const uint8_t*>(down ? source : target);
  const uint8_t* last = device + (height - 1) * (down ? sourcePitch : targetPitch) + width - 1;
  if (machine().rangeOf(reinterpret_cast<uint64_t>(device), &base, &bytes) != 0 ||
      reinterpret_cast<uint64_t>(last) - base >= bytes) {
    return machine().violation(kInvalidValue, "rows that leave their allocation");
  }
  std::vector<Range> ranges(height);
  for (size_t row = 0; row < height; row++) {
    ranges[row].target = static_cast<uint8_t*>(target) + row * targetPitch;
    ranges[row].source = static_cast<const uint8_t*>(source) + row * sourcePitch;
    ranges[row].bytes = width;
  }
  return machine().copy(std::move(ranges), kind, stream, false);
}

namespace {

struct Attributes {
  int order;
  int places[4];
  unsigned flags;
};

int batch(void* const* targets, const void* const* sources, const size_t* sizes, size_t count,
          const Attributes* attributes, const size_t* from, size_t attributeCount, void* stream) {
  if (count == 0 || attributeCount != 1 || from[0] != 0 || attributes->order < 1 ||
      attributes->order > 3) {
    return machine().violation(kInvalidValue, "a batch without attributes that say its order");
  }
  std::vector<Range> ranges(count);
  for (size_t i = 0; i < count; i++) {
    ranges[i].target = static_cast<uint8_t*>(targets[i]);
    ranges[i].source = static_cast<const uint8_t*>(sources[i]);
    ranges[i].bytes = sizes[i];
  }
  return machine().copy(std::move(ranges), 4, stream, attributes->order == 3);
}

}  // namespace

// The form goes by the version, as in the real library: 12 has a place for the failing index.
EXPORT int cudaMemcpyBatchAsync(void* const* targets, const void* const* sources,
                                const size_t* sizes, size_t count, const Attributes* attributes,
                                const size_t* from, size_t attributeCount, void* eighth,
                                void* ninth) {
  ENTER("cudaMemcpyBatchAsync");
  const auto& config = machine().config();
  if (!config.batch || (config.driver != 0 && config.driver < 12080)) return 36;
  if (!config.hostPointers) return machine().violation(700, "a batch of host pointers");
  void* stream = machine().config().version >= 13000 ? eighth : ninth;
  return batch(targets, sources, sizes, count, attributes, from, attributeCount, stream);
}

EXPORT int cudaHostRegister(void* address, size_t bytes, unsigned) {
  ENTER("cudaHostRegister");
  return machine().registerHost(address, bytes);
}
EXPORT int cudaHostUnregister(void* address) {
  ENTER("cudaHostUnregister");
  return machine().unregisterHost(address);
}
EXPORT int cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  ENTER("cudaDeviceGetStreamPriorityRange");
  *least = 0;
  *greatest = -5;
  return 0;
}
EXPORT int cudaStreamCreateWithPriority(void** stream, unsigned flags, int priority) {
  ENTER("cudaStreamCreateWithPriority");
  if (flags != 1 || priority != 0) {
    return machine().violation(kInvalidValue, "a stream that blocks others or goes before them");
  }
  return machine().addStream(stream);
}
EXPORT int cudaStreamDestroy(void* stream) {
  ENTER("cudaStreamDestroy");
  return machine().dropStream(stream);
}
EXPORT int cudaStreamQuery(void* stream) {
  ENTER("cudaStreamQuery");
  return machine().queryStream(stream);
}
EXPORT int cudaStreamSynchronize(void* stream) {
  ENTER("cudaStreamSynchronize");
  return stream == nullptr ? 0 : kInvalidHandle;
}
EXPORT int cuMemGetAddressRange_v2(uint64_t* base, size_t* bytes, uint64_t address) {
  const Lock lock(machine().mutex());
  return machine().rangeOf(address, base, bytes);
}
EXPORT int cudaStreamWaitEvent(void* stream, void* event, unsigned) {
  ENTER("cudaStreamWaitEvent");
  return machine().wait(stream, event);
}
EXPORT int cudaThreadExchangeStreamCaptureMode(int* mode) {
  ENTER("cudaThreadExchangeStreamCaptureMode");
  std::swap(*mode, mine().captureMode);
  return 0;
}
EXPORT int cudaEventCreateWithFlags(void** event, unsigned) {
  ENTER("cudaEventCreateWithFlags");
  return machine().addEvent(event);
}
EXPORT int cudaEventDestroy(void* event) {
  ENTER("cudaEventDestroy");
  return machine().dropEvent(event);
}
EXPORT int cudaEventRecord(void* event, void* stream) {
  ENTER("cudaEventRecord");
  return machine().record(event, stream);
}
EXPORT int cudaEventQuery(void* event) {
  ENTER("cudaEventQuery");
  return machine().query(event);
}
EXPORT int cudaLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
  ENTER("cudaLaunchHostFunc");
  return machine().call(stream, function, data);
}
EXPORT const char* cudaGetErrorName(int error) {
  switch (error) {
    case kInvalidValue:
      return "cudaErrorInvalidValue";
    case kMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case kNoDevice:
      return "cudaErrorNoDevice";
    case kInvalidDevice:
      return "cudaErrorInvalidDevice";
    case kInvalidHandle:
      return "cudaErrorInvalidResourceHandle";
    case kHostMemoryAlreadyRegistered:
      return "cudaErrorHostMemoryAlreadyRegistered";
    case kHostMemoryNotRegistered:
      return "cudaErrorHostMemoryNotRegistered";
    case kLaunchFailure:
      return "cudaErrorLaunchFailure";
    default:
      return "cudaErrorUnknown";
  }
}
EXPORT const char* cudaGetErrorString(int error) {
  return error == kLaunchFailure ? "unspecified launch failure" : "as emulated";
}

// What tests ask besides.
EXPORT void emulatedCudaConfigure(const char* text) { machine().configure(text); }
EXPORT void emulatedCudaStop() { machine().stop(); }
EXPORT int emulatedCudaKernel(void* stream, void* place, int value, size_t bytes, unsigned micros) {
  const Lock lock(machine().mutex());
  return machine().kernel(stream, place, value, bytes, micros);
}
EXPORT uint64_t emulatedCudaCalls(const char* call) { return machine().count(call); }
EXPORT uint64_t emulatedCudaAlive() { return machine().alive(); }
EXPORT const char* emulatedCudaViolations() {
  static std::string text;
  text = machine().violations();
  return text.c_str();
}
EXPORT int emulatedCudaCaptureMode() { return mine().captureMode; }
