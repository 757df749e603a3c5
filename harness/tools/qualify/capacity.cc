// Test "capacity": how much of the free memory can be allocated, in large pieces and in small ones,
// in every way there is. Gives everything back.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include "base/bytes.h"
#include "harness/core/replay/ballast.h"
#include "harness/core/replay/capacity.h"
#include "harness/tools/qualify/gpu_facts.h"
#include "harness/tools/qualify/memory_ways.h"
#include "harness/tools/qualify/repeat.h"
#include "harness/tools/qualify/tests.h"

namespace allocmark::qualify {
namespace {

struct Pieces {
  std::uint64_t largest_bytes = 0, smallest_bytes = 0;
  const char* name = "";
};

Figure measure(MemoryWay& way, const Pieces& pieces) {
  way.settle();
  const std::uint64_t free_bytes = device_free_bytes();
  std::vector<TakenBlock> blocks = fill(way, pieces.largest_bytes, pieces.smallest_bytes);
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
  constexpr Pieces kLarge{kGiB, kDevicePageBytes, "pieces of 1 GiB and smaller"};
  constexpr Pieces kSmall{kDevicePageBytes, kDevicePageBytes, "pieces of 2 MiB"};
  TestAnswer answer;
  for (Rounds rounds(context.spec.seconds); rounds.next();) {
    for (const std::unique_ptr<MemoryWay>& way : memory_ways()) {
      keep_worst(answer.figures, measure(*way, kLarge));
      if (way->name() == "cudaMalloc") keep_worst(answer.figures, measure(*way, kSmall));
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
