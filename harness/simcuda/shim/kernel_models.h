// Kernels: host models of them, by a part of the kernel's mangled name, and durations of those that
// do nothing. In: names. Out: launches.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/graph.h"
#include "harness/simcuda/simcu.h"

namespace simcuda {

// Later registrations win.
void add_kernel_model(const char* name_part, SimcuKernelModel model, void* context);
// Sizes of the arguments of such kernels, without which a capture cannot keep their values.
void add_kernel_arguments(const char* name_part, std::vector<std::uint64_t> sizes_bytes);

// Reads SIMCUDA_KERNELS; throws std::runtime_error where it is wrong.
void read_kernel_durations();
// Of a kernel without a model that does nothing; empty where it is to be refused.
[[nodiscard]] std::optional<std::uint64_t> kernel_duration_ns(std::string_view name);

// What a kernel is said to have whose registers are not known. Not 0: programs divide by it.
inline constexpr int kUnknownRegisterCount = 32;

// Launches a kernel by its mangled name. `arguments` null: without a model only.
[[nodiscard]] cudaError_t launch_kernel(ThreadState& thread, const std::string& name,
                                        void** arguments, cudaStream_t stream);

// The same as what a node of a graph does. A model needs the sizes of the arguments, whose values
// are kept.
[[nodiscard]] MadeWork kernel_work(ThreadState& thread, const std::string& name, void** arguments);

// The mangled name of a kernel that the program registered for this host function, or got as a
// handle of this value. Where a static
// runtime took the registration, the function's place. Empty where the program did neither.
[[nodiscard]] std::string registered_kernel_name(const void* function);

}  // namespace simcuda
