// Host models of kernels, by a part of the kernel's mangled name; later registrations win.
#pragma once

#include "harness/simcuda/simcu.h"

namespace simcuda {

void add_kernel_model(const char* name_part, SimcuKernelModel model, void* context);

}  // namespace simcuda
