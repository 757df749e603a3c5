// Test "leaks": cycles of taking and giving back, in every way there is; the free memory must not
// shrink with their number. What the driver keeps for itself after the first cycles is told apart.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"
#include "harness/core/replay/ballast.h"
#include "harness/tools/qualify/memory_ways.h"
#include "harness/tools/qualify/repeat.h"
#include "harness/tools/qualify/test.h"

namespace allocmark::qualify {
namespace {

constexpr int kCyclesPerHalf = 32;
constexpr std::array<std::uint64_t, 6> kSizesBytes = {512,       64 * kKiB, 1 * kMiB,
                                                      20 * kMiB, 64 * kMiB, 256 * kMiB};
constexpr std::size_t kStreamCount = 8;

// How many bytes could not be had.
std::uint64_t memory_cycle(MemoryWay& way) {
  std::vector<TakenBlock> blocks;
  std::uint64_t refused_bytes = 0;
  for (const std::uint64_t size_bytes : kSizesBytes) {
    if (const std::optional<TakenBlock> block = way.take(size_bytes)) {
      blocks.push_back(*block);
    } else {
      refused_bytes += size_bytes;
    }
  }
  give_back_all(way, blocks);
  return refused_bytes;
}

std::uint64_t stream_cycle() {
  std::array<cudaStream_t, kStreamCount> streams{};
  std::array<cudaEvent_t, kStreamCount> events{};
  for (std::size_t i = 0; i < kStreamCount; ++i) {
    ALLOCMARK_CUDA_CHECK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    ALLOCMARK_CUDA_CHECK(cudaEventCreateWithFlags(&events[i], cudaEventDisableTiming));
    ALLOCMARK_CUDA_CHECK(cudaEventRecord(events[i], streams[i]));
  }
  ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
  for (std::size_t i = 0; i < kStreamCount; ++i) {
    ALLOCMARK_CUDA_CHECK(cudaEventDestroy(events[i]));
    ALLOCMARK_CUDA_CHECK(cudaStreamDestroy(streams[i]));
  }
  return 0;
}

double shrunk(std::uint64_t before_bytes, std::uint64_t after_bytes) {
  return before_bytes > after_bytes ? static_cast<double>(before_bytes - after_bytes) : 0;
}

void look_for_leaks(const std::string& name, double seconds,
                    const std::function<std::uint64_t()>& cycle, TestAnswer& answer) {
  const std::uint64_t free_before = device_free_bytes();
  const std::uint64_t refused_first = cycle();
  const std::uint64_t free_first = device_free_bytes();
  std::uint64_t refused_most = refused_first;
  const auto half = [&] {
    std::uint64_t cycle_count = 0;
    for (Rounds rounds(seconds / 2); rounds.next();) {
      for (int i = 0; i < kCyclesPerHalf; ++i) refused_most = std::max(refused_most, cycle());
      cycle_count += kCyclesPerHalf;
    }
    return cycle_count;
  };
  const std::uint64_t count_first = half();
  const std::uint64_t free_half = device_free_bytes();
  const std::uint64_t count_second = half();
  // Where all memory is gone it no longer shrinks.
  if (refused_most > refused_first) {
    answer.failure += fmt::format(
        "{}{}: memory that was given back is gone: {} free before, {} after {} cycles, and {} of a "
        "cycle could not be had any more",
        answer.failure.empty() ? "" : "; ", name, format_bytes(free_before),
        format_bytes(device_free_bytes()), 1 + count_first + count_second,
        format_bytes(refused_most));
  }
  answer.figures.push_back({.name = name + ", growing",
                            .threshold = "leaks.growth_bytes",
                            .value = shrunk(free_half, device_free_bytes()),
                            .note = fmt::format("in {} cycles", count_second)});
  answer.figures.push_back({.name = name + ", kept",
                            .threshold = "leaks.kept_bytes",
                            .value = shrunk(free_first, free_half),
                            .note = fmt::format("in {} cycles", count_first)});
}

}  // namespace

TestAnswer run_leaks(const TestContext& context) {
  TestAnswer answer;
  const auto ways = memory_ways();
  const double seconds = context.spec.seconds / static_cast<double>(ways.size() + 1);
  for (const std::unique_ptr<MemoryWay>& way : ways) {
    look_for_leaks(
        std::string(way->name()), seconds, [&] { return memory_cycle(*way); }, answer);
  }
  // Streams need memory, too.
  if (!answer.failure.empty()) return answer;
  look_for_leaks("streams and events", seconds, stream_cycle, answer);
  return answer;
}

}  // namespace allocmark::qualify
