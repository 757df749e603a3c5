// How often threads of a program that knows nothing of it run into the race of
// cub::CachingDeviceAllocator. Nothing is stopped here: the threads run as the system lets them.
//
//   cub_rate THREADS STEPS SEED      a line: seed, frees, blocks out of order, failed frees
#define CCCL_IGNORE_DEPRECATED_API
#include <cuda_runtime.h>

#include <atomic>
#include <cub/util_allocator.cuh>
#include <random>
#include <vector>

#include "tests/museum/probe.h"

namespace {

struct Counts {
  std::atomic<std::uint64_t> frees = 0;
  std::atomic<std::uint64_t> unordered = 0;  // the order check found no order behind the old use
  std::atomic<std::uint64_t> failed = 0;     // DeviceFree returned an error
};

// Blocks of 64 KiB to 2 MiB, up to four live ones, a kernel of 10 us in each.
void serve(cub::CachingDeviceAllocator& cub, std::uint64_t seed, std::uint64_t steps,
           Counts& counts) {
  std::mt19937_64 random(seed);
  cudaStream_t const stream = museum::make_stream();
  std::vector<SimcuBlock> live;
  void* streams[] = {stream};
  for (std::uint64_t step = 0; step < steps; ++step) {
    if (live.size() == 4 || (!live.empty() && random() % 2 == 0)) {
      const SimcuBlock block = live.front();
      live.erase(live.begin());
      SIMCU(simcu_order_give_back)(&block, streams, 1);
      if (cub.DeviceFree(const_cast<void*>(block.pointer)) != cudaSuccess) ++counts.failed;
      ++counts.frees;
      continue;
    }
    const std::uint64_t size_bytes = std::uint64_t{64} << (10 + random() % 6);
    void* pointer = nullptr;
    MUSEUM_CHECK(cub.DeviceAllocate(&pointer, size_bytes, stream));
    const SimcuBlock block{pointer, size_bytes, step, (seed << 32) + step};
    SimcuUnorderedUse former{};
    if (SIMCU(simcu_order_take)(&block, stream, &former) != 0) ++counts.unordered;
    simcu::require(SIMCU(simcu_launch)(stream, 10'000) == 0);
    live.push_back(block);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s THREADS STEPS SEED\n", argv[0]);
    return 2;
  }
  const std::uint64_t thread_count = std::strtoull(argv[1], nullptr, 10);
  const std::uint64_t steps = std::strtoull(argv[2], nullptr, 10);
  const std::uint64_t seed = std::strtoull(argv[3], nullptr, 10);
  try {
    auto& cub = *new cub::CachingDeviceAllocator;
    Counts counts;
    MUSEUM_CHECK(cudaFree(nullptr));
    simcu::require(SIMCU(simcu_order_begin)() == 0);
    std::vector<std::thread> threads;
    for (std::uint64_t i = 0; i < thread_count; ++i) {
      threads.emplace_back([&, i] { serve(cub, seed * 100 + i, steps, counts); });
    }
    for (std::thread& thread : threads) thread.join();
    std::printf("%llu,%llu,%llu,%llu\n", static_cast<unsigned long long>(seed),
                static_cast<unsigned long long>(counts.frees.load()),
                static_cast<unsigned long long>(counts.unordered.load()),
                static_cast<unsigned long long>(counts.failed.load()));
  } catch (const std::exception& thrown) {
    std::fprintf(stderr, "cub_rate: %s\n", thrown.what());
    return 1;
  }
  std::fflush(stdout);
  _exit(0);
}
