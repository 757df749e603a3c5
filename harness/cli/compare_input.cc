// See compare_input.h.
#include "harness/cli/compare_input.h"

#include <charconv>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "harness/conditions.h"
#include "harness/run_folder.h"

namespace allocmark {

RunSide read_side(const std::string& label, const std::string& path) {
  RunSide side{.label = label};
  if (!std::filesystem::is_directory(path)) {
    side.file = read_run_file(path);
    return side;
  }
  side.planned = read_manifest(path).cells;
  side.file = read_run_file(results_path(path));
  add_stored_conditions(path, &side.file.environment);
  return side;
}

double parse_share(const std::string& text, const std::string& option) {
  std::string_view number = text;
  const bool percent = number.ends_with('%');
  if (percent) number.remove_suffix(1);
  double value = -1;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  const bool whole = error == std::errc{} && end == number.data() + number.size();
  const double share = percent ? value / 100 : value;
  if (whole && share >= 0 && share < 10) return share;
  throw UsageError({.what = "this is no share",
                    .where = option,
                    .wanted = "3% or 0.03",
                    .got = text,
                    .next = {}});
}

ComparePolicy read_policy(const std::string& path, const std::string& effect_min) {
  ComparePolicy policy;
  if (!path.empty()) policy = policy_from_json(read_file(path), path);
  if (!effect_min.empty()) policy.effect_min = parse_share(effect_min, "--min-effect");
  return policy;
}

}  // namespace allocmark
