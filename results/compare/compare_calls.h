// The CUDA calls of two cells, by function: which calls on top of the other side's are worse, and
// which only differ. Flows in: cells; flows out: verdicts. Neither times nor checks allocators.
#pragma once

#include <string_view>
#include <vector>

#include "results/compare/compare_numbers.h"

namespace allocmark {

inline constexpr std::string_view kFewerReason =
    "fewer of these calls can be a fault as well as a merit, so it is no praise";

// Begins the names of what add_driver_calls() counts of objects: "live_objects.events".
inline constexpr std::string_view kLiveObjects = "live_objects.";

// Also how many more objects of a kind were made than ended, in the checked pass with the end of
// its backend: more that stay are worse.
// A function that one side alone calls instead of another one of its kind is a choice, which the
// times judge; calls on top of the other side's are not. Waiting instead of asking is none.
void add_driver_calls(const ExactSides& sides, std::vector<NumberComparison>& numbers);

}  // namespace allocmark
