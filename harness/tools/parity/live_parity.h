// The live comparison: the same program on `caching` and on `torch` (PyTorch's own allocator), each
// in a process of its own with a simulated device of its own, and their answers compared line by
// line. Checks; times nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "harness/tools/parity/program.h"

namespace allocmark {

// One side (live_program.cc): runs a program on the backend `caching` or `torch`, on the simulated
// device, and writes down every answer as a line of text. Two processes do this, one per backend,
// and their texts must be equal.
// Hands the lines to `sink` as they come, so that a crash leaves those before it. Each has its
// step's index:
//   a INDEX PLACE        an allocation landed there; "oom" where it failed, "null" for none
//   m INDEX TEXT         what PyTorch's OutOfMemoryError says, without the device's part
//   c INDEX TEXT         a change of configuration was refused with this text
//   s INDEX NAME=VALUE.. all counters, every `counter_interval` steps, after failures, at the end
//   p INDEX POOL=RESERVED/LIVE..  bytes of each pool, after the counters of a program with pools
//   b INDEX COUNT        times that the caching backend met a bug of PyTorch that leaves it broken:
//                        releasing split blocks, or losing count of a private pool's memory
//   e INDEX TEXT         the backend gave up
// Throws UsageError for another backend and EnvironmentError where the backend or simcuda is
// missing.
void run_live_program(const caching::Program& program, std::string_view backend,
                      const std::function<void(const std::string& line)>& sink);

// How long the kernel of this step keeps its stream busy, in virtual time; as a rule it ends when
// something waits for it. Durations lie far apart: both sides call the runtime unequally often,
// and where two kernels ended within microseconds that would decide whether an event has passed.
[[nodiscard]] std::uint64_t busy_ns(std::uint64_t step);

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
