// See compare_input.h.
#include "harness/shell/pages/compare_input.h"

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/number_text.h"
#include "harness/core/run/run_folder.h"

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

}  // namespace allocmark
