// An allocator with PyTorch's pluggable interface, and the same with one fault planted into it,
// chosen by FAULT: what comparisons must find (planted_faults_test.py, PLANTED_FAULTS.md). Without
// a fault it is a cache of size classes over cudaMalloc, per stream, that gives everything back
// when it is trimmed.
#include <cuda_runtime_api.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

constexpr bool is(const char* name) { return __builtin_strcmp(FAULT, name) == 0; }

struct Block {
  size_t bytes;
  cudaStream_t stream;
  bool recorded;
};

std::mutex mutex;
std::unordered_map<void*, Block> live;
std::map<std::pair<size_t, cudaStream_t>, std::vector<void*>> cache;
std::vector<void*> lost;          // by a fault, and given back when all is over
std::vector<size_t> history;      // of requests, for the faults that look through them
unsigned long request_count = 0;  // of the process
unsigned long free_count = 0;
unsigned long trim_count = 0;
unsigned long pass_requests = 0;  // since the last trim
volatile uint64_t sink = 1;

// About a nanosecond each.
void work(int step_count) {
  uint64_t x = sink;
  for (int i = 0; i < step_count; ++i) x = x * 6364136223846793005u + 1442695040888963407u;
  sink = x | 1;
}

void spin_ns(long wanted_ns) {
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < std::chrono::nanoseconds(wanted_ns)) {
  }
}

size_t class_of(size_t size) {
  if (is("rounds_up")) size += size * 3 / 10;
  const size_t unit = size <= (1 << 20) ? 512 : (2 << 20);
  size_t bytes = (size + unit - 1) / unit * unit;
  // Quarters of a power of two, so that blocks are used again.
  size_t step = unit;
  while (step * 8 < bytes) step *= 2;
  bytes = (bytes + step - 1) / step * step;
  return is("exact_fit_only") ? (size + 511) / 512 * 512 : bytes;
}

void give_back_cache() {
  for (auto& [key, blocks] : cache) {
    for (void* block : blocks) (void)cudaFree(block);
  }
  cache.clear();
}

void* from_device(size_t bytes) {
  void* pointer = nullptr;
  if (cudaMalloc(&pointer, bytes) == cudaSuccess) return pointer;
  (void)cudaGetLastError();
  give_back_cache();
  if (cudaMalloc(&pointer, bytes) == cudaSuccess) return pointer;
  (void)cudaGetLastError();
  return nullptr;
}

void* take(size_t bytes, cudaStream_t stream) {
  auto& blocks = cache[{bytes, is("ignores_streams") ? nullptr : stream}];
  if (blocks.empty() || is("never_reuses")) return from_device(bytes);
  void* const pointer = blocks.back();
  blocks.pop_back();
  return pointer;
}

// What goes wrong before a request is looked at; true where it fails.
bool misbehave(ssize_t size, cudaStream_t stream) {
  if (is("crash") && request_count == 1000) abort();
  if (is("exit") && request_count == 1000) _exit(0);
  if (is("throw") && request_count == 1000) throw std::runtime_error("planted");
  if (is("hang") && request_count == 1000) sleep(3600);
  if (is("fork") && request_count == 1000 && fork() == 0) {
    sleep(3);
    _exit(0);
  }
  if (is("slow_p50")) work(12);
  if (is("slow_all_10")) work(24);
  if (is("slow_1_in_60") && request_count % 60 == 0) spin_ns(150);
  if (is("slower_1_in_60") && request_count % 60 == 0) spin_ns(700);
  if (is("slow_1_in_15") && request_count % 15 == 0) spin_ns(150);
  if (is("cold_start") && request_count == 1) spin_ns(2000000);
  if (is("drift") && pass_requests > 2000) work(static_cast<int>(pass_requests / 100));
  if (is("quadratic")) {
    history.push_back(static_cast<size_t>(size));
    uint64_t sum = 0;
    for (const size_t old : history) sum += old;
    sink = sum | 1;
  }
  if (is("lost_wake") && request_count % 1000 == 0) {
    std::mutex own;
    std::condition_variable never;
    std::unique_lock lock(own);
    never.wait_for(lock, std::chrono::milliseconds(1));
  }
  if (is("waits") && request_count % 100 == 0) (void)cudaStreamSynchronize(stream);
  if (is("one_more_call") && request_count % 500 == 0) {
    void* pointer = nullptr;
    if (cudaMalloc(&pointer, 2 << 20) == cudaSuccess) (void)cudaFree(pointer);
  }
  if (is("null_1_in_1000") && request_count % 1000 == 0) return true;
  if (is("null_at_random") && static_cast<unsigned>(rand()) % 200 == 0) return true;
  if (is("null_in_later_passes") && request_count > pass_requests && pass_requests % 500 == 0) {
    return true;
  }
  return false;
}

