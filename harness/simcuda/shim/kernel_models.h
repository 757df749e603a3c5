// Host models of kernels, by a part of the kernel's mangled name; later registrations win.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/simcuda/simcu.h"

namespace simcuda {

void add_kernel_model(const char* name_part, SimcuKernelModel model, void* context);
// Sizes of the arguments of such kernels, without which a capture cannot keep their values.
void add_kernel_arguments(const char* name_part, std::vector<std::uint64_t> sizes_bytes);

}  // namespace simcuda
