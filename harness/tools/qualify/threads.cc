// Test "threads": how much slower cudaMalloc and cudaFree get when several threads of a process
// call them at the same time. This file times.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include "allocators/cuda/cuda_check.h"
#include "harness/tools/qualify/pairs.h"
#include "harness/tools/qualify/repeat.h"
#include "harness/tools/qualify/tests.h"

namespace allocmark::qualify {
namespace {

constexpr std::uint64_t kPairsPerThread = 100;

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
          samples[i] = measure_pairs(clock, kPairsPerThread, 0);
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
    answer.figures.push_back({.name = fmt::format("{} threads", count),
                              .threshold = "threads.contention",
                              .value = worst,
                              .note = fmt::format("a pair alone {:.1f} us", alone_ns / 1000)});
  }
  return answer;
}

}  // namespace allocmark::qualify
