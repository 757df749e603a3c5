// An allocator plugin that is right, and can be given one fault: for the tests of everything that
// should find faults. It keeps freed blocks by size and stream, and waits for the streams that
// record_stream named.
//
// The fault is the file's name: a copy called faulty_leak.so leaks, faulty_none.so is right. The
// variable FAULTY_PLUGIN goes before the name. Functions: my_malloc, my_free, my_record_stream,
// my_trim, my_init. faulty_plugin_faults.h has the list.
#include <cuda_runtime_api.h>
#include <sched.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <stdexcept>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "tests/support/faulty_plugin_faults.h"

namespace {

// A stream as the driver counts it: a handle may come again.
using StreamId = unsigned long long;

struct Block {
  char* base = nullptr;  // what the device gave
  std::uint64_t size_bytes = 0;
  cudaStream_t stream = nullptr;
  StreamId stream_id = 0;
  int device = 0;
  std::vector<cudaStream_t> used_on;
  std::vector<cudaEvent_t> events;  // what must happen before the block is used again
};

std::mutex mutex, other_mutex;
std::unordered_map<void*, Block> live;
std::multimap<std::tuple<int, std::uint64_t, StreamId>, Block> kept;
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

StreamId id_of(cudaStream_t stream) {
  StreamId id = 0;
  (void)cudaStreamGetId(stream, &id);
  return id;
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
  const StreamId stream = serves_any_stream() ? 0 : block.stream_id;
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
  const StreamId stream_id = id_of(stream);
  auto found = kept.find({device, bytes, any ? 0 : stream_id});
  // With one list for all streams any larger block will do, so that blocks do move between them.
  if (any) found = kept.lower_bound({device, bytes, 0});
  if (found == kept.end() || std::get<0>(found->first) != device) return false;
  if (has(Fault::ClaimsUnlocked)) {
    block = found->second;
    mutex.unlock();
    (void)cudaEventQuery(query_event());
    mutex.lock();
    forget(block);
    block.stream = stream;
    block.stream_id = stream_id;
    return true;
  }
  block = std::move(found->second);
  if (has(Fault::ThreadRacy)) sched_yield();
  kept.erase(found);
  block.stream = stream;
  block.stream_id = stream_id;
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
    block = {.base = device_take(bytes + 512),
             .size_bytes = bytes,
             .stream = stream,
             .stream_id = id_of(stream),
             .device = device};
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
