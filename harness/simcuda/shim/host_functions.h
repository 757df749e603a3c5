// Functions of the program that have their place in a stream (cudaLaunchHostFunc).
#pragma once

#include "harness/simcuda/shim/simulated_device.h"

namespace simcuda {

// Calls those whose work before them has an end by now. Without the device's lock: they may not
// call CUDA functions, but some do.
void run_ready_host_functions(SimulatedDevice& device, ThreadState& thread);

// Gives it its place in the stream, and calls it where that has come.
[[nodiscard]] cudaError_t enqueue_host_function(ThreadState& thread, SimulatedDevice& device,
                                                StreamId stream, HostFunction what);

}  // namespace simcuda
