// Verdicts from rounds in which two sides took turns.
#include "results/compare/interleaved.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "results/cell_summary.h"
#include "results/cell_words.h"
#include "results/compare/compare_conclude.h"
#include "results/compare/compare_environment.h"
#include "results/compare/compare_numbers.h"
#include "results/compare/interleaved_cells.h"
#include "results/compare/interleaved_numbers.h"
#include "results/compare/stability.h"
#include "results/compare/timed_numbers.h"
#include "results/statistics/paired_shift.h"

namespace allocmark {

std::string side_name(std::size_t side) { return side == 0 ? "A" : "B"; }

namespace {

// A cell with the passes of all rounds, for intervals and flags.
CellResult pooled(const std::vector<const CellResult*>& processes) {
  CellResult cell = *processes.front();
  cell.passes.clear();
  for (const CellResult* process : processes) {
    cell.passes.insert(cell.passes.end(), process->passes.begin(), process->passes.end());
  }
  return cell;
}

struct PairedNumber {
  std::size_t cell_index = 0, number_index = 0;
  const TimedNumber* timed = nullptr;
  std::vector<double> differences = {};
  Shift shift = {};
};

class RoundComparer {
 public:
  RoundComparer(const InterleavedRun& run, const ComparePolicy& policy)
      : run_(run), policy_(policy), rounds_(rounds_by_cell(run, stray_)) {
    clock_step_ns_ =
        std::max(run.environments[0].clock_resolution_ns, run.environments[1].clock_resolution_ns);
  }

  Comparison run();

 private:
  // Why times cannot be compared at all; empty where they can.
  [[nodiscard]] std::string timed_reason() const;
  [[nodiscard]] RunSide side(std::size_t index) const;
  // What an outcome says of its cell where it stands for all rounds of a side.
  void stand_for_rounds(std::size_t plan_index, std::size_t side, CellResult& cell) const;
  void count_all_rounds(const CellRounds& rounds, CellComparison& cell) const;
  void add_timed(const CellRounds& rounds, CellComparison& cell, std::size_t cell_index);
  void judge();
  [[nodiscard]] RoundRule rule() const {
    return {.policy = policy_,
            .clock_step_ns = clock_step_ns_,
            .first_look_round_count = look_rounds(run_.plan).front()};
  }

