// How memory moved during the checked pass: what was requested, handed out, active and reserved
// over the events, what private pools had, and where the blocks lay at a few moments. Moments flow
// in one by one, whatever their count; at most 2000 of them and 64 maps flow out as JSON, which
// scripts/report/FACTS.md defines. Nothing here is timed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "allocators/backend/backend.h"

namespace allocmark {

struct TimelineMoment {
  std::uint64_t event_index = 0;
  std::uint64_t requested_bytes = 0;  // live, of requests that succeeded
  std::optional<std::uint64_t> allocated_bytes{}, active_bytes{}, reserved_bytes{};
};

// What all private pools together have of the device.
struct TimelinePools {
  std::uint64_t event_index = 0;  // before or after this event
  std::uint64_t reserved_bytes = 0, live_bytes = 0;
  [[nodiscard]] std::uint64_t stranded_bytes() const { return reserved_bytes - live_bytes; }
  friend bool operator==(const TimelinePools&, const TimelinePools&) = default;
};

// A graph's capture, and whether a request failed in it.
struct TimelineCapture {
  std::uint64_t begin_event_index = 0, end_event_index = 0;
  bool failed = false;
};

struct TimelineMap {
  std::uint64_t event_index = 0;
  std::vector<MemorySegment> segments;
};

class Timeline {
 public:
  // The trace's events are divided into equally long spans; of each are kept the moment with most
  // requested bytes and the last one.
  static constexpr std::uint64_t kSpanCountMax = 1000;
  static constexpr std::uint64_t kMapCountMax = 64;
  static constexpr std::uint64_t kOomCountMax = 2000;
  static constexpr std::uint64_t kMarkCountMax = 10'000;
  static constexpr std::uint64_t kCaptureCountMax = 2000;
  // Blocks of all maps together, so that a file stays below about two megabytes.
  static constexpr std::uint64_t kBlockCountMax = 60'000;

  explicit Timeline(std::uint64_t event_count);

  // Whether a moment with so many requested bytes would be kept; asked so that stats are only
  // collected for those.
  [[nodiscard]] bool wants(std::uint64_t event_index, std::uint64_t requested_bytes) const;
  void add(const TimelineMoment& moment);
  void add_oom(std::uint64_t event_index);
  // A step of the program begins here.
  void add_mark(std::uint64_t event_index);

  // Of each span are kept the moment with most stranded bytes and the last one.
  void add_pools(const TimelinePools& pools);
  void add_capture(const TimelineCapture& capture);
  // Whether this event is the last of its span.
  [[nodiscard]] bool ends_span(std::uint64_t event_index) const;

  // At even distances, and at the first failed request.
  [[nodiscard]] bool wants_map(std::uint64_t event_index) const;
  // Where a map has many blocks, neighbours of one state become one.
  void add_map(TimelineMap map);

  [[nodiscard]] std::string to_json(std::string_view cell_id) const;

 private:
  struct Span {
    std::optional<TimelineMoment> highest, last;
    std::optional<TimelinePools> most_stranded, last_pools;
  };
  [[nodiscard]] std::vector<TimelineMoment> moments() const;
  [[nodiscard]] std::string pools_json() const;

  std::uint64_t event_count_, span_events_, map_events_;
  std::vector<Span> spans_;
  std::vector<std::uint64_t> oom_event_indices_, mark_event_indices_;
  std::vector<TimelineCapture> captures_;
  std::vector<TimelineMap> maps_;
  std::uint64_t map_block_count_ = 0;
};

// For allocators that cannot tell their segments: the live blocks, by address, as one segment per
// stretch of addresses; the room between two of a stretch counts as free.
[[nodiscard]] std::vector<MemorySegment> segments_of_live(std::vector<MemoryBlock> live);

}  // namespace allocmark
