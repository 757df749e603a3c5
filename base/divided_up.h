// How many parts of one size hold a whole, and how much those are.
#pragma once

#include <cstdint>

namespace allocmark {

[[nodiscard]] constexpr std::uint64_t divided_up(std::uint64_t whole, std::uint64_t part) {
  return (whole + part - 1) / part;
}

// The least multiple of `part` that is no less.
[[nodiscard]] constexpr std::uint64_t rounded_up(std::uint64_t whole, std::uint64_t part) {
  return divided_up(whole, part) * part;
}

}  // namespace allocmark
