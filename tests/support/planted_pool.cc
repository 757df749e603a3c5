// A pool as allocators of frameworks are: it splits and merges blocks, keeps them by stream, polls
// events of streams that record_stream named, and tries again after out of memory. It is right, and
// can be given one fault: what the gate and 'allocmark conformance' must name
// (planted_pool_test.py, PLANTED_FAULTS.md).
//
// The fault is the file's name: a copy called pool_double_free.so takes a second free, pool_none.so
// is right. Functions: pool_malloc, pool_free, pool_record_stream, pool_trim, pool_init.
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/support/planted_pool_faults.h"

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kUnit = 512;
constexpr std::uint64_t kSegmentBytes = 2 * kMiB;
constexpr std::uint64_t kLargeBytes = kMiB;

// A stream as the driver counts it: a handle may come again.
using StreamId = unsigned long long;

struct Block {
  char* begin = nullptr;
  std::uint64_t size_bytes = 0;
  int device = 0;
  StreamId stream = 0;
  bool is_free = false, is_large = false;
  bool ends_segment = false, begins_segment = false;
  std::vector<cudaStream_t> used_on = {};
  std::vector<cudaEvent_t> events = {};  // what must happen before it is used again
};

// Free blocks: the smallest that is enough, and of those the lowest.
using FreeKey = std::tuple<int, bool, StreamId, std::uint64_t, char*>;

std::mutex mutex;
std::map<char*, Block> blocks;  // all of them, by address
std::unordered_map<void*, Block*> live;
std::set<FreeKey> free_blocks;
std::list<Block*> waiting;
std::map<int, std::vector<cudaEvent_t>> spare_events;  // by device
std::multimap<std::uint64_t, void*> freed_twice;       // by the fault, by size
std::uint64_t request_count = 0, trim_count = 0;
std::vector<std::uint64_t> history;  // of the fault that keeps one

StreamId id_of(cudaStream_t stream) {
  if (has(Fault::StreamHandle)) return reinterpret_cast<StreamId>(stream);
  StreamId id = 0;
  (void)cudaStreamGetId(stream, &id);
  return id;
}

FreeKey key_of(const Block& block) {
  return {block.device, block.is_large, block.stream, block.size_bytes, block.begin};
}

// Merges it with its free neighbours of the same stream.
void make_free(Block* block) {
  block->is_free = true;
  const auto joins = [](const Block& low, const Block& high) {
    return !low.ends_segment && low.is_free && high.is_free && low.stream == high.stream;
  };
  auto at = blocks.find(block->begin);
  if (const auto next = std::next(at); next != blocks.end() && joins(*block, next->second)) {
    free_blocks.erase(key_of(next->second));
    block->size_bytes += next->second.size_bytes;
    block->ends_segment = next->second.ends_segment;
    blocks.erase(next);
  }
  if (at != blocks.begin() && joins(std::prev(at)->second, *block)) {
    Block& before = std::prev(at)->second;
    free_blocks.erase(key_of(before));
    before.size_bytes += block->size_bytes;
    before.ends_segment = block->ends_segment;
    blocks.erase(at);
    block = &before;
  }
  free_blocks.insert(key_of(*block));
}

// Makes a device the current one while it lives.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    (void)cudaGetDevice(&before_);
    moved_ = before_ != device;
    if (moved_) (void)cudaSetDevice(device);
  }
  ~OnDevice() {
    if (moved_ && !has(Fault::DeviceLeft)) (void)cudaSetDevice(before_);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = 0;
  bool moved_ = false;
};

cudaEvent_t event_on(int device, cudaStream_t stream) {
  const OnDevice there(device);
  std::vector<cudaEvent_t>& spare = spare_events[device];
  cudaEvent_t event = nullptr;
  if (!spare.empty() && !has(Fault::EventsLeak)) {
    event = spare.back();
    spare.pop_back();
  } else if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess) {
    (void)cudaGetLastError();
    return nullptr;
  }
  (void)cudaEventRecord(event, stream);
  return event;
}

