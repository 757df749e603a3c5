// How many fields a struct has, known to the compiler. Whoever writes a struct's fields one by one
// puts static_assert(field_count<Struct>() == N) beside them: a new field then does not compile
// until it is written, too.
#pragma once

#include <cstddef>
#include <utility>

namespace allocmark {

// Stands for a field of any type. Never made, so never defined.
struct AnyField {
  template <typename Field>
  operator Field() const;  // NOLINT(google-explicit-constructor)
};

template <typename Struct, std::size_t... kIndex>
consteval bool takes_fields(std::index_sequence<kIndex...> /*fields*/) {
  return requires { Struct{(static_cast<void>(kIndex), AnyField{})...}; };
}

// Of an aggregate without base classes and arrays.
template <typename Struct, std::size_t kCount = 0>
consteval std::size_t field_count() {
  if constexpr (takes_fields<Struct>(std::make_index_sequence<kCount + 1>{})) {
    return field_count<Struct, kCount + 1>();
  }
  return kCount;
}

}  // namespace allocmark
