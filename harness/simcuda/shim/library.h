// The library as a whole: reads the environment and the profile on the first call and makes the
// devices. In: the environment. Out: devices, or the reason why there are none.
#pragma once

#include <string>

#include "harness/simcuda/shim/simulated_device.h"

namespace simcuda {

// Once per process, whoever is first. On failure a message goes to stderr and kStartFailed is set.
void start_library();
// The same at the start of a call that passes no other check.
void start_if_needed();
// The same, and reads CUDA_VISIBLE_DEVICES, once per process. For calls that need devices: NVML's
// come without, and a program may set the variable after them.
void see_devices();
[[nodiscard]] const std::string& start_error();

// Where this file lies, and with it profiles and the library for CUDA 12.
[[nodiscard]] std::string folder_of_this_library();

// As CUDA counts devices: those that CUDA_VISIBLE_DEVICES shows. None before see_devices(). Null
// where there is no such device.
[[nodiscard]] int device_count();
[[nodiscard]] SimulatedDevice* device_at(int index);
// Answers with what `ask` says of CUDA's device of that number.
template <class Out, class Ask>
[[nodiscard]] cudaError_t give_of_device(Out* out, int index, Ask ask) {
  SimulatedDevice* const device = device_at(index);
  if (out == nullptr) return cudaErrorInvalidValue;
  if (device == nullptr) return cudaErrorInvalidDevice;
  *out = ask(*device);
  return cudaSuccess;
}
// As NVML counts them: all that the node has.
[[nodiscard]] int node_device_count();
[[nodiscard]] SimulatedDevice* node_device_at(int node_index);
// NVML's number of CUDA's device; the same number where there is none.
[[nodiscard]] int node_index(int index);

// Starts or (null) stops the CSV log of calls; returns a cudaError_t.
int set_call_log(const char* path);

}  // namespace simcuda