bool has_happened(cudaEvent_t event) {
  if (has(Fault::BlocksOnEvent)) return cudaEventSynchronize(event) == cudaSuccess;
  if (cudaEventQuery(event) == cudaSuccess) return true;
  if (has(Fault::ErrorLeft)) (void)cudaEventQuery(nullptr);
  return false;
}

void poll_events() {
  for (auto at = waiting.begin(); at != waiting.end();) {
    Block* const block = *at;
    while (!block->events.empty() && has_happened(block->events.back())) {
      spare_events[block->device].push_back(block->events.back());
      block->events.pop_back();
    }
    if (!block->events.empty()) {
      ++at;
      continue;
    }
    at = waiting.erase(at);
    make_free(block);
  }
}

void end_waiting(bool is_unfinished) {
  for (Block* const block : std::exchange(waiting, {})) {
    for (cudaEvent_t const event : block->events) {
      if (!is_unfinished) (void)cudaEventSynchronize(event);
      spare_events[block->device].push_back(event);
    }
    block->events.clear();
    make_free(block);
  }
}

// Of the fault: what this thread freed and no other one gets.
thread_local std::vector<Block*> of_thread;
constexpr std::uint64_t kOfThreadBytesMax = 4 * kMiB;

Block* take_of_thread(std::uint64_t size_bytes, int device, StreamId stream) {
  const auto at = std::find_if(of_thread.begin(), of_thread.end(), [&](const Block* block) {
    return block->size_bytes == size_bytes && block->device == device && block->stream == stream;
  });
  if (at == of_thread.end()) return nullptr;
  Block* const block = *at;
  of_thread.erase(at);
  return block;
}

// Whole segments that are free go back to the driver.
void release_segments(int device) {
  end_waiting(false);
  for (Block* const block : std::exchange(of_thread, {})) make_free(block);
  for (auto at = free_blocks.begin(); at != free_blocks.end();) {
    Block& block = blocks.at(std::get<char*>(*at));
    if (block.device != device || !block.begins_segment || !block.ends_segment) {
      ++at;
      continue;
    }
    at = free_blocks.erase(at);
    (void)cudaFree(block.begin);
    blocks.erase(block.begin);
  }
}

std::uint64_t rounded(std::uint64_t size_bytes) {
  if (has(Fault::RoundsDown) && size_bytes > kUnit && size_bytes % kUnit == 1) --size_bytes;
  if (has(Fault::MibTooSmall) && size_bytes > kMiB && size_bytes <= kMiB + kUnit) size_bytes = kMiB;
  return std::max(kUnit, (size_bytes + kUnit - 1) / kUnit * kUnit);
}

Block* take_free(std::uint64_t size_bytes, int device, StreamId stream) {
  const bool is_large = size_bytes > kLargeBytes;
  const auto at = free_blocks.lower_bound({device, is_large, stream, size_bytes, nullptr});
  if (at == free_blocks.end()) return nullptr;
  const auto& [of_device, large, of_stream, free_bytes, begin] = *at;
  if (of_device != device || large != is_large || of_stream != stream) return nullptr;
  Block* const block = &blocks.at(begin);
  free_blocks.erase(at);
  return block;
}

// The fault: whatever stream it belongs to.
Block* take_of_another(std::uint64_t size_bytes, int device, StreamId stream) {
  for (const FreeKey& key : free_blocks) {
    if (std::get<int>(key) != device || std::get<3>(key) < size_bytes) continue;
    Block* const block = &blocks.at(std::get<char*>(key));
    free_blocks.erase(key);
    block->stream = stream;
    return block;
  }
  return nullptr;
}

