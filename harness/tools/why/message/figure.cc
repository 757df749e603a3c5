#include "harness/tools/why/message/figure.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/bytes.h"

namespace allocmark::message {
namespace {

struct UnitName {
  std::string_view text;   // as in plain text
  std::string_view shown;  // as programs write it
  std::int64_t size_bytes;
  bool is_decimal = false;
};

constexpr auto kKi = static_cast<std::int64_t>(kKiB);
constexpr auto kMi = static_cast<std::int64_t>(kMiB);
constexpr auto kGi = static_cast<std::int64_t>(kGiB);
constexpr auto kTi = static_cast<std::int64_t>(kTiB);

// Longer names first. Every program whose messages are read here counts in powers of 1024.
constexpr std::array kUnitNames = {UnitName{"bytes", "bytes", 1},
                                   UnitName{"byte", "byte", 1},
                                   UnitName{"kib", "KiB", kKi},
                                   UnitName{"mib", "MiB", kMi},
                                   UnitName{"gib", "GiB", kGi},
                                   UnitName{"tib", "TiB", kTi},
                                   UnitName{"kb", "KB", kKi, true},
                                   UnitName{"mb", "MB", kMi, true},
                                   UnitName{"gb", "GB", kGi, true},
                                   UnitName{"tb", "TB", kTi, true},
                                   UnitName{"k", "K", kKi},
                                   UnitName{"m", "M", kMi},
                                   UnitName{"g", "G", kGi},
                                   UnitName{"t", "T", kTi},
                                   UnitName{"b", "B", 1}};
constexpr UnitName kBare{"", "", 1};
constexpr std::size_t kDigitsMax = 40;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return c >= 'a' && c <= 'z'; }

bool digits_follow(std::string_view text, std::size_t at, std::size_t count) {
  if (at + count > text.size()) return false;
  for (std::size_t i = at; i < at + count; ++i) {
    if (!is_digit(text[i])) return false;
  }
  return true;
}

// ",26gib": a decimal point of other countries. A list that goes on has no such unit.
bool is_decimal_comma(std::string_view text, std::size_t at) {
  return at < text.size() && text[at] == ',' && digits_follow(text, at + 1, 2) &&
         at + 5 < text.size() && std::string_view("kmgt").find(text[at + 3]) != std::string::npos &&
         text.substr(at + 4).starts_with("ib");
}

// Past "1,234.50" or "1.234,50", beginning at its first digit.
std::size_t end_of_number(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    if (is_digit(text[at])) {
      ++at;
    } else if (text[at] == ',' && digits_follow(text, at + 1, 3) &&
               !digits_follow(text, at + 1, 4)) {
      at += 4;
    } else {
      break;
    }
  }
  if (at + 1 < text.size() && text[at] == '.' && is_digit(text[at + 1])) {
    ++at;
    while (at < text.size() && is_digit(text[at])) ++at;
  } else if (text.substr(at).starts_with('.') &&
             text.substr(std::min(at + 2, text.size())).starts_with("ib")) {
    ++at;  // numpy's "119. GiB"
  }
  return is_decimal_comma(text, at) ? at + 3 : at;
}

// Words may follow a unit without a space ("74.77gibisallocated"), and letters are units only
// where no such word can begin with them.
const UnitName* unit_at(std::string_view text, std::size_t at, const FigureStyle& style) {
  for (const UnitName& unit : kUnitNames) {
    if (!text.substr(at).starts_with(unit.text)) continue;
    const std::size_t end = at + unit.text.size();
    const bool ends = end == text.size();
    // Of a word that was cut: these programs write "512b", and no other unit of one letter.
    if (unit.text.size() == 1 && style.goes_on && (ends || unit.text != "b")) continue;
    if (unit.text.size() > 1 || style.has_letters || ends || !is_letter(text[end])) return &unit;
  }
  return nullptr;
}

Figure figure_of(std::string_view number, const UnitName& unit, const FigureStyle& style) {
  Figure figure;
  figure.is_decimal = unit.is_decimal;
  figure.printed = std::string(number) + (unit.shown.empty() ? "" : " ") + std::string(unit.shown);
  std::string digits(number);
  if (digits.size() > 3 && digits[digits.size() - 3] == ',') {  // "1.234,50"
    std::erase(digits, '.');
    std::ranges::replace(digits, ',', '.');
  }
  std::erase(digits, ',');
  double value = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const double size_bytes = value * static_cast<double>(unit.size_bytes);
  if (error != std::errc{} || digits.size() > kDigitsMax || digits.starts_with('-') ||
      !(size_bytes < static_cast<double>(kNoSizeBytes))) {
    figure.is_size = false;
    return figure;
  }
  figure.bytes = std::llround(size_bytes);
  const std::size_t point = digits.find('.');
  const auto places =
      static_cast<double>(point == std::string::npos ? 0 : digits.size() - point - 1);
  const double step = static_cast<double>(unit.size_bytes) * std::pow(10.0, -places);
  // A whole number of bytes is exact.
  const auto slack = static_cast<std::int64_t>(
      unit.size_bytes == 1 ? 0.0 : std::ceil(style.is_floored ? step : step / 2));
  figure.low_bytes =
      style.is_floored ? figure.bytes : std::max<std::int64_t>(0, figure.bytes - slack);
  figure.high_bytes = figure.bytes + slack;
  return figure;
}

}  // namespace

