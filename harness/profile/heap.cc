// cudaMalloc and cudaFree as programs use them: mixed sizes over a set of live blocks. Whether a
// call takes pages from the device or is served by a slab that exists shows in the device's free
// memory; asking would disturb the next call, so a fixed sequence is run once to ask and once more,
// to the same effect, to time.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <span>
#include <vector>

#include "allocators/cuda_check.h"
#include "base/bytes.h"
#include "base/random.h"
#include "harness/ballast.h"
#include "harness/profile/blocks.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kPageBytes = 2 * kMiB;

// How often a program asks for which size, roughly.
struct SizeShare {
  std::uint64_t size_bytes;
  std::uint32_t share;
};
// Variable-length inference (recorded with BERT) and training (with GPT-2), in round sizes.
constexpr SizeShare kSmallProgramSizes[] = {{512, 8},       {4 * kKiB, 12},  {64 * kKiB, 10},
                                            {kMiB, 8},      {2 * kMiB, 14},  {4 * kMiB, 14},
                                            {8 * kMiB, 14}, {16 * kMiB, 10}, {32 * kMiB, 6},
                                            {64 * kMiB, 3}, {128 * kMiB, 1}};
constexpr SizeShare kLargeProgramSizes[] = {
    {512, 5},        {4 * kKiB, 20},  {64 * kKiB, 8},  {kMiB, 4},      {2 * kMiB, 5},
    {4 * kMiB, 7},   {8 * kMiB, 20},  {16 * kMiB, 7},  {32 * kMiB, 9}, {64 * kMiB, 12},
    {128 * kMiB, 8}, {256 * kMiB, 4}, {512 * kMiB, 1}, {kGiB, 1}};

struct Program {
  std::span<const SizeShare> sizes;
  std::uint64_t live_bytes_max = 0;
  std::uint32_t slot_count = 0;
  std::uint32_t step_count = 0;
};
constexpr Program kSmallProgram = {
    .sizes = kSmallProgramSizes, .live_bytes_max = kGiB, .slot_count = 256, .step_count = 4000};
constexpr Program kLargeProgram = {.sizes = kLargeProgramSizes,
                                   .live_bytes_max = 18 * kGiB,
                                   .slot_count = 1024,
                                   .step_count = 4000};

std::uint64_t draw_size(std::span<const SizeShare> sizes, Random& random) {
  std::uint32_t sum = 0;
  for (const SizeShare& size : sizes) sum += size.share;
  std::uint64_t at = random.below(sum);
  for (const SizeShare& size : sizes) {
    if (at < size.share) return size.size_bytes;
    at -= size.share;
  }
  return sizes.back().size_bytes;
}

// One request or one free of a slot's block.
struct Step {
  std::uint32_t slot = 0;
  std::uint64_t size_bytes = 0;
  bool is_free = false;
  bool moves_pages = false;  // the device's free memory changes
  // The program has reached its size: what is measured before says little about its level.
  bool is_full_grown = false;
  std::uint64_t duration_ns = 0;
};

// Every slot is empty again at the end.
std::vector<Step> make_steps(const Program& program, std::uint64_t seed) {
  Random random(seed);
  std::vector<Step> steps;
  std::vector<std::uint64_t> sizes(program.slot_count, 0);
  std::uint64_t live_bytes = 0;
  const auto is_full_grown = [&] { return live_bytes >= program.live_bytes_max / 2; };
  const auto give_back = [&](std::uint32_t slot) {
    steps.push_back({.slot = slot,
                     .size_bytes = sizes[slot],
                     .is_free = true,
                     .is_full_grown = is_full_grown()});
    live_bytes -= sizes[slot];
    sizes[slot] = 0;
  };
  while (steps.size() < program.step_count) {
    const auto slot = static_cast<std::uint32_t>(random.below(program.slot_count));
    const std::uint64_t size_bytes = draw_size(program.sizes, random);
    if (sizes[slot] != 0) {
      give_back(slot);
    } else if (live_bytes + size_bytes <= program.live_bytes_max) {
      sizes[slot] = size_bytes;
      live_bytes += size_bytes;
      steps.push_back({.slot = slot, .size_bytes = size_bytes, .is_full_grown = is_full_grown()});
    }
  }
  for (std::uint32_t slot = 0; slot < program.slot_count; ++slot) {
    if (sizes[slot] != 0) give_back(slot);
  }
  return steps;
}

