// A function of the driver about modules and kernels, whose answer is a CUresult. In: its name,
// parameters and logged arguments. Out: the exported function.
#pragma once

#include "harness/simcuda/shim/twins.h"

#define SIMCUDA_MODULE_CALL(name, parameters, logged, answer)                                \
  SIMCUDA_EXPORT CUresult name parameters {                                                  \
    return driver_call<#name>(SIMCUDA_LIST logged,                                           \
                              [&]([[maybe_unused]] ThreadState& thread) { return answer; }); \
  }
