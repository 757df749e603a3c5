// See pairs.h.
#include "harness/tools/qualify/pairs.h"

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"
#include "base/own_process.h"
#include "harness/tools/qualify/child.h"
#include "harness/tools/qualify/repeat.h"
#include "harness/tools/qualify/tests.h"

namespace allocmark::qualify {
namespace {

constexpr std::uint64_t kPairBytes = 2 * kMiB;
constexpr std::uint64_t kPairCount = 100;
constexpr double kWindowS = 0.5;
// Processes start at the same time: so long after they were made, for their contexts to be there.
constexpr double kStartDelayS = 3;
constexpr int kTryCount = 3;
constexpr double kWorkerLimitS = 90;

double steady_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

PairsAnswer try_in_processes(const TestContext& context, const std::vector<int>& gpus,
                             double start_s) {
  std::vector<TestSpec> specs;
  for (const int gpu : gpus) {
    TestSpec spec = context.spec;
    spec.test = "pairs_worker";
    spec.gpu = gpu;
    spec.seconds = context.simulated ? 0 : kWindowS;
    spec.readings = {{"start_s", start_s}};
    specs.push_back(std::move(spec));
  }
  PairsAnswer result;
  const std::vector<TimedAnswer> answers =
      ask_children(specs, {.program_path = own_program_path(), .limit_s = kWorkerLimitS});
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const TestAnswer& answer = answers[i].answer;
    if (answer.failure.empty()) {
      result.p50_ns.push_back(answer.readings.at("p50_ns"));
    } else {
      result.failure +=
          fmt::format("{}GPU {}: {}", result.failure.empty() ? "" : "; ", gpus[i], answer.failure);
    }
  }
  return result;
}

bool was_late(const PairsAnswer& answer) {
  return answer.failure.find("was late") != std::string::npos;
}

}  // namespace

CallSamples measure_pairs(const CallClock& clock, std::uint64_t pair_count, double seconds) {
  CallSamples samples;
  const auto pair = [] {
    void* pointer = nullptr;
    ALLOCMARK_CUDA_CHECK(cudaMalloc(&pointer, kPairBytes));
    ALLOCMARK_CUDA_CHECK(cudaFree(pointer));
  };
  pair();
  for (Rounds rounds(seconds); rounds.next();) {
    for (std::uint64_t i = 0; i < pair_count; ++i) samples.add(clock.time(pair));
  }
  return samples;
}

PairsAnswer measure_in_processes(const TestContext& context, const std::vector<int>& gpus) {
  // Simulated GPUs are separate worlds, so nothing is gained by waiting there.
  const bool together = gpus.size() > 1 && !context.simulated;
  PairsAnswer answer;
  double delay_s = kStartDelayS;
  for (int i = 0; i < kTryCount; ++i, delay_s *= 2) {
    answer = try_in_processes(context, gpus, together ? steady_s() + delay_s : 0);
    if (!was_late(answer)) break;
  }
  return answer;
}

TestAnswer run_pairs_worker(const TestContext& context) {
  const CallClock clock(SimcuApi::find());
  (void)measure_pairs(clock, 1, 0);
  const double start_s = context.spec.readings.at("start_s");
  TestAnswer answer;
  if (start_s > 0) {
    const double wait_s = start_s - steady_s();
    if (wait_s < 0) {
      answer.failure = "the process was late for the common start";
      return answer;
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(wait_s));
  }
  CallSamples samples = measure_pairs(clock, kPairCount, context.spec.seconds);
  answer.readings = {{"p50_ns", samples.quantile(0.5)}};
  return answer;
}

}  // namespace allocmark::qualify