void check(cudaError_t error) { ALLOCMARK_CUDA_CHECK(error); }

void run_asking(std::vector<Step>& steps, std::uint32_t slot_count) {
  std::vector<void*> blocks(slot_count);
  for (Step& step : steps) {
    const std::uint64_t before_bytes = device_free_bytes();
    check(step.is_free ? cudaFree(blocks[step.slot])
                       : cudaMalloc(&blocks[step.slot], step.size_bytes));
    step.moves_pages = device_free_bytes() != before_bytes;
  }
}

void run_timed(std::vector<Step>& steps, std::uint32_t slot_count, const DriverTimer& time) {
  std::vector<void*> blocks(slot_count);
  for (Step& step : steps) {
    void*& block = blocks[step.slot];
    step.duration_ns = step.is_free ? time([&] { check(cudaFree(block)); })
                                    : time([&] { check(cudaMalloc(&block, step.size_bytes)); });
  }
}

std::uint64_t whole_pages(std::uint64_t size_bytes) {
  return (size_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

// Which call in a row it is that a slab serves; the simulated device counts alike.
constexpr std::uint64_t kQuickCallsMax = 8;

void churn(const BlockSetup& setup, const Program& program, std::uint64_t level) {
  std::vector<Step> steps = make_steps(program, setup.seed);
  run_asking(steps, program.slot_count);
  run_timed(steps, program.slot_count, setup.time);
  std::uint64_t quick_calls = 0;
  for (const Step& step : steps) {
    if (!step.moves_pages) {
      quick_calls = std::min(quick_calls + 1, kQuickCallsMax);
      setup.out.add(step.is_free ? "cudaFree.slab" : "cudaMalloc.slab", quick_calls,
                    step.duration_ns);
      continue;
    }
    quick_calls = 0;
    if (!step.is_full_grown) continue;
    if (step.is_free) {
      setup.out.add({"cudaFree", level}, whole_pages(step.size_bytes), step.duration_ns);
    } else {
      setup.out.add({"cudaMalloc", level}, step.size_bytes, step.duration_ns);
    }
  }
}

// What a nearly full device leaves to the program.
constexpr std::uint64_t kFullLeftBytes = 20 * kGiB;
// Longer than the device takes to clear all its memory.
constexpr std::uint64_t kCleaningNs = 600'000'000;

void run_full(const BlockSetup& setup) {
  const Ballast ballast(kFullLeftBytes);
  const std::uint64_t level = full_level(setup.device_bytes);
  churn(setup, kLargeProgram, level);
  measure_chunks(setup, level);
  measure_handles(setup, level);
  constexpr std::uint32_t kFailureCount = 4;
  for (std::uint32_t i = 0; i < kFailureCount; ++i) {
    void* block = nullptr;
    cudaError_t error = cudaSuccess;
    const std::uint64_t duration_ns =
        setup.time([&] { error = cudaMalloc(&block, kFullLeftBytes + kGiB); });
    if (!is_out_of_memory(error)) check(error);
    setup.out.add("cudaMalloc.out_of_memory", 0, duration_ns);
  }
}

}  // namespace

void measure_heap(const BlockSetup& setup) {
  churn(setup, kSmallProgram, kSmallProgramBytes);
  if (setup.device_bytes > 2 * kLargeProgram.live_bytes_max) {
    churn(setup, kLargeProgram, kLargeProgramBytes);
  }
}

void measure_full_device(const BlockSetup& setup) {
  if (setup.device_bytes < 2 * kFullLeftBytes) return;
  run_full(setup);
  // What held the memory back is cleared now, and would disturb the next block.
  setup.work.launch(nullptr, kCleaningNs);
  check(cudaDeviceSynchronize());
}

void measure_large_blocks(const BlockSetup& setup) {
  for (const std::uint64_t size_bytes : {kGiB, 4 * kGiB, 16 * kGiB}) {
    if (size_bytes > setup.device_bytes / 2) return;
    const std::uint64_t count = 8 * kGiB / size_bytes + 1;
    for (std::uint64_t i = 0; i < count; ++i) {
      void* block = nullptr;
      setup.out.add({"cudaMalloc", kSmallProgramBytes}, size_bytes,
                    setup.time([&] { check(cudaMalloc(&block, size_bytes)); }));
      setup.out.add({"cudaFree", kSmallProgramBytes}, size_bytes,
                    setup.time([&] { check(cudaFree(block)); }));
    }
  }
}

}  // namespace allocmark
