// Two runs that hardly differ, for tests that change one thing in the second: cells with passes of
// little noise, the same every time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "results/compare/compare.h"
#include "results/compare/compare_writers.h"
#include "tests/catch.h"
#include "tests/support/noise.h"
#include "tests/support/text_checks.h"

namespace allocmark::quiet {

// A few cells with passes that hardly differ, the same every time.
inline RunFile quiet_run(std::size_t cell_count = 3) {
  static const RunFile kRun = [] {
    Random random(5);
    return sample::noisy_run(random, {.cell_count = 20,
                                      .pass_count = 3,
                                      .sample_count = 100000,
                                      .noise = {.run = 0, .pass = 0, .disturbed_share = 0}});
  }();
  RunFile run = kRun;
  run.cells.resize(cell_count);
  for (CellResult& cell : run.cells) cell.driver_calls = {{"cudaFree", 10}, {"cudaMalloc", 11}};
  return run;
}

inline RunSide side(const char* label, RunFile file) {
  return {.label = label, .file = std::move(file)};
}

inline Calibration quiet_calibration() {
  const Environment environment = sample::environment();
  return {.hostname_hash = environment.hostname_hash,
          .device = environment.device,
          .build_type = environment.build_type,
          .run_count = 4,
          .bounds = {{.number = "allocate_latency_ns_p50", .shift_bound = 0.01, .pair_count = 90},
                     {.number = "allocate_latency_ns_p99", .shift_bound = 0.02, .pair_count = 90}}};
}

// BASE is the quiet run, NEW the same after the change.
inline Comparison compared(const std::function<void(RunFile&)>& change,
                           const ComparePolicy& policy = {}) {
  RunFile now = quiet_run();
  change(now);
  return compare_runs(side("BASE", quiet_run()), side("NEW", std::move(now)), policy,
                      quiet_calibration());
}

inline const NumberComparison& number(const CellComparison& cell, std::string_view name) {
  const auto found = std::find_if(cell.numbers.begin(), cell.numbers.end(),
                                  [&](const NumberComparison& item) { return item.name == name; });
  REQUIRE(found != cell.numbers.end());
  return *found;
}

inline std::size_t count(const Comparison& comparison, Verdict verdict) {
  return comparison.verdict_counts.at(static_cast<std::size_t>(verdict));
}

inline void slow_down(CellResult& cell, double factor) {
  for (PassSummary& pass : cell.passes) {
    std::vector<std::uint64_t> counts(kLatencyBucketCount, 0);
    for (const LatencyBucket& bucket : pass.allocate_buckets) {
      const double middle =
          (bucket_lowest_ns(bucket.index) + bucket_lowest_ns(bucket.index + 1)) / 2;
      counts[sample::bucket_of_picoseconds(static_cast<std::uint64_t>(middle * factor * 1e3))] +=
          bucket.count;
    }
    pass.allocate_buckets.clear();
    for (std::uint32_t index = 0; index < kLatencyBucketCount; ++index) {
      if (counts[index] > 0)
        pass.allocate_buckets.push_back({.index = index, .count = counts[index]});
    }
  }
}

inline std::string text_of(const Comparison& comparison) {
  return render_comparison(comparison, Detail::Rows);
}

}  // namespace allocmark::quiet
