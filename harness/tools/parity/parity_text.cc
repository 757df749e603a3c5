#include "harness/tools/parity/parity_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "allocators/caching/snapshot.h"
#include "workloads/trace/event_names.h"

namespace allocmark::caching {
namespace {

// Goldens write the pools shorter than memory_stats() does.
std::string full_name(const std::string& name) {
  if (name.ends_with(".small") || name.ends_with(".large")) return name + "_pool";
  return name;
}

void append_segment(std::string& text, const SegmentInfo& segment) {
  constexpr std::size_t kShownMax = 40;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "  segment {:#x}, {} bytes, stream {}, {} pool{}\n", segment.address,
                 segment.total_bytes, segment.stream,
                 segment.kind == PoolKind::Small ? "small" : "large",
                 segment.expandable ? ", expandable" : "");
  for (std::size_t i = 0; i < std::min(kShownMax, segment.blocks.size()); ++i) {
    const BlockInfo& block = segment.blocks[i];
    fmt::format_to(out, "    {:#x} {} bytes {}\n", block.address, block.size_bytes,
                   to_string(block.state));
  }
  if (segment.blocks.size() > kShownMax)
    fmt::format_to(out, "    and {} more\n", segment.blocks.size() - kShownMax);
}

// Leaves out from `begin_mark` up to `end_mark`.
void cut(std::string& text, std::string_view begin_mark, std::string_view end_mark) {
  const std::size_t begin = text.find(begin_mark);
  if (begin == std::string::npos) return;
  const std::size_t end = text.find(end_mark, begin);
  if (end != std::string::npos) text.erase(begin, end - begin);
}

}  // namespace

std::string difference(const FlatCounters& values, const GoldenCounters::Entry& entry) {
  // Two values are what is there now and how many there have been.
  constexpr std::array<std::string_view, 2> kShortParts = {".current", ".allocated"};
  constexpr std::array<std::string_view, 4> kParts = {".current", ".peak", ".allocated", ".freed"};
  GoldenCounters::Entry ours{.name = entry.name, .value_count = entry.value_count};
  for (std::size_t i = 0; i < entry.value_count; ++i) {
    std::string name = full_name(entry.name);
    if (entry.value_count == 2) name += kShortParts[i];
    if (entry.value_count > 2) name += kParts[i];
    const auto found = values.find(name);
    if (found == values.end()) return "no counter " + name;
    ours.values[i] = found->second;
  }
  return ours.values == entry.values ? "" : show_values(ours);
}

std::string show_values(const GoldenCounters::Entry& entry) {
  return fmt::format(
      "{}", fmt::join(entry.values.begin(), entry.values.begin() + entry.value_count, "/"));
}

std::string describe_operation(const allocmark::Event& event) {
  switch (event.kind) {
    case EventKind::Alloc:
      return fmt::format("alloc {} of {} bytes on stream {}", event.id, event.size_bytes,
                         event.stream);
    case EventKind::Free:
      return fmt::format("free {}", event.id);
    case EventKind::Record:
      return fmt::format("record {} on stream {}", event.id, event.stream);
    case EventKind::Busy:
      return fmt::format("busy kernel on stream {}", event.stream);
    default:
      return std::string(event_kind_name(event.kind));
  }
}

std::string describe_answer(const GoldenAnswer& answer) {
  if (answer.out_of_memory) return "out of memory";
  if (!answer.placed) return "a block, place not recorded";
  return fmt::format("address {:#x}, in the segment at {:#x}", answer.address,
                     answer.segment_address);
}

std::string describe_state(const CachingAllocator& allocator, const GoldenAnswer& expected) {
  constexpr std::size_t kShownMax = 20;
  std::string text;
  const auto out = std::back_inserter(text);
  for (const SegmentInfo& segment : take_snapshot(allocator)) {
    const bool around = expected.placed && segment.address <= expected.address &&
                        expected.address < segment.address + segment.total_bytes;
    if (around) append_segment(text, segment);
  }
  for (const PoolKind kind : {PoolKind::Small, PoolKind::Large}) {
    const std::vector<Block*> blocks = allocator.heap().pool(kind).free_blocks();
    fmt::format_to(out, "  {} free blocks in the {} pool\n", blocks.size(),
                   kind == PoolKind::Small ? "small" : "large");
    for (std::size_t i = 0; i < std::min(kShownMax, blocks.size()); ++i) {
      fmt::format_to(out, "    stream {} {} bytes at {:#x}\n", blocks[i]->home->stream,
                     blocks[i]->size_bytes, blocks[i]->address);
    }
  }
  return text;
}

std::string without_device_state(std::string_view message) {
  std::string text(message);
  cut(text, " of which ", " is free. ");
  // Process lines stand between the free memory and what is said about PyTorch itself.
  const std::size_t begin = text.find(" is free. ");
  const std::size_t own = std::min(text.find(" allowed; "), text.find("Of the allocated memory"));
  if (begin != std::string::npos && own != std::string::npos) {
    const std::size_t sentence = text.rfind("in use. ", own);
    const std::size_t from = begin + std::string_view(" is free. ").size();
    if (sentence != std::string::npos && sentence > from) {
      text.erase(from, sentence + std::string_view("in use. ").size() - from);
    }
  }
  cut(text, "Free (according to CUDA):", "\n");
  return text;
}

}  // namespace allocmark::caching
