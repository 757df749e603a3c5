// The rule 'cells-consistent': whether the numbers of each cell belong together and can have
// happened.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/replay/capacity.h"
#include "harness/tools/bundle/bundle_rules.h"
#include "results/cell_check.h"
#include "results/columns/columns.h"
#include "results/compare/repeat.h"
#include "results/compare/timed_numbers.h"
#include "results/derived.h"
#include "results/json.h"

namespace allocmark {
namespace {

std::vector<std::string> findings_of(const CellResult& cell, const Environment& environment,
                                     bool scales) {
  std::vector<std::string> findings = contradictions(cell);
  for (std::string& finding : impossibilities(cell)) findings.push_back(std::move(finding));
  for (std::string& finding : missing_parts(cell, environment, scales)) {
    findings.push_back(std::move(finding));
  }
  for (std::string& finding : impossible_times(cell, environment)) {
    findings.push_back(std::move(finding));
  }
  return findings;
}

constexpr int kRepeatMinor = 3;  // results of schema before 1.3 state none

// The intervals for a repeat follow from the passes and from how far apart runs come, which each
// interval says. An A/B run states none.
void check_repeat(const CellResult& cell, const BundleView& view, const Environment& environment,
                  CheckedRule& rule) {
  if (view.turns || cell.allocate.total.count == 0) return;
  Calibration said;
  const CellRepeat& stored = cell.repeat;
  const RepeatInterval* const intervals[] = {&stored.allocate_p50, &stored.allocate_p99,
                                             &stored.deallocate_p50, &stored.deallocate_p99};
  const auto numbers = latency_numbers();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    said.bounds.push_back(
        {.number = std::string(numbers[i].name), .shift_p95 = intervals[i]->between_share});
  }
  CellResult again = cell;
  state_repeat(again, {.clock_step_ns = environment.clock_resolution_ns, .calibration = &said});
  const RepeatInterval* const made[] = {&again.repeat.allocate_p50, &again.repeat.allocate_p99,
                                        &again.repeat.deallocate_p50, &again.repeat.deallocate_p99};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto far = [](double a, double b) { return std::abs(a - b) > 1e-6 * std::abs(b); };
    const bool none = intervals[i]->high_ns == 0 && intervals[i]->low_ns == 0;
    if (none && schema_minor(environment) < kRepeatMinor) continue;
    if (!far(intervals[i]->low_ns, made[i]->low_ns) &&
        !far(intervals[i]->high_ns, made[i]->high_ns)) {
      continue;
    }
    broken(rule,
           "{}: the interval of {} for a repeat is {:.6g} to {:.6g} ns, the "
           "passes give {:.6g} to {:.6g} ns",
           name_of(cell.key), numbers[i].name, intervals[i]->low_ns, intervals[i]->high_ns,
           made[i]->low_ns, made[i]->high_ns);
  }
}

// Host times never come out the same twice.
std::vector<double> pass_times(const CellResult& cell) {
  std::vector<double> times;
  for (const PassSummary& pass : cell.passes) times.push_back(pass.wall_ns);
  return times;
}

// The rounds of a cell count up from the first, and each was measured anew.
void check_rounds(const std::vector<const RoundResult*>& rounds, CheckedRule& rule) {
  std::map<std::vector<double>, std::size_t> seen;
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    const std::string name =
        fmt::format("side {}: {}", side_name(rounds[i]->side), name_of(rounds[i]->cell.key));
    if (rounds[i]->round != i) {
      broken(rule, "{}: round {} is missing", name, i + 1);
      return;
    }
    if (rounds[i]->cell.passes.empty()) continue;
    const auto [first, is_new] = seen.try_emplace(pass_times(rounds[i]->cell), i);
    if (is_new) continue;
    broken(rule, "{}: rounds {} and {} have the same passes", name, first->second + 1, i + 1);
  }
}

void check_turns(const BundleView& view, CheckedRule& rule) {
  std::map<std::pair<std::uint32_t, std::string>, std::vector<const RoundResult*>> by_cell;
  for (const RoundResult& round : view.turns->rounds) {
    by_cell[{round.side, round.cell.key.id()}].push_back(&round);
  }
  for (auto& [key, rounds] : by_cell) {
    std::ranges::stable_sort(rounds, {}, &RoundResult::round);
    check_rounds(rounds, rule);
  }
}

void check_capacity(const CellResult& cell, const std::string& name, CheckedRule& rule) {
  // The null allocator hands out nothing and has no capacity.
  if (!is_measured(cell) || cell.key.allocator == kNullAllocator) return;
  try {
    const Capacity capacity = parse_capacity(cell.key.capacity);
    if (capacity.unlimited()) return;
    const std::uint64_t meant = capacity.resolve_bytes(cell.requested_bytes_peak);
    if (meant == cell.capacity_bytes) return;
    broken(rule, "{}: capacity_bytes is {}, its capacity comes to {}", name, cell.capacity_bytes,
           meant);
  } catch (const Error& error) {
    broken(rule, name + ": " + error.what());
  }
}

void check_run(const BundleView& view, const StoredRun& run, CheckedRule& rule) {
  const Environment& environment = run.file->environment;
  for (const std::string& finding : impossible_environment(environment)) {
    broken(rule, run.label + finding);
  }
  // An A/B run scales nothing, another one all cells of a simulated GPU.
  const bool takes_turns = view.turns || !view.turns_problem.empty();
  const bool scales = !takes_turns && is_simulated(environment.device);
  for (std::size_t index = 0; index < run.whole.count; ++index) {
    const CellResult& cell = run.whole.whole(index);
    const std::string name = run.label + name_of(cell.key);
    for (const std::string& finding : findings_of(cell, environment, scales)) {
      broken(rule, name + ": " + finding);
    }
    check_repeat(cell, view, environment, rule);
    check_capacity(cell, name, rule);
  }
}

// A side's results are what its first round measured.
void check_first_rounds(const BundleView& view, const StoredRun& run, std::uint32_t side,
                        CheckedRule& rule) {
  std::map<std::string, std::string> first;
  for (std::size_t index = 0; index < view.turns->rounds.size(); ++index) {
    const RoundResult& round = view.turns->rounds[index];
    if (round.side != side || round.round != 0) continue;
    first[round.cell.key.id()] = to_json_line(view.turns->whole.whole(index));
  }
  for (std::size_t index = 0; index < run.whole.count; ++index) {
    const CellResult& cell = run.whole.whole(index);
    if (first[cell.key.id()] == to_json_line(cell)) continue;
    broken(rule, "side {}: {}: its result is not that of its first round", side_name(side),
           name_of(cell.key));
  }
}

void check_all_rounds(const BundleView& view, CheckedRule& rule) {
  for (std::size_t index = 0; index < view.turns->rounds.size(); ++index) {
    const RoundResult& round = view.turns->rounds[index];
    for (const std::string& finding : findings_of(view.turns->whole.whole(index),
                                                  view.turns->environments.at(round.side), false)) {
      broken(rule, "round {}, side {}: {}: {}", round.round + 1, side_name(round.side),
             name_of(round.cell.key), finding);
    }
  }
  check_turns(view, rule);
  check_first_rounds(view, view.base, 0, rule);
  check_first_rounds(view, view.run, 1, rule);
}

}  // namespace

void cells_consistent(const BundleView& view, CheckedRule& rule) {
  if (!needs_run(view, rule)) return;
  if (view.turns) check_all_rounds(view, rule);
  for (const StoredRun* run : runs_of(view)) check_run(view, *run, rule);
}

}  // namespace allocmark
