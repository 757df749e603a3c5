// A source of events: a generator or a recorded file, read in batches so that a trace of any length
// needs constant memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/trace/event.h"

namespace allocmark {

// One of several processes that run at once on one device, each with an allocator of its own.
struct TraceJob {
  std::string workload;            // what it runs
  std::uint32_t first_stream = 0;  // it has the streams from here to the next process's first

  bool operator==(const TraceJob&) const = default;
};

// A key of PyTorch's config string that the job cannot run with.
struct ForbiddenKey {
  std::string key;
  std::string why;  // in words, for the person who asked

  bool operator==(const ForbiddenKey&) const = default;
};

// The head of a trace. Names and units as in the trace file's "# key: value" lines.
struct TraceHeader {
  std::string name;  // short name, used in tables
  std::string
      generator;  // the workload text that made it ("train:gpt2-124m,batch=8") or "recorded"
  std::uint64_t seed = 0;          // 0 for recorded traces
  std::uint32_t stream_count = 1;  // streams are 0 .. stream_count - 1
  std::vector<TraceJob> jobs{};    // by first stream; empty: one process
  std::string pytorch{};           // the release that a recording was made with, as "2.11.0+cu130"
  std::vector<ForbiddenKey> forbids{};

  bool operator==(const TraceHeader&) const = default;
};

// TraceHeader::generator of what came from an allocator's log. A log says nothing of how its
// program ended: its last failed request is one like the others (workloads/TRACES.md).
inline constexpr std::string_view kLogGenerator = "logged";

[[nodiscard]] constexpr bool is_recording(std::string_view generator) {
  return generator == "recorded" || generator == kLogGenerator;
}

// About how many events one next() gives.
inline constexpr std::size_t kBatchEventCount = 4096;

class EventSource {
 public:
  virtual ~EventSource() = default;

  // The next batch, empty at the end. Valid until the next call. Throws UsageError naming file,
  // line and the broken rule where a file cannot be read.
  [[nodiscard]] virtual std::span<const Event> next() = 0;

  // Starts again from the first event; the events are the same.
  virtual void rewind() = 0;

  // stream_count is final once next() has returned an empty batch (files); exact from the start for
  // generators.
  [[nodiscard]] virtual const TraceHeader& header() const = 0;

  // Labels of Mark events seen so far, by index.
  [[nodiscard]] virtual const std::vector<std::string>& labels() const = 0;
};

// Visits every event from the source's place to its end, with its label where it is a mark.
template <typename Visit>
void for_each_event(EventSource& source, Visit visit) {
  for (auto batch = source.next(); !batch.empty(); batch = source.next()) {
    for (const Event& event : batch) {
      visit(event, event.kind == EventKind::Mark ? std::string_view(source.labels()[event.id])
                                                 : std::string_view());
    }
  }
}

}  // namespace allocmark
