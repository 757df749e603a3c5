// What a snapshot's last value holds: its settings, histories and segments.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workloads/import/snapshot_builder.h"

namespace allocmark {

using Tag = PickleValue::Tag;

bool SnapshotBuilder::is_dict(const PickleValue& value) const {
  return value.is(Tag::Node) && nodes_[value.bits].kind == Kind::Dict;
}

// Those of its keys that are texts, with their values. A copy, since records make new items.
std::vector<std::pair<std::string, PickleValue>> SnapshotBuilder::fields_of(
    const PickleValue& dict) const {
  std::vector<std::pair<std::string, PickleValue>> fields;
  const Items& items = items_[nodes_[dict.bits].index];
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i].is(Tag::Text)) fields.emplace_back(snapshot_.texts[items[i].bits], items[i + 1]);
  }
  return fields;
}

void SnapshotBuilder::set_divisions(const PickleValue& value) {
  if (!is_dict(value)) return;
  for (const auto& [interval, divisions] : fields_of(value)) {
    if (!divisions.is_number()) continue;
    snapshot_.settings.roundup_divisions.emplace_back(interval, divisions.bits);
  }
}

void SnapshotBuilder::set_settings(const PickleValue& value) {
  if (!is_dict(value)) return;
  SnapshotSettings& settings = snapshot_.settings;
  settings.known = true;
  for (const auto& [key, setting] : fields_of(value)) {
    if (key == "PYTORCH_CUDA_ALLOC_CONF" && setting.is(Tag::Text))
      settings.conf = snapshot_.texts[setting.bits];
    if (key == "max_split_size" && setting.is_number())
      settings.max_split_bytes = static_cast<std::int64_t>(setting.bits);
    if (key == "garbage_collection_threshold" && setting.is(Tag::Float))
      settings.garbage_collection_threshold = std::bit_cast<double>(setting.bits);
    if (key == "expandable_segments" && setting.is(Tag::Bool))
      settings.expandable_segments = setting.bits != 0;
    if (key == "roundup_power2_divisions") set_divisions(setting);
  }
}

void SnapshotBuilder::set_traces(const PickleValue& value) {
  for (const PickleValue& device : items_of(value, Kind::List, "the list 'device_traces'")) {
    std::vector<SnapshotRange>& trace = snapshot_.traces.emplace_back();
    for (const PickleValue& item : items_of(device, Kind::List, "a list in 'device_traces'")) {
      if (!item.is(Tag::Entry))
        throw PickleError("the key 'device_traces' has a value of another type",
                          "lists of dictionaries with 'action' and 'addr' or 'size'", "");
      trace.push_back({.first = item.bits, .count = item.count});
    }
  }
}

void SnapshotBuilder::set_segments(const PickleValue& value) {
  std::vector<SnapshotSegment> used;
  for (const PickleValue& item : items_of(value, Kind::List, "the list 'segments'")) {
    if (!item.is(Tag::Segment))
      throw PickleError("the key 'segments' has a value of another type",
                        "a list of dictionaries with 'address' and 'blocks'", "");
    used.push_back(snapshot_.segments[item.bits]);
  }
  snapshot_.segments = std::move(used);
  for (SnapshotSegment& segment : snapshot_.segments) tile(segment);
}

// The blocks of a segment, with what none of them covers as free ones.
void SnapshotBuilder::tile(SnapshotSegment& segment) {
  std::vector<SnapshotBlock> tiles;
  std::uint64_t address = segment.address;
  const auto fill_to = [&](std::uint64_t end) {
    if (end > address)
      tiles.push_back({.address = address, .size_bytes = end - address, .requested_bytes = 0});
    address = std::max(address, end);
  };
  for (SnapshotBlock block : snapshot_.blocks_of(segment)) {
    // Files of PyTorch 2.0 have no addresses of blocks.
    if (block.address == 0) block.address = address;
    if (block.address < address) {
      throw PickleError("the blocks of a segment overlap",
                        fmt::format("a block at {:#x} or later", address),
                        fmt::format("one at {:#x}", block.address));
    }
    fill_to(block.address);
    if (block.requested_bytes == 0 || block.requested_bytes > block.size_bytes)
      block.requested_bytes = block.size_bytes;
    address += block.size_bytes;
    tiles.push_back(block);
  }
  if (segment.size_bytes == 0) segment.size_bytes = address - segment.address;
  if (address > segment.address + segment.size_bytes) {
    throw PickleError("the blocks of a segment are larger than it",
                      fmt::format("{} bytes", segment.size_bytes),
                      fmt::format("{}", address - segment.address));
  }
  fill_to(segment.address + segment.size_bytes);
  if (tiles.size() == segment.block_count) {
    std::ranges::copy(tiles,
                      snapshot_.blocks.begin() + static_cast<std::ptrdiff_t>(segment.first_block));
    return;
  }
  ++snapshot_.untiled_count;
  segment.first_block = snapshot_.blocks.size();
  segment.block_count = tiles.size();
  snapshot_.blocks.insert(snapshot_.blocks.end(), tiles.begin(), tiles.end());
}

