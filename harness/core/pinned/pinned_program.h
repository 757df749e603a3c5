// What a workload asks of the host: its requests for pinned memory, and the work on the device that
// decides when they can be used again. Events of any workload flow in.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "allocators/host_caching/demand.h"
#include "workloads/trace/event.h"
#include "workloads/trace/source.h"

namespace allocmark {

struct PinnedProgram {
  // Of pinned memory, kernels, waits and the program's own work, in the workload's order.
  std::vector<Event> events{};
  std::uint32_t stream_count = 1;
  std::uint64_t request_count = 0;      // for pinned memory
  std::uint64_t asked_bytes_peak = 0;   // pinned memory asked for at once
  std::uint64_t device_bytes_peak = 0;  // memory of the device asked for at once
};

// Reads the source from its first event to its end; without requests there are no events. Throws
// UsageError where an event breaks a rule of traces.
[[nodiscard]] PinnedProgram read_pinned_program(EventSource& source);

// Buffers that are asked for one after the other and never freed.
[[nodiscard]] PinnedProgram pinned_program_of(std::span<const host_caching::Buffers> buffers);

}  // namespace allocmark
