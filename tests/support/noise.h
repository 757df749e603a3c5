// Numbers with a known distribution, from the one generator, so that simulations repeat anywhere;
// and cells made of them that look like measured ones.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "results/latency_histogram.h"
#include "results/run_file.h"
#include "tests/support/sample_run.h"

namespace allocmark::sample {

// Mean 0, standard deviation 1 (Box and Muller's transformation, one of its two numbers).
inline double normal(Random& random) {
  constexpr double kTwoPi = 6.283185307179586;
  const double radius = std::sqrt(-2 * std::log(1 - random.unit()));
  return radius * std::cos(kTwoPi * random.unit());
}

inline std::uint32_t bucket_of_picoseconds(std::uint64_t value) {
  if (value < 64) return static_cast<std::uint32_t>(value);
  const auto octave = static_cast<std::uint32_t>(std::bit_width(value)) - 7;
  return (octave + 1) * 64 + static_cast<std::uint32_t>(value >> octave) - 64;
}

// What latencies of one allocator look like: nine of ten requests are served from the cache (35
// ns), most others search (100 ns), three of a hundred ask the device (4 us); each with a spread.
// As a table of picoseconds, any entry as likely as another.
inline std::vector<double> latency_table() {
  std::vector<double> table;
  Random random(1);
  for (int i = 0; i < 1 << 14; ++i) {
    const double kind = random.unit();
    const double centre = kind < 0.9 ? 35e3 : kind < 0.97 ? 100e3 : 4e6;
    table.push_back(centre * std::exp(0.2 * normal(random)));
  }
  return table;
}

// How much passes and runs of the same thing differ: standard deviations of logarithms.
struct Noise {
  double run = 0.004, pass = 0.004;
  double disturbed_share = 0.03;  // passes that something disturbs ...
  double disturbed = 0.08;        // ... and makes slower by this
};

// A slowdown that a change brought, as logarithms: of every request, and of the slow ones only.
struct Injected {
  double all = 0, tail = 0;
};

struct NoisyPlan {
  std::size_t cell_count = 6, pass_count = 3, sample_count = 4000;
  Noise noise = {};
  Injected injected = {};
  std::size_t injected_cell_count = SIZE_MAX;
};

inline LatencyBuckets noisy_buckets(Random& random, std::size_t sample_count, double log_factor,
                                    double tail_log_factor) {
  static const std::vector<double> kTable = latency_table();
  std::vector<std::uint64_t> counts(kLatencyBucketCount, 0);
  const double factor = std::exp(log_factor);
  const double tail_factor = std::exp(log_factor + tail_log_factor);
  for (std::size_t i = 0; i < sample_count; ++i) {
    const double value = kTable[random.below(kTable.size())];
    ++counts[bucket_of_picoseconds(
        static_cast<std::uint64_t>(value * (value > 1e6 ? tail_factor : factor)))];
  }
  LatencyBuckets buckets;
  for (std::uint32_t index = 0; index < kLatencyBucketCount; ++index) {
    if (counts[index] > 0) buckets.push_back({.index = index, .count = counts[index]});
  }
  return buckets;
}

// One run of a plan. Only allocate is timed, which halves the work of a simulation.
inline RunFile noisy_run(Random& random, const NoisyPlan& plan) {
  RunFile run;
  run.environment = environment();
  run.environment.warnings.clear();
  for (std::size_t index = 0; index < plan.cell_count; ++index) {
    CellResult cell = run_cell({.workload = "work" + std::to_string(index),
                                .allocator = "caching",
                                .conf = "",
                                .capacity = "1.05x"});
    cell.trace_hash = "00000000000000aa", cell.placement_hash = "00000000000000bb";
    cell.deallocate = {};
    cell.passes.clear();
    const bool is_injected = index < plan.injected_cell_count;
    const double run_shift = plan.noise.run * normal(random);
    for (std::size_t pass = 0; pass < plan.pass_count; ++pass) {
      double shift = run_shift + plan.noise.pass * normal(random);
      if (random.unit() < plan.noise.disturbed_share) shift += plan.noise.disturbed;
      if (is_injected) shift += plan.injected.all;
      cell.passes.push_back(
          PassSummary{.allocate_buckets = noisy_buckets(random, plan.sample_count, shift,
                                                        is_injected ? plan.injected.tail : 0)});
    }
    run.cells.push_back(std::move(cell));
  }
  return run;
}

}  // namespace allocmark::sample
