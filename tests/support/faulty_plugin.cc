// An allocator plugin that is right, and can be given one fault: for the tests of everything that
// should find faults. It keeps freed blocks by size and stream, and waits for the streams that
// record_stream named.
//
// The fault is the file's name: a copy called faulty_leak.so leaks, faulty_none.so is right. The
// variable FAULTY_PLUGIN goes before the name. Functions: my_malloc, my_free, my_record_stream,
// my_trim, my_init. kFaults below is the list.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <sched.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

enum class Fault {
  None,
  // Right, with another kind of lock.
  SpinLock,
  NapLock,
  // Order of streams.
  IgnoresRecord,  // record_stream does nothing
  AnyStream,      // a freed block goes to any stream at once
  WrongStream,    // the event is recorded on the block's own stream
  EarlyEvent,     // the event is recorded when record_stream is called, not at the free
  NoWait,         // the event is recorded and never asked about
  NoStreamWait,   // reused on another stream after an event on the old one, without the wait
  // Memory.
  Overlap,        // every 10th block begins inside the one before it
  DoubleHandOut,  // every 20th freed block goes out twice
  Misaligned,     // addresses are 8 bytes behind a multiple of 16
  AlignShrinks,   // the same from the 60th request on
  HostPointer,    // host memory
  Scribbles,      // writes a byte into the block handed out before
  Leaks,          // every 10th freed block is forgotten
  TrimKeeps,      // trim does nothing
  Grows,          // freed blocks are used again only after a trim
  LifoOnly,       // forgets a freed block that is not the newest one
  RoundsUp,       // every block takes 30 % more
  // Answers.
  NullSometimes,     // every 40th request fails
  OomEarly,          // fails above 1 GiB in use
  NullAfterOom,      // fails for good after the first failure
  StaleError,        // leaves the runtime's last error behind after a failure
  SizeZeroCrash,     // aborts at a request of 0 bytes
  FreeNullCrash,     // aborts when null is freed
  ForeignFreeCrash,  // aborts when a pointer is freed that it did not hand out
  InitTwiceCrash,    // aborts at the second call of init
  DeviceZero,        // always uses device 0, and makes it the current one
  StreamDefault,     // allocates and waits on the default stream, whatever stream it is given
  // Running.
  Crash,       // aborts at the 5th request
  Hang,        // never answers the 5th request
  Exit,        // ends the process with code 0 at the 5th request
  Throw,       // throws at the 5th request
  Fork,        // forks at the 5th request, and the child goes on as well
  LostUnlock,  // a failed request keeps the lock
  ThreadRacy,  // takes no lock
  // What only another thread at the wrong moment runs into.
  RecordsUnlocked,  // offers a freed block to others, unlocks, and then records its event
  DestroysEvent,    // the same, and a failed request destroys the events of what is freed
  ClaimsUnlocked,   // picks a kept block, unlocks for a CUDA call, and then takes it off the list
  LockCycle,        // requests lock A and then B, frees lock B and then A
  Random,           // places a block elsewhere now and then, as a random number says
  // Time.
  SlowTail,          // 1 request in 60 takes 500 ns longer
  SlowAll,           // each takes 100 ns longer
  ColdStart,         // each of the first 500 takes 2 us longer
  Quadratic,         // takes longer the more requests there were
  ExtraDriverCalls,  // one more cudaMalloc and cudaFree every 100 requests
};

constexpr std::pair<const char*, Fault> kFaults[] = {
    {"none", Fault::None},
    {"spin_lock", Fault::SpinLock},
    {"nap_lock", Fault::NapLock},
    {"ignores_record", Fault::IgnoresRecord},
    {"any_stream", Fault::AnyStream},
    {"wrong_stream", Fault::WrongStream},
    {"early_event", Fault::EarlyEvent},
    {"no_wait", Fault::NoWait},
    {"no_stream_wait", Fault::NoStreamWait},
    {"overlap", Fault::Overlap},
    {"double_hand_out", Fault::DoubleHandOut},
    {"misaligned", Fault::Misaligned},
    {"align_shrinks", Fault::AlignShrinks},
    {"host_pointer", Fault::HostPointer},
    {"scribbles", Fault::Scribbles},
    {"leaks", Fault::Leaks},
    {"trim_keeps", Fault::TrimKeeps},
    {"grows", Fault::Grows},
    {"lifo_only", Fault::LifoOnly},
    {"rounds_up", Fault::RoundsUp},
    {"null_sometimes", Fault::NullSometimes},
    {"oom_early", Fault::OomEarly},
    {"null_after_oom", Fault::NullAfterOom},
    {"stale_error", Fault::StaleError},
    {"size_zero_crash", Fault::SizeZeroCrash},
    {"free_null_crash", Fault::FreeNullCrash},
    {"foreign_free_crash", Fault::ForeignFreeCrash},
    {"init_twice_crash", Fault::InitTwiceCrash},
    {"device_zero", Fault::DeviceZero},
    {"stream_default", Fault::StreamDefault},
    {"crash", Fault::Crash},
    {"hang", Fault::Hang},
    {"exit", Fault::Exit},
    {"throw", Fault::Throw},
    {"fork", Fault::Fork},
    {"lost_unlock", Fault::LostUnlock},
    {"thread_racy", Fault::ThreadRacy},
    {"records_unlocked", Fault::RecordsUnlocked},
    {"destroys_event", Fault::DestroysEvent},
    {"claims_unlocked", Fault::ClaimsUnlocked},
    {"lock_cycle", Fault::LockCycle},
    {"random", Fault::Random},
    {"slow_tail", Fault::SlowTail},
    {"slow_all", Fault::SlowAll},
    {"cold_start", Fault::ColdStart},
    {"quadratic", Fault::Quadratic},
    {"extra_driver_calls", Fault::ExtraDriverCalls},
};

