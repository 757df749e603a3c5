// A trace as the operations that goldens number: one operation per event, in the trace's order.
#pragma once

#include <vector>

#include "harness/tools/parity/parity.h"
#include "workloads/trace/source.h"

namespace allocmark {

// Reads the source to its end. A trace with kernels is a UsageError: goldens know nothing of them.
[[nodiscard]] std::vector<caching::ParityOperation> parity_operations(EventSource& source);

}  // namespace allocmark
