// The child's side of a job: the hidden command "cell PARENT_PID [--JOB [DEVICE]]". Without a job
// it is "cell". Other builds of this program start cells so: keep the form.
#pragma once

#include <cuda_runtime_api.h>

#include <span>
#include <string_view>

#include "base/error.h"
#include "harness/job/job.h"

namespace allocmark {

// Reads the request from stdin (an empty one is the device's name), runs the job, and leaves the
// process without its destructors, as a driver's can hang. Throws UsageError where no parent of
// ours started it, and what the job throws.
[[noreturn]] void serve_job(int argc, char** argv, std::span<const JobEntry* const> entries);

// Throws EnvironmentError that names `call` and the error in the runtime's words.
void check_device_call(cudaError_t error, const char* call);

// Makes a device the current one. Throws EnvironmentError where the process has another runtime
// than it needs, or the driver refuses.
void select_device(std::string_view device);

}  // namespace allocmark
