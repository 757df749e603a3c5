// Functions that the runtime and the driver have both, with the same arguments: one line for each
// pair.
#pragma once

#include "harness/simcuda/shim/call.h"

// One answer, a cudaError_t, under two names. `parameters` and `logged` stand in brackets.
#define SIMCUDA_TWINS(runtime_name, driver_name, parameters, logged, answer)                  \
  SIMCUDA_EXPORT cudaError_t runtime_name parameters {                                        \
    return runtime_call<#runtime_name>(SIMCUDA_LIST logged,                                   \
                                       [&](ThreadState& thread) { return answer; });          \
  }                                                                                           \
  SIMCUDA_EXPORT CUresult driver_name parameters {                                            \
    return driver_call<#driver_name>(SIMCUDA_LIST logged,                                     \
                                     [&](ThreadState& thread) { return as_result(answer); }); \
  }
// The runtime's alone, and the driver's alone.
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
