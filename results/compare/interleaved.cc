// Verdicts from rounds in which two sides took turns.
#include "results/compare/interleaved.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/median.h"
#include "results/compare/compare_conclude.h"
#include "results/compare/compare_environment.h"
#include "results/compare/compare_numbers.h"
#include "results/compare/interleaved_cells.h"
#include "results/compare/stability.h"
#include "results/compare/timed_numbers.h"
#include "results/derived.h"
#include "results/latency_histogram.h"
#include "results/statistics/paired_shift.h"
#include "results/statistics/percentile.h"

namespace allocmark {
namespace {

// A side's value is known up to a bucket, 1/64 of an octave wide at most; a smaller spread of the
// differences between two of them is the buckets', not the rounds'.
constexpr double kPairedSpreadMin = 1.4142135623730951 / 64 / 3.4641016151377544;
// How samples spread within a step of the clock is not known, so that a change of less than this
// part of it may be how they fall.
constexpr double kClockShareMin = 1.0 / 8;

// More rounds than anybody waits for.
constexpr double kRoundsNeededMax = 1e6;

// Rounds after which the interval, which narrows with their root, is likely to be within the floor
// or clear of 0.
std::uint64_t rounds_needed(const Shift& shift, double reach, std::size_t round_count) {
  const double half = std::max(shift.high - shift.estimate, shift.estimate - shift.low);
  const double size = std::abs(shift.estimate);
  const double wanted = std::max(size < reach ? reach - size : size, 1e-6);
  const double factor = std::max(1.0, half / wanted * (half / wanted));
  const double count = std::ceil(static_cast<double>(round_count) * factor);
  return static_cast<std::uint64_t>(
      std::clamp(count, static_cast<double>(round_count) + 1, kRoundsNeededMax));
}

// Samples that a number rests on at least.
struct Support {
  std::uint64_t pass_count_min = UINT64_MAX;     // samples of the pass with the fewest
  std::uint64_t process_count_min = UINT64_MAX;  // of the process with the fewest
};

void count_support(const CellResult& cell, const TimedNumber& number, Support& support) {
  std::uint64_t process_count = 0;
  for (const PassSummary& pass : cell.passes) {
    const std::uint64_t count = samples_of(cell, pass, number);
    support.pass_count_min = std::min(support.pass_count_min, count);
    process_count += count;
  }
  support.process_count_min = std::min(support.process_count_min, process_count);
}

// By how much a round's sides differ. Where passes alternated, every two neighbours give a
// difference, from which a disturbance of both is gone, and their median counts: single ones are
// far off, so that it scatters less between rounds than the median of pairwise means (by a quarter
// at P50, as much at P99; measured on an H200 and on simcuda). Else the difference of the
// processes' medians.
double round_difference(const std::vector<double>& base, const std::vector<double>& now,
                        bool in_turns) {
  if (!in_turns || base.size() != now.size()) return median(now) - median(base);
  std::vector<double> differences;
  for (std::size_t i = 0; i < base.size(); ++i) differences.push_back(now[i] - base[i]);
  return median(std::move(differences));
}

// A cell with the passes of all rounds, for intervals and flags.
CellResult pooled(const std::vector<const CellResult*>& processes) {
  CellResult cell = *processes.front();
  cell.passes.clear();
  for (const CellResult* process : processes) {
    cell.passes.insert(cell.passes.end(), process->passes.begin(), process->passes.end());
  }
  return cell;
}

// Of the processes' values (logarithms), around their median; nothing for fewer than two.
std::optional<Estimate> interval_of(const std::vector<double>& values, double confidence) {
  const std::optional<Shift> centre =
      estimate_paired_shift(values, {.confidence = confidence, .spread_min = kPairedSpreadMin});
  if (!centre) return std::nullopt;
  const double value = median(values);
  return Estimate{.value = std::exp(value),
                  .low = std::exp(std::min(value, centre->low)),
                  .high = std::exp(std::max(value, centre->high))};
}

struct PairedNumber {
  std::size_t cell_index = 0, number_index = 0;
  const TimedNumber* timed = nullptr;
  std::vector<double> differences = {};
  Shift shift = {};
};

bool is_quantile(const TimedNumber& number) { return number.kind == TimedKind::Quantile; }

// Whether any process of either side has the number.
bool is_known(const TimedNumber& number, const CellRounds& rounds) {
  const std::vector<RoundPair> pairs = rounds.pairs();
  return std::any_of(pairs.begin(), pairs.end(), [&](const RoundPair& pair) {
    return has_number(*pair.base, number) || has_number(*pair.now, number);
  });
}

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
  void count_all_rounds(std::size_t plan_index, CellComparison& cell) const;
  void add_timed(std::size_t plan_index, CellComparison& cell, std::size_t cell_index);
  NumberComparison timed_number(const TimedNumber& timed, const CellRounds& rounds,
                                std::vector<double>& differences) const;
  void judge();
  void judge(NumberComparison& number, const PairedNumber& pending, double p_value_adjusted) const;

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
  for (std::size_t i = 0; i < run_.plan.cells.size(); ++i) {
    side.planned.push_back(run_.plan.cells[i].base);
    const CellResult* outcome = rounds_[i].outcome(index);
    if (outcome == nullptr) continue;
    CellResult cell = *outcome;
    cell.key = run_.plan.cells[i].base;
    // Passes of one process differ where it keeps memory between them; rounds that are alike show
    // that it repeats itself.
    if (rounds_[i].results[index].size() > 1) {
      std::erase_if(cell.warnings, [](const std::string& warning) {
        return warning.starts_with("not deterministic");
      });
    }
    if (rounds_[i].deviating(index) != nullptr) {
      cell.warnings.push_back(
          "not deterministic: rounds differed in placements, failures or memory");
    }
    side.file.cells.push_back(std::move(cell));
  }
  return side;
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
    if (!refused) count_all_rounds(plan_index, cell);
    const auto placed = run_.first_differences.find(plan_index);
    if (placed != run_.first_differences.end()) cell.first_difference = placed->second;
    if (policy_.scope == CompareScope::Timed && !refused) {
      std::erase_if(cell.numbers, [](const NumberComparison& number) { return !number.safety; });
    }
    if (!refused && policy_.scope != CompareScope::Exact) add_timed(plan_index, cell, i);
  }
  judge();
  conclude(policy_, result_);
  return std::move(result_);
}

