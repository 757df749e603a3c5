// Images of device code that a program loaded by the driver, and their kernels and variables. In:
// images, of which no code runs. Out: handles of kernels by name, what is known about them, and
// memory of variables.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/code_facts.h"
#include "harness/simcuda/shim/simulated_device.h"

namespace simcuda {

// Handles are pointers to objects that stay, so that stale ones are seen. One object stands for a
// module and a library, and one for a kernel and its function.
[[nodiscard]] CUresult load_image(void** result, const void* data);
[[nodiscard]] CUresult load_image_file(void** result, const char* path);
// Frees the memory of its variables.
[[nodiscard]] CUresult unload_image(ThreadState& thread, const void* image);
[[nodiscard]] bool is_live_image(const void* image);

[[nodiscard]] CUresult find_kernel(void** result, const void* image, const char* name);
// A kernel that a program registered with the runtime; its image is not read.
[[nodiscard]] CUresult find_registered_kernel(void** result, const char* name);
// All kernels of the image; the error where it is none, or nothing is known of what it holds.
[[nodiscard]] CUresult list_kernels(std::vector<void*>& result, const void* image);
// Memory of the variable on the thread's device, which is taken at the first call.
[[nodiscard]] CUresult find_variable(ThreadState& thread, CUdeviceptr* address,
                                     std::size_t* size_bytes, const void* image, const char* name);

// Memory with the variable's first bytes; 0 where there is none left.
[[nodiscard]] std::uint64_t place_variable(SimulatedDevice& device, const VariableFacts& variable);

// A kernel as its image describes it, and what the program has set since.
struct LoadedKernel {
  const void* image = nullptr;
  KernelFacts facts;  // its name alone, where the image does not say more
  int architecture = 0;
  int constant_bytes = 0;
  std::map<int, int> settings;  // by CUfunction_attribute
};
// Empty where the handle is none.
[[nodiscard]] std::optional<LoadedKernel> kernel_of(const void* handle);
// Valid as long as the process.
[[nodiscard]] const char* kernel_name(const void* handle);
[[nodiscard]] CUresult set_kernel(const void* handle, int attribute, int value);

}  // namespace simcuda
