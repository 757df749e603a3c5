// The live comparison: the same program on `caching` and on `torch` (PyTorch's own allocator), each
// in a process of its own with a simulated device of its own, and their answers compared line by
// line (harness/tools/parity/live_program.h). Checks; times nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "harness/tools/parity/program.h"

namespace allocmark {

struct LiveDifference {
  std::uint64_t step = 0;  // 0-based index into the program
  std::string request;     // the step as a row of a trace
  std::string torch;       // what PyTorch's allocator answered
  std::string caching;
};

struct LiveResult {
  std::uint64_t step_count = 0;  // compared
  std::uint64_t allocation_count = 0;
  std::uint64_t failure_count = 0;
  std::uint64_t counter_count = 0;  // values compared
  // Values of inactive_split counters that differ where several streams had events pending:
  // PyTorch walks its streams in the order of a hash of their handles, ours in that of first use.
  // The sums and peaks on the way depend on it, placements and current values do not.
  std::uint64_t order_dependent_count = 0;
  bool both_failed = false;  // with an error other than out of memory, at the same step
  // Where PyTorch's allocator was about to give back a piece of a segment (a bug of its own after
  // max_split_size was lowered), or to lose a private pool (expandable segments), the comparison
  // ends.
  bool ended_at_known_bug = false;
  // Which side was silent from `step_count` on, and why: "torch gave no answer within 600 s".
  // Beyond, nothing was compared.
  std::optional<std::string> unanswered;
  std::optional<LiveDifference> difference;
};

struct LiveOptions {
  std::string program_path;     // of allocmark itself, which is started as the two children
  std::string torch = "torch";  // the allocators' names
  std::string caching = "caching";
  std::uint64_t timeout_s = 600;
};

// Throws EnvironmentError where a child cannot run at all (no plugin, no simcuda).
[[nodiscard]] LiveResult compare_live(const caching::Program& program, const LiveOptions& options);

// What one allocator, by its name, answers to a program: the lines of live_program.h, and a last
// one "end TEXT" where it crashed.
[[nodiscard]] std::string live_answers(const caching::Program& program, const LiveOptions& options,
                                       const std::string& allocator);

// Fewer steps that still differ; stops after `attempt_max` comparisons.
[[nodiscard]] caching::Program shrink_live(caching::Program program, const LiveOptions& options,
                                           std::uint64_t attempt_max);

}  // namespace allocmark