std::optional<FoundFigure> figure_at(std::string_view text, std::size_t at,
                                     const FigureStyle& style) {
  std::size_t end = at;
  if (end < text.size() && (text[end] == '-' || text[end] == '+')) ++end;
  const bool is_named = text.substr(end).starts_with("nan") || text.substr(end).starts_with("inf");
  if (is_named) {
    end += 3;
  } else if (end < text.size() && is_digit(text[end])) {
    end = end_of_number(text, end);
  } else {
    return std::nullopt;
  }
  const std::string_view number = text.substr(at, end - at);
  const UnitName* unit = unit_at(text, end, style);
  const bool shares_unit = unit == nullptr && end < text.size() && text[end] == '/';
  // "10.9/23.6gib": the unit is of both.
  if (shares_unit) unit = unit_at(text, end_of_number(text, end + 1), style);
  if (unit == nullptr && !style.bare_is_bytes && !is_named) return std::nullopt;
  // The end of the text may have cut it.
  if (unit == nullptr && style.goes_on && end + 1 >= text.size()) return std::nullopt;
  // Before dots that stand for something left out it may be the beginning of a figure.
  if (unit == nullptr && text.substr(end).starts_with("..")) return std::nullopt;
  if (unit == nullptr) unit = &kBare;
  return FoundFigure{.figure = figure_of(number, *unit, style),
                     .begin = at,
                     .end = shares_unit ? end : end + unit->text.size()};
}

std::optional<FoundFigure> figure_before(std::string_view text, std::size_t end,
                                         const FigureStyle& style) {
  std::size_t at = end;
  while (at > 0 && end - at < 5 && is_letter(text[at - 1])) --at;
  const std::size_t unit_begin = at;
  while (at > 0 && unit_begin - at < kDigitsMax * 2 &&
         (is_digit(text[at - 1]) || text[at - 1] == '.' || text[at - 1] == ','))
    --at;
  // A comma may part thousands, or end what stands before: "gpu0,22.00gb".
  while (at < unit_begin) {
    if (!is_digit(text[at])) {
      ++at;
      continue;
    }
    const bool is_negative = at > 0 && text[at - 1] == '-';
    // Behind dots that stand for something left out it may be the rest of a figure.
    if (at >= 2 && text.substr(at - 2, 2) == "..") return std::nullopt;
    std::optional<FoundFigure> found = figure_at(text, is_negative ? at - 1 : at, style);
    if (found && found->end == end) return found;
    at = std::min(text.find(',', at), unit_begin);
  }
  return std::nullopt;
}

Figure exact_figure(std::int64_t size_bytes) {
  return {.low_bytes = size_bytes, .high_bytes = size_bytes, .bytes = size_bytes};
}

Figure operator+(const Figure& left, const Figure& right) {
  return {.low_bytes = left.low_bytes + right.low_bytes,
          .high_bytes = left.high_bytes + right.high_bytes,
          .bytes = left.bytes + right.bytes};
}

Figure operator-(const Figure& left, const Figure& right) {
  return {.low_bytes = left.low_bytes - right.high_bytes,
          .high_bytes = left.high_bytes - right.low_bytes,
          .bytes = left.bytes - right.bytes};
}

Figure at_least_zero(Figure figure) {
  figure.low_bytes = std::max<std::int64_t>(0, figure.low_bytes);
  figure.bytes = std::max<std::int64_t>(0, figure.bytes);
  figure.high_bytes = std::max<std::int64_t>(0, figure.high_bytes);
  return figure;
}

bool surely_less(const Figure& left, const Figure& right) {
  return left.high_bytes < right.low_bytes;
}

bool surely_at_least(const Figure& left, const Figure& right) {
  return left.low_bytes >= right.high_bytes;
}

std::string show(const Figure& figure) {
  const std::string size = format_bytes(static_cast<std::uint64_t>(std::abs(figure.bytes)));
  return figure.bytes < 0 ? "-" + size : size;
}

}  // namespace allocmark::message
