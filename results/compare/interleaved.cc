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
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "results/compare/compare_conclude.h"
#include "results/compare/compare_environment.h"
#include "results/compare/compare_numbers.h"
#include "results/compare/stability.h"
#include "results/derived.h"
#include "results/latency_histogram.h"
#include "results/statistics/paired_shift.h"
#include "results/statistics/percentile.h"

namespace allocmark {
namespace {

// A side's value is known up to a bucket, 1/64 of an octave wide at most; a smaller spread of the
// differences between two of them is the buckets', not the rounds'.
constexpr double kSpreadMin = 1.4142135623730951 / 64 / 3.4641016151377544;
// How samples spread within a step of the clock is not known, so that a change of less than this
// part of it may be how they fall.
constexpr double kClockShareMin = 1.0 / 8;

constexpr const char* kMoreRounds = "more rounds would tell";

// Both sides of a cell in one round.
struct RoundPair {
  const CellResult* base = nullptr;
  const CellResult* now = nullptr;
  bool in_turns = false;
};

// Both sides' results of one cell in the order of their rounds.
struct CellRounds {
  std::array<std::map<std::uint32_t, const CellResult*>, kSideCount> results;
  std::set<std::uint32_t> rounds_apart = {};  // those whose passes did not alternate

  // Rounds in which both sides have a measurement.
  [[nodiscard]] std::vector<RoundPair> pairs() const {
    std::vector<RoundPair> list;
    for (const auto& [round, base] : results[0]) {
      const auto now = results[1].find(round);
      if (now == results[1].end() || !is_measured(*base) || !is_measured(*now->second)) continue;
      list.push_back({base, now->second, !rounds_apart.contains(round)});
    }
    return list;
  }

  // Whether both sides have all rounds up to a look, or one ended the cell by having no result.
  [[nodiscard]] bool ended_at(const std::vector<std::uint32_t>& looks,
                              std::uint32_t round_count_max) const {
    for (const auto& side : results) {
      for (const auto& [round, result] : side) {
        if (!is_measured(*result)) return true;
      }
    }
    const std::size_t count = pairs().size();
    return results[0].size() == count && results[1].size() == count &&
           (count == round_count_max ||
            std::find(looks.begin(), looks.end(), count) != looks.end());
  }

  // A process of the side that decided otherwise than the first: placements, failures, memory.
  [[nodiscard]] const CellResult* deviating(std::size_t side) const {
    const auto decisions = [](const CellResult& cell) {
      return std::tie(cell.placement_hash, cell.oom_count, cell.requested_bytes_peak,
                      cell.allocated_bytes_peak, cell.reserved_bytes_peak);
    };
    for (const auto& [round, result] : results[side]) {
      if (is_measured(*result) && decisions(*result) != decisions(*results[side].begin()->second))
        return result;
    }
    return nullptr;
  }

  // What stands for the side where no time is compared: a round without a result, else one that
  // decided otherwise, so that the difference is seen, else the first.
  [[nodiscard]] const CellResult* outcome(std::size_t side) const {
    for (const auto& [round, result] : results[side]) {
      if (!is_measured(*result)) return result;
    }
    if (const CellResult* const other = deviating(side); other != nullptr) return other;
    return results[side].empty() ? nullptr : results[side].begin()->second;
  }
};

// What does not belong into a whole and unedited file.
struct StrayLines {
  std::size_t repeated_count = 0, unplanned_count = 0;
};

std::vector<CellRounds> rounds_by_cell(const InterleavedRun& run, StrayLines& stray) {
  std::array<std::map<std::string, std::size_t>, kSideCount> index_by_id;
  for (std::size_t i = 0; i < run.plan.cells.size(); ++i) {
    index_by_id[0][run.plan.cells[i].base.id()] = i;
    index_by_id[1][run.plan.cells[i].now.id()] = i;
  }
  std::vector<CellRounds> cells(run.plan.cells.size());
  for (const RoundResult& result : run.rounds) {
    const auto found = index_by_id.at(result.side).find(result.cell.key.id());
    if (found == index_by_id[result.side].end()) {
      ++stray.unplanned_count;
      continue;
    }
    const CellResult*& place = cells[found->second].results[result.side][result.round];
    if (place != nullptr) ++stray.repeated_count;
    place = &result.cell;
    if (!result.in_turns) cells[found->second].rounds_apart.insert(result.round);
  }
  return cells;
}

// A number's quantile in every pass of a process, or over all of them where a pass has too few
// samples.
struct Support {
  std::uint64_t pass_count_min = UINT64_MAX;     // samples of the pass with the fewest
  std::uint64_t process_count_min = UINT64_MAX;  // of the process with the fewest
};

void count_support(const CellResult& cell, const TimedNumber& number, Support& support) {
  std::uint64_t process_count = 0;
  for (const PassSummary& pass : cell.passes) {
    const std::uint64_t count = sample_count(buckets_of(pass, number));
    support.pass_count_min = std::min(support.pass_count_min, count);
    process_count += count;
  }
  support.process_count_min = std::min(support.process_count_min, process_count);
}

// The logarithm of the number over all passes of a process together.
double process_log(const CellResult& cell, const TimedNumber& number, double clock_step_ns) {
  std::vector<const LatencyBuckets*> histograms;
  for (const PassSummary& pass : cell.passes) histograms.push_back(&buckets_of(pass, number));
  return std::log(
      resolved_quantile_ns(merge_buckets(histograms), number.percentile.share(), clock_step_ns)
          .value_or(0));
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
      estimate_paired_shift(values, {.confidence = confidence, .spread_min = kSpreadMin});
  if (!centre) return std::nullopt;
  const double value = median(values);
  return Estimate{.value = std::exp(value),
                  .low = std::exp(std::min(value, centre->low)),
                  .high = std::exp(std::max(value, centre->high))};
}

struct PendingNumber {
  std::size_t cell_index = 0, number_index = 0;
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
  void add_timed(std::size_t plan_index, CellComparison& cell, std::size_t cell_index);
  NumberComparison timed_number(const TimedNumber& timed, const CellRounds& rounds,
                                std::vector<double>& differences) const;
  void judge();
  void judge(NumberComparison& number, const Shift& shift, double p_value_adjusted) const;

