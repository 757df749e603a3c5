// Reads and writes policies and calibrations; every key is known or an error.
#include "results/compare/compare_policy.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "results/compare/timed_numbers.h"
#include "results/schema.h"

namespace allocmark {
namespace {

using OrderedJson = nlohmann::ordered_json;

[[noreturn]] void refuse_policy(const std::string& where, std::string what, std::string wanted,
                                std::string got) {
  throw UsageError({.what = std::move(what),
                    .where = where,
                    .wanted = std::move(wanted),
                    .got = std::move(got),
                    .next = "see results/compare/VERDICTS.md, \"Comparing two runs\""});
}

// A JSON object whose keys must all be asked for.
class Object {
 public:
  Object(const std::string& text, std::string where, std::vector<std::string> keys)
      : where_(std::move(where)) {
    std::string problem;
    json_ = parse_ordered_json(text, &problem);
    if (!json_.is_object()) refuse_policy(where_, "the file is no JSON object", "{...}", problem);
    for (const auto& [key, value] : json_.items()) {
      if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
      refuse_policy(where_, fmt::format("the key '{}' is not known", key),
                    fmt::format("{}", fmt::join(keys, ", ")), "");
    }
  }

  [[nodiscard]] bool has(const char* key) const { return json_.contains(key); }
  [[nodiscard]] const OrderedJson& at(const char* key) const {
    if (!has(key)) refuse_policy(where_, fmt::format("the key '{}' is missing", key), "", "");
    return json_[key];
  }
  void share(const char* key, double& value, double below) const {
    if (has(key)) value = to_share(key, at(key), below);
  }
  void flag(const char* key, bool& value) const {
    if (!has(key)) return;
    if (!at(key).is_boolean()) wrong(key, "true or false", at(key));
    value = at(key).get<bool>();
  }
  void texts(const char* key, std::vector<std::string>& values) const {
    if (!has(key)) return;
    if (!at(key).is_array()) wrong(key, "a list of names", at(key));
    for (const OrderedJson& item : at(key)) values.push_back(to_text(key, item));
  }
  [[nodiscard]] std::string text(const char* key) const { return to_text(key, at(key)); }

  [[nodiscard]] double to_share(const std::string& key, const OrderedJson& value,
                                double below) const {
    const double share = value.is_number() ? value.get<double>() : -1;
    if (!(share >= 0 && share < below)) {
      wrong(key, fmt::format("a number from 0 to below {} (0.03 is 3 %)", below), value);
    }
    return share;
  }
  [[nodiscard]] std::string to_text(const std::string& key, const OrderedJson& value) const {
    if (!value.is_string()) wrong(key, "a text", value);
    return value.get<std::string>();
  }
  [[noreturn]] void wrong(const std::string& key, std::string wanted,
                          const OrderedJson& got) const {
    refuse_policy(where_, fmt::format("the value of '{}' is not as it must be", key),
                  std::move(wanted), json_excerpt(got));
  }

