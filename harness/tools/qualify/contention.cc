// Tests "threads", "processes" and "gpus": how much slower cudaMalloc and cudaFree get when several
// threads of a process, several processes on one GPU, or all GPUs at once call them. The load is
// pairs of both, of 2 MiB. This file times, and starts processes and waits for their end.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"
#include "base/own_process.h"
#include "harness/tools/qualify/call_clock.h"
#include "harness/tools/qualify/child.h"
#include "harness/tools/qualify/repeat.h"
#include "harness/tools/qualify/test.h"

namespace allocmark::qualify {
namespace {

constexpr std::uint64_t kPairBytes = 2 * kMiB;
constexpr std::uint64_t kPairCount = 100;
constexpr double kWindowS = 0.5;
// Processes start at the same time: so long after they were made, for their contexts to be there.
constexpr double kStartDelayS = 3;
constexpr int kTryCount = 3;
constexpr double kWorkerLimitS = 90;

// On the current GPU, until both the count and the time are reached. Throws EnvironmentError.
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

// How much slower a pair is beside others: 1 = as if they took turns.
Figure contention_figure(std::string name, const char* threshold, double value, double alone_ns) {
  return {.name = std::move(name),
          .threshold = threshold,
          .value = value,
          .note = fmt::format("a pair alone {:.1f} us", alone_ns / 1000)};
}

// The median time of a pair over all threads, in ns.
double measure_threads(int gpu, unsigned thread_count) {
  std::vector<CallSamples> samples(thread_count);
  std::vector<std::exception_ptr> failures(thread_count);
  std::barrier start(static_cast<std::ptrdiff_t>(thread_count));
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < thread_count; ++i) {
      threads.emplace_back([&, i] {
        try {
          ALLOCMARK_CUDA_CHECK(cudaSetDevice(gpu));
          const CallClock clock(SimcuApi::find());
          (void)measure_pairs(clock, 1, 0);
          start.arrive_and_wait();
          samples[i] = measure_pairs(clock, kPairCount, 0);
        } catch (...) {
          failures[i] = std::current_exception();
          start.arrive_and_drop();
        }
      });
    }
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  CallSamples medians;
  for (CallSamples& of_thread : samples) medians.add(of_thread.quantile(0.5));
  return medians.quantile(0.5);
}

double steady_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The median time of a pair, in ns, in each of several processes at a time.
struct PairsAnswer {
  std::vector<double> p50_ns;  // of those that succeeded
  std::string failure;         // of the others
};
// One process per entry of `gpus`; a GPU may be there several times.
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

}  // namespace

TestAnswer run_threads(const TestContext& context) {
  const unsigned thread_count_max = std::clamp(std::thread::hardware_concurrency(), 2u, 8u);
  TestAnswer answer;
  for (unsigned count = 2; count <= thread_count_max; count *= 2) {
    double worst = 0;
    double alone_ns = 0;
    const double seconds = context.spec.seconds / 3;
    for (Rounds rounds(seconds); rounds.next();) {
      alone_ns = measure_threads(context.spec.gpu, 1);
      worst = std::max(worst, measure_threads(context.spec.gpu, count) / (alone_ns * count));
    }
    answer.figures.push_back(
        contention_figure(fmt::format("{} threads", count), "threads.contention", worst, alone_ns));
  }
  return answer;
}

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
      const double slowest_ns = *std::ranges::max_element(together.p50_ns);
      worst = std::max(worst, slowest_ns / (alone_ns * static_cast<double>(count)));
    }
    answer.figures.push_back(contention_figure(fmt::format("{} processes", count),
                                               "processes.contention", worst, alone_ns));
  }
  return answer;
}

TestAnswer run_gpus(const TestContext& context) {
  TestAnswer answer;
  const std::vector<int>& gpus = context.spec.gpus;
  if (gpus.size() < 2) {
    answer.skip = kOneGpuOnly;
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
    answer.figures.push_back(contention_figure(
        fmt::format("GPU {} of {} at once", working[i], working.size()), "gpus.contention",
        together.p50_ns[i] / (static_cast<double>(working.size()) * alone_ns[i]), alone_ns[i]));
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
