// 'compare --confirm': cells of two runs that look better or worse are run again, both sides in
// turn. A comparison and the runs' folders flow in; the comparison with confirmed verdicts flows
// out, and what was measured stays in a folder of its own.
#pragma once

#include "harness/cli/parse.h"
#include "results/compare/compare.h"
#include "results/compare/compare_policy.h"

namespace allocmark {

// Throws UsageError, saying what is needed, where it is not known how to run both sides.
void confirm(const CompareCommand& command, const ComparePolicy& policy, Comparison& comparison);

}  // namespace allocmark