// faulty_NAME.so, wherever it lies.
Fault fault_of_file() {
  const char* name = std::getenv("FAULTY_PLUGIN");
  char from_path[64] = "";
  if (name == nullptr) {
    Dl_info info{};
    if (dladdr(reinterpret_cast<void*>(&fault_of_file), &info) == 0) std::abort();
    const char* const slash = std::strrchr(info.dli_fname, '/');
    const char* const file = slash == nullptr ? info.dli_fname : slash + 1;
    (void)std::sscanf(file, "faulty_%63[a-z_]", from_path);
    name = from_path;
  }
  for (const auto& [known, fault] : kFaults) {
    if (std::strcmp(known, name) == 0) return fault;
  }
  std::fprintf(stderr, "faulty plugin: no fault is called '%s'\n", name);
  std::abort();
}

const Fault kFault = fault_of_file();
bool has(Fault fault) { return kFault == fault; }

struct Block {
  char* base = nullptr;  // what the device gave
  std::uint64_t size_bytes = 0;
  cudaStream_t stream = nullptr;
  int device = 0;
  std::vector<cudaStream_t> used_on;
  std::vector<cudaEvent_t> events;  // what must happen before the block is used again
};

std::mutex mutex, other_mutex;
std::unordered_map<void*, Block> live;
std::multimap<std::tuple<int, std::uint64_t, cudaStream_t>, Block> kept;
std::vector<Block> waiting;
std::vector<cudaEvent_t> spare_events;
std::uint64_t request_count = 0, free_count = 0, init_count = 0, used_bytes = 0;
bool broken = false;
void* newest = nullptr;
volatile std::uint64_t sink = 1;

void work(std::uint64_t steps) {
  std::uint64_t x = sink;
  for (std::uint64_t i = 0; i < steps; ++i) x = x * 6364136223846793005U + 1442695040888963407U;
  sink = x | 1;
}

cudaEvent_t take_event() {
  cudaEvent_t event = nullptr;
  if (spare_events.empty()) {
    (void)cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  } else {
    event = spare_events.back();
    spare_events.pop_back();
  }
  return event;
}

cudaEvent_t event_on(cudaStream_t stream) {
  cudaEvent_t const event = take_event();
  (void)cudaEventRecord(event, stream);
  return event;
}

bool records_unlocked() { return has(Fault::RecordsUnlocked) || has(Fault::DestroysEvent); }

// Kept blocks go to any stream.
bool serves_any_stream() {
  return has(Fault::AnyStream) || has(Fault::NoStreamWait) || has(Fault::RecordsUnlocked);
}

void keep(Block&& block) {
  cudaStream_t const stream = serves_any_stream() ? nullptr : block.stream;
  const std::tuple key{block.device, block.size_bytes, stream};
  if (has(Fault::DoubleHandOut) && ++free_count % 20 == 0) kept.emplace(key, block);
  kept.emplace(key, std::move(block));
}

// Blocks whose events have happened can be used again.
void collect(bool wait) {
  for (std::size_t i = 0; i < waiting.size();) {
    Block& block = waiting[i];
    while (!block.events.empty()) {
      cudaEvent_t const event = block.events.back();
      if (wait) {
        (void)cudaEventSynchronize(event);
      } else if (!has(Fault::NoWait) && cudaEventQuery(event) != cudaSuccess) {
        break;
      }
      spare_events.push_back(event);
      block.events.pop_back();
    }
    if (!block.events.empty()) {
      ++i;
      continue;
    }
    keep(std::move(block));
    if (i + 1 != waiting.size()) waiting[i] = std::move(waiting.back());
    waiting.pop_back();
  }
}

