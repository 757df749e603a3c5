// Reads a bundle, applies the rules, and words the answer.
#include "harness/tools/bundle/bundle_check.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>  // IWYU pragma: keep (fs)
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "base/json_text.h"
#include "harness/tools/bundle/bundle_rules.h"
#include "results/columns/text.h"
#include "results/schema.h"

namespace allocmark {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

constexpr std::array<std::string_view, 4> kOutcomeNames{"ok", "BROKEN", "not checked", "-"};
constexpr std::size_t kShownMax = 10;

void append_lines(std::string& out, const char* word, const std::vector<std::string>& lines) {
  for (std::size_t i = 0; i < std::min(lines.size(), kShownMax); ++i) {
    out += fmt::format("      {}{}\n", word, printable(lines[i]));
  }
  if (lines.size() > kShownMax) {
    out += fmt::format("      {}and {} more\n", word, lines.size() - kShownMax);
  }
}

// For the verdict: how much of the bundle rests on its own word.
std::string share_not_checked(const CheckedRule& rule) {
  const std::uint64_t count = rule.cell_count - rule.cells_made_again;
  if (count == 0) return fmt::format("; all {} cells were made again here", rule.cell_count);
  return fmt::format("; not checked: {} of {} cells ({:.0f} %) were not made again here", count,
                     rule.cell_count,
                     100 * static_cast<double>(count) / static_cast<double>(rule.cell_count));
}

}  // namespace

std::string_view to_string(RuleOutcome outcome) {
  return kOutcomeNames.at(static_cast<std::size_t>(outcome));
}

BundleCheck check_bundle(TarContents contents, const std::string& version) {
  return check_bundle(std::move(contents), CheckOptions{.version = version});
}

BundleCheck check_bundle(TarContents contents, const CheckOptions& options) {
  const BundleView view = view_bundle(std::move(contents), options);
  BundleCheck check;
  bool unchecked = false;
  for (const BundleRule& rule : bundle_rules()) {
    CheckedRule checked{.name = rule.name, .question = rule.question};
    rule.apply(view, checked);
    if (checked.outcome == RuleOutcome::Broken) check.exit_code = ExitCode::Regression;
    unchecked = unchecked || checked.outcome == RuleOutcome::NotChecked;
    check.rules.push_back(std::move(checked));
  }
  if (check.exit_code == ExitCode::Pass && unchecked) check.exit_code = ExitCode::CellsIncomplete;
  return check;
}

std::string render_check(const BundleCheck& check) {
  std::string out;
  std::size_t broken_count = 0;
  std::size_t unchecked_count = 0;
  std::size_t reservation_count = 0;
  std::string share;
  for (const CheckedRule& rule : check.rules) {
    broken_count += rule.outcome == RuleOutcome::Broken ? 1 : 0;
    unchecked_count += rule.outcome == RuleOutcome::NotChecked ? 1 : 0;
    out += fmt::format("{:<12} {:<20} {}\n", to_string(rule.outcome), rule.name, rule.question);
    append_lines(out, "", rule.findings);
    append_lines(out, "reservation: ", rule.reservations);
    append_lines(out, "note: ", rule.notes);
    reservation_count += rule.reservations.size();
    if (rule.cell_count > 0) share = share_not_checked(rule);
  }
  std::string verdict = "can be published: every rule is kept";
  if (check.exit_code != ExitCode::Pass) {
    verdict = fmt::format("cannot be published as it is: {} {} broken, {} not checked",
                          broken_count, broken_count == 1 ? "rule" : "rules", unchecked_count);
  } else if (reservation_count > 0) {
    verdict = fmt::format(
        "can be published with {} reservations, named above: say them beside the "
        "numbers",
        reservation_count);
  }
  return out + verdict + share + "\n";
}

std::string render_check_json(const BundleCheck& check) {
  OrderedJson rules = OrderedJson::array();
  std::uint64_t cell_count = 0;
  std::uint64_t cells_made_again = 0;
  for (const CheckedRule& rule : check.rules) {
    cell_count += rule.cell_count;
    cells_made_again += rule.cells_made_again;
    rules.push_back({{"rule", rule.name},
                     {"question", rule.question},
                     {"outcome", rule.outcome == RuleOutcome::NotApplicable
                                     ? "not applicable"
                                     : std::string(to_string(rule.outcome))},
                     {"findings", rule.findings},
                     {"reservations", rule.reservations},
                     {"notes", rule.notes}});
  }
  const OrderedJson json = {{"kind", "bundle_check"},
                            {"schema_version", kSchemaVersion},
                            {"publishable", check.exit_code == ExitCode::Pass},
                            {"exit_code", static_cast<int>(check.exit_code)},
                            {"cell_count", cell_count},
                            {"cells_made_again", cells_made_again},
                            {"rules", rules}};
  return json_text(json, 1) + "\n";
}

}  // namespace allocmark
