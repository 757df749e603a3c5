// One timed number over rounds in which two sides took turns.
#include "results/compare/interleaved_numbers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "base/median.h"
#include "results/statistics/paired_shift.h"

namespace allocmark {
namespace {

// How samples spread within a step of the clock is not known, so that a change of less than this
// part of it may be how they fall.
constexpr double kClockShareMin = 1.0 / 8;

// More rounds than anybody waits for.
constexpr double kRoundsNeededMax = 1e6;

// Rounds after which the interval, which narrows with their root, is likely to be within the floor
// or clear of 0.
std::uint32_t rounds_needed(const Shift& shift, double reach, std::size_t round_count) {
  const double half = std::max(shift.high - shift.estimate, shift.estimate - shift.low);
  const double size = std::abs(shift.estimate);
  const double wanted = std::max(size < reach ? reach - size : size, 1e-6);
  const double factor = std::max(1.0, half / wanted * (half / wanted));
  const double count = std::ceil(static_cast<double>(round_count) * factor);
  return static_cast<std::uint32_t>(
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

}  // namespace

bool is_known(const TimedNumber& number, const std::vector<RoundPair>& pairs) {
  return std::any_of(pairs.begin(), pairs.end(), [&](const RoundPair& pair) {
    return has_number(*pair.base, number) || has_number(*pair.now, number);
  });
}

NumberComparison number_of_rounds(const TimedNumber& timed, const std::vector<RoundPair>& pairs,
                                  const RoundRule& rule, std::vector<double>& differences) {
  NumberComparison number{.name = std::string(timed.name), .timed = true};
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
    number.decide(Verdict::NotComparable, "one side has no samples");
    return number;
  }
  const std::uint64_t wanted = samples_wanted(timed);
  const bool by_pass = support.pass_count_min >= wanted && !is_of_process(timed);
  std::array<std::vector<double>, kSideCount> values;
  for (const auto& [base, now, in_turns] : pairs) {
    const auto logs = [&](const CellResult& cell) {
      if (by_pass) return pass_logs(cell, timed, rule.clock_step_ns);
      return std::vector{process_log(cell, timed, rule.clock_step_ns).value_or(0)};
    };
    const std::vector<double> base_logs = logs(*base);
    const std::vector<double> now_logs = logs(*now);
    // A process's value: the median of its passes, which one disturbed pass does not move.
    values[0].push_back(median(base_logs));
    values[1].push_back(median(now_logs));
    differences.push_back(round_difference(base_logs, now_logs, in_turns));
  }
  number.base_interval = interval_of(values[0], rule.policy.confidence);
  number.now_interval = interval_of(values[1], rule.policy.confidence);
  number.base = std::exp(median(values[0]));
  number.now = std::exp(median(values[1]));
  if (support.process_count_min < wanted) {
    differences.clear();
    number.decide(Verdict::Undecided,
                  fmt::format("{} samples in a process, {} are needed: give more --passes",
                              support.process_count_min, wanted));
  } else if (differences.size() < 2) {
    differences.clear();
    number.verdict = Verdict::Undecided;
    number.rounds_needed = rule.first_look_round_count;
  }
  return number;
}

void judge_number(const TimedNumber& timed, const Shift& shift, std::size_t round_count,
                  const RoundRule& rule, double p_value_adjusted, NumberComparison& number) {
  number.change = std::expm1(shift.estimate);
  number.change_low = std::expm1(shift.low);
  number.change_high = std::expm1(shift.high);
  number.p_value_adjusted = p_value_adjusted;
  const double reach = std::log1p(rule.policy.effect_min_of(number.name, true));
  const bool differs =
      p_value_adjusted <= rule.policy.false_share_in_turns() && std::abs(shift.estimate) > reach;
  const double resolved_ns =
      timed.kind == TimedKind::Quantile ? kClockShareMin * rule.clock_step_ns : 0;
  if (differs && std::abs(number.now.value_or(0) - number.base.value_or(0)) <= resolved_ns) {
    number.verdict = Verdict::Undecided;
    number.reason =
        fmt::format("less than an eighth of the clock's step of {:.3g} ns", rule.clock_step_ns);
  } else if (differs) {
    number.verdict = shift.estimate > 0 ? Verdict::Worse : Verdict::Better;
  } else if (shift.low > -reach && shift.high < reach) {
    number.verdict = Verdict::Same;
  } else if (timed.rare) {
    number.decide(Verdict::Same, "rare calls scatter: no change is clear");
  } else {
    number.verdict = Verdict::Undecided;
    number.rounds_needed = rounds_needed(shift, reach, round_count);
  }
}

}  // namespace allocmark