  const InterleavedRun& run_;
  const ComparePolicy& policy_;
  StrayLines stray_;
  std::vector<CellRounds> rounds_;
  double clock_step_ns_ = 0;
  std::vector<PairedNumber> pending_;
  Comparison result_;
};

// Each cell's outcome as a run of its own; the second side's cells under the first one's keys, so
// that they find each other.
RunSide RoundComparer::side(std::size_t index) const {
  RunSide side{.label = run_.plan.sides[index].label};
  side.file.environment = run_.environments[index];
  std::vector<std::size_t> plan_indices;
  for (std::size_t i = 0; i < run_.plan.cells.size(); ++i) {
    side.planned.push_back(run_.plan.cells[i].base);
    const RoundLine* outcome = rounds_[i].outcome(index);
    if (outcome == nullptr) continue;
    CellResult cell = *outcome->cell;
    stand_for_rounds(i, index, cell);
    side.file.outlines.push_back(outline_of(cell));
    plan_indices.push_back(i);
  }
  const auto cell = std::make_shared<CellResult>();
  side.whole = {.count = plan_indices.size(),
                .whole = [this, index, plan_indices, cell](std::size_t at) -> const CellResult& {
                  const RoundLine& line = *rounds_[plan_indices[at]].outcome(index);
                  *cell = line.cell->is_summary ? run_.whole.whole(line.index) : *line.cell;
                  stand_for_rounds(plan_indices[at], index, *cell);
                  return *cell;
                }};
  return side;
}

void RoundComparer::stand_for_rounds(std::size_t plan_index, std::size_t side,
                                     CellResult& cell) const {
  cell.key = run_.plan.cells[plan_index].base;
  // Passes of one process differ where it keeps memory between them; rounds that are alike show
  // that it repeats itself.
  if (rounds_[plan_index].results[side].size() > 1) {
    std::erase_if(cell.warnings, [](const std::string& warning) {
      return warning.starts_with(kNotDeterministic);
    });
  }
  if (rounds_[plan_index].deviating(side) != nullptr) {
    cell.warnings.push_back(
        fmt::format("{}: rounds differed in placements, failures or memory", kNotDeterministic));
  }
}

std::string RoundComparer::timed_reason() const {
  std::vector<std::string> ignored = policy_.environment_ignored;
  // A program of an older version does not say how it was built, which the notes show.
  const bool known = std::none_of(run_.environments.begin(), run_.environments.end(),
                                  [](const Environment& side) { return side.build_type.empty(); });
  if (!known) ignored.emplace_back("build_type");
  return compare_environments(run_.environments[0], run_.environments[1], ignored).timed_reason;
}

Comparison RoundComparer::run() {
  ComparePolicy exact = policy_;
  exact.scope = CompareScope::Exact;
  result_ = compare_runs(side(0), side(1), exact, std::nullopt);
  result_.interleaved = true;
  const std::vector<std::uint32_t> looks = look_rounds(run_.plan);
  std::size_t broken_off_count = 0;
  for (std::size_t i = 0; i < rounds_.size(); ++i) {
    broken_off_count += rounds_[i].ended_at(looks, run_.plan.cells[i].round_count_max) ? 0 : 1;
  }
  if (broken_off_count > 0) {
    result_.faults.push_back(
        fmt::format("{} cells lack rounds: the run was broken off or is still being written",
                    broken_off_count));
  }
  if (stray_.repeated_count > 0) {
    result_.notes.push_back(fmt::format("{} lines repeat a process; the last line of each counts",
                                        stray_.repeated_count));
  }
  if (stray_.unplanned_count > 0) {
    result_.faults.push_back(
        fmt::format("{} lines are of cells that the plan does not have", stray_.unplanned_count));
  }
  if (run_.torn) {
    result_.faults.push_back(
        "the last round is cut short: the run is still being written or was killed");
  }
  std::map<std::string, std::size_t> plan_index_by_id;
  for (std::size_t i = 0; i < run_.plan.cells.size(); ++i) {
    plan_index_by_id[run_.plan.cells[i].base.id()] = i;
  }
  for (std::size_t i = 0; i < result_.cells.size(); ++i) {
    CellComparison& cell = result_.cells[i];
    const std::size_t plan_index = plan_index_by_id.at(cell.key.id());
    const InterleavedCell& planned = run_.plan.cells[plan_index];
    if (!(planned.base == planned.now)) cell.now_key = planned.now;
    if (planned.base.allocator != planned.now.allocator) {
      // Another allocator counts other things.
      std::erase_if(cell.numbers, [](const NumberComparison& number) {
        return number.name.starts_with("counters.");
      });
    }
    const bool refused = !cell.reason.empty();
    std::deque<CellResult> kept;
    const CellRounds rounds =
        refused ? CellRounds() : whole_rounds(run_, rounds_[plan_index], kept);
    if (!refused) count_all_rounds(rounds, cell);
    const auto placed = run_.first_differences.find(plan_index);
    if (placed != run_.first_differences.end()) cell.first_difference = placed->second;
    if (policy_.scope == CompareScope::Timed && !refused) {
      std::erase_if(cell.numbers, [](const NumberComparison& number) { return !number.safety; });
    }
    const bool is_timed = planned.round_count_max >= run_.plan.round_count;
    if (!refused && is_timed && policy_.scope != CompareScope::Exact) add_timed(rounds, cell, i);
  }
  judge();
  conclude(policy_, result_);
  return std::move(result_);
}

// What the first round says of failures and calls, said by all of them.
void RoundComparer::count_all_rounds(const CellRounds& rounds, CellComparison& cell) const {
  const ExactSides sides{.base = rounds.outcome(0)->cell,
                         .now = rounds.outcome(1)->cell,
                         .base_processes = rounds.processes(0),
                         .now_processes = rounds.processes(1)};
  for (NumberComparison& fresh : compare_exact(sides, policy_)) {
    if (!rests_on_all_processes(fresh)) continue;
    const auto found =
        std::find_if(cell.numbers.begin(), cell.numbers.end(),
                     [&](const NumberComparison& number) { return number.name == fresh.name; });
    if (found == cell.numbers.end() || found->verdict == Verdict::NotComparable) continue;
    *found = std::move(fresh);
  }
}

void RoundComparer::add_timed(const CellRounds& rounds, CellComparison& cell,
                              std::size_t cell_index) {
  const std::vector<RoundPair> pairs = rounds.pairs();
  const std::string reason = timed_reason();
  const std::string other = other_requests(rounds.processes(0), rounds.processes(1));
  for (const TimedNumber& timed : timed_numbers()) {
    if (!is_known(timed, pairs)) continue;
    std::vector<double> differences;
    NumberComparison number = number_of_rounds(timed, pairs, rule(), differences);
    if (!number.base && !number.now) continue;
    if (!other.empty() || !reason.empty()) {
      differences.clear();
      number.decide(Verdict::NotComparable, other.empty() ? reason : other);
      number.excused = !other.empty();
    }
    if (!differences.empty()) {
      pending_.push_back({.cell_index = cell_index,
                          .number_index = cell.numbers.size(),
                          .timed = &timed,
                          .differences = std::move(differences)});
    }
    cell.numbers.push_back(std::move(number));
  }
  for (std::size_t side = 0; side < kSideCount; ++side) {
    const std::vector<const CellResult*> processes = rounds.processes(side);
    if (processes.empty()) continue;
    for (const std::string& flag : stability_flags(pooled(processes), clock_step_ns_)) {
      // Every process begins cold, so single passes always stand apart, and what makes the machine
      // drift makes both sides drift.
      if (flag.find("two kinds") == std::string::npos) continue;
      cell.flags.push_back(run_.plan.sides[side].label + ": " + flag);
    }
  }
}

void RoundComparer::judge() {
  const auto look_count = static_cast<double>(look_rounds(run_.plan).size());
  std::map<std::string, std::vector<Spread>> spreads;
  const auto name_of = [&](const PairedNumber& pending) {
    return result_.cells[pending.cell_index].numbers[pending.number_index].name;
  };
  for (const PairedNumber& pending : pending_) {
    Spread spread = paired_spread(pending.differences).value();
    spread.variance = std::max(spread.variance, kPairedSpreadMin * kPairedSpreadMin);
    spreads[name_of(pending)].push_back(spread);
  }
  std::map<std::string, SpreadPrior> priors;
  for (const auto& [name, list] : spreads) priors[name] = fit_spread_prior(list);
  std::vector<double> p_values;
  for (PairedNumber& pending : pending_) {
    // Whoever looks several times and stops at the first answer errs as often as all looks
    // together; each gets its part.
    pending.shift = estimate_paired_shift(pending.differences,
                                          {.confidence = 1 - (1 - policy_.confidence) / look_count,
                                           .spread_min = kPairedSpreadMin,
                                           .prior = priors[name_of(pending)]})
                        .value();
    p_values.push_back(std::min(1.0, pending.shift.p_value * look_count));
  }
  const std::vector<double> adjusted = benjamini_hochberg(p_values);
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    NumberComparison& number =
        result_.cells[pending_[i].cell_index].numbers[pending_[i].number_index];
    number.p_value = p_values[i];
    judge_number(*pending_[i].timed, pending_[i].shift, pending_[i].differences.size(), rule(),
                 adjusted[i], number);
  }
}

}  // namespace

