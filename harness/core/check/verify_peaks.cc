// What the checked pass notes beside its checks: peaks, and moments for the timeline.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "harness/core/check/verify.h"

namespace allocmark {
namespace {

void raise_peak(std::optional<std::uint64_t>& peak, const std::optional<std::uint64_t>& value) {
  if (value) peak = std::max(peak.value_or(0), *value);
}

}  // namespace

void Verifier::note_peaks() {
  const MemoryStats stats = setup_.replay.backend->totals();
  raise_peak(report_.allocated_bytes_peak, stats.allocated_bytes);
  raise_peak(report_.active_bytes_peak, stats.active_bytes);
  note_reserved_peak(stats);
  note_device_peak(stats);
  if (!report_.broken_rule) check_footprint(stats);
}

void Verifier::note_growth() {
  const MemoryStats stats = setup_.replay.backend->totals();
  if (!stats.reserved_bytes) return;
  growth_.add(static_cast<double>(*stats.reserved_bytes) -
              static_cast<double>(requested_bytes_live_));
}

// Given back, but still in use on other streams.
std::uint64_t Verifier::waiting_bytes() const {
  if (setup_.facts.stream_count == 1) return 0;
  const MemoryStats stats = setup_.replay.backend->totals();
  if (!stats.active_bytes || !stats.allocated_bytes) return 0;
  return *stats.active_bytes - std::min(*stats.active_bytes, *stats.allocated_bytes);
}

void Verifier::note_reserved_peak(const MemoryStats& stats) {
  if (!stats.reserved_bytes) return;
  // Both "at" figures belong to the moment when their peak was first reached.
  if (requested_bytes_live_ > requested_bytes_peak_seen_) {
    requested_bytes_peak_seen_ = requested_bytes_live_;
    report_.reserved_bytes_at_requested_peak = stats.reserved_bytes;
  }
  if (report_.reserved_bytes_peak && *stats.reserved_bytes <= *report_.reserved_bytes_peak) return;
  report_.reserved_bytes_peak = stats.reserved_bytes;
  report_.allocated_bytes_at_reserved_peak = stats.allocated_bytes;
  report_.requested_bytes_at_reserved_peak = requested_bytes_live_;
}

void Verifier::note_device_peak(const MemoryStats& stats) {
  if (!setup_.capabilities.real_memory) return;
  // The device's figure changes only with the backend's, where the backend knows it; a GPU takes
  // long to tell.
  const bool unchanged = stats.reserved_bytes && stats.reserved_bytes == reserved_bytes_seen_;
  if (unchanged && !setup_.simcu.present) return;
  reserved_bytes_seen_ = stats.reserved_bytes;
  const std::uint64_t now_bytes = used_bytes();
  if (now_bytes < setup_.device_bytes_before) return;
  report_.device_bytes_peak =
      std::max(report_.device_bytes_peak, now_bytes - setup_.device_bytes_before);
}

void Verifier::note_timeline() {
  const std::uint64_t event_index = report_.counts.event_count;
  if (setup_.timeline->wants(event_index, requested_bytes_live_)) {
    const MemoryStats stats = setup_.replay.backend->totals();
    setup_.timeline->add({.event_index = event_index,
                          .requested_bytes = requested_bytes_live_,
                          .allocated_bytes = stats.allocated_bytes,
                          .active_bytes = stats.active_bytes,
                          .reserved_bytes = stats.reserved_bytes});
  }
  if (!setup_.timeline->wants_map(event_index)) return;
  std::vector<MemorySegment> segments = setup_.replay.backend->segments();
  // c10 tells its segments without their blocks.
  if (segments.empty() || segments.front().blocks.empty()) segments = live_segments();
  setup_.timeline->add_map({.event_index = event_index, .segments = std::move(segments)});
}

std::vector<MemorySegment> Verifier::live_segments() const {
  std::vector<MemoryBlock> live;
  // Backends without memory of their own have addresses that mean nothing.
  if (!setup_.capabilities.real_memory) return {};
  for (const Block& block : blocks_) {
    if (!block.live || block.pointer == nullptr || block.shadow.size_bytes == 0) continue;
    live.push_back({.address = block.shadow.address,
                    .size_bytes = block.shadow.size_bytes,
                    .state = MemoryBlockState::Allocated});
  }
  return segments_of_live(std::move(live));
}

}  // namespace allocmark
