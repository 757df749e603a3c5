// See timeline.h.
#include "harness/core/check/timeline.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include "base/bytes.h"

namespace allocmark {
namespace {

// A map with more blocks than this is drawn without the borders between equals.
constexpr std::size_t kMapBlocksPlain = 400;
constexpr std::uint64_t kEvenMapCount = 48;
// Blocks that lie further apart are not of one segment.
constexpr std::uint64_t kStretchGapBytes = 32 * kMiB;

std::uint64_t divide_up(std::uint64_t value, std::uint64_t by) {
  return std::max<std::uint64_t>(1, (value + by - 1) / by);
}

std::size_t block_count(const std::vector<MemorySegment>& segments) {
  std::size_t count = 0;
  for (const MemorySegment& segment : segments) count += segment.blocks.size();
  return count;
}

void join_equals(std::vector<MemoryBlock>& blocks) {
  std::vector<MemoryBlock> joined;
  for (const MemoryBlock& block : blocks) {
    const bool continues = !joined.empty() && joined.back().state == block.state &&
                           joined.back().address + joined.back().size_bytes == block.address;
    if (continues) {
      joined.back().size_bytes += block.size_bytes;
    } else {
      joined.push_back(block);
    }
  }
  blocks = std::move(joined);
}

template <typename Value>
std::string column(const std::vector<TimelineMoment>& moments, Value value) {
  std::vector<std::string> texts;
  bool known = false;
  for (const TimelineMoment& moment : moments) {
    const std::optional<std::uint64_t> one = value(moment);
    known = known || one.has_value();
    texts.push_back(one ? fmt::format("{}", *one) : "null");
  }
  return known ? fmt::format("[{}]", fmt::join(texts, ",")) : "null";
}

// Streams are handles, which differ from run to run; a file has their order of appearance.
using StreamNumbers = std::map<std::uint64_t, std::size_t>;

std::string segment_json(const MemorySegment& segment, std::uint64_t lowest,
                         const StreamNumbers& streams) {
  std::vector<std::string> blocks;
  for (const MemoryBlock& block : segment.blocks) {
    blocks.push_back(fmt::format("[{},{},{}]", block.address - lowest, block.size_bytes,
                                 static_cast<int>(block.state)));
  }
  return fmt::format(R"({{"address":{},"size_bytes":{},"stream":{},"blocks":[{}]}})",
                     segment.address - lowest, segment.size_bytes, streams.at(segment.stream),
                     fmt::join(blocks, ","));
}

std::string map_json(const TimelineMap& map, std::uint64_t lowest, const StreamNumbers& streams) {
  std::vector<std::string> segments;
  for (const MemorySegment& segment : map.segments) {
    segments.push_back(segment_json(segment, lowest, streams));
  }
  return fmt::format(R"({{"event_index":{},"segments":[{}]}})", map.event_index,
                     fmt::join(segments, ","));
}

}  // namespace

Timeline::Timeline(std::uint64_t event_count)
    : event_count_(event_count),
      span_events_(divide_up(event_count, kSpanCountMax)),
      map_events_(divide_up(event_count, kEvenMapCount)),
      spans_(divide_up(event_count, span_events_)) {}

bool Timeline::ends_span(std::uint64_t event_index) const {
  return (event_index + 1) % span_events_ == 0 || event_index + 1 == event_count_;
}

bool Timeline::wants(std::uint64_t event_index, std::uint64_t requested_bytes) const {
  if (event_index >= event_count_) return false;
  const Span& span = spans_[event_index / span_events_];
  return ends_span(event_index) || !span.highest || requested_bytes > span.highest->requested_bytes;
}

void Timeline::add(const TimelineMoment& moment) {
  if (!wants(moment.event_index, moment.requested_bytes)) return;
  Span& span = spans_[moment.event_index / span_events_];
  if (!span.highest || moment.requested_bytes > span.highest->requested_bytes) {
    span.highest = moment;
  }
  if (ends_span(moment.event_index)) span.last = moment;
}

void Timeline::add_pools(const TimelinePools& pools) {
  if (pools.event_index >= event_count_) return;
  Span& span = spans_[pools.event_index / span_events_];
  const bool most =
      !span.most_stranded || pools.stranded_bytes() > span.most_stranded->stranded_bytes();
  if (most) span.most_stranded = pools;
  span.last_pools = pools;
}

void Timeline::add_capture(const TimelineCapture& capture) {
  if (captures_.size() < kCaptureCountMax) captures_.push_back(capture);
}

void Timeline::add_oom(std::uint64_t event_index) {
  if (oom_event_indices_.size() < kOomCountMax) oom_event_indices_.push_back(event_index);
}

void Timeline::add_mark(std::uint64_t event_index) {
  if (mark_event_indices_.size() < kMarkCountMax) mark_event_indices_.push_back(event_index);
}

bool Timeline::wants_map(std::uint64_t event_index) const {
  if (maps_.size() >= kMapCountMax || map_block_count_ >= kBlockCountMax) return false;
  const bool first_oom = !oom_event_indices_.empty() && oom_event_indices_.front() == event_index;
  return first_oom || (event_index + 1) % map_events_ == 0 || event_index + 1 == event_count_;
}

void Timeline::add_map(TimelineMap map) {
  if (block_count(map.segments) > kMapBlocksPlain) {
    for (MemorySegment& segment : map.segments) join_equals(segment.blocks);
  }
  const std::size_t count = block_count(map.segments);
  if (map_block_count_ + count > kBlockCountMax) return;
  map_block_count_ += count;
  maps_.push_back(std::move(map));
}

std::vector<TimelineMoment> Timeline::moments() const {
  std::vector<TimelineMoment> moments;
  for (const Span& span : spans_) {
    if (span.highest) moments.push_back(*span.highest);
    const bool same =
        span.highest && span.last && span.highest->event_index == span.last->event_index;
    if (span.last && !same) moments.push_back(*span.last);
  }
  return moments;
}

// Empty without private pools.
std::string Timeline::pools_json() const {
  std::vector<std::uint64_t> event_indices, reserved_bytes, live_bytes;
  const auto add = [&](const TimelinePools& pools) {
    event_indices.push_back(pools.event_index);
    reserved_bytes.push_back(pools.reserved_bytes);
    live_bytes.push_back(pools.live_bytes);
  };
  for (const Span& span : spans_) {
    if (!span.most_stranded) continue;
    add(*span.most_stranded);
    if (span.last_pools != span.most_stranded) add(*span.last_pools);
  }
  if (event_indices.empty() && captures_.empty()) return "";
  std::vector<std::string> captures;
  for (const TimelineCapture& one : captures_)
    captures.push_back(
        fmt::format("[{},{},{}]", one.begin_event_index, one.end_event_index, one.failed ? 1 : 0));
  return fmt::format(
      R"("private_pools":{{"event_index":[{}],"reserved_bytes":[{}],"live_bytes":[{}],)"
      R"("captures":[{}]}},)",
      fmt::join(event_indices, ","), fmt::join(reserved_bytes, ","), fmt::join(live_bytes, ","),
      fmt::join(captures, ","));
}

std::string Timeline::to_json(std::string_view cell_id) const {
  StreamNumbers streams;
  std::uint64_t lowest = std::numeric_limits<std::uint64_t>::max();
  for (const TimelineMap& map : maps_) {
    for (const MemorySegment& segment : map.segments) {
      lowest = std::min(lowest, segment.address);
      streams.try_emplace(segment.stream, streams.size());
    }
  }
  const std::vector<TimelineMoment> kept = moments();
  std::vector<std::string> maps;
  for (const TimelineMap& map : maps_) maps.push_back(map_json(map, lowest, streams));
  const auto indices = [](const TimelineMoment& moment) {
    return std::optional<std::uint64_t>(moment.event_index);
  };
  const auto requested = [](const TimelineMoment& moment) {
    return std::optional<std::uint64_t>(moment.requested_bytes);
  };
  const std::string event_indices = kept.empty() ? "[]" : column(kept, indices);
  const std::string requested_bytes = kept.empty() ? "[]" : column(kept, requested);
  std::string text = fmt::format(
      R"({{"kind":"timeline","schema_version":"1.1.0","cell_id":"{}","event_count":{},)", cell_id,
      event_count_);
  text += fmt::format(R"("event_index":{},"requested_bytes":{},)", event_indices, requested_bytes);
  text += fmt::format(R"("allocated_bytes":{},"active_bytes":{},"reserved_bytes":{},)",
                      column(kept, [](const auto& moment) { return moment.allocated_bytes; }),
                      column(kept, [](const auto& moment) { return moment.active_bytes; }),
                      column(kept, [](const auto& moment) { return moment.reserved_bytes; }));
  // Steps that are not all there would be a wrong axis.
  if (!mark_event_indices_.empty() && mark_event_indices_.size() < kMarkCountMax) {
    text += fmt::format(R"("mark_event_index":[{}],)", fmt::join(mark_event_indices_, ","));
  }
  text += pools_json();
  text += fmt::format(R"("oom_event_index":[{}],"snapshots":[{}]}})",
                      fmt::join(oom_event_indices_, ","), fmt::join(maps, ","));
  return text + "\n";
}

std::vector<MemorySegment> segments_of_live(std::vector<MemoryBlock> live) {
  std::sort(live.begin(), live.end(), [](const MemoryBlock& left, const MemoryBlock& right) {
    return left.address < right.address;
  });
  std::vector<MemorySegment> segments;
  for (const MemoryBlock& block : live) {
    const bool near =
        !segments.empty() &&
        block.address <= segments.back().address + segments.back().size_bytes + kStretchGapBytes;
    if (!near) segments.push_back({.address = block.address});
    MemorySegment& segment = segments.back();
    const std::uint64_t end = segment.address + segment.size_bytes;
    if (block.address > end) {
      segment.blocks.push_back(
          {.address = end, .size_bytes = block.address - end, .state = MemoryBlockState::Free});
    }
    segment.blocks.push_back(block);
    segment.size_bytes = block.address + block.size_bytes - segment.address;
  }
  return segments;
}

}  // namespace allocmark
