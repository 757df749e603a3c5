// A job's events by its text, and what a reader should know of the recordings among them.
#pragma once

#include <cstdint>
#include <string>

#include "workloads/import/recording.h"

namespace allocmark {

// Notes and failed requests are those of all recordings that the text names, alone or as parts.
// Throws what open_recording() and open_workload_with_kernels() throw.
[[nodiscard]] Recording open_job(const std::string& workload, std::uint64_t seed);

}  // namespace allocmark