// The block as it should not be handed out.
void* spoiled(void* pointer, size_t size, cudaStream_t stream) {
  static void* last = nullptr;
  static size_t last_size = 0;
  const bool is_later = is("double_handout_later") && trim_count >= 2;
  if ((is("double_handout") || is_later) && request_count % 500 == 0 && last != nullptr &&
      live.contains(last)) {
    lost.push_back(pointer);
    return last;
  }
  if (is("shrinking_alignment") && request_count > 500) return static_cast<char*>(pointer) + 8;
  if (is("host_pointer") && request_count == 100)
    return aligned_alloc(512, (size + 511) / 512 * 512);
  if (is("scribbles") && last != nullptr && live.contains(last)) {
    (void)cudaMemsetAsync(static_cast<char*>(last) + last_size - 1, 0x5A, 1, stream);
  }
  last = pointer;
  last_size = size;
  return pointer;
}

}  // namespace

extern "C" void planted_trim() {
  const std::scoped_lock lock(mutex);
  give_back_cache();
  ++trim_count;
  if (!is("leaks_lost_blocks")) {
    for (void* block : lost) (void)cudaFree(block);
  }
  lost.clear();
  if (is("leaks_per_pass")) {
    void* pointer = nullptr;
    (void)cudaMalloc(&pointer, 250 << 20);
  }
  pass_requests = 0;
  history.clear();
}

extern "C" void planted_record_stream(void* pointer, cudaStream_t) {
  const std::scoped_lock lock(mutex);
  const auto found = live.find(pointer);
  if (found != live.end()) found->second.recorded = true;
}

extern "C" void* planted_malloc(ssize_t size, int device, cudaStream_t stream) {
  const std::scoped_lock lock(mutex);
  if (request_count == 0) srand(static_cast<unsigned>(getpid() + time(nullptr)));
  ++request_count;
  ++pass_requests;
  work(240);
  if (misbehave(size, stream)) return nullptr;
  size_t bytes = class_of(static_cast<size_t>(size));
  if (is("block_too_small") && request_count == 700) bytes /= 2;
  if (is("oom_early") && live.size() > 150) return nullptr;
  if (is("wrong_device")) (void)cudaSetDevice(1);
  void* pointer = take(bytes, stream);
  if (is("wrong_device")) (void)cudaSetDevice(device);
  if (pointer == nullptr) return nullptr;
  pointer = spoiled(pointer, static_cast<size_t>(size), stream);
  live[pointer] = {bytes, stream, false};
  return pointer;
}

extern "C" void planted_free(void* pointer, ssize_t, int, cudaStream_t) {
  const std::scoped_lock lock(mutex);
  const auto found = live.find(pointer);
  if (found == live.end()) return;
  const Block block = found->second;
  live.erase(found);
  ++free_count;
  work(200);
  if (is("slow_free_1_in_60") && free_count % 60 == 0) spin_ns(300);
  if (is("slow_free")) work(40);
  if ((is("loses_blocks") || is("leaks_lost_blocks")) && free_count % 50 == 0) {
    lost.push_back(pointer);
    return;
  }
  if (block.recorded && !is("ignores_record")) (void)cudaDeviceSynchronize();
  if (is("frees_at_once")) {
    (void)cudaFree(pointer);
    return;
  }
  cache[{block.bytes, is("ignores_streams") ? nullptr : block.stream}].push_back(pointer);
}