// What the first round says of failures and calls, said by all of them.
void RoundComparer::count_all_rounds(std::size_t plan_index, CellComparison& cell) const {
  const CellRounds& rounds = rounds_[plan_index];
  const ExactSides sides{.base = rounds.outcome(0),
                         .now = rounds.outcome(1),
                         .base_processes = rounds.processes(0),
                         .now_processes = rounds.processes(1)};
  for (NumberComparison& fresh : compare_exact(sides, policy_)) {
    if (!fresh.safety && !fresh.name.starts_with("driver_calls.")) continue;
    const auto found =
        std::find_if(cell.numbers.begin(), cell.numbers.end(),
                     [&](const NumberComparison& number) { return number.name == fresh.name; });
    if (found == cell.numbers.end() || found->verdict == Verdict::NotComparable) continue;
    *found = std::move(fresh);
  }
}

void RoundComparer::add_timed(std::size_t plan_index, CellComparison& cell,
                              std::size_t cell_index) {
  const CellRounds& rounds = rounds_[plan_index];
  const std::string reason = timed_reason();
  const std::string other = other_requests(rounds.processes(0), rounds.processes(1));
  for (const TimedNumber& timed : timed_numbers()) {
    if (!is_known(timed, rounds)) continue;
    std::vector<double> differences;
    NumberComparison number = timed_number(timed, rounds, differences);
    if (!number.base && !number.now) continue;
    if (!other.empty() || !reason.empty()) {
      differences.clear();
      number.verdict = Verdict::NotComparable;
      number.excused = !other.empty();
      number.reason = other.empty() ? reason : other;
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

NumberComparison RoundComparer::timed_number(const TimedNumber& timed, const CellRounds& rounds,
                                             std::vector<double>& differences) const {
  NumberComparison number{.name = std::string(timed.name), .timed = true};
  const std::vector<RoundPair> pairs = rounds.pairs();
  Support support;
  for (const auto& [base, now, in_turns] : pairs) {
    count_support(*base, timed, support);
    count_support(*now, timed, support);
  }
  if (pairs.empty() || support.process_count_min == 0) {
    for (const auto& [base, now, in_turns] : pairs) {
      number.base = stored_value(*base, timed);
      number.now = stored_value(*now, timed);
    }
    number.verdict = Verdict::NotComparable;
    number.reason = "one side has no samples";
    return number;
  }
  const std::uint64_t wanted = samples_wanted(timed);
  const bool by_pass = support.pass_count_min >= wanted;
  std::array<std::vector<double>, kSideCount> values;
  for (const auto& [base, now, in_turns] : pairs) {
    const auto logs = [&](const CellResult& cell) {
      if (by_pass) return pass_logs(cell, timed, clock_step_ns_);
      return std::vector{process_log(cell, timed, clock_step_ns_).value_or(0)};
    };
    const std::vector<double> base_logs = logs(*base);
    const std::vector<double> now_logs = logs(*now);
    // A process's value: the median of its passes, which one disturbed pass does not move.
    values[0].push_back(median(base_logs));
    values[1].push_back(median(now_logs));
    differences.push_back(round_difference(base_logs, now_logs, in_turns));
  }
  number.base_interval = interval_of(values[0], policy_.confidence);
  number.now_interval = interval_of(values[1], policy_.confidence);
  number.base = std::exp(median(values[0]));
  number.now = std::exp(median(values[1]));
  if (support.process_count_min < wanted) {
    differences.clear();
    number.verdict = Verdict::Undecided;
    number.reason = fmt::format("{} samples in a process, {} are needed: give more --passes",
                                support.process_count_min, wanted);
  } else if (differences.size() < 2) {
    differences.clear();
    number.verdict = Verdict::Undecided;
    number.rounds_needed = look_rounds(run_.plan).front();
  }
  return number;
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
    judge(number, pending_[i], adjusted[i]);
  }
}

void RoundComparer::judge(NumberComparison& number, const PairedNumber& pending,
                          double p_value_adjusted) const {
  const Shift& shift = pending.shift;
  number.change = std::expm1(shift.estimate);
  number.change_low = std::expm1(shift.low);
  number.change_high = std::expm1(shift.high);
  number.p_value_adjusted = p_value_adjusted;
  const double reach = std::log1p(policy_.effect_min_of(number.name, true));
  const bool differs =
      p_value_adjusted <= policy_.false_share_in_turns() && std::abs(shift.estimate) > reach;
  const double resolved_ns = is_quantile(*pending.timed) ? kClockShareMin * clock_step_ns_ : 0;
  if (differs && std::abs(number.now.value_or(0) - number.base.value_or(0)) <= resolved_ns) {
    number.verdict = Verdict::Undecided;
    number.reason =
        fmt::format("less than an eighth of the clock's step of {:.3g} ns", clock_step_ns_);
  } else if (differs) {
    number.verdict = shift.estimate > 0 ? Verdict::Worse : Verdict::Better;
  } else if (shift.low > -reach && shift.high < reach) {
    number.verdict = Verdict::Same;
  } else {
    number.verdict = Verdict::Undecided;
    number.rounds_needed = rounds_needed(shift, reach, pending.differences.size());
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

std::set<std::size_t> cells_to_go_on(const InterleavedRun& run, const ComparePolicy& policy) {
  const Comparison comparison = compare_interleaved(run, policy);
  std::set<std::string> ids;
  for (const CellComparison& cell : comparison.cells) {
    for (const NumberComparison& number : cell.numbers) {
      const bool open = number.timed && number.gated && number.verdict == Verdict::Undecided &&
                        number.rounds_needed.has_value();
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
