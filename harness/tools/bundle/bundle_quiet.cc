// The rule 'machine-quiet': whether what was measured is the allocators or the machine's other
// work.
#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <fmt/format.h>
#include "harness/core/run/conditions.h"
#include "harness/tools/bundle/bundle_rules.h"
#include "results/cell_check.h"
#include "results/columns/columns.h"
#include "results/derived.h"

namespace allocmark {
namespace {

// Chance alone lets the passes of a cell or two of many differ.
constexpr double kDifferingCellShareMax = 0.1;

// Why the run may have been disturbed: what is stored in words, and what the numbers say.
std::vector<std::string> disturbances_of(const BundleView& view, const std::string& prefix,
                                         const Environment& environment, CheckedRule& rule) {
  std::vector<std::string> found;
  for (const std::string& warning : environment.warnings) {
    if (warning.starts_with(kOtherWorkWarning)) found.push_back(warning);
  }
  const auto file = view.bundle.files.find(prefix + "conditions.json");
  if (file == view.bundle.files.end()) return found;
  const Conditions conditions = conditions_from_json(file->second.whole(), file->first);
  found.insert(found.end(), conditions.warnings.begin(), conditions.warnings.end());
  for (const std::string& sentence : disturbances(conditions, environment.cpu_count)) {
    if (std::ranges::find(conditions.warnings, sentence) != conditions.warnings.end()) continue;
    // Another version may know fewer warnings.
    differs(view, environment,
            fmt::format("{} lacks the warning of its own numbers: {}", file->first, sentence),
            rule);
  }
  return found;
}

// Cells by what speaks against them; "3 of 5 cells", with the first as an example.
void reserve(CheckedRule& rule, const std::vector<std::string>& cells, std::size_t measured_count,
             const std::string& what) {
  if (cells.empty()) return;
  rule.reservations.push_back(fmt::format("{} of {} cells {}: {}{}", cells.size(), measured_count,
                                          what, cells.front(), cells.size() > 1 ? ", ..." : ""));
}

void judge_run(const BundleView& view, const std::string& prefix, const RunFile& run,
               CheckedRule& rule) {
  std::size_t measured_count = 0;
  std::vector<std::string> differing;
  std::vector<std::string> changing;
  std::vector<std::string> leaking;
  for (const CellResult& cell : run.cells) {
    if (!is_measured(cell)) continue;
    ++measured_count;
    const std::string name =
        fmt::format("{}{} [{}] {} {}", prefix, cell.key.allocator, conf_or_unset(cell.key),
                    cell.key.workload, cell.key.capacity);
    const std::vector<std::string> passes = differing_passes(cell);
    if (!passes.empty()) differing.push_back(name + ": " + passes.front());
    if (!is_deterministic(cell)) changing.push_back(name);
    if (cell.residue_bytes.value_or(0) > 0) leaking.push_back(name);
  }
  const std::vector<std::string> disturbed = disturbances_of(view, prefix, run.environment, rule);
  const bool many = static_cast<double>(differing.size()) >
                    kDifferingCellShareMax * static_cast<double>(measured_count);
  // The sides of an A/B run take turns, so what disturbs one disturbs the other.
  if (!disturbed.empty() && many && !view.bundle.files.contains(kBundleRounds)) {
    broken(rule, "{}; and passes differ in {} of {} cells, {:.0f} % may", disturbed.front(),
           differing.size(), measured_count, 100 * kDifferingCellShareMax);
    rule.findings.insert(rule.findings.end(), differing.begin(), differing.end());
  } else {
    for (const std::string& sentence : disturbed) {
      rule.reservations.push_back(prefix.empty() ? sentence : "baseline: " + sentence);
    }
    reserve(rule, differing, measured_count, "have passes that differ");
  }
  reserve(rule, changing, measured_count, "were not deterministic");
  reserve(rule, leaking, measured_count, "left device memory behind");
}

}  // namespace

void machine_quiet(const BundleView& view, CheckedRule& rule) {
  if (!needs_run(view, rule)) return;
  try {
    for (const StoredRun* run : runs_of(view)) {
      // Of an A/B run both sides were measured under those of the baseline.
      const bool is_side = run->prefix.empty() && view.bundle.files.contains(kBundleRounds);
      if (!is_side && !view.bundle.files.contains(run->prefix + "conditions.json")) {
        rule.reservations.push_back(fmt::format(
            "{}what else went on during the run is not known: there is no {}conditions.json",
            run->label, run->prefix));
      }
      judge_run(view, run->prefix, *run->file, rule);
    }
  } catch (const Error& error) {
    not_checked(rule, error.what());
  }
}

}  // namespace allocmark
