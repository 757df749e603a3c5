// Who is told where CUDA calls begin and end (simcu_watch_calls).
#pragma once

#include "harness/simcuda/simcu.h"

namespace simcuda {

void watch_calls(SimcuCallWatch watch, void* context);

}  // namespace simcuda