std::vector<std::uint32_t> look_rounds(const InterleavedPlan& plan) {
  std::vector<std::uint32_t> looks;
  for (std::uint64_t round = std::max(plan.round_count, 1U); round < plan.round_count_max;
       round *= 2) {
    looks.push_back(static_cast<std::uint32_t>(round));
  }
  looks.push_back(std::max(plan.round_count_max, 1U));
  return looks;
}

Comparison compare_interleaved(const InterleavedRun& run, const ComparePolicy& policy) {
  return RoundComparer(run, policy).run();
}

// The rounds that would decide are themselves known within a factor of two only.
constexpr std::uint32_t kHopeMax = 2;

std::set<std::size_t> cells_to_go_on(const InterleavedRun& run, const ComparePolicy& policy) {
  const Comparison comparison = compare_interleaved(run, policy);
  std::set<std::string> ids;
  for (const CellComparison& cell : comparison.cells) {
    for (const NumberComparison& number : cell.numbers) {
      const bool open =
          number.timed && number.gated && number.verdict == Verdict::Undecided &&
          number.rounds_needed.value_or(UINT32_MAX) / kHopeMax <= run.plan.round_count_max;
      if (open) ids.insert(cell.key.id());
    }
  }
  std::set<std::size_t> indices;
  for (std::size_t i = 0; i < run.plan.cells.size(); ++i) {
    if (ids.contains(run.plan.cells[i].base.id())) indices.insert(i);
  }
  return indices;
}

}  // namespace allocmark
