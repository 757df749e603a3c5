// Test "processes": how much slower cudaMalloc and cudaFree get when several processes use the GPU
// at the same time. Starts them and waits for their end.
#include <algorithm>
#include <cstddef>
#include <vector>

#include <fmt/format.h>
#include "harness/tools/qualify/pairs.h"
#include "harness/tools/qualify/repeat.h"
#include "harness/tools/qualify/tests.h"

namespace allocmark::qualify {

TestAnswer run_processes(const TestContext& context) {
  TestAnswer answer;
  // Four say what two do; a round alone asks four only.
  const std::vector<std::size_t> counts =
      context.spec.seconds > 0 ? std::vector<std::size_t>{2, 4} : std::vector<std::size_t>{4};
  for (const std::size_t count : counts) {
    double worst = 0;
    double alone_ns = 0;
    for (Rounds rounds(context.spec.seconds / static_cast<double>(counts.size())); rounds.next();) {
      const PairsAnswer alone = measure_in_processes(context, {context.spec.gpu});
      const PairsAnswer together =
          measure_in_processes(context, std::vector<int>(count, context.spec.gpu));
      answer.failure = alone.failure.empty() ? together.failure : alone.failure;
      if (!answer.failure.empty()) return answer;
      alone_ns = alone.p50_ns.front();
      const double slowest_ns = *std::max_element(together.p50_ns.begin(), together.p50_ns.end());
      worst = std::max(worst, slowest_ns / (alone_ns * static_cast<double>(count)));
    }
    answer.figures.push_back({.name = fmt::format("{} processes", count),
                              .threshold = "processes.contention",
                              .value = worst,
                              .note = fmt::format("a pair alone {:.1f} us", alone_ns / 1000)});
  }
  return answer;
}

}  // namespace allocmark::qualify
