// Test "recovery": the GPU is filled until it says no, must still work then, and must have as much
// memory as before once everything is given back.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"
#include "harness/core/replay/ballast.h"
#include "harness/core/replay/capacity.h"
#include "harness/tools/qualify/memory_ways.h"
#include "harness/tools/qualify/repeat.h"
#include "harness/tools/qualify/test.h"

namespace allocmark::qualify {
namespace {

// What a full GPU must still do; empty where it does.
std::string problem_when_full(MemoryWay& way, std::vector<TakenBlock>& blocks) {
  if (blocks.empty()) return "nothing could be allocated at all";
  if (const cudaError_t error = cudaPeekAtLastError(); error != cudaSuccess) {
    return fmt::format("a failed request left the error state {}", cudaGetErrorName(error));
  }
  // Work on memory that is there must go on.
  ALLOCMARK_CUDA_CHECK(cudaMemsetAsync(blocks.front().pointer, 0, kDevicePageBytes, nullptr));
  ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
  // What is given back must be there for the next request.
  const TakenBlock freed = blocks.back();
  blocks.pop_back();
  way.give_back(freed);
  way.settle();
  const std::optional<TakenBlock> again = way.take(freed.size_bytes);
  if (!again) {
    return fmt::format("a block of {} was freed on the full GPU and could not be had again",
                       format_bytes(freed.size_bytes));
  }
  blocks.push_back(*again);
  return "";
}

struct Filling {
  std::uint64_t taken_bytes = 0;
  std::uint64_t free_bytes_after = 0;
  std::string problem;
};

Filling fill_and_empty(MemoryWay& way) {
  Filling filling;
  std::vector<TakenBlock> blocks = fill(way, kGiB, kDevicePageBytes);
  filling.taken_bytes = total_bytes(blocks);
  filling.problem = problem_when_full(way, blocks);
  give_back_all(way, blocks);
  filling.free_bytes_after = device_free_bytes();
  return filling;
}

double lost(std::uint64_t before_bytes, std::uint64_t after_bytes) {
  return before_bytes > after_bytes ? static_cast<double>(before_bytes - after_bytes) : 0;
}

}  // namespace

TestAnswer run_recovery(const TestContext& context) {
  TestAnswer answer;
  const auto ways = memory_ways();
  for (const std::unique_ptr<MemoryWay>& way : ways) {
    const Filling first = fill_and_empty(*way);
    Filling last = first;
    std::uint64_t taken_bytes_min = UINT64_MAX;
    std::string problem = first.problem;
    const double seconds = context.spec.seconds / static_cast<double>(ways.size());
    Rounds rounds(seconds);
    while (rounds.next()) {
      last = fill_and_empty(*way);
      taken_bytes_min = std::min(taken_bytes_min, last.taken_bytes);
      if (problem.empty()) problem = last.problem;
    }
    if (!problem.empty()) {
      answer.failure +=
          fmt::format("{}{}: {}", answer.failure.empty() ? "" : "; ", way->name(), problem);
      continue;
    }
    answer.figures.push_back(
        {.name = fmt::format("{}, filled again", way->name()),
         .threshold = "recovery.capacity_again",
         .value = static_cast<double>(taken_bytes_min) / static_cast<double>(first.taken_bytes),
         .note = fmt::format("{} times, {}", rounds.count(), format_bytes(taken_bytes_min))});
    answer.figures.push_back({.name = fmt::format("{}, memory lost", way->name()),
                              .threshold = "recovery.lost_bytes",
                              .value = lost(first.free_bytes_after, last.free_bytes_after)});
  }
  return answer;
}

}  // namespace allocmark::qualify