// A value of another shape than known says nothing of the host.
void SnapshotBuilder::set_host(const PickleValue& value) {
  if (!is_list(value)) return;
  for (const PickleValue& item : items_[nodes_[value.bits].index]) {
    if (!item.is(Tag::Segment)) continue;
    const SnapshotSegment& segment = snapshot_.segments[item.bits];
    std::uint64_t block_bytes = 0;
    for (const SnapshotBlock& block : snapshot_.blocks_of(segment)) {
      block_bytes += block.size_bytes;
      if (block.state == SnapshotBlockState::Inactive) continue;
      snapshot_.host.held_bytes += block.size_bytes;
      snapshot_.host.held_blocks.push_back(block);
    }
    ++snapshot_.host.segment_count;
    snapshot_.host.size_bytes += std::max(segment.size_bytes, block_bytes);
  }
}

void SnapshotBuilder::set_host_trace(const PickleValue& value) {
  if (!is_list(value)) return;
  for (const PickleValue& item : items_[nodes_[value.bits].index]) {
    if (!item.is(Tag::Entry)) continue;
    for (std::uint64_t i = 0; i < item.count; ++i) snapshot_.host.entries.push_back(item.bits + i);
  }
}

// A history may have been recorded without one of the two entries of a free; the other says all.
// Where a ring lost only what came before, it may have lost the first entry of one pair: a
// completion that comes first and alone is of a block that had been given back before.
void SnapshotBuilder::normalise_frees() {
  for (const std::vector<SnapshotRange>& trace : snapshot_.traces) {
    bool requested = false;
    std::uint64_t index = 0, completed_count = 0, completed_last = 0;
    const auto for_each = [&](auto action) {
      for (const SnapshotRange& range : trace) {
        for (std::uint64_t i = 0; i < range.count; ++i) action(snapshot_.entries[range.first + i]);
      }
    };
    for_each([&](const SnapshotEntry& entry) {
      requested |= entry.action == SnapshotAction::FreeRequested;
      if (entry.action == SnapshotAction::FreeCompleted) {
        ++completed_count;
        completed_last = index;
      }
      ++index;
    });
    const bool cut_pair = completed_count == 1 && completed_last == 0;
    if (requested || completed_count == 0 || cut_pair) continue;
    for_each([&](SnapshotEntry& entry) {
      if (entry.action == SnapshotAction::FreeCompleted)
        entry.action = SnapshotAction::FreeRequested;
    });
  }
}

MemorySnapshot SnapshotBuilder::finish(const PickleValue& top) {
  constexpr std::string_view kTop = "a dictionary with 'segments' and 'device_traces'";
  // What torch.cuda.memory_snapshot() returns: the segments alone.
  if (is_list(top) && std::ranges::any_of(items_[nodes_[top.bits].index],
                                          [](const auto& item) { return item.is(Tag::Segment); })) {
    set_segments(top);
    return std::move(snapshot_);
  }
  if (!is_dict(top)) {
    throw PickleError("not a memory snapshot", std::string(kTop), "another type");
  }
  const auto fields = fields_of(top);
  bool has_segments = false;
  // First, since only the device's segments stay.
  for (const auto& [key, value] : fields) {
    if (key == "host_segments") set_host(value);
    if (key == "host_traces") set_host_trace(value);
  }
  for (const auto& [key, value] : fields) {
    has_segments |= key == "segments";
    if (key == "segments") set_segments(value);
    if (key == "device_traces") set_traces(value);
    if (key == "allocator_settings") set_settings(value);
  }
  if (!has_segments) {
    throw PickleError(
        "not a memory snapshot", std::string(kTop),
        items_[nodes_[top.bits].index].empty() ? "an empty dictionary" : "one with other keys");
  }
  normalise_frees();
  for (SnapshotAnnotation& annotation : snapshot_.annotations)
    annotation.time_us = has_time_ ? relative_us(annotation.time_us) : 0;
  return std::move(snapshot_);
}

}  // namespace allocmark
