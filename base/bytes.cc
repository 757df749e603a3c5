#include "base/bytes.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cmath>

namespace allocmark {
namespace {

std::optional<std::uint64_t> unit_bytes(std::string_view unit) {
  std::string lower;
  for (const char c : unit) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (lower.empty() || lower == "b") return 1;
  if (lower == "k" || lower == "kb" || lower == "kib") return kKiB;
  if (lower == "m" || lower == "mb" || lower == "mib") return kMiB;
  if (lower == "g" || lower == "gb" || lower == "gib") return kGiB;
  if (lower == "t" || lower == "tb" || lower == "tib") return kTiB;
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  std::string_view unit = text.substr(digits);
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  const std::optional<std::uint64_t> scale = unit_bytes(unit);
  if (digits == 0 || !scale) return std::nullopt;

  const char* const end = text.data() + digits;
  std::uint64_t whole = 0;
  if (const auto [stop, error] = std::from_chars(text.data(), end, whole); stop == end) {
    if (error != std::errc{} || whole > UINT64_MAX / *scale) return std::nullopt;
    return whole * *scale;
  }
  double real = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, real);
  const double size_bytes = real * static_cast<double>(*scale);
  if (stop != end || error != std::errc{} || size_bytes >= 18446744073709551615.0)
    return std::nullopt;
  return static_cast<std::uint64_t>(std::llround(size_bytes));
}

std::string format_bytes(std::uint64_t size_bytes) {
  if (size_bytes < kKiB) return fmt::format("{} B", size_bytes);
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(size_bytes) / 1024.0;
  std::size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < std::size(kUnits)) {
    value /= 1024.0;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : value < 100 ? 1 : 0, kUnits[unit]);
}

}  // namespace allocmark
