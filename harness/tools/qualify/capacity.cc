// Test "capacity": how much of the free memory can be allocated, in large pieces and in small ones,
// in every way there is. Gives everything back.
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include "base/bytes.h"
#include "harness/core/replay/ballast.h"
#include "harness/core/replay/capacity.h"
#include "harness/tools/qualify/gpu_facts.h"
#include "harness/tools/qualify/memory_ways.h"
#include "harness/tools/qualify/repeat.h"
#include "harness/tools/qualify/test.h"

namespace allocmark::qualify {
namespace {

struct Pieces {
  std::uint64_t largest_bytes = 0, smallest_bytes = 0;
  // As much is left free by pieces of 1 GiB before; all of it where 0.
  std::uint64_t last_bytes = 0;
  const char* name = "";
};

std::vector<TakenBlock> take_all(MemoryWay& way, const Pieces& pieces, std::uint64_t free_bytes) {
  std::vector<TakenBlock> blocks;
  if (pieces.last_bytes != 0) {
    for (; free_bytes > pieces.last_bytes + kGiB; free_bytes -= kGiB) {
      const std::optional<TakenBlock> block = way.take(kGiB);
      if (!block) break;
      blocks.push_back(*block);
    }
  }
  const auto rest = fill(way, pieces.largest_bytes, pieces.smallest_bytes);
  blocks.insert(blocks.end(), rest.begin(), rest.end());
  return blocks;
}

Figure measure(MemoryWay& way, const Pieces& pieces) {
  way.settle();
  const std::uint64_t free_bytes = device_free_bytes();
  std::vector<TakenBlock> blocks = take_all(way, pieces, free_bytes);
  const std::uint64_t taken_bytes = total_bytes(blocks);
  const std::size_t block_count = blocks.size();
  give_back_all(way, blocks);
  return {.name = fmt::format("{}, {}", way.name(), pieces.name),
          .threshold = "capacity.share",
          .value = static_cast<double>(taken_bytes) / static_cast<double>(free_bytes),
          .note = fmt::format("{} of {} free, {} blocks", format_bytes(taken_bytes),
                              format_bytes(free_bytes), block_count)};
}

// The worst of all rounds stays.
void keep_worst(std::vector<Figure>& figures, const Figure& figure) {
  for (Figure& known : figures) {
    if (known.name != figure.name) continue;
    if (*figure.value < *known.value) known = figure;
    return;
  }
  figures.push_back(figure);
}

}  // namespace

TestAnswer run_capacity(const TestContext& context) {
  constexpr Pieces kLarge{kGiB, kDevicePageBytes, 0, "pieces of 1 GiB and smaller"};
  // The driver lets the calls of all GPUs one after the other: 140 GiB in pieces of 2 MiB take 43 s
  // on each of four GPUs at once (H200, 2026-11-26). So one round alone takes only the last of it.
  constexpr Pieces kSmall{kDevicePageBytes, kDevicePageBytes, 0, "pieces of 2 MiB"};
  constexpr Pieces kLastSmall{kDevicePageBytes, kDevicePageBytes, 16 * kGiB,
                              "the last 16 GiB in pieces of 2 MiB"};
  const Pieces& small = context.spec.seconds > 0 ? kSmall : kLastSmall;
  TestAnswer answer;
  for (Rounds rounds(context.spec.seconds); rounds.next();) {
    for (const std::unique_ptr<MemoryWay>& way : memory_ways()) {
      keep_worst(answer.figures, measure(*way, kLarge));
      if (way->name() == "cudaMalloc") keep_worst(answer.figures, measure(*way, small));
    }
  }
  constexpr const char* kTotal = "total memory";
  constexpr const char* kTotalThreshold = "capacity.total_of_baseline";
  const std::optional<Baseline> baseline = baseline_for(context);
  if (baseline) {
    answer.figures.push_back({.name = kTotal,
                              .threshold = kTotalThreshold,
                              .value = static_cast<double>(gpu_memory_bytes()) /
                                       static_cast<double>(baseline->memory_bytes),
                              .note = format_bytes(gpu_memory_bytes())});
  } else {
    answer.figures.push_back(
        unmeasured(kTotal, kTotalThreshold, "no baseline for this model", true));
  }
  return answer;
}

}  // namespace allocmark::qualify
