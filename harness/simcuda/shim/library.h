// The library as a whole: reads the environment and the profile on the first call and makes the
// devices. In: the environment. Out: devices, or the reason why there are none.
#pragma once

#include <cstddef>
#include <string>

#include "harness/simcuda/shim/simulated_device.h"

namespace simcuda {

// Once per process, whoever is first. On failure a message goes to stderr and kStartFailed is set.
void start_library();
// The same at the start of a call that passes no other check.
void start_if_needed();
[[nodiscard]] const std::string& start_error();

// Where this file lies, and with it profiles and the library for CUDA 12.
[[nodiscard]] std::string folder_of_this_library();

[[nodiscard]] int device_count();
// Null where there is no such device.
[[nodiscard]] SimulatedDevice* device_at(int index);

// Starts or (null) stops the CSV log of calls; returns a cudaError_t.
int set_call_log(const char* path);

}  // namespace simcuda
