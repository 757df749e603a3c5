// See two_runs.h.
#include "results/compare/two_runs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/median.h"
#include "results/compare/timed_numbers.h"
#include "results/derived.h"

namespace allocmark {
namespace {

constexpr std::size_t kScatterCellCountMin = 6;
// A P50 follows the host code one to one; what tails do is in proportion to their own bounds. So a
// host that is so much slower on one side doubles the bound of each number.
constexpr double kHostShiftThatDoubles = 0.07;

// The largest of 168 P50s of single cells that nothing caused was 19 % (VERDICTS.md).
constexpr double kAloneFactor = 3;
// Code that shares a core with other work gets half of it.
constexpr double kBoundBesideOtherWork = 1;

double scatter_of(std::vector<double> log_shifts) {
  if (log_shifts.size() < kScatterCellCountMin) return 0;
  const double middle = median(log_shifts);
  for (double& shift : log_shifts) shift = std::abs(shift - middle);
  return 3 * 1.4826 * median(std::move(log_shifts));
}

std::optional<double> log_host_reference(const CellResult& cell) {
  double sum = 0;
  std::size_t count = 0;
  for (const PassSummary& pass : cell.passes) {
    if (!(pass.host_reference_ns > 0)) continue;
    sum += std::log(pass.host_reference_ns);
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

}  // namespace

Disturbance disturbance(RunCell base, RunCell now) {
  const std::optional<double> before = log_host_reference(base.cell);
  const std::optional<double> after = log_host_reference(now.cell);
  return {.host_shift = before && after ? std::abs(*after - *before) : 0,
          .beside_other_work =
              ran_beside_other_work(base.environment) || ran_beside_other_work(now.environment)};
}

std::string bound_source(bool is_calibrated, const Disturbance& disturbance) {
  if (is_calibrated) return " on this machine";
  if (disturbance.beside_other_work) return " beside other work; --confirm runs them in turn";
  constexpr double kHostShiftToSay = 0.02;
  if (disturbance.host_shift < kHostShiftToSay) return "; --confirm runs them in turn";
  return fmt::format(": the machine was {:.2g} % slower in one of them",
                     std::expm1(disturbance.host_shift) * 100);
}

CellShifts::CellShifts(std::string_view number, std::vector<double> log_shifts)
    : scatter_(scatter_of(log_shifts)), log_shifts_(std::move(log_shifts)) {
  const TimedNumber* const timed = find_timed_number(number);
  if (timed != nullptr) between_runs_ = timed->between_runs;
}

double CellShifts::bound(double log_shift, const Disturbance& disturbance) const {
  const double alike_min = std::log1p(between_runs_);
  const auto alike_count = std::ranges::count_if(log_shifts_, [&](double other) {
    return std::abs(other) > alike_min && (other > 0) == (log_shift > 0);
  });
  const bool is_alone = static_cast<std::size_t>(alike_count) * 3 < log_shifts_.size();
  const double share = (is_alone ? kAloneFactor : 1) * between_runs_;
  return std::max({share * (1 + disturbance.host_shift / kHostShiftThatDoubles),
                   std::expm1(scatter_),
                   disturbance.beside_other_work ? kBoundBesideOtherWork : 0});
}

}  // namespace allocmark
