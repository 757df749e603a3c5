// How many parts of one size hold a whole.
#pragma once

#include <cstdint>

namespace allocmark {

[[nodiscard]] constexpr std::uint64_t divided_up(std::uint64_t whole, std::uint64_t part) {
  return (whole + part - 1) / part;
}

}  // namespace allocmark
