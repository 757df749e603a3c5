// Exported functions that are one expression: of the runtime, of the driver, or of both with the
// same arguments.
#pragma once

#include "harness/simcuda/shim/call.h"

namespace simcuda {

// Answers with a value; InvalidValue where the program has no place for it.
template <class Out, class Value>
[[nodiscard]] cudaError_t give_value(Out* out, const Value& value) {
  if (out == nullptr) return cudaErrorInvalidValue;
  *out = value;
  return cudaSuccess;
}

}  // namespace simcuda

// One answer, a cudaError_t, under two names. `parameters` and `logged` stand in brackets.
#define SIMCUDA_TWINS(runtime_name, driver_name, parameters, logged, answer)                \
  SIMCUDA_EXPORT cudaError_t runtime_name parameters {                                      \
    return runtime_call<#runtime_name>(                                                     \
        SIMCUDA_LIST logged, [&]([[maybe_unused]] ThreadState& thread) { return answer; }); \
  }                                                                                         \
  SIMCUDA_EXPORT CUresult driver_name parameters {                                          \
    return driver_call<#driver_name>(                                                       \
        SIMCUDA_LIST logged,                                                                \
        [&]([[maybe_unused]] ThreadState& thread) { return as_result(answer); });           \
  }
// The runtime's alone (a cudaError_t), and the driver's alone (a cudaError_t or a CUresult).
#define SIMCUDA_RUNTIME(runtime_name, parameters, logged, answer)                           \
  SIMCUDA_EXPORT cudaError_t runtime_name parameters {                                      \
    return runtime_call<#runtime_name>(                                                     \
        SIMCUDA_LIST logged, [&]([[maybe_unused]] ThreadState& thread) { return answer; }); \
  }
#define SIMCUDA_DRIVER(driver_name, parameters, logged, answer)                   \
  SIMCUDA_EXPORT CUresult driver_name parameters {                                \
    return driver_call<#driver_name>(                                             \
        SIMCUDA_LIST logged,                                                      \
        [&]([[maybe_unused]] ThreadState& thread) { return as_result(answer); }); \
  }
#define SIMCUDA_LIST(...) \
  { __VA_ARGS__ }
