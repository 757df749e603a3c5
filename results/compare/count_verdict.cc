// See count_verdict.h.
#include "results/compare/count_verdict.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <boost/math/distributions/students_t.hpp>

#include "results/statistics/paired_shift.h"
#include "results/statistics/shift.h"
#include "results/statistics/sign_flip.h"

namespace allocmark {
namespace {

// What others can reach is believed from this many passes on each side: 1 in 70 by chance.
constexpr std::size_t kSharedCountMin = 4;

std::size_t shortest(const CountSeries& series) {
  std::size_t count = SIZE_MAX;
  for (const auto& process : series) count = std::min(count, process.size());
  return series.empty() ? 0 : count;
}

// The first `pass_count` passes of every process, process after process.
std::vector<double> flattened(const CountSeries& series, std::size_t pass_count) {
  std::vector<double> values;
  for (const auto& process : series) {
    values.insert(values.end(), process.begin(),
                  process.begin() + static_cast<std::ptrdiff_t>(pass_count));
  }
  return values;
}

std::vector<double> process_means(const CountSeries& series, std::size_t pass_count) {
  std::vector<double> means;
  for (const auto& process : series) {
    double sum = 0;
    for (std::size_t i = 0; i < pass_count; ++i) sum += process[i];
    means.push_back(sum / static_cast<double>(pass_count));
  }
  return means;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Every process counts the same, pass for pass.
bool processes_agree(const CountSeries& series, std::size_t pass_count) {
  return std::all_of(series.begin(), series.end(), [&](const std::vector<double>& process) {
    return std::equal(process.begin(), process.begin() + static_cast<std::ptrdiff_t>(pass_count),
                      series.front().begin());
  });
}

bool is_constant(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(),
                     [&](double value) { return value == values.front(); });
}

std::string pass_text(std::size_t index) {
  return index == 0 ? "the first pass" : fmt::format("timed pass {}", index);
}

void judge_exactly(const std::vector<double>& base, const std::vector<double>& now,
                   std::size_t pass_count, NumberComparison& number) {
  std::size_t first = pass_count;
  double base_sum = 0;
  double now_sum = 0;
  for (std::size_t i = 0; i < pass_count; ++i) {
    if (base[i] != now[i]) first = std::min(first, i);
    base_sum += base[i];
    now_sum += now[i];
  }
  number.base = base[first];
  number.now = now[first];
  number.verdict = now_sum > base_sum   ? Verdict::Worse
                   : now_sum < base_sum ? Verdict::Better
                                        : Verdict::Changed;
  if (first > 0) number.reason = "from " + pass_text(first) + " on";
}

// One-sided p-values of `now` having more and fewer.
struct Evidence {
  double more = 1, fewer = 1;
};

Evidence paired_evidence(std::vector<double> differences) {
  Evidence evidence{.more = sign_flip_p_value(differences)};
  for (double& difference : differences) difference = -difference;
  evidence.fewer = sign_flip_p_value(differences);
  return evidence;
}

// Passes of one process on each side, by ranks; ties count for both.
Evidence rank_evidence(const std::vector<double>& base, const std::vector<double>& now) {
  std::uint64_t not_more = 0;
  std::uint64_t not_fewer = 0;
  for (const double a : base) {
    for (const double b : now) {
      not_more += b <= a ? 1 : 0;
      not_fewer += b >= a ? 1 : 0;
    }
  }
  return {.more = mann_whitney_cdf(base.size(), now.size(), not_more),
          .fewer = mann_whitney_cdf(base.size(), now.size(), not_fewer)};
}

// At 95 %, one-sided, by Student's t; infinite for fewer than three rounds.
double increase_max(const std::vector<double>& differences) {
  if (differences.size() < 3) return std::numeric_limits<double>::infinity();
  const std::optional<Spread> spread = paired_spread(differences);
  const auto n = static_cast<double>(differences.size());
  const boost::math::students_t distribution(n - 1);
  return mean(differences) +
         boost::math::quantile(distribution, 0.95) * std::sqrt(spread->variance / n);
}

void judge_undecided(double base_mean, double now_mean, double limit, NumberComparison& number) {
  if (now_mean <= base_mean) {
    number.decide(Verdict::Same, "random on both sides, and not more");
  } else if (limit <= kCountShareMax * base_mean) {
    number.decide(Verdict::Same, fmt::format("random on both sides; at most {:.3g} % more at 95 %",
                                             limit / base_mean * 100));
  } else {
    number.decide(Verdict::Undecided,
                  "passes differ among themselves: more, but perhaps by chance");
  }
}

void judge_random(const CountSeries& base, const CountSeries& now, std::size_t pass_count,
                  NumberComparison& number) {
  const std::vector<double> base_all = flattened(base, pass_count);
  const std::vector<double> now_all = flattened(now, pass_count);
  number.base = mean(base_all);
  number.now = mean(now_all);
  const double base_max = *std::max_element(base_all.begin(), base_all.end());
  const double now_max = *std::max_element(now_all.begin(), now_all.end());
  const double base_min = *std::min_element(base_all.begin(), base_all.end());
  const double now_min = *std::min_element(now_all.begin(), now_all.end());
  if (now_min > base_max) {
    number.decide(Verdict::Worse, "more in every pass than in any of the other side's");
    return;
  }
  if (now_max < base_min) {
    number.decide(Verdict::Better, "fewer in every pass than in any of the other side's");
    return;
  }
  const bool paired = base.size() == now.size() && base.size() > 1;
  std::vector<double> differences;
  if (paired) {
    differences = process_means(now, pass_count);
    const std::vector<double> before = process_means(base, pass_count);
    for (std::size_t i = 0; i < before.size(); ++i) differences[i] -= before[i];
  }
  const Evidence evidence =
      paired ? paired_evidence(differences) : rank_evidence(base_all, now_all);
  number.p_value = std::min(1.0, 2 * std::min(evidence.more, evidence.fewer));
  if (evidence.more <= kCountPMax || evidence.fewer <= kCountPMax) {
    number.decide(evidence.more <= kCountPMax ? Verdict::Worse : Verdict::Better,
                  fmt::format("random, with p {:.2g} that it is chance",
                              std::min(evidence.more, evidence.fewer)));
    return;
  }
  judge_undecided(*number.base, *number.now, increase_max(differences), number);
}

}  // namespace

void judge_counts(const CountSeries& base, const CountSeries& now, bool shared,
                  NumberComparison& number) {
  const std::size_t pass_count = std::min(shortest(base), shortest(now));
  if (pass_count == 0) {
    if (base.empty() == now.empty()) return;
    number.decide(Verdict::Changed,
                  base.empty() ? "BASE does not know it" : "NEW does not know it");
    return;
  }
  if (shared && std::min(base.size(), now.size()) * pass_count < kSharedCountMin) {
    number.base = base.front().front();
    number.now = now.front().front();
    number.reason = "others can reach it, and so few passes cannot tell";
    return;
  }
  const bool repeats = processes_agree(base, pass_count) && processes_agree(now, pass_count);
  const std::vector<double> base_all = flattened(base, pass_count);
  const std::vector<double> now_all = flattened(now, pass_count);
  if (repeats && std::equal(base.front().begin(),
                            base.front().begin() + static_cast<std::ptrdiff_t>(pass_count),
                            now.front().begin())) {
    number.base = base.front().front();
    number.now = now.front().front();
    number.verdict = Verdict::Same;
    return;
  }
  // Several processes that agree pass for pass, or passes that are all alike, show that the
  // allocator repeats itself; a single process whose passes differ may be random.
  const bool known =
      (base.size() > 1 && now.size() > 1) || (is_constant(base_all) && is_constant(now_all));
  if (repeats && known && !shared) {
    judge_exactly(base.front(), now.front(), pass_count, number);
  } else {
    judge_random(base, now, pass_count, number);
  }
  if (number.base && *number.base != 0) number.change = *number.now / *number.base - 1;
}

}  // namespace allocmark
