// Which cells a confirmation runs again, and what its verdicts change.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "results/compare/compare_conclude.h"
#include "results/compare/interleaved.h"

namespace allocmark {
namespace {

// A change that may be real although a single run of either side shows less: two runs of the same
// thing come up to this part of the smallest effect nearer to each other than they are.
constexpr double kSuspectShare = 1.0 / 3;

bool is_suspect(const NumberComparison& number, const ComparePolicy& policy) {
  // Without a change there were too few samples or passes, which further rounds would lack, too.
  if (!number.timed || !number.change || number.verdict == Verdict::NotComparable) return false;
  return number.verdict != Verdict::Same ||
         std::abs(*number.change) >= kSuspectShare * policy.effect_min_of(number.name, true);
}

bool differs_exactly(const NumberComparison& number) {
  return !number.timed && (number.verdict == Verdict::Worse || number.verdict == Verdict::Better ||
                           number.verdict == Verdict::Changed);
}

NumberComparison* find_number(CellComparison& cell, const std::string& name) {
  const auto found = std::find_if(cell.numbers.begin(), cell.numbers.end(),
                                  [&](const NumberComparison& item) { return item.name == name; });
  return found == cell.numbers.end() ? nullptr : &*found;
}

void apply_cell(CellComparison& confirmed, CellComparison& cell) {
  for (NumberComparison& number : cell.numbers) {
    const NumberComparison* again = find_number(confirmed, number.name);
    if (again == nullptr) continue;
    if (number.timed) {
      number = *again;
      if (number.reason.empty()) number.reason = "confirmed by running both sides in turn";
    } else if (differs_exactly(number) && again->verdict == Verdict::Same) {
      number.decide(Verdict::Undecided, "it did not come again when both sides were run again");
    }
  }
  for (const std::string& flag : confirmed.flags) {
    cell.flags.push_back("confirmation: " + flag);
  }
}

}  // namespace

std::vector<InterleavedCell> suspects(const Comparison& comparison, const ComparePolicy& policy,
                                      std::uint32_t round_count_max) {
  std::vector<InterleavedCell> cells;
  for (const CellComparison& cell : comparison.cells) {
    const bool timed = std::any_of(
        cell.numbers.begin(), cell.numbers.end(),
        [&](const NumberComparison& number) { return number.gated && is_suspect(number, policy); });
    const bool exact = std::any_of(cell.numbers.begin(), cell.numbers.end(), differs_exactly);
    if (!timed && !exact) continue;
    cells.push_back(
        {.base = cell.key, .now = cell.key, .round_count_max = timed ? round_count_max : 1});
  }
  return cells;
}

void apply_confirmation(const Comparison& confirmation, const ComparePolicy& policy,
                        Comparison& comparison) {
  std::map<std::string, CellComparison> confirmed_by_id;
  for (const CellComparison& cell : confirmation.cells) confirmed_by_id[cell.key.id()] = cell;
  for (CellComparison& cell : comparison.cells) {
    const auto found = confirmed_by_id.find(cell.key.id());
    if (found != confirmed_by_id.end()) apply_cell(found->second, cell);
  }
  for (const IncompleteCell& cell : confirmation.incomplete) {
    comparison.incomplete.push_back({.key = cell.key, .reason = "confirmation: " + cell.reason});
  }
  for (const std::string& fault : confirmation.faults) {
    comparison.faults.push_back("confirmation: " + fault);
  }
  conclude(policy, comparison);
}

}  // namespace allocmark
