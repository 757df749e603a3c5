// 'compare --confirm': cells of two runs that look better or worse are run again, both sides in
// turn. A comparison and the runs' folders flow in; the comparison with confirmed verdicts flows
// out, and what was measured stays in a folder of its own.
#pragma once

#include "harness/shell/pages/comparison_options.h"
#include "results/compare/compare.h"
#include "results/compare/compare_policy.h"

namespace allocmark {

struct CompareCommand {
  std::vector<std::string> runs;    // BASE and NEW; or runs of the same thing
  std::string calibrate;            // the file to write a calibration to; empty = compare
  std::string calibration, policy;  // files; empty = none, and the built-in policy
  std::string effect_min;           // "3%"; empty = the policy's
  std::string scope;                // "exact" or "timed"; empty = the policy's
  std::string format = "table";
  std::string out;     // a file for the format; empty = print it
  bool force = false;  // replace what --out and --calibrate name
  bool details = false, all = false, no_calibration = false;
  // Run suspects again, both sides in turn.
  bool confirm = false;
  std::string base_program, new_program;  // empty = what the run's plan names
  std::string confirm_out;                // empty = beside NEW
  std::optional<std::uint32_t> pass_count;
  std::uint32_t job_count = 1;
  InterleaveSettings interleave = {};
  std::vector<std::string> argv;
};

// Throws UsageError, saying what is needed, where it is not known how to run both sides.
void confirm(const CompareCommand& command, const ComparePolicy& policy, Comparison& comparison);

}  // namespace allocmark
