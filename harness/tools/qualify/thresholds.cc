// See thresholds.h.
#include "harness/tools/qualify/thresholds.h"

#include <cmath>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "base/json_text.h"
#include "base/nearest.h"
#include "harness/default_thresholds.h"

namespace allocmark::qualify {
namespace {

using Json = nlohmann::json;

struct Place {
  const std::string& file;
  const std::string& key;
};

[[noreturn]] void reject(const Place& place, const std::string& wanted, const std::string& got) {
  throw UsageError({.what = "this is no thresholds file",
                    .where = place.key.empty() ? place.file : place.file + ", " + place.key,
                    .wanted = wanted,
                    .got = got,
                    .next = "start from: allocmark qualify --print-thresholds"});
}

std::optional<double> read_bound(const Json& bounds, const char* name, const Place& place) {
  if (!bounds.contains(name)) return std::nullopt;
  const Json& value = bounds.at(name);
  if (!value.is_number() || !std::isfinite(value.get<double>())) {
    reject(place, fmt::format("a number for \"{}\"", name), json_text(value));
  }
  return value.get<double>();
}

Limit read_limit(const Json& json, const Place& place) {
  const bool is_min = json.is_object() && json.contains("min");
  if (!json.is_object() || is_min == json.contains("max")) {
    reject(place, R"({"unit": ..., "max" or "min": {"warn": N, "fail": N}, "meaning": ...})",
           json_text(json));
  }
  for (const auto& [name, value] : json.items()) {
    if (name != "min" && name != "max" && !value.is_string()) {
      reject(place, "texts for unit and meaning",
             fmt::format("\"{}\": {}", name, json_text(value)));
    }
  }
  const Json& bounds = json.at(is_min ? "min" : "max");
  if (!bounds.is_object() || bounds.empty())
    reject(place, R"({"warn": N, "fail": N})", json_text(bounds));
  for (const auto& [name, value] : bounds.items()) {
    if (name != "warn" && name != "fail") reject(place, "warn and fail", "\"" + name + "\"");
  }
  Limit limit{.warn = read_bound(bounds, "warn", place),
              .fail = read_bound(bounds, "fail", place),
              .is_min = is_min,
              .unit = json.value("unit", ""),
              .meaning = json.value("meaning", "")};
  if (limit.warn && limit.fail &&
      (is_min ? *limit.warn < *limit.fail : *limit.warn > *limit.fail)) {
    reject(place, "WARN before FAIL", json_text(bounds));
  }
  return limit;
}

Thresholds read_thresholds(std::string_view text, const std::string& where) {
  const std::string no_key;
  std::string problem;
  const Json json = parse_json(text, &problem);
  if (!json.is_object()) {
    reject({where, no_key}, "a JSON object",
           json.is_discarded() ? problem : json_text(json).substr(0, 40));
  }
  Thresholds result;
  for (const auto& [key, value] : json.items()) result[key] = read_limit(value, {where, key});
  return result;
}

}  // namespace

std::string_view default_thresholds_text() { return kDefaultThresholds; }

Thresholds default_thresholds() { return read_thresholds(kDefaultThresholds, "thresholds.json"); }

Thresholds with_thresholds(const Thresholds& base, std::string_view text,
                           const std::string& where) {
  Thresholds result = base;
  std::vector<std::string> known;
  for (const auto& [key, limit] : base) known.push_back(key);
  for (auto& [key, limit] : read_thresholds(text, where)) {
    const auto found = result.find(key);
    if (found == result.end()) {
      throw UsageError({.what = "there is no such threshold",
                        .where = where,
                        .got = key,
                        .next = suggest(key, known)});
    }
    if (limit.is_min != found->second.is_min) {
      reject({where, key}, found->second.is_min ? "\"min\"" : "\"max\"",
             limit.is_min ? "\"min\"" : "\"max\"");
    }
    if (limit.unit.empty()) limit.unit = found->second.unit;
    if (limit.meaning.empty()) limit.meaning = found->second.meaning;
    found->second = limit;
  }
  return result;
}

}  // namespace allocmark::qualify
