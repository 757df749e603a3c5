// Rules for functions by their name.
#pragma once

#include <string_view>

namespace simcuda {

template <class... Known>
[[nodiscard]] constexpr bool is_one_of(std::string_view name, Known... known) {
  return ((name == known) || ...);
}

}  // namespace simcuda
