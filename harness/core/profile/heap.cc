// cudaMalloc and cudaFree as programs use them: two recorded programs are replayed. Whether a call
// takes pages from the device or is served by a slab that exists shows in the device's free memory;
// asking would disturb the next call, so the programs are run once to ask and then, to the same
// effect, to time.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"
#include "harness/core/profile/blocks.h"
#include "harness/core/profile/program.h"
#include "harness/core/replay/ballast.h"
#include "harness/simcuda/core/units.h"

namespace allocmark {
namespace {

// One program and what its calls do on this device: the same every time, since placement follows
// from the sequence alone.
struct KnownProgram {
  SlotProgram program;
  std::vector<bool> moves_pages;  // by step: the device's free memory changes
};

// After step `index` of the program.
void check_step(const BlockSetup& setup, const SlotProgram& program, std::size_t index,
                cudaError_t error) {
  if (is_out_of_memory(error)) {
    throw_no_memory(setup, {.call = "cudaMalloc",
                            .size_bytes = program.steps[index].size_bytes,
                            .held_bytes = held_bytes_before(program, index)});
  }
  ALLOCMARK_CUDA_CHECK(error);
}

KnownProgram ask_heap(const BlockSetup& setup, std::string_view name) {
  KnownProgram known{.program = load_program(name), .moves_pages = {}};
  std::vector<void*> blocks(known.program.slot_count);
  // Twice: the first time starts on a heap that nobody has used.
  for (int i = 0; i < 2; ++i) {
    known.moves_pages.clear();
    for (std::size_t index = 0; index < known.program.steps.size(); ++index) {
      const SlotStep& step = known.program.steps[index];
      const std::uint64_t before_bytes = device_free_bytes();
      check_step(setup, known.program, index,
                 step.is_free ? cudaFree(blocks[step.slot])
                              : cudaMalloc(&blocks[step.slot], step.size_bytes));
      known.moves_pages.push_back(device_free_bytes() != before_bytes);
    }
  }
  return known;
}

std::vector<std::uint64_t> run_timed(const BlockSetup& setup, const SlotProgram& program) {
  const DriverTimer& time = setup.time;
  std::vector<void*> blocks(program.slot_count);
  cudaError_t error = cudaSuccess;
  std::vector<std::uint64_t> durations_ns;
  durations_ns.reserve(program.steps.size());
  for (const SlotStep& step : program.steps) {
    void*& block = blocks[step.slot];
    durations_ns.push_back(step.is_free ? time([&] { error = cudaFree(block); }) : time([&] {
      error = cudaMalloc(&block, step.size_bytes);
    }));
    check_step(setup, program, durations_ns.size() - 1, error);
  }
  return durations_ns;
}

// Rows stand at 1, 2, 3, 4, 6, 8, 12, ... MiB: a size counts for the nearest.
std::uint64_t row_size(std::uint64_t size_bytes) {
  if (size_bytes <= kMiB + kMiB / 2) return kMiB;
  std::uint64_t power = 2 * kMiB;
  while (power * 7 / 4 < size_bytes) power *= 2;
  return size_bytes > power * 5 / 4 ? power * 3 / 2 : power;
}

// Which call in a row it is that a slab serves; the simulated device counts alike.
constexpr std::uint64_t kQuickCallsMax = 8;

// A request that had to wait for memory to be cleared is another cost (cleaning.cc).
constexpr std::uint64_t kCleaningNsMin = 3'000'000;

void replay(const BlockSetup& setup, const KnownProgram& known, std::uint64_t level) {
  const std::vector<std::uint64_t> durations_ns = run_timed(setup, known.program);
  std::uint64_t quick_calls = 0;
  for (std::size_t i = 0; i < durations_ns.size(); ++i) {
    const SlotStep& step = known.program.steps[i];
    if (!known.moves_pages[i]) {
      quick_calls = std::min(quick_calls + 1, kQuickCallsMax);
      setup.out.add(step.is_free ? "cudaFree.slab" : "cudaMalloc.slab", quick_calls,
                    durations_ns[i]);
      continue;
    }
    quick_calls = 0;
    if (step.is_free) {
      setup.out.add({"cudaFree", level},
                    row_size(simcuda::round_up(step.size_bytes, simcuda::kPageBytes)),
                    durations_ns[i]);
    } else if (durations_ns[i] < kCleaningNsMin) {
      setup.out.add({"cudaMalloc", level}, row_size(step.size_bytes), durations_ns[i]);
    }
  }
}

const KnownProgram& small_program(const BlockSetup& setup) {
  static const KnownProgram known = ask_heap(setup, kSmallProgramName);
  return known;
}
const KnownProgram& large_program(const BlockSetup& setup) {
  static const KnownProgram known = ask_heap(setup, kLargeProgramName);
  return known;
}

// What a nearly full device leaves to the program.
constexpr std::uint64_t kFullLeftBytes = 22 * kGiB;
// Longer than the device takes to clear all its memory.
constexpr std::uint64_t kCleaningNs = 600'000'000;

// Requests that fail because the device is full, in the sizes that large requests have.
void measure_failures(const BlockSetup& setup) {
  void* rest = nullptr;
  ALLOCMARK_CUDA_CHECK(cudaMalloc(&rest, kFullLeftBytes - kGiB / 2));
  for (const std::uint64_t size_bytes : {kGiB, 2 * kGiB}) {
    for (int i = 0; i < 3; ++i) {
      void* block = nullptr;
      cudaError_t error = cudaSuccess;
      const std::uint64_t duration_ns = setup.time([&] { error = cudaMalloc(&block, size_bytes); });
      if (!is_out_of_memory(error)) ALLOCMARK_CUDA_CHECK(error);
      setup.out.add("cudaMalloc.out_of_memory", 0, duration_ns);
    }
  }
  ALLOCMARK_CUDA_CHECK(cudaFree(rest));
}

void run_full(const BlockSetup& setup) {
  const Ballast ballast(kFullLeftBytes);
  const std::uint64_t level = full_level(setup.device_bytes);
  BlockSetup left = setup;
  left.device_bytes = kFullLeftBytes;
  measure_handles(left, level);
  measure_pool_programs(left, level);
  // What was given back is cleared now.
  setup.work.launch(nullptr, kCleaningNs / 4);
  ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
  replay(left, small_program(left), level);
  replay(left, large_program(left), level);
  measure_failures(setup);
}

}  // namespace

void measure_small_heap(const BlockSetup& setup) {
  replay(setup, small_program(setup), kSmallProgramBytes);
}

void measure_heap(const BlockSetup& setup) {
  measure_small_heap(setup);
  if (setup.device_bytes > 2 * kLargeProgramBytesMax) {
    replay(setup, large_program(setup), kLargeProgramBytes);
  }
}

void measure_full_device(const BlockSetup& setup) {
  if (setup.device_bytes < 2 * kFullLeftBytes) return;
  run_full(setup);
  // What held the memory back is cleared now, and would disturb the next block; so would the first
  // large request after it, which takes tens of milliseconds on an H200.
  setup.work.launch(nullptr, kCleaningNs);
  ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
  void* block = nullptr;
  ALLOCMARK_CUDA_CHECK(cudaMalloc(&block, 16 * kGiB));
  ALLOCMARK_CUDA_CHECK(cudaFree(block));
}

void measure_large_blocks(const BlockSetup& setup) {
  for (const std::uint64_t size_bytes : {kGiB, 4 * kGiB, 16 * kGiB}) {
    if (size_bytes > setup.device_bytes / 2) return;
    const std::uint64_t count = 8 * kGiB / size_bytes + 1;
    for (std::uint64_t i = 0; i < count; ++i) {
      void* block = nullptr;
      cudaError_t error = cudaSuccess;
      const std::uint64_t duration_ns = setup.time([&] { error = cudaMalloc(&block, size_bytes); });
      if (is_out_of_memory(error)) {
        throw_no_memory(setup, {.call = "cudaMalloc", .size_bytes = size_bytes});
      }
      ALLOCMARK_CUDA_CHECK(error);
      setup.out.add({"cudaMalloc", kSmallProgramBytes}, size_bytes, duration_ns);
      setup.out.add({"cudaFree", kSmallProgramBytes}, size_bytes,
                    setup.time([&] { ALLOCMARK_CUDA_CHECK(cudaFree(block)); }));
    }
  }
}

}  // namespace allocmark
