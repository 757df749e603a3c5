// Values as JSON, for the pipe between two processes of one build. A struct is the list of its
// members in their order, which the compiler knows: a new member is sent without being named, and
// one that cannot be sent does not compile.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include "base/field_count.h"

namespace allocmark::job {

using Json = nlohmann::json;

// How a type crosses the pipe. Specialise it for one whose form other programs read, in the header
// of that type: all who send it must see the same.
template <typename Value>
struct Packed;

template <typename Value>
[[nodiscard]] Json pack(const Value& value) {
  return Packed<Value>::pack(value);
}

// Throws nlohmann's exceptions where `json` is no such value.
template <typename Value>
[[nodiscard]] Value unpack(const Json& json) {
  return Packed<Value>::unpack(json);
}

// Calls `visit` with all members of an aggregate of at most 16, without bases and arrays.
template <typename Struct, typename Visit>
auto with_members(Struct& value, Visit&& visit) {
  constexpr std::size_t kCount = field_count<std::remove_const_t<Struct>>();
  static_assert(kCount >= 1 && kCount <= 16, "with_members has no line for so many members");
  // clang-format off
  if constexpr (kCount == 1) { auto& [a] = value; return visit(a); }
  if constexpr (kCount == 2) { auto& [a, b] = value; return visit(a, b); }
  if constexpr (kCount == 3) { auto& [a, b, c] = value; return visit(a, b, c); }
  if constexpr (kCount == 4) { auto& [a, b, c, d] = value; return visit(a, b, c, d); }
  if constexpr (kCount == 5) { auto& [a, b, c, d, e] = value; return visit(a, b, c, d, e); }
  if constexpr (kCount == 6) { auto& [a, b, c, d, e, f] = value; return visit(a, b, c, d, e, f); }
  if constexpr (kCount == 7) { auto& [a, b, c, d, e, f, g] = value; return visit(a, b, c, d, e, f, g); }
  if constexpr (kCount == 8) { auto& [a, b, c, d, e, f, g, h] = value; return visit(a, b, c, d, e, f, g, h); }
  if constexpr (kCount == 9) { auto& [a, b, c, d, e, f, g, h, i] = value; return visit(a, b, c, d, e, f, g, h, i); }
  if constexpr (kCount == 10) { auto& [a, b, c, d, e, f, g, h, i, j] = value; return visit(a, b, c, d, e, f, g, h, i, j); }
  if constexpr (kCount == 11) { auto& [a, b, c, d, e, f, g, h, i, j, k] = value; return visit(a, b, c, d, e, f, g, h, i, j, k); }
  if constexpr (kCount == 12) { auto& [a, b, c, d, e, f, g, h, i, j, k, l] = value; return visit(a, b, c, d, e, f, g, h, i, j, k, l); }
  if constexpr (kCount == 13) { auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = value; return visit(a, b, c, d, e, f, g, h, i, j, k, l, m); }
  if constexpr (kCount == 14) { auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = value; return visit(a, b, c, d, e, f, g, h, i, j, k, l, m, n); }
  if constexpr (kCount == 15) { auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o] = value; return visit(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o); }
  if constexpr (kCount == 16) { auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = value; return visit(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p); }
  // clang-format on
}

// Structs.
template <typename Value>
struct Packed {
  static_assert(std::is_aggregate_v<Value>, "a type that can cross no pipe; specialise Packed");
  static Json pack(const Value& value) {
    Json json = Json::array();
    with_members(value, [&](const auto&... member) { (json.push_back(job::pack(member)), ...); });
    return json;
  }
  static Value unpack(const Json& json) {
    Value value;
    std::size_t at = 0;
    with_members(value, [&](auto&... member) {
      ((member = job::unpack<std::remove_reference_t<decltype(member)>>(json.at(at++))), ...);
    });
    return value;
  }
};

// What JSON has itself.
template <typename Value>
requires std::is_same_v<Value, bool> || std::is_integral_v<Value> ||
    std::is_same_v<Value, std::string>
struct Packed<Value> {
  static Json pack(const Value& value) { return value; }
  static Value unpack(const Json& json) { return json.get<Value>(); }
};

template <typename Value>
requires std::is_enum_v<Value>
struct Packed<Value> {
  using Number = std::underlying_type_t<Value>;
  static Json pack(const Value& value) { return static_cast<Number>(value); }
  static Value unpack(const Json& json) { return static_cast<Value>(json.get<Number>()); }
};

// JSON has no infinity, and null is what is no number.
template <>
struct Packed<double> {
  static Json pack(double value) {
    return std::isinf(value) ? Json(value > 0 ? "inf" : "-inf") : Json(value);
  }
  static double unpack(const Json& json) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (json.is_null()) return std::numeric_limits<double>::quiet_NaN();
    if (json.is_string()) return json == "inf" ? kInfinity : -kInfinity;
    return json.get<double>();
  }
};

// A list of none or one, so that what is in it may be null itself.
template <typename Value>
struct Packed<std::optional<Value>> {
  static Json pack(const std::optional<Value>& value) {
    Json json = Json::array();
    if (value) json.push_back(job::pack(*value));
    return json;
  }
  static std::optional<Value> unpack(const Json& json) {
    if (json.empty()) return std::nullopt;
    return job::unpack<Value>(json.at(0));
  }
};

template <typename Value>
struct Packed<std::vector<Value>> {
  static Json pack(const std::vector<Value>& values) {
    Json json = Json::array();
    for (const Value& value : values) json.push_back(job::pack(value));
    return json;
  }
  static std::vector<Value> unpack(const Json& json) {
    std::vector<Value> values;
    for (const Json& value : json.get_ref<const Json::array_t&>()) {
      values.push_back(job::unpack<Value>(value));
    }
    return values;
  }
};

template <typename First, typename Second>
struct Packed<std::pair<First, Second>> {
  static Json pack(const std::pair<First, Second>& value) {
    return Json::array({job::pack(value.first), job::pack(value.second)});
  }
  static std::pair<First, Second> unpack(const Json& json) {
    return {job::unpack<First>(json.at(0)), job::unpack<Second>(json.at(1))};
  }
};

template <typename Key, typename Value>
struct Packed<std::map<Key, Value>> {
  using Rows = std::vector<std::pair<Key, Value>>;
  static Json pack(const std::map<Key, Value>& values) {
    return job::pack(Rows(values.begin(), values.end()));
  }
  static std::map<Key, Value> unpack(const Json& json) {
    const Rows rows = job::unpack<Rows>(json);
    return {rows.begin(), rows.end()};
  }
};

}  // namespace allocmark::job
