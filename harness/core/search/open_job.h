// A job's events by its text: of a recording, which may have notes, or of any other workload with
// the kernels that go with it.
#pragma once

#include <cstdint>
#include <string>

#include "workloads/import/recording.h"

namespace allocmark {

// Throws what open_recording() and open_workload_with_kernels() throw.
[[nodiscard]] Recording open_job(const std::string& workload, std::uint64_t seed);

}  // namespace allocmark
