// What a comparison comes to. Flows in: the numbers' verdicts, cells without a result, faults of
// the files and a policy; flows out, into the same comparison: the cells' verdicts and order, why
// it fails, and the exit code. Can be done again after verdicts have changed. Neither times nor
// checks allocators.
#pragma once

#include "results/compare/compare.h"
#include "results/compare/compare_policy.h"

namespace allocmark {

void conclude(const ComparePolicy& policy, Comparison& comparison);

}  // namespace allocmark
