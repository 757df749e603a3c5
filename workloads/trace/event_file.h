// Events as they lie in memory, in an open file without a name: how a program hands a trace to the
// processes that it starts, which then parse nothing. Only the build that wrote it reads it; traces
// that are kept have a format of their own (trace_writer.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "workloads/trace/source.h"

namespace allocmark {

// What is known of such a file besides its events.
struct EventFile {
  TraceHeader header = {};
  std::vector<std::string> labels = {};
  std::uint64_t event_count = 0;

  bool operator==(const EventFile&) const = default;
};

// Writes all events of the source to the descriptor. Throws WriteError.
[[nodiscard]] EventFile write_events(EventSource& source, int fd);

// Reads them in batches, wherever others that share the descriptor read. Throws FileError where the
// file is shorter than promised.
[[nodiscard]] std::unique_ptr<EventSource> read_events(int fd, EventFile file);

}  // namespace allocmark
