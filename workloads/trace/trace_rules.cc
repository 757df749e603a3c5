#include "workloads/trace/trace_rules.h"

#include <fmt/format.h>

#include <iterator>
#include <string>

#include "workloads/trace/event_names.h"
#include "workloads/trace/trace_row.h"

namespace allocmark {

bool SeenIds::contains(std::uint64_t id) const {
  auto after = ranges_.upper_bound(id);
  return after != ranges_.begin() && std::prev(after)->second >= id;
}

void SeenIds::insert(std::uint64_t id) {
  // Ids that count up by one, which is what our writers make, only ever touch the last range.
  if (!ranges_.empty() && std::prev(ranges_.end())->second + 1 == id) {
    std::prev(ranges_.end())->second = id;
    return;
  }
  auto after = ranges_.upper_bound(id);
  const bool joins_after = after != ranges_.end() && after->first == id + 1;
  const bool joins_before = after != ranges_.begin() && std::prev(after)->second + 1 == id;
  if (joins_before) {
    auto before = std::prev(after);
    before->second = joins_after ? after->second : id;
    if (joins_after) ranges_.erase(after);
  } else if (joins_after) {
    const std::uint64_t last = after->second;
    ranges_.erase(after);
    ranges_.emplace(id, last);
  } else if (ranges_.size() < kRangeCountMax) {
    ranges_.emplace(id, id);
  }
}

namespace {

// 13 days: durations are summed, and a longer one is a slip of the pen.
constexpr std::uint64_t kDurationNsEnd = std::uint64_t{1} << 50;

BrokenRule check_duration(const Event& event) {
  if (event.duration_ns() < kDurationNsEnd) return std::nullopt;
  return ErrorText{.what = "duration too long",
                   .wanted = "below 2^50 ns",
                   .got = std::to_string(event.duration_ns())};
}

}  // namespace

BrokenRule TraceRules::check(const Event& event, std::uint64_t place) {
  if (event.stream >= kTraceStreamCountMax) {
    return stream_too_large(event.stream);
  }
  Space& space = is_of_host(event.kind) ? host_ : device_;
  switch (event.kind) {
    case EventKind::Alloc:
    case EventKind::HostAlloc:
      return check_alloc(event, place, space);
    case EventKind::Free:
    case EventKind::HostFree:
      return check_free(event, space);
    case EventKind::Record:
    case EventKind::HostRecord:
      return check_record(event, space);
    case EventKind::Kernel:
    case EventKind::Busy:
    case EventKind::Host:
      return check_duration(event);
    case EventKind::Trim:
      return event.id == 0 ? std::nullopt : pools_.check(event, place);
    case EventKind::PoolCreate:
    case EventKind::PoolBegin:
    case EventKind::PoolEnd:
    case EventKind::PoolRelease:
    case EventKind::PoolOnOom:
    case EventKind::PoolNoSplit:
    case EventKind::CaptureBegin:
    case EventKind::CaptureEnd:
    case EventKind::GraphReplay:
      return pools_.check(event, place);
    case EventKind::Sync:
    case EventKind::Mark:
      return std::nullopt;
  }
  return std::nullopt;
}

BrokenRule TraceRules::check_alloc(const Event& event, std::uint64_t place, Space& space) {
  if (event.size_bytes >= kTraceSizeBytesEnd) {
    return ErrorText{.what = "size too large",
                     .wanted = "below 2^60 bytes",
                     .got = std::to_string(event.size_bytes)};
  }
  if (event.id == LiveBlocks::kNoId) {
    return ErrorText{.what = "id 2^64 - 1 is reserved", .wanted = "a smaller id"};
  }
  const TracedBlock* twin = space.live.find(event.id);
  if (twin != nullptr) {
    return ErrorText{.what = fmt::format("duplicate id {}", event.id),
                     .wanted = "an id that no other alloc uses",
                     .got = fmt::format("an id that is live since {}", twin->birth)};
  }
  if (space.seen.contains(event.id)) {
    return ErrorText{.what = fmt::format("duplicate id {}", event.id),
                     .wanted = "an id that no other alloc uses",
                     .got = "an id that was allocated and freed before",
                     .next = "Ids name blocks, not addresses: count them up"};
  }
  const std::uint64_t size_bytes = event.tensor == TensorKind::Failed ? 0 : event.size_bytes;
  if (space.live_bytes + size_bytes >= kTraceLiveBytesEnd) {
    return ErrorText{.what = "live bytes overflow",
                     .wanted = "below 2^63 bytes live at once",
                     .got = fmt::format("{} and {} more", space.live_bytes, event.size_bytes)};
  }
  space.live_bytes += size_bytes;
  space.seen.insert(event.id);
  space.live.insert({.id = event.id, .size_bytes = size_bytes, .birth = place});
  return std::nullopt;
}

BrokenRule TraceRules::check_free(const Event& event, Space& space) {
  const TracedBlock* block = space.live.find(event.id);
  if (block == nullptr) return not_live(event, space);
  space.live_bytes -= block->size_bytes;
  space.live.erase(event.id);
  return std::nullopt;
}

BrokenRule TraceRules::check_record(const Event& event, const Space& space) {
  if (space.live.find(event.id) == nullptr) return not_live(event, space);
  return std::nullopt;
}

ErrorText TraceRules::not_live(const Event& event, const Space& space) {
  const bool is_free = event.kind == EventKind::Free || event.kind == EventKind::HostFree;
  if (space.seen.contains(event.id)) {
    return {.what = fmt::format("{} {}", is_free ? "double free of id" : "record after free of id",
                                event.id),
            .wanted = "the id of a live block",
            .got = "a block that was freed before"};
  }
  return {.what = fmt::format("{} of unknown id {}", is_free ? "free" : "record", event.id),
          .wanted = "the id of an earlier alloc",
          .got = "an id that no row so far allocates",
          .next = "Rows stand in the order in which they happened: is the file sorted otherwise?"};
}

void TraceRules::clear() {
  device_ = {};
  host_ = {};
  pools_.clear();
}

}  // namespace allocmark