void release_kept() {
  collect(true);
  for (auto& [key, block] : kept) {
    if (has(Fault::HostPointer)) {
      std::free(block.base);
    } else {
      (void)cudaFree(block.base);
    }
  }
  kept.clear();
  if (!has(Fault::DestroysEvent)) return;
  for (cudaEvent_t const event : spare_events) (void)cudaEventDestroy(event);
  spare_events.clear();
}

char* device_take(std::uint64_t size_bytes) {
  void* pointer = nullptr;
  if (has(Fault::HostPointer)) return static_cast<char*>(std::aligned_alloc(256, size_bytes));
  if (has(Fault::OomEarly) && used_bytes + size_bytes > std::uint64_t{1} << 30) return nullptr;
  if (cudaMalloc(&pointer, size_bytes) == cudaSuccess) return static_cast<char*>(pointer);
  if (!has(Fault::StaleError)) (void)cudaGetLastError();
  return nullptr;
}

std::uint64_t rounded(std::uint64_t size_bytes) {
  if (has(Fault::RoundsUp)) size_bytes += size_bytes * 3 / 10;
  const std::uint64_t unit = size_bytes > (1 << 20) ? 2 << 20 : 512;
  return (size_bytes + unit - 1) / unit * unit;
}

void run_badly() {
  if (request_count != 5) return;
  if (has(Fault::Crash)) std::abort();
  if (has(Fault::Hang)) sleep(3600);
  if (has(Fault::Exit)) std::exit(0);
  if (has(Fault::Throw)) throw std::runtime_error("the plugin throws");
  if (has(Fault::Fork)) (void)fork();
}

void take_time() {
  if (has(Fault::SlowTail) && request_count % 60 == 0) work(500);
  if (has(Fault::SlowAll)) work(100);
  if (has(Fault::ColdStart) && request_count < 500) work(2000);
  if (has(Fault::Quadratic)) work(request_count / 100);
  if (has(Fault::ExtraDriverCalls) && request_count % 100 == 0) {
    void* pointer = nullptr;
    if (cudaMalloc(&pointer, 4 << 20) == cudaSuccess) (void)cudaFree(pointer);
  }
}

// The place within the block that goes out.
char* shown(const Block& block) {
  const bool shrunk = has(Fault::AlignShrinks) && request_count > 60;
  return block.base + (has(Fault::Misaligned) || shrunk ? 8 : 0);
}

cudaEvent_t query_event() {
  static cudaEvent_t const event = take_event();
  return event;
}

// Takes a block off the list where it still stands there.
void forget(const Block& block) {
  for (auto kept_one = kept.begin(); kept_one != kept.end(); ++kept_one) {
    if (kept_one->second.base != block.base) continue;
    kept.erase(kept_one);
    return;
  }
}

bool take_kept(Block& block, int device, std::uint64_t bytes, cudaStream_t stream) {
  if (has(Fault::Grows) || (has(Fault::Random) && std::rand() % 100 == 0)) return false;
  const bool any = serves_any_stream();
  auto found = kept.find({device, bytes, any ? nullptr : stream});
  // With one list for all streams any larger block will do, so that blocks do move between them.
  if (any) found = kept.lower_bound({device, bytes, nullptr});
  if (found == kept.end() || std::get<0>(found->first) != device) return false;
  if (has(Fault::ClaimsUnlocked)) {
    block = found->second;
    mutex.unlock();
    (void)cudaEventQuery(query_event());
    mutex.lock();
    forget(block);
    block.stream = stream;
    return true;
  }
  block = std::move(found->second);
  if (has(Fault::ThreadRacy)) sched_yield();
  kept.erase(found);
  block.stream = stream;
  return true;
}