 private:
  OrderedJson json_;
  std::string where_;
};

}  // namespace

double ComparePolicy::effect_min_of(std::string_view number, bool timed) const {
  for (const auto& [name, value] : effect_min_by_number) {
    if (name == number) return value;
  }
  if (!timed) return 0;
  const TimedNumber* const known = find_timed_number(number);
  return known == nullptr ? effect_min : effect_min * known->floor_factor;
}

ComparePolicy policy_from_json(const std::string& text, const std::string& where) {
  const Object object(text, where,
                      {"effect_min", "effect_min_by_number", "confidence", "false_share_max",
                       "scope", "calibration_required", "fail_on_changed", "fail_on_undecided",
                       "fail_on_not_comparable", "environment_ignored", "report_only"});
  ComparePolicy policy;
  object.share("effect_min", policy.effect_min, 10);
  object.share("confidence", policy.confidence, 1);
  if (policy.confidence < 0.5) object.wrong("confidence", "0.5 or more", object.at("confidence"));
  if (object.has("false_share_max")) {
    object.share("false_share_max", policy.false_share_max.emplace(), 1);
  }
  object.flag("calibration_required", policy.calibration_required);
  object.flag("fail_on_changed", policy.fail_on_changed);
  object.flag("fail_on_undecided", policy.fail_on_undecided);
  object.flag("fail_on_not_comparable", policy.fail_on_not_comparable);
  object.texts("environment_ignored", policy.environment_ignored);
  object.texts("report_only", policy.report_only);
  if (object.has("scope")) {
    const std::string scope = object.text("scope");
    if (scope != "all" && scope != "exact" && scope != "timed") {
      object.wrong("scope", "all, exact or timed", object.at("scope"));
    }
    policy.scope = scope == "all"     ? CompareScope::All
                   : scope == "exact" ? CompareScope::Exact
                                      : CompareScope::Timed;
  }
  if (object.has("effect_min_by_number")) {
    const OrderedJson& shares = object.at("effect_min_by_number");
    if (!shares.is_object()) object.wrong("effect_min_by_number", "{NUMBER: SHARE}", shares);
    for (const auto& [name, value] : shares.items()) {
      policy.effect_min_by_number.emplace_back(name, object.to_share(name, value, 10));
    }
  }
  return policy;
}

const NoiseBound* Calibration::find(std::string_view number) const {
  for (const NoiseBound& bound : bounds) {
    if (bound.number == number) return &bound;
  }
  return nullptr;
}

std::string to_json(const Calibration& calibration) {
  OrderedJson bounds = OrderedJson::array();
  for (const NoiseBound& bound : calibration.bounds) {
    bounds.push_back({{"number", bound.number},
                      {"shift_bound", bound.shift_bound},
                      {"shift_median", bound.shift_median},
                      {"shift_p95", bound.shift_p95},
                      {"pair_count", bound.pair_count}});
  }
  const OrderedJson json = {{"kind", "calibration"},
                            {"schema_version", kSchemaVersion},
                            {"hostname_hash", calibration.hostname_hash},
                            {"device", calibration.device},
                            {"build_type", calibration.build_type},
                            {"run_count", calibration.run_count},
                            {"bounds", bounds}};
  return json_text(json, 2) + "\n";
}

Calibration calibration_from_json(const std::string& text, const std::string& where) {
  const Object object(
      text, where,
      {"kind", "schema_version", "hostname_hash", "device", "build_type", "run_count", "bounds"});
  if (object.text("kind") != "calibration") {
    object.wrong("kind", "calibration", object.at("kind"));
  }
  const std::string version = object.text("schema_version");
  if (version.substr(0, version.find('.')) != std::string_view(kSchemaVersion).substr(0, 1)) {
    object.wrong("schema_version", "1.x.y", object.at("schema_version"));
  }
  Calibration calibration{.hostname_hash = object.text("hostname_hash"),
                          .device = object.text("device"),
                          .build_type = object.text("build_type")};
  if (!object.at("run_count").is_number_unsigned()) {
    object.wrong("run_count", "a whole number", object.at("run_count"));
  }
  calibration.run_count = object.at("run_count").get<std::uint64_t>();
  if (!object.at("bounds").is_array()) object.wrong("bounds", "a list", object.at("bounds"));
  for (const OrderedJson& item : object.at("bounds")) {
    const Object bound(json_text(item), where,
                       {"number", "shift_bound", "shift_median", "shift_p95", "pair_count"});
    if (!bound.at("pair_count").is_number_unsigned()) {
      bound.wrong("pair_count", "a whole number", bound.at("pair_count"));
    }
    calibration.bounds.push_back(
        {.number = bound.text("number"),
         .shift_bound = bound.to_share("shift_bound", bound.at("shift_bound"), 1e6),
         .shift_median = bound.to_share("shift_median", bound.at("shift_median"), 1e6),
         .shift_p95 =
             bound.has("shift_p95") ? bound.to_share("shift_p95", bound.at("shift_p95"), 1e6) : 0,
         .pair_count = bound.at("pair_count").get<std::uint64_t>()});
  }
  return calibration;
}

}  // namespace allocmark
