// See compare_outcome.h; also the words of verdicts.
#include "results/compare/compare_outcome.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "results/derived.h"
#include "results/json.h"

namespace allocmark {
namespace {

constexpr std::array<std::string_view, kVerdictCount> kVerdictNames{
    "worse", "not comparable", "better", "changed", "undecided", "same"};

}  // namespace

std::string_view to_string(Verdict verdict) {
  return kVerdictNames.at(static_cast<std::size_t>(verdict));
}

double CellComparison::change_abs_max() const {
  double largest = 0;
  for (const NumberComparison& number : numbers) {
    if (number.verdict != verdict) continue;
    // From 0 to anything, a lost status or another placement has no share; it stands first.
    const double change =
        number.change ? std::abs(*number.change) : std::numeric_limits<double>::infinity();
    largest = std::max(largest, change);
  }
  return largest;
}

std::string outcome_text(const std::string& label, const CellResult& cell) {
  return fmt::format("{}: {}{}{}", label, to_string(cell.status), cell.reason.empty() ? "" : ": ",
                     cell.reason);
}

CellComparison compare_outcomes(const std::string& base_label, const CellResult& base,
                                const std::string& now_label, const CellResult& now) {
  const bool base_measured = is_measured(base);
  const bool now_measured = is_measured(now);
  // Nothing is compared with a result that is not there, but what BASE did wrong can be mended.
  const bool base_broke_rule =
      base.status == CellStatus::Failed && base.reason.starts_with("broken rule");
  const std::string base_text = outcome_text(base_label, base);
  const std::string now_text = outcome_text(now_label, now);
  CellComparison cell{.key = base.key,
                      .verdict = base_measured                     ? Verdict::Worse
                                 : base_broke_rule && now_measured ? Verdict::Better
                                                                   : Verdict::NotComparable,
                      .reason = base_measured  ? now_text
                                : now_measured ? base_text
                                               : base_text + "; " + now_text};
  cell.numbers.push_back({.name = "status",
                          .base_text = std::string(to_string(base.status)),
                          .now_text = std::string(to_string(now.status)),
                          .verdict = cell.verdict,
                          .safety = true});
  return cell;
}

}  // namespace allocmark
