// See compare_input.h.
#include "harness/shell/pages/compare_input.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/number_text.h"
#include "harness/core/run/conditions.h"
#include "harness/core/run/run_folder.h"
#include "results/compare/side_cells.h"

namespace allocmark {

double parse_share(const std::string& text, const std::string& option) {
  std::string_view number = text;
  const bool percent = number.ends_with('%');
  if (percent) number.remove_suffix(1);
  const double value = number_in_text<double>(number).value_or(-1);
  const double share = percent ? value / 100 : value;
  if (share >= 0 && (share < 1 || (percent && share < 10))) return share;
  throw UsageError({.what = "this is no share",
                    .where = option,
                    .wanted = "3% or 0.03",
                    .got = text,
                    .next = !percent && share >= 1 ? "did you mean " + text + "%?" : ""});
}

ComparePolicy read_policy(const std::string& path, const std::string& effect_min) {
  ComparePolicy policy;
  if (!path.empty()) policy = policy_from_json(read_file(path, kSettingsInput), path);
  if (!effect_min.empty()) policy.effect_min = parse_share(effect_min, "--min-effect");
  return policy;
}

RunSide read_side(const std::string& label, const std::string& path, CellDetail detail) {
  RunSide side{.label = label};
  const bool is_folder = std::filesystem::is_directory(path);
  const std::string results = is_folder ? results_path(path) : path;
  if (is_folder) side.planned = read_manifest(path).cells;
  side.file = read_run_file(results, detail);
  side.whole = cells_of_file(results, std::move(side.file.places));
  forget_measured(&side);
  if (is_folder) add_stored_conditions(path, &side.file.environment);
  return side;
}

}  // namespace allocmark
