// Trace ids to slots, and the facts of a trace.
#include "harness/core/replay/trace_compiler.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "harness/core/measure/size_class.h"
#include "workloads/trace/event_names.h"

namespace allocmark {

namespace {

constexpr unsigned kSlotMapBitsMin = 10;

[[noreturn]] void refuse(std::uint64_t event_index, const std::string& what,
                         const std::string& next) {
  throw UsageError(ErrorText{.what = what,
                             .where = "event " + std::to_string(event_index) + " of the trace",
                             .next = next});
}

}  // namespace

SlotMap::SlotMap() : entries_(std::size_t{1} << kSlotMapBitsMin), shift_(64 - kSlotMapBitsMin) {}

std::size_t SlotMap::position_of(std::uint64_t id) const {
  std::size_t position = home_of(id);
  while (entries_[position].slot != kNoSlot && entries_[position].id != id) {
    position = (position + 1) & (entries_.size() - 1);
  }
  return position;
}

bool SlotMap::insert(std::uint64_t id, std::uint32_t slot) {
  if ((count_ + 1) * 2 > entries_.size()) grow();
  Entry& entry = entries_[position_of(id)];
  if (entry.slot != kNoSlot) return false;
  entry = Entry{.id = id, .slot = slot};
  ++count_;
  return true;
}

std::uint32_t SlotMap::find(std::uint64_t id) const { return entries_[position_of(id)].slot; }

std::uint32_t SlotMap::take(std::uint64_t id) {
  std::size_t hole = position_of(id);
  const std::uint32_t slot = entries_[hole].slot;
  if (slot == kNoSlot) return kNoSlot;
  // Entries behind the hole move up, so that no search stops early and no markers pile up.
  const std::size_t mask = entries_.size() - 1;
  for (std::size_t next = (hole + 1) & mask; entries_[next].slot != kNoSlot;
       next = (next + 1) & mask) {
    const std::size_t distance_home = (next - home_of(entries_[next].id)) & mask;
    const std::size_t distance_hole = (next - hole) & mask;
    if (distance_home < distance_hole) continue;
    entries_[hole] = entries_[next];
    hole = next;
  }
  entries_[hole] = Entry{};
  --count_;
  return slot;
}

void SlotMap::grow() {
  std::vector<Entry> old(entries_.size() * 2);
  old.swap(entries_);
  --shift_;
  for (const Entry& entry : old) {
    if (entry.slot != kNoSlot) entries_[position_of(entry.id)] = entry;
  }
}

void TraceCompiler::compile(std::span<const Event> events, std::vector<ReplayStep>& steps,
                            std::span<const std::string> labels) {
  for (const Event& event : events) {
    check_stream(event);
    ReplayStep step{.size_bytes = event.size_bytes,
                    .stream = static_cast<std::uint16_t>(event.stream),
                    .kind = event.kind};
    switch (event.kind) {
      case EventKind::Alloc:
        step = compile_alloc(event);
        break;
      case EventKind::Free:
        step = compile_free(event);
        break;
      case EventKind::Record:
        step.slot = slots_.find(event.id);
        if (step.slot == SlotMap::kNoSlot) {
          refuse(facts_.event_count, "records block " + std::to_string(event.id) + ", not live",
                 "a record must stand between the alloc and the free of its id");
        }
        ++facts_.record_count;
        break;
      case EventKind::Kernel:
        facts_.kernel_ns_total += event.duration_ns();
        [[fallthrough]];
      case EventKind::Busy:
        facts_.busy_count += event.kind == EventKind::Busy ? 1 : 0;
        ++facts_.work_count;
        break;
      case EventKind::Mark:
        step = compile_mark(event, labels);
        break;
      case EventKind::Host:
        facts_.host_ns_total += event.duration_ns();
        break;
      case EventKind::Trim:
      case EventKind::PoolCreate:
      case EventKind::PoolBegin:
      case EventKind::PoolEnd:
      case EventKind::PoolRelease:
      case EventKind::PoolOnOom:
      case EventKind::PoolNoSplit:
      case EventKind::CaptureBegin:
      case EventKind::CaptureEnd:
      case EventKind::GraphReplay:
        step.slot = compile_pool(event);
        break;
      case EventKind::HostAlloc:
      case EventKind::HostFree:
        step.size_bytes = compile_host(event);
        break;
      case EventKind::Sync:
      case EventKind::HostRecord:
        break;
    }
    ++facts_.event_count;
    steps.push_back(step);
  }
}

std::uint64_t TraceCompiler::compile_host(const Event& event) {
  if (event.kind == EventKind::HostAlloc) return host_blocks_[event.id] = event.size_bytes;
  const std::uint64_t size_bytes = host_blocks_[event.id];
  host_blocks_.erase(event.id);
  return size_bytes;
}

ReplayStep TraceCompiler::compile_alloc(const Event& event) {
  const std::uint32_t slot = slot_acquire();
  if (!slots_.insert(event.id, slot)) {
    refuse(facts_.event_count, "allocates block " + std::to_string(event.id) + ", which is live",
           "an id must be unique in the trace");
  }
  const bool failed = failed_before(event);
  const std::uint64_t requested_bytes = requested_bytes_ + (failed ? 0 : event.size_bytes);
  if (requested_bytes < requested_bytes_) {
    refuse(facts_.event_count, "the live requests together exceed 2^64 bytes", "check the sizes");
  }
  requested_bytes_ = requested_bytes;
  facts_.requested_bytes_peak = std::max(facts_.requested_bytes_peak, requested_bytes_);
  rounded_bytes_ += failed ? 0 : bound_rounded(event.size_bytes);
  facts_.rounded_bytes_peak = std::max(facts_.rounded_bytes_peak, rounded_bytes_);
  ++(failed ? facts_.failed_before_count : facts_.allocate_count);
  const auto size_class =
      static_cast<std::uint8_t>(size_class_of(event.size_bytes) | (failed ? kFailedBefore : 0u));
  const auto stream = static_cast<std::uint16_t>(event.stream);
  blocks_[slot] = Block{.size_bytes = event.size_bytes, .stream = stream, .size_class = size_class};
  return ReplayStep{.size_bytes = event.size_bytes,
                    .slot = slot,
                    .stream = stream,
                    .kind = EventKind::Alloc,
                    .size_class = size_class};
}

ReplayStep TraceCompiler::compile_free(const Event& event) {
  const std::uint32_t slot = slots_.take(event.id);
  if (slot == SlotMap::kNoSlot) {
    refuse(facts_.event_count, "frees block " + std::to_string(event.id) + ", which is not live",
           "every free needs one alloc of its id before it");
  }
  const Block& block = blocks_[slot];
  if ((block.size_class & kFailedBefore) == 0) {
    requested_bytes_ -= block.size_bytes;
    rounded_bytes_ -= bound_rounded(block.size_bytes);
    ++facts_.deallocate_count;
  }
  free_slots_.push_back(slot);
  return ReplayStep{.size_bytes = block.size_bytes,
                    .slot = slot,
                    .stream = block.stream,
                    .kind = EventKind::Free,
                    .size_class = block.size_class};
}

std::uint32_t TraceCompiler::compile_pool(const Event& event) {
  facts_.pool_event_count += is_of_pool(event.kind) ? 1 : 0;
  if (event.id >= kTracePoolIdEnd) {
    refuse(facts_.event_count, "names pool " + std::to_string(event.id), "count pools up from 1");
  }
  return static_cast<std::uint32_t>(event.id);
}

ReplayStep TraceCompiler::compile_mark(const Event& event, std::span<const std::string> labels) {
  for (std::size_t i = mark_classes_.size(); i < labels.size(); ++i) {
    mark_classes_.push_back(mark_class_of(labels[i]));
    if (labels[i] == kPreambleLabel) facts_.preamble_label = static_cast<std::uint32_t>(i);
  }
  const MarkClass mark_class =
      event.id < mark_classes_.size() ? mark_classes_[event.id] : MarkClass::Step;
  if (mark_class != MarkClass::ManagedMemory) {
    ++(mark_class == MarkClass::Step ? facts_.mark_count
       : is_meeting(mark_class)      ? facts_.meeting_count
                                     : facts_.request_mark_count);
  }
  return ReplayStep{.size_bytes = event.size_bytes,
                    .slot = static_cast<std::uint32_t>(event.id),
                    .stream = static_cast<std::uint16_t>(event.stream),
                    .kind = EventKind::Mark,
                    .size_class = static_cast<std::uint8_t>(mark_class)};
}

void TraceCompiler::check_stream(const Event& event) {
  if (event.stream < facts_.stream_count) return;
  if (event.stream >= kTraceStreamCountMax) {
    refuse(facts_.event_count, "uses stream " + std::to_string(event.stream),
           "stream indices go up to " + std::to_string(kTraceStreamCountMax - 1));
  }
  facts_.stream_count = event.stream + 1;
}

std::uint32_t TraceCompiler::slot_acquire() {
  if (free_slots_.empty()) {
    blocks_.emplace_back();
    return static_cast<std::uint32_t>(blocks_.size() - 1);
  }
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

}  // namespace allocmark