void* allocate(std::uint64_t size_bytes, int device, cudaStream_t stream) {
  ++request_count;
  run_badly();
  take_time();
  if (size_bytes == 0) {
    if (has(Fault::SizeZeroCrash)) std::abort();
    return nullptr;
  }
  if (broken || (has(Fault::NullSometimes) && request_count % 40 == 0)) return nullptr;
  if (has(Fault::StreamDefault)) stream = nullptr;
  const std::uint64_t bytes = rounded(size_bytes);
  Block block;
  collect(false);
  if (has(Fault::Overlap) && request_count % 10 == 0 && newest != nullptr) {
    return static_cast<char*>(newest) + 256;
  }
  if (!take_kept(block, device, bytes, stream)) {
    // 512 bytes more than are handed out, for the faults that move the address.
    block = {
        .base = device_take(bytes + 512), .size_bytes = bytes, .stream = stream, .device = device};
    if (block.base == nullptr) {
      release_kept();
      block.base = device_take(bytes + 512);
    }
  }
  if (block.base == nullptr) {
    broken = has(Fault::NullAfterOom);
    return nullptr;
  }
  if (has(Fault::Scribbles) && newest != nullptr && live.count(newest) != 0) {
    const std::uint64_t middle = live[newest].size_bytes / 2;
    (void)cudaMemsetAsync(static_cast<char*>(newest) + middle, 0x5A, 1, stream);
  }
  newest = shown(block);
  used_bytes += bytes;
  live[newest] = std::move(block);
  return newest;
}

void deallocate(void* pointer, cudaStream_t stream) {
  if (pointer == nullptr) {
    if (has(Fault::FreeNullCrash)) std::abort();
    return;
  }
  const auto found = live.find(pointer);
  if (found == live.end()) {
    if (has(Fault::ForeignFreeCrash)) std::abort();
    return;
  }
  Block block = std::move(found->second);
  live.erase(found);
  used_bytes -= block.size_bytes;
  if (has(Fault::Leaks) && ++free_count % 10 == 0) return;
  if (has(Fault::LifoOnly) && pointer != newest) return;
  for (cudaStream_t used_on : block.used_on) {
    block.events.push_back(event_on(has(Fault::WrongStream) ? block.stream : used_on));
  }
  if (has(Fault::NoStreamWait)) block.events.push_back(event_on(stream));
  if (has(Fault::StreamDefault)) (void)cudaStreamSynchronize(nullptr);
  block.used_on.clear();
  if (records_unlocked()) {
    cudaEvent_t const event = take_event();
    cudaStream_t const own = block.stream;
    block.events.push_back(event);
    waiting.push_back(std::move(block));
    mutex.unlock();
    (void)cudaEventRecord(event, own);
    mutex.lock();
    return;
  }
  if (block.events.empty()) {
    keep(std::move(block));
  } else if (has(Fault::NoStreamWait)) {
    spare_events.insert(spare_events.end(), block.events.begin(), block.events.end());
    block.events.clear();
    keep(std::move(block));
  } else {
    waiting.push_back(std::move(block));
  }
}

// The lock that every function takes, but for two faults.
struct Lock {
  Lock() {
    if (has(Fault::SpinLock) || has(Fault::NapLock)) {
      while (!mutex.try_lock()) {
        if (has(Fault::NapLock)) usleep(100);
      }
    } else if (!has(Fault::ThreadRacy)) {
      mutex.lock();
    }
  }
  ~Lock() {
    if (!has(Fault::ThreadRacy) && !kept_locked) mutex.unlock();
  }
  bool kept_locked = false;
};

}  // namespace

extern "C" {

void* my_malloc(ssize_t size, int device, cudaStream_t stream) {
  Lock lock;
  int before = 0;
  (void)cudaGetDevice(&before);
  std::unique_lock second(other_mutex, std::defer_lock);
  if (has(Fault::LockCycle)) second.lock();
  const int wanted = has(Fault::DeviceZero) ? 0 : device;
  if (wanted != before) (void)cudaSetDevice(wanted);
  void* const pointer = allocate(static_cast<std::uint64_t>(size), wanted, stream);
  if (wanted != before && !has(Fault::DeviceZero)) (void)cudaSetDevice(before);
  lock.kept_locked = has(Fault::LostUnlock) && pointer == nullptr && size != 0;
  return pointer;
}

void my_free(void* pointer, ssize_t /*size*/, int /*device*/, cudaStream_t stream) {
  std::unique_lock first(other_mutex, std::defer_lock);
  if (has(Fault::LockCycle)) {
    int device = 0;
    first.lock();
    (void)cudaGetDevice(&device);
  }
  const Lock lock;
  deallocate(pointer, stream);
}

void my_record_stream(void* pointer, cudaStream_t stream) {
  const Lock lock;
  const auto found = live.find(pointer);
  if (found == live.end() || has(Fault::IgnoresRecord)) return;
  if (has(Fault::EarlyEvent)) {
    found->second.events.push_back(event_on(stream));
  } else {
    found->second.used_on.push_back(stream);
  }
}

void my_trim(void) {
  const Lock lock;
  if (!has(Fault::TrimKeeps)) release_kept();
}

void my_init(int /*device_count*/) {
  if (++init_count == 2 && has(Fault::InitTwiceCrash)) std::abort();
}

}  // extern "C"