Block* add_segment(void* pointer, std::uint64_t size_bytes, int device, StreamId stream,
                   bool is_large) {
  auto* const begin = static_cast<char*>(pointer);
  return &(blocks[begin] = {.begin = begin,
                            .size_bytes = size_bytes,
                            .device = device,
                            .stream = stream,
                            .is_large = is_large,
                            .ends_segment = true,
                            .begins_segment = true});
}

Block* new_segment(std::uint64_t size_bytes, int device, StreamId stream) {
  const std::uint64_t segment_bytes =
      (size_bytes + kSegmentBytes - 1) / kSegmentBytes * kSegmentBytes;
  const OnDevice there(device);
  void* pointer = nullptr;
  static int spills_left = has(Fault::Spills) ? 2 : 0;
  if (cudaMalloc(&pointer, segment_bytes) != cudaSuccess) {
    (void)cudaGetLastError();
    if (segment_bytes <= 4096 * kMiB && spills_left-- > 0)
      (void)cudaMallocManaged(&pointer, segment_bytes);
  }
  if (pointer == nullptr) return nullptr;
  return add_segment(pointer, segment_bytes, device, stream, size_bytes > kLargeBytes);
}

Block* find_block(std::uint64_t size_bytes, int device, StreamId stream) {
  if (Block* const block = take_of_thread(size_bytes, device, stream)) return block;
  if (Block* const block = take_free(size_bytes, device, stream)) return block;
  if (Block* const block = new_segment(size_bytes, device, stream)) return block;
  if (has(Fault::RetryOtherStream)) {
    if (Block* const block = take_of_another(size_bytes, device, stream)) return block;
  }
  if (has(Fault::RetryUnfinished)) {
    end_waiting(true);
    if (Block* const block = take_free(size_bytes, device, stream)) return block;
  }
  release_segments(device);
  if (Block* const block = take_free(size_bytes, device, stream)) return block;
  return new_segment(size_bytes, device, stream);
}

void split(Block* block, std::uint64_t size_bytes) {
  const std::uint64_t rest_bytes = block->size_bytes - size_bytes;
  if (rest_bytes < (block->is_large ? kMiB : kUnit)) return;
  Block& rest = blocks[block->begin + size_bytes] = {.begin = block->begin + size_bytes,
                                                     .size_bytes = rest_bytes,
                                                     .device = block->device,
                                                     .stream = block->stream,
                                                     .is_free = true,
                                                     .is_large = block->is_large,
                                                     .ends_segment = block->ends_segment};
  block->size_bytes = size_bytes;
  block->ends_segment = false;
  if (has(Fault::SplitRest)) {
    static StreamId former = 0;
    rest.stream = std::exchange(former, block->stream);
  }
  free_blocks.insert(key_of(rest));
}

