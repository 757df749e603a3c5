// A trace whose events goldens number: one operation per event, in the trace's order.
#pragma once

#include <vector>

#include "workloads/trace/source.h"

namespace allocmark {

// Reads the source to its end. A trace with kernels is a UsageError: goldens know nothing of them.
[[nodiscard]] std::vector<Event> parity_events(EventSource& source);

}  // namespace allocmark
