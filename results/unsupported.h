// Which of a cell's quantiles rest on too few samples to be claimed. Flows in: a cell; flows out:
// the stored names of those quantiles, found by walking results/fields.h, so that a new latency is
// among them without being told. Neither times nor checks allocators.
#pragma once

#include <string>
#include <vector>

#include "results/schema.h"

namespace allocmark {

// "allocate_latency_ns_p999", "size_classes.<=512B.allocate_latency_ns_p99". The parts of a latency
// (host, driver) have the samples of the total and are not named; nor are a pass's quantiles, which
// are for spread.
[[nodiscard]] std::vector<std::string> unsupported_quantiles(const CellResult& cell);

}  // namespace allocmark
