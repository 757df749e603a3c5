// A baseline of latencies from many machines' qualifications. Rows of nodes flow in; what calls
// take on the healthy ones, by kind of machine, flows out.
#pragma once

#include <vector>

#include "harness/tools/qualify/fleet/nodes.h"
#include "harness/tools/qualify/spread.h"

namespace allocmark::fleet {

// One entry per kind with enough machines, and one of all machines per GPU model. Nodes that are
// not judged, that fail, or that have an outlier of FAIL are left out. A machine counts once: its
// value is the median of its GPUs'.
[[nodiscard]] std::vector<qualify::Spread> baseline_of(const std::vector<NodeRow>& rows);

}  // namespace allocmark::fleet
