#include "harness/core/check/placement_recorder.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace allocmark {
namespace {

constexpr std::uint64_t kCounterInterval = 2000;
constexpr std::string_view kAsyncBackend = "backend:cudaMallocAsync";

bool is_pytorch(const PlacementHeader& header) {
  const std::string_view family = family_of(header.allocator);
  return family == "caching" || family == "torch";
}

std::string backend_of(const PlacementHeader& header) {
  if (!is_pytorch(header)) return header.allocator;
  return header.conf.find(kAsyncBackend) != std::string::npos ? "cudaMallocAsync" : "native";
}

bool take_ending(std::string_view& name, std::string_view ending) {
  if (!name.ends_with(ending)) return false;
  name.remove_suffix(ending.size());
  return true;
}

// The four values of a PyTorch counter, in the order of the format.
struct Quartet {
  std::int64_t current = 0, peak = 0, allocated = 0, freed = 0;
};

}  // namespace

PlacementRecorder::PlacementRecorder(OutputFile& file, const Backend& backend,
                                     const PlacementHeader& header)
    : file_(file), backend_(backend), places_(backend_of(header) != "cudaMallocAsync") {
  file_.write(fmt::format("c total={} fraction_cap={} backend={}\n", header.device_total_bytes,
                          header.limit_bytes, backend_of(header)));
  file_.write(fmt::format("# conf: {}\n", header.conf));
  if (!header.release.empty()) file_.write(fmt::format("# pytorch: {}\n", header.release));
}

void PlacementRecorder::note_allocation(std::uint64_t operation, const AllocateResult& result) {
  const MemoryStats stats = backend_.totals();
  const std::uint64_t device_calls =
      stats.device_allocate_count.value_or(0) + stats.device_free_count.value_or(0);
  const auto address = reinterpret_cast<std::uint64_t>(result.pointer);
  if (places_ && device_calls_ != device_calls) {
    note_reserved(operation, stats, look_at_segments());
    device_calls_ = device_calls;
  }
  if (result.status == AllocateStatus::OutOfMemory) {
    file_.write("a oom\n");
    const std::string text = backend_.last_failure_text();
    if (!failed_before_ && !text.empty()) file_.write(fmt::format("# oom message: {}\n", text));
    failed_before_ = true;
  } else if (!places_ || address == 0) {
    file_.write("a ok\n");
  } else {
    write_place(address);
  }
}

void PlacementRecorder::note_operation(std::uint64_t operation_count) {
  if (operation_count % kCounterInterval == 0) write_counters(operation_count);
}

void PlacementRecorder::end(std::uint64_t operation_count) { write_counters(operation_count); }

// Returns how many there are; PyTorch's count leaves expandable segments out, as its counter does.
// A segment that stays keeps its ordinal, also where it was given back and made again meanwhile.
std::uint64_t PlacementRecorder::look_at_segments() {
  std::map<std::uint64_t, Segment> now;
  std::uint64_t segment_count = 0;
  for (const MemorySegment& segment : backend_.segments()) {
    segment_count += segment.is_expandable ? 0 : 1;
    const auto known = segments_.find(segment.address);
    const bool is_new = known == segments_.end();
    const bool resized = !is_new && known->second.size_bytes != segment.size_bytes;
    const std::uint64_t ordinal = is_new ? ordinal_next_++ : known->second.ordinal;
    now[segment.address] = {.size_bytes = segment.size_bytes, .ordinal = ordinal};
    if (!is_new && !resized) continue;
    file_.write(fmt::format("g {} {:x} {} {} {}\n", ordinal, segment.address, segment.size_bytes,
                            segment.is_large ? 1 : 0, segment.is_expandable ? 1 : 0));
  }
  segments_.swap(now);
  return segment_count;
}

void PlacementRecorder::note_reserved(std::uint64_t operation, const MemoryStats& stats,
                                      std::uint64_t segment_count) {
  const std::uint64_t reserved_bytes = stats.reserved_bytes.value_or(0);
  if (reserved_bytes == reserved_bytes_ && segment_count == segment_count_) return;
  reserved_bytes_ = reserved_bytes;
  segment_count_ = segment_count;
  file_.write(fmt::format("r {} {} {}\n", operation, reserved_bytes, segment_count));
}

const std::pair<const std::uint64_t, PlacementRecorder::Segment>* PlacementRecorder::segment_of(
    std::uint64_t address) const {
  const auto behind = segments_.upper_bound(address);
  if (behind == segments_.begin()) return nullptr;
  const auto& entry = *std::prev(behind);
  return address < entry.first + entry.second.size_bytes ? &entry : nullptr;
}

void PlacementRecorder::write_place(std::uint64_t address) {
  const auto* segment = segment_of(address);
  if (segment == nullptr) {
    const std::uint64_t region = address / kPlacementRegionBytes * kPlacementRegionBytes;
    const Segment added{.size_bytes = kPlacementRegionBytes, .ordinal = ordinal_next_++};
    file_.write(fmt::format("g {} {:x} {} 0 0\n", added.ordinal, region, kPlacementRegionBytes));
    segment = &*segments_.emplace(region, added).first;
  }
  file_.write(fmt::format("a {} {:x}\n", segment->second.ordinal, address - segment->first));
}

// PyTorch's names end in .allocated, .current, .freed, .peak; the four values stand together.
void PlacementRecorder::write_counters(std::uint64_t operation_count) {
  file_.write(fmt::format("s {}", operation_count));
  std::vector<std::pair<std::string, Quartet>> quartets;
  for (const NamedCounter& counter : backend_.counters()) {
    struct Ending {
      std::string_view text;
      std::int64_t Quartet::*field;
    };
    static constexpr Ending kEndings[] = {{".allocated", &Quartet::allocated},
                                          {".current", &Quartet::current},
                                          {".freed", &Quartet::freed},
                                          {".peak", &Quartet::peak}};
    std::string_view name = counter.name;
    const auto* ending = std::ranges::find_if(
        kEndings, [&](const Ending& entry) { return take_ending(name, entry.text); });
    if (ending == std::end(kEndings)) {
      file_.write(fmt::format(" {}={}", counter.name, counter.value));
      continue;
    }
    if (name.ends_with("_pool")) name.remove_suffix(std::string_view("_pool").size());
    const auto known = std::ranges::find(quartets, name, &std::pair<std::string, Quartet>::first);
    Quartet& quartet =
        known != quartets.end() ? known->second : quartets.emplace_back(name, Quartet{}).second;
    quartet.*ending->field = counter.value;
  }
  for (const auto& [name, quartet] : quartets) {
    file_.write(fmt::format(" {}={}/{}/{}/{}", name, quartet.current, quartet.peak,
                            quartet.allocated, quartet.freed));
  }
  file_.write("\n");
}

}  // namespace allocmark
