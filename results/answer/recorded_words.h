// What an answer says of requests that failed while the workload was recorded.
#pragma once

#include <span>
#include <string>

#include "results/schema.h"

namespace allocmark {

// " While it was recorded, 1 request failed."; empty where none of these cells' workloads is a
// recording in which requests failed.
[[nodiscard]] std::string recorded_failures(std::span<const CellResult* const> cells);

}  // namespace allocmark
