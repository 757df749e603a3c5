// What is wrong with the simulated GPUs, for testing programs that look for it. In: the environment
// variable SIMCUDA_GPU_FAULTS, "GPU:KEY=VALUE;..." (simcu.h lists the keys). Out: what the call
// that is being made must do, and what NVML must say.
#pragma once

#include <cstdint>
#include <string_view>

namespace simcuda {

// Throws std::runtime_error on bad text. Switches the slow path on.
void add_gpu_faults(std::string_view text);

// What NVML says about the GPU under `key`; `fallback` where nothing is planned. A value that is a
// file's path is the number in that file, which grows by one with every look, in whatever process.
[[nodiscard]] std::uint64_t gpu_value(int gpu, std::string_view key, std::uint64_t fallback);

// Counts a call made for the GPU. Nonzero: the GPU has fallen off the bus, and this is the error.
// Does not return where the plan says that this call hangs.
[[nodiscard]] int next_gpu_fault(int gpu, std::string_view api);
// The GPU has fallen off the bus, as far as this process has seen.
[[nodiscard]] bool gpu_is_lost(int gpu);

// What a call of so much virtual time takes on that GPU.
[[nodiscard]] std::uint64_t stretched_ns(int gpu, std::uint64_t ns);

// This cudaFree forgets the memory instead of giving it back.
[[nodiscard]] bool next_free_leaks(int gpu);
// A bit of the memory that is being looked at has flipped.
[[nodiscard]] bool next_view_is_corrupt(int gpu);

}  // namespace simcuda
