// Writes events as a trace file (workloads/TRACES.md), packed by suffix, in constant memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "workloads/trace/byte_stream.h"
#include "workloads/trace/event.h"
#include "workloads/trace/source.h"

namespace allocmark {

struct TraceWriterOptions {
  bool tagged = true;                        // write the column `tensor`
  std::optional<std::uint64_t> event_count;  // written as key `events`, which readers check
  std::optional<std::uint64_t> hash;  // trace_hash, written as key `hash`, which readers check
};

class TraceWriter {
 public:
  TraceWriter(const std::string& path, const TraceHeader& header,
              const TraceWriterOptions& options);

  // `label` is the text of a Mark and ignored for other kinds.
  void write(const Event& event, std::string_view label);
  // The file appears under its name only here.
  void finish();

 private:
  ByteWriter bytes_;
  bool tagged_;
  std::string text_;
};

// Writes the whole source (from its first event) with the keys `events` and `hash`; returns the
// number of events. The source is read twice.
std::uint64_t write_trace_file(const std::string& path, EventSource& source);

}  // namespace allocmark
