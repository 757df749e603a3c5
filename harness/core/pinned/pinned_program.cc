// See pinned_program.h.
#include "harness/core/pinned/pinned_program.h"

#include "workloads/trace/summary.h"

namespace allocmark {
namespace {

bool concerns_host(EventKind kind) {
  return is_of_host(kind) || kind == EventKind::Kernel || kind == EventKind::Busy ||
         kind == EventKind::Host || kind == EventKind::Sync || kind == EventKind::Trim;
}

}  // namespace

PinnedProgram read_pinned_program(EventSource& source) {
  const TraceSummary summary = summarize(source);
  PinnedProgram program{
      .stream_count = summary.stream_count,
      .request_count = summary.kind_counts[static_cast<std::size_t>(EventKind::HostAlloc)],
      .asked_bytes_peak = summary.host_bytes_peak,
      .device_bytes_peak = summary.requested_bytes_peak};
  if (program.request_count == 0) return program;
  source.rewind();
  for (std::span<const Event> batch = source.next(); !batch.empty(); batch = source.next()) {
    for (const Event& event : batch) {
      if (concerns_host(event.kind)) program.events.push_back(event);
    }
  }
  return program;
}

PinnedProgram pinned_program_of(std::span<const host_caching::Buffers> buffers) {
  PinnedProgram program;
  for (const host_caching::Buffers& each : buffers) {
    for (std::uint64_t i = 0; i < each.count; ++i) {
      program.events.push_back({.id = ++program.request_count,
                                .size_bytes = each.size_bytes,
                                .kind = EventKind::HostAlloc});
    }
  }
  program.asked_bytes_peak = host_caching::asked_bytes(buffers);
  return program;
}

}  // namespace allocmark
