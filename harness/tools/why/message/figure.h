// A figure of a message: bytes as a program printed them, "74.77 GiB". Plain text flows in
// (plain_text.h); a range flows out, since a printed figure is rounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace allocmark::message {

// From here on a figure is no size: an unsigned number that went below zero, or "no limit".
inline constexpr std::int64_t kNoSizeBytes = std::int64_t{1} << 60;

struct Figure {
  std::int64_t low_bytes = 0;  // the true value is at least this,
  std::int64_t high_bytes = 0;
  std::int64_t bytes = 0;   // and this is the printed one
  std::string printed{};    // "74.77 GiB"
  bool is_size = true;      // false: negative, nan, or kNoSizeBytes and more
  bool is_decimal = false;  // "GB": these programs count 2^30 bytes and write GB
};

// How a program writes its figures.
struct FigureStyle {
  bool bare_is_bytes = false;  // a number without a unit is bytes; else it is no figure
  bool is_floored = false;     // cut off, not rounded to the nearest
  bool has_letters = false;    // "12.00G": a unit of one letter, whatever word follows
  bool goes_on = false;        // something follows each figure, and be it the end of a line
};

struct FoundFigure {
  Figure figure;
  std::size_t begin = 0;
  std::size_t end = 0;
};

// The figure that begins at `at`.
[[nodiscard]] std::optional<FoundFigure> figure_at(std::string_view text, std::size_t at,
                                                   const FigureStyle& style);
// The figure that ends before `end`.
[[nodiscard]] std::optional<FoundFigure> figure_before(std::string_view text, std::size_t end,
                                                       const FigureStyle& style);

// Exactly so many bytes.
[[nodiscard]] Figure exact_figure(std::int64_t size_bytes);
// Ranges add and subtract as ranges; what comes out has no printed text.
[[nodiscard]] Figure operator+(const Figure& left, const Figure& right);
[[nodiscard]] Figure operator-(const Figure& left, const Figure& right);

// Where less than nothing is left, nothing is.
[[nodiscard]] Figure at_least_zero(Figure figure);

// For sure, whatever was rounded away.
[[nodiscard]] bool surely_less(const Figure& left, const Figure& right);
[[nodiscard]] bool surely_at_least(const Figure& left, const Figure& right);

// "6.50 MiB", "-6.50 MiB": for people.
[[nodiscard]] std::string show(const Figure& figure);

}  // namespace allocmark::message
