// A program with threads on the simulated CUDA runtime, built plain and under sanitizers by
// sanitizer_test.sh. In: clean, race (two threads write one variable), late_race (they do so
// between calls), ordered (one reads what the other's work has copied), outside (a host buffer is
// read beyond its end by a copy), device (the host writes to a device pointer); addresses; or
// reservations. Out: "done"; or, without threads, addresses relative to the first one, which no
// sanitizer may change, or how many large ranges there are addresses for.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "harness/simcuda/simcu.h"

namespace {

int unprotected_counter = 0;

void must(int error, const char* what) {
  if (error != 0) {
    std::printf("%s: error %d\n", what, error);
    std::exit(2);
  }
}

// simcuda's own functions and the driver's are not in the library that the linker is given.
template <class Function>
Function* find(const char* name) {
  auto* const function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  must(function == nullptr, name);
  return function;
}
#define FIND(name) find<decltype(name)>(#name)

std::uint64_t number(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

// Blocks of the heap, a pool, and reservations with large alignments, in a fixed order.
void print_addresses() {
  std::vector<void*> blocks;
  for (const std::uint64_t size_bytes : {1 << 20, 600, 3 << 20, 200 << 20, 1 << 20, 40 << 20}) {
    void* block = nullptr;
    must(cudaMalloc(&block, size_bytes), "cudaMalloc");
    blocks.push_back(block);
  }
  for (const std::uint64_t size_bytes : {4 << 20, 64 << 20, 512}) {
    void* block = nullptr;
    must(cudaMallocAsync(&block, size_bytes, nullptr), "cudaMallocAsync");
    blocks.push_back(block);
  }
  const std::uint64_t heap = number(blocks[0]);
  const std::uint64_t area = number(blocks[6]);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    std::printf("%lld\n", static_cast<long long>(number(blocks[i]) - (i < 6 ? heap : area)));
  }
  for (const std::uint64_t alignment_bytes : {std::uint64_t{1} << 25, std::uint64_t{1} << 38}) {
    CUdeviceptr place = 0;
    must(FIND(cuMemAddressReserve)(&place, std::uint64_t{1} << 40, alignment_bytes, 0, 0),
         "reserve");
    std::printf("%lld\n", static_cast<long long>(place - area));
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    must(i < 6 ? cudaFree(blocks[i]) : cudaFreeAsync(blocks[i], nullptr), "free");
  }
}

// As PyTorch's expandable segments on a device of 140 GiB make them, one for each stream.
void count_reservations() {
  constexpr std::uint64_t kRangeBytes = (std::uint64_t{140} << 30) / 8 * 9;
  constexpr int kCountMax = 600;
  must(cudaFree(nullptr), "cudaFree");  // initialises the driver
  const auto reserve = FIND(cuMemAddressReserve);
  int count = 0;
  CUdeviceptr place = 0;
  while (count < kCountMax && reserve(&place, kRangeBytes, 0, 0, 0) == CUDA_SUCCESS) ++count;
  std::printf("%d\n", count);
}

void use_device(bool race) {
  if (race) {
    ++unprotected_counter;
  }
  const auto view = FIND(simcu_view);
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  must(cudaStreamCreate(&stream), "cudaStreamCreate");
  must(cudaEventCreate(&event), "cudaEventCreate");
  std::array<unsigned char, 64> bytes{};
  for (unsigned char round = 0; round < 50; ++round) {
    void* block = nullptr;
    void* pooled = nullptr;
    must(cudaMalloc(&block, 1 << 20), "cudaMalloc");
    must(cudaMallocAsync(&pooled, 4 << 20, stream), "cudaMallocAsync");
    if (void* const shown = view(block, bytes.size()); shown != nullptr) {
      static_cast<unsigned char*>(shown)[round] = round;  // by instrumented code
    } else {
      must(1, "simcu_view");
    }
    must(cudaMemcpyAsync(pooled, block, bytes.size(), cudaMemcpyDeviceToDevice, stream), "copy");
    must(cudaMemcpyAsync(bytes.data(), pooled, bytes.size(), cudaMemcpyDeviceToHost, stream),
         "copy");
    must(cudaEventRecord(event, stream), "cudaEventRecord");
    must(cudaEventSynchronize(event), "cudaEventSynchronize");
    must(bytes[round] != round, "contents");
    must(cudaFreeAsync(pooled, stream), "cudaFreeAsync");
    must(cudaFree(block), "cudaFree");
  }
  must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  must(cudaEventDestroy(event), "cudaEventDestroy");
  must(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

// Calls of two threads that have nothing in common but the device.
void write_between_calls() {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  must(cudaStreamCreate(&stream), "cudaStreamCreate");
  must(cudaEventCreate(&event), "cudaEventCreate");
  for (int round = 0; round < 2000; ++round) {
    ++unprotected_counter;
    void* block = nullptr;
    void* pooled = nullptr;
    must(cudaEventRecord(event, stream), "cudaEventRecord");
    must(cudaMalloc(&block, 1 << 20), "cudaMalloc");
    must(cudaMallocAsync(&pooled, 4 << 20, stream), "cudaMallocAsync");
    must(cudaFreeAsync(pooled, stream), "cudaFreeAsync");
    must(cudaFree(block), "cudaFree");
  }
}

void race_between_calls() {
  std::array<std::thread, 2> threads;
  for (std::thread& thread : threads) thread = std::thread(&write_between_calls);
  for (std::thread& thread : threads) thread.join();
}

// The event alone orders the copy before the read: the flag tells of it and orders nothing.
void read_after_event() {
  std::atomic<bool> recorded{false};
  cudaEvent_t event = nullptr;
  must(cudaEventCreate(&event), "cudaEventCreate");
  std::array<unsigned char, 64> bytes{};
  std::thread writer([&] {
    void* block = nullptr;
    cudaStream_t stream = nullptr;
    must(cudaStreamCreate(&stream), "cudaStreamCreate");
    must(cudaMalloc(&block, bytes.size()), "cudaMalloc");
    must(cudaMemsetAsync(block, 3, bytes.size(), stream), "cudaMemsetAsync");
    must(cudaMemcpyAsync(bytes.data(), block, bytes.size(), cudaMemcpyDeviceToHost, stream),
         "cudaMemcpyAsync");
    must(cudaEventRecord(event, stream), "cudaEventRecord");
    recorded.store(true, std::memory_order_relaxed);
  });
  while (!recorded.load(std::memory_order_relaxed)) std::this_thread::yield();
  must(cudaEventSynchronize(event), "cudaEventSynchronize");
  must(bytes[9] != 3, "contents");
  writer.join();
}

// One more byte than the buffer has: only a sanitizer sees it.
void copy_from_outside() {
  void* block = nullptr;
  must(cudaMalloc(&block, 1 << 20), "cudaMalloc");
  const std::vector<unsigned char> bytes(100);
  must(cudaMemcpy(block, bytes.data(), bytes.size() + 1, cudaMemcpyHostToDevice), "cudaMemcpy");
}

void write_to_device_pointer() {
  void* block = nullptr;
  must(cudaMalloc(&block, 1 << 20), "cudaMalloc");
  *static_cast<volatile char*>(block) = 1;
}

}  // namespace

int main(int argument_count, char** arguments) {
  const std::string mode = argument_count == 2 ? arguments[1] : "";
  if (mode == "addresses") {
    print_addresses();
    return 0;
  }
  if (mode == "reservations") {
    count_reservations();
    return 0;
  }
  if (mode == "late_race") {
    race_between_calls();
    return 0;
  }
  if (mode == "ordered") {
    read_after_event();
    std::printf("done\n");
    return 0;
  }
  std::array<std::thread, 2> first;  // the first calls of all come from two threads
  for (std::thread& thread : first) {
    thread = std::thread([&] { use_device(mode == "race"); });
  }
  for (std::thread& thread : first) {
    thread.join();
  }
  if (mode == "outside") {
    copy_from_outside();
  } else if (mode == "device") {
    write_to_device_pointer();
  }
  std::printf("done\n");
}
