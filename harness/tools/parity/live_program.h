// One side of the live comparison: runs a program (harness/tools/parity/program.h) on the backend
// `caching` or `torch`, on the simulated device, and writes down every answer as a line of text.
// Two processes do this, one per backend, and their texts must be equal. Checks; times nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "harness/tools/parity/program.h"

namespace allocmark {

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

}  // namespace allocmark
