// cudaMalloc and cudaFree as programs use them: mixed sizes over a set of live blocks. Whether a
// call takes pages from the device or is served by a slab that exists shows in the device's free
// memory; asking would disturb the next call, so a fixed sequence is run once to ask and once more,
// to the same effect, to time.
#include <cuda_runtime_api.h>

#include <array>
#include <memory>
#include <vector>

#include "allocators/cuda_check.h"
#include "base/bytes.h"
#include "base/random.h"
#include "harness/ballast.h"
#include "harness/profile/blocks.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kPageBytes = 2 * kMiB;
constexpr std::uint32_t kSlotCount = 128;
constexpr std::uint32_t kStepCount = 3000;

// How often a program asks for which size, roughly as the recorded traces do.
struct SizeShare {
  std::uint64_t size_bytes;
  std::uint32_t share;
};
constexpr std::array<SizeShare, 10> kSizes = {{{512, 20},
                                               {4 * kKiB, 15},
                                               {64 * kKiB, 10},
                                               {kMiB, 8},
                                               {2 * kMiB, 10},
                                               {4 * kMiB, 10},
                                               {8 * kMiB, 10},
                                               {20 * kMiB, 8},
                                               {64 * kMiB, 6},
                                               {256 * kMiB, 3}}};

std::uint64_t draw_size(Random& random) {
  std::uint32_t sum = 0;
  for (const SizeShare& size : kSizes) sum += size.share;
  std::uint64_t at = random.below(sum);
  for (const SizeShare& size : kSizes) {
    if (at < size.share) return size.size_bytes;
    at -= size.share;
  }
  return kSizes.back().size_bytes;
}

// One request or one free of a slot's block.
struct Step {
  std::uint32_t slot = 0;
  std::uint64_t size_bytes = 0;
  bool is_free = false;
  bool moves_pages = false;  // the device's free memory changes
  std::uint64_t duration_ns = 0;
};

// Every slot is empty again at the end. At most `live_bytes_max` are live at once.
std::vector<Step> make_steps(std::uint64_t seed, std::uint64_t live_bytes_max) {
  Random random(seed);
  std::vector<Step> steps;
  std::array<std::uint64_t, kSlotCount> sizes{};
  std::uint64_t live_bytes = 0;
  const auto give_back = [&](std::uint32_t slot) {
    steps.push_back({.slot = slot, .size_bytes = sizes[slot], .is_free = true});
    live_bytes -= sizes[slot];
    sizes[slot] = 0;
  };
  while (steps.size() < kStepCount) {
    const auto slot = static_cast<std::uint32_t>(random.below(kSlotCount));
    if (sizes[slot] != 0) {
      give_back(slot);
      continue;
    }
    const std::uint64_t size_bytes = draw_size(random);
    if (live_bytes + size_bytes > live_bytes_max) continue;
    sizes[slot] = size_bytes;
    live_bytes += size_bytes;
    steps.push_back({.slot = slot, .size_bytes = size_bytes});
  }
  for (std::uint32_t slot = 0; slot < kSlotCount; ++slot) {
    if (sizes[slot] != 0) give_back(slot);
  }
  return steps;
}

void check(cudaError_t error) { ALLOCMARK_CUDA_CHECK(error); }

void run_asking(std::vector<Step>& steps) {
  std::array<void*, kSlotCount> blocks{};
  for (Step& step : steps) {
    const std::uint64_t before_bytes = device_free_bytes();
    check(step.is_free ? cudaFree(blocks[step.slot])
                       : cudaMalloc(&blocks[step.slot], step.size_bytes));
    step.moves_pages = device_free_bytes() != before_bytes;
  }
}

void run_timed(std::vector<Step>& steps, const DriverTimer& time) {
  std::array<void*, kSlotCount> blocks{};
  for (Step& step : steps) {
    if (step.is_free) {
      step.duration_ns = time([&] { check(cudaFree(blocks[step.slot])); });
    } else {
      step.duration_ns = time([&] { check(cudaMalloc(&blocks[step.slot], step.size_bytes)); });
    }
  }
}

std::uint64_t whole_pages(std::uint64_t size_bytes) {
  return (size_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

std::vector<Step> churn(const BlockSetup& setup, std::uint64_t live_bytes_max) {
  std::vector<Step> steps = make_steps(setup.seed, live_bytes_max);
  run_asking(steps);
  run_timed(steps, setup.time);
  return steps;
}

constexpr std::uint64_t kLiveBytesMax = 4 * kGiB;
constexpr std::uint64_t kFullLeftBytes = 5 * kGiB;
constexpr std::uint32_t kFailureCount = 4;

}  // namespace

void measure_heap(const BlockSetup& setup) {
  for (const Step& step : churn(setup, kLiveBytesMax)) {
    if (!step.moves_pages) {
      setup.out.add(step.is_free ? "cudaFree.slab" : "cudaMalloc.slab", 0, step.duration_ns);
    } else if (step.is_free) {
      setup.out.add("cudaFree", whole_pages(step.size_bytes), step.duration_ns);
    } else {
      setup.out.add("cudaMalloc", step.size_bytes, step.duration_ns);
    }
  }
}

void measure_full_device(const BlockSetup& setup) {
  const std::uint64_t free_bytes = device_free_bytes();
  if (free_bytes < 2 * kFullLeftBytes) return;
  const Ballast ballast(kFullLeftBytes);
  for (const Step& step : churn(setup, kLiveBytesMax)) {
    if (!step.moves_pages) continue;
    setup.out.add(step.is_free ? "full.cudaFree" : "full.cudaMalloc", whole_pages(step.size_bytes),
                  step.duration_ns);
  }
  for (std::uint32_t i = 0; i < kFailureCount; ++i) {
    void* block = nullptr;
    cudaError_t error = cudaSuccess;
    const std::uint64_t duration_ns =
        setup.time([&] { error = cudaMalloc(&block, 2 * kFullLeftBytes); });
    if (!is_out_of_memory(error)) check(error);
    setup.out.add("cudaMalloc.out_of_memory", 0, duration_ns);
  }
}

void measure_large_blocks(const BlockSetup& setup) {
  const std::uint64_t free_bytes = device_free_bytes();
  for (const std::uint64_t size_bytes : {kGiB, 4 * kGiB, 16 * kGiB}) {
    if (size_bytes > free_bytes / 2) return;
    const std::uint64_t count = 8 * kGiB / size_bytes + 1;
    for (std::uint64_t i = 0; i < count; ++i) {
      void* block = nullptr;
      setup.out.add("cudaMalloc", size_bytes,
                    setup.time([&] { check(cudaMalloc(&block, size_bytes)); }));
      setup.out.add("cudaFree", size_bytes, setup.time([&] { check(cudaFree(block)); }));
    }
  }
}

}  // namespace allocmark
