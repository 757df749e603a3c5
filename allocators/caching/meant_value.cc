// See meant_value.h.
#include "allocators/caching/meant_value.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "allocators/caching/config.h"

namespace allocmark::caching {
namespace {

std::string folded(std::string_view text) {
  std::string small(text);
  std::ranges::transform(small, small.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return small;
}

// A number at the front of `text`, which is taken away.
std::optional<double> take_number(std::string_view* text) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || value < 0 || value > 1e9) return std::nullopt;
  text->remove_prefix(static_cast<std::size_t>(stop - text->data()));
  text->remove_prefix(std::min(text->find_first_not_of(' '), text->size()));
  return value;
}

// MiB of "128MB", "128m" or "1GiB". PyTorch's "mb" are MiB, so MB is read as MiB.
std::optional<std::uint64_t> megabytes_of(std::string_view value) {
  struct Unit {
    std::string_view name;
    double megabytes;
  };
  constexpr std::array kUnits = {Unit{"m", 1},
                                 Unit{"mb", 1},
                                 Unit{"mib", 1},
                                 Unit{"g", 1024},
                                 Unit{"gb", 1024},
                                 Unit{"gib", 1024},
                                 Unit{"k", 1.0 / 1024},
                                 Unit{"kb", 1.0 / 1024},
                                 Unit{"kib", 1.0 / 1024},
                                 Unit{"", 1}};
  const std::string text = folded(value);
  std::string_view rest = text;
  const std::optional<double> number = take_number(&rest);
  if (!number) return std::nullopt;
  const auto* unit = std::ranges::find(kUnits, rest, &Unit::name);
  if (unit == kUnits.end()) return std::nullopt;
  const double megabytes = *number * unit->megabytes;
  const auto whole = static_cast<std::uint64_t>(megabytes);
  if (whole == 0 || static_cast<double>(whole) != megabytes) return std::nullopt;
  return whole;
}

std::string meant_share(std::string_view key, std::string_view value) {
  std::string_view rest = value;
  const std::optional<double> number = take_number(&rest);
  const bool is_percent = number && (rest == "%" || (rest.empty() && *number >= 10));
  if (!is_percent || *number <= 0 || *number >= 100) return {};
  return fmt::format("did you mean {}:{}?", key, *number / 100);
}

std::string meant_boolean(std::string_view key, std::string_view value) {
  constexpr std::array<std::string_view, 6> kTrue = {"true", "on", "yes", "1", "enable", "enabled"};
  constexpr std::array<std::string_view, 7> kFalse = {"false", "off",     "no",      "0",
                                                      "none",  "disable", "disabled"};
  const std::string small = folded(value);
  constexpr const char* kRule = "the words are case-sensitive";
  if (std::ranges::find(kTrue, small) != kTrue.end())
    return fmt::format("{}: did you mean {}:True?", kRule, key);
  if (std::ranges::find(kFalse, small) != kFalse.end())
    return fmt::format("{}: did you mean {}:False?", kRule, key);
  return kRule;
}

std::string meant_backend(std::string_view value) {
  const std::string small = folded(value);
  if (small.find("async") != std::string::npos) return "did you mean backend:cudaMallocAsync?";
  for (const std::string_view native : {"native", "default", "caching", "cuda"}) {
    if (small == native) return "did you mean backend:native?";
  }
  return {};
}

std::string meant_divisions(std::string_view key, std::string_view value) {
  std::string_view rest = value;
  const std::optional<double> number = take_number(&rest);
  if (!number || !rest.empty() || *number < 2 || *number > 64) return {};
  const auto lower = std::bit_floor(static_cast<std::uint64_t>(*number));
  return fmt::format("did you mean {0}:{1} or {0}:{2}?", key, lower, 2 * lower);
}

}  // namespace

std::string meant_value(std::string_view key, std::string_view value) {
  if (key == "backend") return meant_backend(value);
  if (key == "roundup_power2_divisions") return meant_divisions(key, value);
  if (key == "garbage_collection_threshold" || key == "per_process_memory_fraction")
    return meant_share(key, value);
  if (key.ends_with("_mb")) {
    const std::optional<std::uint64_t> megabytes = megabytes_of(value);
    if (!megabytes || std::to_string(*megabytes) == value) return {};
    return fmt::format("did you mean {}:{}? the number is in MiB", key, *megabytes);
  }
  const ConfigKey* known = find_config_key(key);
  if (known != nullptr && known->allowed == "True or False") return meant_boolean(key, value);
  return {};
}

}  // namespace allocmark::caching
