// A CUDA program to be captured. In: what to do. Out: a line for each request, with its address
// after the first one's, so that a replay can be held to it.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

#include "base/random.h"

namespace {

constexpr int kRequestCount = 400;

void say(const void* pointer) {
  static const void* first = nullptr;
  if (first == nullptr) first = pointer;
  std::printf("%lld\n", static_cast<long long>(static_cast<const char*>(pointer) -
                                               static_cast<const char*>(first)));
}

std::size_t some_bytes(allocmark::Random& random) {
  return random.below(2) == 0 ? 512 + random.below(1 << 18) : 1 + random.below(64 << 20);
}

// cudaMalloc and cudaFree in a random order.
void heap(std::uint64_t seed, bool prints) {
  allocmark::Random random(seed);
  std::vector<void*> live;
  for (int i = 0; i < kRequestCount; ++i) {
    if (!live.empty() && random.below(3) == 0) {
      const std::size_t which = random.below(live.size());
      cudaFree(live[which]);
      live[which] = live.back();
      live.pop_back();
    }
    void* pointer = nullptr;
    if (cudaMalloc(&pointer, some_bytes(random)) != cudaSuccess) std::exit(3);
    live.push_back(pointer);
    if (prints) say(pointer);
  }
  for (void* const pointer : live) cudaFree(pointer);
}

// The stream-ordered functions on two streams, with waits; blocks are given back on their own
// stream or, with `crosses`, on the other one.
void pools(bool crosses) {
  allocmark::Random random(7);
  cudaStream_t streams[2] = {};
  cudaStreamCreate(&streams[1]);
  struct Block {
    void* pointer = nullptr;
    std::uint64_t stream = 0;
  };
  std::vector<Block> live;
  for (int i = 0; i < kRequestCount; ++i) {
    if (!live.empty() && random.below(3) == 0) {
      const std::size_t which = random.below(live.size());
      const std::uint64_t stream = crosses ? 1 - live[which].stream : live[which].stream;
      cudaFreeAsync(live[which].pointer, streams[stream]);
      live[which] = live.back();
      live.pop_back();
    }
    if (random.below(16) == 0) cudaDeviceSynchronize();
    Block block{.stream = random.below(2)};
    if (cudaMallocAsync(&block.pointer, some_bytes(random), streams[block.stream]) != cudaSuccess)
      std::exit(3);
    live.push_back(block);
    say(block.pointer);
  }
}

void run_threads() {
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < 4; ++i) threads.emplace_back([i] { heap(100 + i, false); });
  for (std::thread& thread : threads) thread.join();
}

void run_fork() {
  heap(1, false);
  const pid_t child = fork();
  if (child == 0) {
    heap(2, false);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  heap(3, false);
}

// A vfork's child ends in its parent's memory.
void run_vfork() {
  heap(1, false);
  const pid_t child = vfork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  heap(3, false);
}

void fail_one() {
  void* pointer = nullptr;
  heap(1, false);
  if (cudaMalloc(&pointer, std::size_t{1} << 50) == cudaSuccess) std::exit(3);
}

// Two steps, as a program marks them that may run without the library, too.
void mark_steps() {
  const auto mark =
      reinterpret_cast<void (*)(const char*)>(dlsym(RTLD_DEFAULT, "allocmark_capture_mark"));
  for (const char* const step : {"step 1", "step,2"}) {
    if (mark != nullptr) mark(step);
    heap(1, false);
  }
}

void require(cudaError_t answer) {
  if (answer != cudaSuccess) std::exit(3);
}

// Two graphs: one without memory, and one that asks on two streams, gives one block back itself
// and leaves the other to the program. With `ends`, the program ends within the capture.
void graphs(bool ends) {
  cudaStream_t streams[2] = {};
  cudaEvent_t events[2] = {};
  for (int i = 0; i < 2; ++i) {
    require(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    require(cudaEventCreate(&events[i]));
  }
  void* scratch = nullptr;
  require(cudaMallocAsync(&scratch, 1 << 20, streams[0]));
  for (const bool has_memory : {false, true}) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    void* own = nullptr;
    void* left = nullptr;
    require(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeGlobal));
    require(cudaEventRecord(events[0], streams[0]));
    require(cudaStreamWaitEvent(streams[1], events[0], 0));
    require(cudaMemsetAsync(scratch, 0, 1 << 20, streams[0]));
    if (has_memory) {
      require(cudaMallocAsync(&own, 3 << 20, streams[0]));
      require(cudaMallocAsync(&left, 5 << 20, streams[1]));
      if (ends) raise(SIGKILL);
      require(cudaFreeAsync(own, streams[0]));
    }
    require(cudaEventRecord(events[1], streams[1]));
    require(cudaStreamWaitEvent(streams[0], events[1], 0));
    require(cudaStreamEndCapture(streams[0], &graph));
    require(cudaGraphInstantiate(&exec, graph, 0));
    require(cudaGraphDestroy(graph));
    require(cudaGraphLaunch(exec, streams[0]));
    if (has_memory) require(cudaFreeAsync(left, streams[0]));
    require(cudaGraphLaunch(exec, streams[0]));
    require(cudaGraphExecDestroy(exec));
  }
  require(cudaFreeAsync(scratch, streams[0]));
}

