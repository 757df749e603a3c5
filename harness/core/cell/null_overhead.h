// What is left of a cell without an allocator: the latency that the harness itself shows (a trace's
// first steps on the null backend under the recorder), and the time of the whole program with its
// kernels. This file times.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "harness/core/measure/clock.h"
#include "harness/core/replay/device_work.h"
#include "harness/core/replay/prepared_trace.h"
#include "harness/core/replay/simcu_api.h"
#include "results/schema.h"

namespace allocmark {

inline constexpr std::uint64_t kNullPrefixCountMax = 65536;

struct NullOverheadSetup {
  const TickClock* clock = nullptr;               // calibrated
  const SimcuThreadClock* simcu_clock = nullptr;  // as for the cell's own passes
  std::uint32_t stream_count = 1;
  std::uint64_t event_count_min = 16384;  // the prefix is repeated until that many events have run
};

// Latency of allocate and deallocate together; a warm-up round is not counted.
[[nodiscard]] LatencySummary null_overhead(const TraceBatch& prefix,
                                           const NullOverheadSetup& setup);

struct NullProgramSetup {
  const TickClock* clock = nullptr;               // calibrated
  const SimcuThreadClock* simcu_clock = nullptr;  // as for the cell's own passes
  DeviceWork* work = nullptr;                     // runs the trace's kernels
  std::span<const cudaStream_t> streams;
  std::uint32_t pass_count = 3;
};

// The program with an allocator that costs nothing; medians of the passes, in ns.
struct NullProgram {
  double program_ns = 0;    // from the first event to the end of the device's work
  double step_ns_mean = 0;  // as StepClock's
};
[[nodiscard]] NullProgram null_program(PreparedTrace& trace, const NullProgramSetup& setup);

}  // namespace allocmark
