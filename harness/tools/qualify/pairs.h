// Pairs of cudaMalloc and cudaFree of 2 MiB, the load of the tests for contention: on threads, on
// processes, on GPUs. This file times.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/tools/qualify/call_clock.h"
#include "harness/tools/qualify/test.h"

namespace allocmark::qualify {

// On the current GPU, until both the count and the time are reached. Throws EnvironmentError.
[[nodiscard]] CallSamples measure_pairs(const CallClock& clock, std::uint64_t pair_count,
                                        double seconds);

// The median time of a pair, in ns, in each of several processes at a time, one per entry of `gpus`
// (a GPU may be there several times).
struct PairsAnswer {
  std::vector<double> p50_ns;  // of those that succeeded
  std::string failure;         // of the others
};
[[nodiscard]] PairsAnswer measure_in_processes(const TestContext& context,
                                               const std::vector<int>& gpus);

}  // namespace allocmark::qualify
