// Test "gpus", of the node: each GPU alone, then all at once; how much slower cudaMalloc and
// cudaFree get, beside GPUs that took turns. Starts a process per GPU and waits for their end.
#include <cstddef>
#include <vector>

#include <fmt/format.h>
#include "harness/tools/qualify/pairs.h"
#include "harness/tools/qualify/tests.h"

namespace allocmark::qualify {

TestAnswer run_gpus(const TestContext& context) {
  TestAnswer answer;
  const std::vector<int>& gpus = context.spec.gpus;
  if (gpus.size() < 2) {
    answer.skip = "there is one GPU only";
    return answer;
  }
  std::vector<int> working;
  std::vector<double> alone_ns;
  for (const int gpu : gpus) {
    const PairsAnswer alone = measure_in_processes(context, {gpu});
    if (alone.failure.empty()) {
      working.push_back(gpu);
      alone_ns.push_back(alone.p50_ns.front());
    } else {
      answer.failure += (answer.failure.empty() ? "" : "; ") + alone.failure;
    }
  }
  if (working.size() < 2) return answer;
  const PairsAnswer together = measure_in_processes(context, working);
  if (!together.failure.empty()) {
    answer.failure += (answer.failure.empty() ? "" : "; ") + together.failure;
    return answer;
  }
  for (std::size_t i = 0; i < working.size(); ++i) {
    answer.figures.push_back(
        {.name = fmt::format("GPU {} of {} at once", working[i], working.size()),
         .threshold = "gpus.contention",
         .value = together.p50_ns[i] / (static_cast<double>(working.size()) * alone_ns[i]),
         .note = fmt::format("a pair alone {:.1f} us", alone_ns[i] / 1000)});
  }
  return answer;
}

}  // namespace allocmark::qualify
