// What two cells took of the host: resident memory, and processor time of threads beside the one
// that replays. Flows in: cells; flows out: verdicts. Neither times nor checks allocators.
#pragma once

#include <vector>

#include "results/compare/compare_numbers.h"

namespace allocmark {

// On simulated devices alone: on a GPU the driver has threads and memory of its own. Worse where
// every process of one side takes more than every process of the other one, by more than such
// numbers scatter.
void add_host_numbers(const ExactSides& sides, const ComparePolicy& policy,
                      std::vector<NumberComparison>& numbers);

}  // namespace allocmark
