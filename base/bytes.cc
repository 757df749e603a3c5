#include "base/bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace allocmark {
namespace {

constexpr double kTwoTo64 = 18446744073709551616.0;

struct Unit {
  std::string_view name;
  std::uint64_t size_bytes;
};

constexpr Unit kUnits[] = {{"B", 1},
                           {"KiB", kKiB},
                           {"MiB", kMiB},
                           {"GiB", kGiB},
                           {"TiB", kTiB},
                           {"kB", 1000},
                           {"KB", 1000},
                           {"MB", 1000'000},
                           {"GB", 1000'000'000},
                           {"TB", std::uint64_t{1000} * 1000'000'000}};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// "1.5 GiB" is "1.5" and "GiB".
struct Split {
  std::string_view number, unit;
};

Split split_size(std::string_view text) {
  text = trimmed(text);
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  return {.number = text.substr(0, digits), .unit = trimmed(text.substr(digits))};
}

std::optional<std::uint64_t> scaled(std::string_view number, std::uint64_t scale) {
  const char* const begin = number.data();
  const char* const end = begin + number.size();
  std::uint64_t whole = 0;
  if (const auto [stop, error] = std::from_chars(begin, end, whole); stop == end) {
    if (error != std::errc{} || whole > UINT64_MAX / scale) return std::nullopt;
    return whole * scale;
  }
  double real = 0;
  const auto [stop, error] = std::from_chars(begin, end, real);
  const double size_bytes = real * static_cast<double>(scale);
  if (stop != end || error != std::errc{} || size_bytes >= kTwoTo64) return std::nullopt;
  return static_cast<std::uint64_t>(std::llround(size_bytes));
}

}  // namespace

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  const Split split = split_size(text);
  if (split.number.empty()) return std::nullopt;
  for (const Unit& unit : kUnits) {
    if (unit.name == split.unit) return scaled(split.number, unit.size_bytes);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> parse_bytes_or_count(std::string_view text) {
  const Split split = split_size(text);
  if (!split.number.empty() && split.unit.empty()) return scaled(split.number, 1);
  return parse_bytes(text);
}

std::string explain_bytes(std::string_view text) {
  const auto [number, unit] = split_size(text);
  if (!scaled(number, 1) || parse_bytes(text)) return {};
  if (unit.empty()) {
    const bool whole = number.find('.') == std::string_view::npos;
    return whole ? fmt::format("{0} has no unit: {0}GiB or {0}B", number)
                 : fmt::format("{0} has no unit: {0}GiB or {0}GB", number);
  }
  const char prefix = static_cast<char>(std::toupper(static_cast<unsigned char>(unit.front())));
  const std::size_t power = std::string_view("KMGT").find(prefix);
  if (power == std::string_view::npos || unit.size() > 3) return {};
  return fmt::format("'{0}' may be {1}{2}iB (2^{3} bytes each) or {1}{2}B (10^{4})", trimmed(text),
                     number, prefix, 10 * (power + 1), 3 * (power + 1));
}

std::string format_bytes(std::uint64_t size_bytes) {
  if (size_bytes < kKiB) return fmt::format("{} B", size_bytes);
  static constexpr const char* kShownUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(size_bytes) / 1024.0;
  std::size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < std::size(kShownUnits)) {
    value /= 1024.0;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : value < 100 ? 1 : 0, kShownUnits[unit]);
}

}  // namespace allocmark
