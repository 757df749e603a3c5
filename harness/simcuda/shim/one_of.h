// Whether a value, such as a function's name, is one of those listed.
#pragma once

namespace simcuda {

template <class Value, class... Known>
[[nodiscard]] constexpr bool is_one_of(Value value, Known... known) {
  return ((value == known) || ...);
}

}  // namespace simcuda