  const InterleavedRun& run_;
  const ComparePolicy& policy_;
  StrayLines stray_;
  std::vector<CellRounds> rounds_;
  double clock_step_ns_ = 0;
  std::vector<PendingNumber> pending_;
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
    if (policy_.scope == CompareScope::Timed) cell.numbers.clear();
    if (!refused && policy_.scope != CompareScope::Exact) add_timed(plan_index, cell, i);
  }
  judge();
  conclude(policy_, result_);
  return std::move(result_);
}

void RoundComparer::add_timed(std::size_t plan_index, CellComparison& cell,
                              std::size_t cell_index) {
  const CellRounds& rounds = rounds_[plan_index];
  const std::string reason = timed_reason();
  for (const TimedNumber& timed : timed_numbers()) {
    std::vector<double> differences;
    NumberComparison number = timed_number(timed, rounds, differences);
    if (!number.base && !number.now) continue;
    if (!reason.empty()) {
      differences.clear();
      number.verdict = Verdict::NotComparable;
      number.reason = reason;
    }
    if (!differences.empty()) {
      pending_.push_back({.cell_index = cell_index,
                          .number_index = cell.numbers.size(),
                          .differences = std::move(differences)});
    }
    cell.numbers.push_back(std::move(number));
  }
  for (std::size_t side = 0; side < kSideCount; ++side) {
    std::vector<const CellResult*> processes;
    for (const RoundPair& pair : rounds.pairs()) {
      processes.push_back(side == 0 ? pair.base : pair.now);
    }
    if (processes.empty()) continue;
    for (const std::string& flag : stability_flags(pooled(processes), clock_step_ns_)) {
      // Every process begins cold, so single passes always stand apart; the rounds' medians do not.
      if (flag.find("stands apart") == std::string::npos) {
        cell.flags.push_back(run_.plan.sides[side].label + ": " + flag);
      }
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
      number.base = stored_quantile(*base, timed);
      number.now = stored_quantile(*now, timed);
    }
    number.verdict = Verdict::NotComparable;
    number.reason = "one side has no samples";
    return number;
  }
  const std::uint64_t wanted = sample_count_min(timed.percentile);
  const bool by_pass = support.pass_count_min >= wanted;
  std::array<std::vector<double>, kSideCount> values;
  for (const auto& [base, now, in_turns] : pairs) {
    const auto logs = [&](const CellResult& cell) {
      return by_pass ? pass_logs(cell, timed, clock_step_ns_)
                     : std::vector{process_log(cell, timed, clock_step_ns_)};
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
    number.reason = kMoreRounds;
  }
  return number;
}

void RoundComparer::judge() {
  const auto look_count = static_cast<double>(look_rounds(run_.plan).size());
  std::map<std::string, std::vector<Spread>> spreads;
  const auto name_of = [&](const PendingNumber& pending) {
    return result_.cells[pending.cell_index].numbers[pending.number_index].name;
  };
  for (const PendingNumber& pending : pending_) {
    Spread spread = paired_spread(pending.differences).value();
    spread.variance = std::max(spread.variance, kSpreadMin * kSpreadMin);
    spreads[name_of(pending)].push_back(spread);
  }
  std::map<std::string, SpreadPrior> priors;
  for (const auto& [name, list] : spreads) priors[name] = fit_spread_prior(list);
  std::vector<double> p_values;
  for (PendingNumber& pending : pending_) {
    // Whoever looks several times and stops at the first answer errs as often as all looks
    // together; each gets its part.
    pending.shift = estimate_paired_shift(pending.differences,
                                          {.confidence = 1 - (1 - policy_.confidence) / look_count,
                                           .spread_min = kSpreadMin,
                                           .prior = priors[name_of(pending)]})
                        .value();
    p_values.push_back(std::min(1.0, pending.shift.p_value * look_count));
  }
  const std::vector<double> adjusted = benjamini_hochberg(p_values);
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    NumberComparison& number =
        result_.cells[pending_[i].cell_index].numbers[pending_[i].number_index];
    number.p_value = p_values[i];
    judge(number, pending_[i].shift, adjusted[i]);
  }
}

void RoundComparer::judge(NumberComparison& number, const Shift& shift,
                          double p_value_adjusted) const {
  number.change = std::expm1(shift.estimate);
  number.change_low = std::expm1(shift.low);
  number.change_high = std::expm1(shift.high);
  number.p_value_adjusted = p_value_adjusted;
  const double reach = std::log1p(policy_.effect_min_of(number.name, true));
  const bool differs =
      p_value_adjusted <= policy_.false_share_max && std::abs(shift.estimate) > reach;
  const double resolved_ns = kClockShareMin * clock_step_ns_;
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
    number.reason = kMoreRounds;
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
                        number.reason == kMoreRounds;
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