// A live block once more, where the fault says so.
void* handed_out_again() {
  const bool late = (has(Fault::LiveAfter35k) && request_count > 35'000) ||
                    (has(Fault::LiveAfterMillion) && request_count > 1'000'000);
  const bool trimmed = has(Fault::LiveAfterTrims) && trim_count >= 3;
  const bool deep = has(Fault::DoubleAbove65536) && live.size() > 65'536;
  if (live.empty() || !(late || trimmed || deep) || request_count % 50 != 0) return nullptr;
  return live.begin()->first;
}

void misbehave() {
  if (has(Fault::Stall3ms) && request_count % 20'000 == 0) spin_ns(3'000'000);
  if (has(Fault::OpenFiles) && request_count % 1'000 == 0) (void)open("/dev/null", O_RDONLY);
  if (has(Fault::HostPerRequest)) history.push_back(request_count);
  volatile std::uint64_t sum = 0;
  for (std::uint64_t i = 0; has(Fault::Uptime) && i < request_count / 50; ++i) sum = sum + i;
}

void* allocate(std::uint64_t size_bytes, int device, cudaStream_t stream) {
  ++request_count;
  misbehave();
  if (has(Fault::Truncates)) size_bytes &= 0xffffffff;
  if (size_bytes == 0) {
    if (has(Fault::SizeZeroLeak)) (void)new_segment(kUnit, device, id_of(stream));
    return nullptr;
  }
  if (has(Fault::NullAbove16384) && live.size() > 16'384) return nullptr;
  if (void* const again = handed_out_again()) return again;
  poll_events();
  const std::uint64_t bytes = rounded(size_bytes);
  if (const auto again = freed_twice.find(bytes); again != freed_twice.end()) {
    void* const pointer = again->second;
    freed_twice.erase(again);
    return pointer;
  }
  Block* const block = find_block(bytes, device, id_of(stream));
  if (block == nullptr) return nullptr;
  block->is_free = false;
  split(block, bytes);
  live[block->begin] = block;
  if (has(Fault::ZeroesBlocks)) (void)cudaMemsetAsync(block->begin, 0, bytes, stream);
  return block->begin;
}

void deallocate(void* pointer, ssize_t size, int device, cudaStream_t stream) {
  const auto found = live.find(pointer);
  if (found == live.end()) {
    const bool is_own = blocks.count(static_cast<char*>(pointer)) != 0;
    if (has(Fault::DoubleFree) && is_own) {
      freed_twice.emplace(rounded(static_cast<std::uint64_t>(size)), pointer);
    }
    if (has(Fault::ForeignFree) && !is_own && pointer != nullptr) {
      const auto bytes = static_cast<std::uint64_t>(size);
      make_free(add_segment(pointer, bytes, device, id_of(stream), bytes > kLargeBytes));
    }
    return;
  }
  Block* const block = found->second;
  live.erase(found);
  std::vector<cudaStream_t> used_on = std::exchange(block->used_on, {});
  if (has(Fault::LastRecordOnly) && used_on.size() > 1) used_on = {used_on.back()};
  if (has(Fault::ForgetsThird) && used_on.size() > 2) used_on.resize(2);
  if (has(Fault::FewEvents) && waiting.size() > 200) used_on.clear();
  for (cudaStream_t const other : used_on) {
    cudaEvent_t const event = event_on(block->device, other);
    if (event != nullptr) block->events.push_back(event);
  }
  if (!block->events.empty()) {
    waiting.push_back(block);
  } else if (has(Fault::ThreadCache) && block->size_bytes <= kOfThreadBytesMax) {
    of_thread.push_back(block);
  } else {
    make_free(block);
  }
}

}  // namespace

extern "C" {

void* pool_malloc(ssize_t size, int device, cudaStream_t stream) {
  const std::scoped_lock lock(mutex);
  if (request_count == 0) run_beside(mutex);
  return allocate(static_cast<std::uint64_t>(size), device, stream);
}

void pool_free(void* pointer, ssize_t size, int device, cudaStream_t stream) {
  const std::scoped_lock lock(mutex);
  deallocate(pointer, size, device, stream);
}

void pool_record_stream(void* pointer, cudaStream_t stream) {
  const std::scoped_lock lock(mutex);
  if (has(Fault::RecordDefault) && stream == nullptr) return;
  const auto found = live.find(pointer);
  if (found == live.end() || id_of(stream) == found->second->stream) return;
  std::vector<cudaStream_t>& used_on = found->second->used_on;
  if (std::find(used_on.begin(), used_on.end(), stream) == used_on.end()) used_on.push_back(stream);
}

void pool_trim(void) {
  const std::scoped_lock lock(mutex);
  ++trim_count;
  int count = 0;
  (void)cudaGetDeviceCount(&count);
  for (int device = 0; device < count; ++device) release_segments(device);
  for (auto& [device, spare] : spare_events) {
    for (cudaEvent_t const event : spare) {
      if (!has(Fault::EventsLeak)) (void)cudaEventDestroy(event);
    }
  }
  spare_events.clear();
}

void pool_init(int /*device_count*/) {}

}  // extern "C"
