// Exported functions that are one expression: of the runtime, of the driver, or of both.
#pragma once

#include <bit>
#include <type_traits>

#include "harness/simcuda/shim/call.h"

namespace simcuda {

// Answers with a value; InvalidValue where the program has no place for it.
template <class Out, class Value>
[[nodiscard]] cudaError_t give_value(Out* out, const Value& value) {
  if (out == nullptr) return cudaErrorInvalidValue;
  *out = value;
  return cudaSuccess;
}

// What a driver's function is given, as the type that the runtime has for it: an address, an
// enumerator, a structure with the same members, or a pointer to one of them. What is the
// runtime's already stays so.
template <class Runtime, class Given>
[[nodiscard]] Runtime as_runtime(Given given) {
  if constexpr (std::is_class_v<Runtime>) {
    return std::bit_cast<Runtime>(given);
  } else if constexpr (requires { static_cast<Runtime>(given); }) {
    return static_cast<Runtime>(given);
  } else {
    if constexpr (std::is_pointer_v<Given> && std::is_class_v<std::remove_pointer_t<Given>>) {
      static_assert(sizeof(std::remove_pointer_t<Runtime>) == sizeof(std::remove_pointer_t<Given>));
      static_assert(alignof(std::remove_pointer_t<Runtime>) ==
                    alignof(std::remove_pointer_t<Given>));
    }
    return reinterpret_cast<Runtime>(given);
  }
}

}  // namespace simcuda

// The function `name`, which the log calls `label`. `parameters` and `logged` stand in brackets.
#define SIMCUDA_FUNCTION(call, Result, name, label, parameters, logged, answer)                 \
  SIMCUDA_EXPORT Result name parameters {                                                       \
    return call<label>(SIMCUDA_LIST logged,                                                     \
                       [&]([[maybe_unused]] ThreadState& thread) -> Result { return answer; }); \
  }
// One answer, a cudaError_t, under two names: with the same parameters, or with those of the same
// names that each of the two has.
#define SIMCUDA_TWINS(runtime_name, driver_name, parameters, logged, answer)                   \
  SIMCUDA_FUNCTION(runtime_call, cudaError_t, runtime_name, #runtime_name, parameters, logged, \
                   answer)                                                                     \
  SIMCUDA_FUNCTION(driver_call, CUresult, driver_name, #driver_name, parameters, logged,       \
                   as_result(answer))
#define SIMCUDA_PAIR(runtime_name, runtime_parameters, driver_name, driver_parameters, logged,  \
                     answer)                                                                    \
  SIMCUDA_FUNCTION(runtime_call, cudaError_t, runtime_name, #runtime_name, runtime_parameters,  \
                   logged, answer)                                                              \
  SIMCUDA_FUNCTION(driver_call, CUresult, driver_name, #driver_name, driver_parameters, logged, \
                   as_result(answer))
// The runtime's alone (a cudaError_t), and the driver's alone (a cudaError_t or a CUresult).
#define SIMCUDA_RUNTIME(runtime_name, parameters, logged, answer)                              \
  SIMCUDA_FUNCTION(runtime_call, cudaError_t, runtime_name, #runtime_name, parameters, logged, \
                   answer)
#define SIMCUDA_DRIVER(driver_name, parameters, logged, answer)                          \
  SIMCUDA_FUNCTION(driver_call, CUresult, driver_name, #driver_name, parameters, logged, \
                   as_result(answer))
// What stands in brackets, without them.
#define SIMCUDA_INSIDE(...) __VA_ARGS__
#define SIMCUDA_LIST(...) \
  { __VA_ARGS__ }