// Two pools of the driver.
void driver_pools() {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {.type = cudaMemLocationTypeDevice, .id = 0};
  cudaMemPool_t pool = nullptr;
  require(cudaMemPoolCreate(&pool, &properties));
  void* pointer = nullptr;
  require(cudaMallocAsync(&pointer, 512, nullptr));
  require(cudaMallocFromPoolAsync(&pointer, 512, pool, nullptr));
}

// Nanoseconds of a pair of calls.
void measure(long pair_count) {
  void* pointer = nullptr;
  cudaMalloc(&pointer, 512);  // stays, so that no page comes and goes
  const auto begin = std::chrono::steady_clock::now();
  for (long i = 0; i < pair_count; ++i) {
    cudaMalloc(&pointer, 512);
    cudaFree(pointer);
  }
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
  std::printf("%.1f\n", time.count() / static_cast<double>(pair_count));
}

// Pinned memory between the device's: allocated, registered, and of a pool of the host's.
void pinned() {
  void* device = nullptr;
  void* pinned[3] = {};
  static char registered[8192];
  if (cudaMalloc(&device, 1000) != cudaSuccess) std::exit(3);
  if (cudaMallocHost(&pinned[0], 3000) != cudaSuccess) std::exit(3);
  if (cudaHostAlloc(&pinned[1], 5000, cudaHostAllocPortable) != cudaSuccess) std::exit(3);
  if (cudaHostRegister(registered, sizeof registered, 0) != cudaSuccess) std::exit(3);
  cudaFreeHost(pinned[0]);
  cudaHostUnregister(registered);
#if CUDART_VERSION >= 13000
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {.type = cudaMemLocationTypeHost, .id = 0};
  cudaMemPool_t pool = nullptr;
  if (cudaMemPoolCreate(&pool, &properties) != cudaSuccess) std::exit(3);
  if (cudaMallocFromPoolAsync(&pinned[2], 7000, pool, nullptr) != cudaSuccess) std::exit(3);
  cudaFreeAsync(pinned[2], nullptr);
#endif
  cudaFree(device);
  cudaDeviceReset();
}

int run(std::string_view what, const char* number) {
  if (what == "heap") heap(1, true);
  if (what == "pools" || what == "crosses") pools(what == "crosses");
  if (what == "threads") run_threads();
  if (what == "fork") run_fork();
  if (what == "vfork") run_vfork();
  if (what == "fails") fail_one();
  if (what == "marks") mark_steps();
  if (what == "graphs" || what == "ends_in_capture") graphs(what == "ends_in_capture");
  if (what == "driver_pools") driver_pools();
  if (what == "pinned") pinned();
  if (what == "measure") measure(std::atol(number));
  if (what == "exits") {
    heap(1, false);
    _exit(5);
  }
  if (what == "crashes" || what == "is_killed") {
    heap(1, false);
    raise(what == "crashes" ? SIGSEGV : SIGKILL);
  }
  if (what == "waits") {
    heap(1, false);
    std::printf("ready\n");
    std::fflush(stdout);
    pause();
  }
  if (what == "closes") {  // as daemons do
    heap(1, false);
    for (int fd = 3; fd < 256; ++fd) close(fd);
    for (std::uint64_t i = 0; i < 200; ++i) heap(i, false);
  }
  return 0;
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count < 2) return 2;
  return run(arguments[1], argument_count > 2 ? arguments[2] : "1000");
}
