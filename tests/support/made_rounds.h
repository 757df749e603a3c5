// Rounds of two sides that took turns, made of noise like that of a busy machine, which both sides
// of a round share: for the tests of verdicts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "results/compare/interleaved.h"
#include "tests/catch.h"
#include "tests/support/noise.h"

namespace allocmark::made_rounds {

struct Setup {
  std::size_t cell_count = 3;
  std::uint32_t round_count = 16, round_count_max = 48;
  std::size_t sample_count = 1500;
  double injected_all = 0, injected_tail = 0;  // logarithms, on the second side of the first cell
  std::uint64_t seed = 1;
  double noise = 1;  // times that of a busy machine
};

inline CellResult process(Random& random, const CellKey& key, double shift, double tail,
                          std::size_t sample_count) {
  CellResult cell = sample::run_cell({.workload = key.workload,
                                      .allocator = key.allocator,
                                      .conf = key.conf,
                                      .capacity = key.capacity});
  cell.trace_hash = "00000000000000aa", cell.placement_hash = "00000000000000bb";
  cell.deallocate = {};
  cell.passes.clear();
  for (int pass = 0; pass < 2; ++pass) {
    cell.passes.push_back(
        {.allocate_buckets = sample::noisy_buckets(random, sample_count,
                                                   shift + 0.004 * sample::normal(random), tail)});
  }
  return cell;
}

// Rounds up to the last look. The machine slows both sides of a round together by 5 %, each process
// differs by 1.5 %, and one in twenty is hit by 40 %.
inline InterleavedRun make_run(const Setup& setup) {
  InterleavedRun run;
  run.plan.sides = {InterleavedSide{.label = "A", .text = "old"},
                    InterleavedSide{.label = "B", .text = "new"}};
  run.plan.round_count = setup.round_count;
  run.plan.round_count_max = setup.round_count_max;
  for (auto& environment : run.environments) environment = sample::environment();
  for (auto& environment : run.environments) environment.clock_resolution_ns = 0;
  for (std::size_t i = 0; i < setup.cell_count; ++i) {
    const CellKey key = sample::run_cell({.workload = "work" + std::to_string(i),
                                          .allocator = "caching",
                                          .conf = "",
                                          .capacity = "1.05x"})
                            .key;
    run.plan.cells.push_back({.base = key, .now = key, .round_count_max = setup.round_count_max});
  }
  Random random(setup.seed);
  for (std::uint32_t round = 0; round < setup.round_count_max; ++round) {
    for (std::size_t i = 0; i < setup.cell_count; ++i) {
      const double machine = setup.noise * 0.05 * sample::normal(random);
      for (std::uint32_t side = 0; side < 2; ++side) {
        const bool injected = side == 1 && i == 0;
        double shift = machine + setup.noise * 0.015 * sample::normal(random);
        if (random.unit() < 0.05) shift += setup.noise * 0.4;
        if (injected) shift += setup.injected_all;
        run.rounds.push_back(
            {.round = round,
             .side = side,
             .cell = process(random, run.plan.cells[i].base, shift,
                             injected ? setup.injected_tail : 0, setup.sample_count)});
      }
    }
  }
  return run;
}

inline const InterleavedRun& quiet_rounds() {
  static const InterleavedRun kRun =
      make_run({.round_count = 12, .round_count_max = 12, .sample_count = 20000, .noise = 0.1});
  return kRun;
}

inline Comparison compared(const std::function<void(InterleavedRun&)>& change,
                           const ComparePolicy& policy = {}) {
  InterleavedRun run = quiet_rounds();
  change(run);
  return compare_interleaved(run, policy);
}

inline const NumberComparison& number(const Comparison& comparison, std::string_view workload,
                                      std::string_view name) {
  for (const CellComparison& cell : comparison.cells) {
    if (cell.key.workload != workload) continue;
    for (const NumberComparison& item : cell.numbers) {
      if (item.name == name) return item;
    }
  }
  FAIL("no number " << name);
  return comparison.cells.front().numbers.front();
}

}  // namespace allocmark::made_rounds
