// What the fields of a snapshot's records mean. What its last value must be is in snapshot_top.cc.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workloads/import/snapshot_builder.h"

namespace allocmark {
namespace {

using Tag = PickleValue::Tag;

constexpr std::uint64_t kSizeEnd = std::uint64_t{1} << 50;
constexpr std::uint32_t kIndexEnd = 4096;  // of streams and of pools
constexpr std::uint64_t kTimeEnd = std::uint64_t{1} << 44;

[[noreturn]] void refuse_field(std::string_view key, std::string_view wanted) {
  throw PickleError(fmt::format("the key '{}' has a value of another type", key),
                    std::string(wanted), "");
}

std::uint64_t number(const PickleValue& value, std::string_view key) {
  // Times and sizes that a program made of others, as 512.0.
  if (value.is(Tag::Float)) {
    const auto real = std::bit_cast<double>(value.bits);
    if (real >= 0 && real < 0x1p53 && real == std::floor(real))
      return static_cast<std::uint64_t>(real);
  }
  if (!value.is_number()) refuse_field(key, "a number");
  return value.bits;
}

std::uint64_t size_in(const PickleValue& value, std::string_view key) {
  const std::uint64_t size_bytes = number(value, key);
  if (size_bytes < kSizeEnd) return size_bytes;
  throw PickleError(fmt::format("the key '{}' is no size", key), "0 to 2^50 bytes",
                    fmt::format("{}", static_cast<std::int64_t>(size_bytes)));
}

SnapshotAction action_of(std::string_view name) {
  for (int i = 0; i < static_cast<int>(SnapshotAction::Unknown); ++i) {
    const auto action = static_cast<SnapshotAction>(i);
    if (to_string(action) == name) return action;
  }
  return SnapshotAction::Unknown;
}

}  // namespace

const std::string& SnapshotBuilder::text_in(const PickleValue& value, std::string_view key) const {
  if (!value.is(Tag::Text)) refuse_field(key, "a text");
  return snapshot_.texts[value.bits];
}

std::uint64_t SnapshotBuilder::relative_us(std::uint64_t time_us) {
  if (!has_time_) snapshot_.time_us_first = time_us;
  has_time_ = true;
  if (time_us <= snapshot_.time_us_first) return 0;
  return std::min(time_us - snapshot_.time_us_first, kTimeEnd - 1);
}

std::uint32_t SnapshotBuilder::stream_of(const PickleValue& value) {
  const std::uint64_t raw = number(value, "stream");
  const auto [found, is_new] =
      stream_indexes_.try_emplace(raw, static_cast<std::uint32_t>(snapshot_.streams.size()));
  if (is_new) snapshot_.streams.push_back(raw);
  if (snapshot_.streams.size() > kIndexEnd)
    throw PickleError("too many streams", "at most 4096 different ones", "more");
  return found->second;
}

std::uint32_t SnapshotBuilder::pool_of(PickleValue value) {
  // A list, after a way through JSON; each entry has one of its own.
  if (is_list(value)) {
    const Items items = items_[nodes_[value.bits].index];
    const PickleValue pair = make_tuple(items);
    if (pair.is(Tag::Pair)) {
      give_up_items(nodes_[value.bits]);
      nodes_[value.bits] = {.kind = Kind::Pool, .index = static_cast<std::uint32_t>(pair.bits)};
    }
  }
  if (value.is(Tag::Node) && nodes_[value.bits].kind == Kind::Pool)
    value = {.bits = nodes_[value.bits].index, .tag = Tag::Pair};
  if (!value.is(Tag::Pair)) refuse_field("pool_id", "two numbers");
  const std::pair id = pairs_[value.bits];
  if (id.first == 0 && id.second == 0) return 0;
  std::uint32_t& index = pool_indexes_[value.bits];
  if (index == 0) {
    index = static_cast<std::uint32_t>(snapshot_.pools.size());
    snapshot_.pools.push_back(id);
    if (snapshot_.pools.size() > kIndexEnd)
      throw PickleError("too many memory pools", "at most 4096 different ones", "more");
  }
  return index;
}

// The same stack is one list that thousands of entries share, or an equal list in each.
std::uint32_t SnapshotBuilder::stack_of(const PickleValue& value) {
  if (!value.is(Tag::Node)) return kNoStack;
  Node& node = nodes_[value.bits];
  if (node.kind == Kind::Stack) return node.index;
  if (node.kind != Kind::List) return kNoStack;
  std::vector<std::uint32_t> frames;
  for (const PickleValue& item : items_[node.index]) {
    if (item.is(Tag::Frame)) frames.push_back(static_cast<std::uint32_t>(item.bits));
  }
  give_up_items(node);
  stack_frame_count_ += frames.size();
  if (stack_frame_count_ > kStackFrameCountMax) {
    throw PickleError("the snapshot's stacks have too many frames",
                      fmt::format("at most {}", kStackFrameCountMax), "more");
  }
  std::string key;
  for (const std::uint32_t index : frames) {
    const SnapshotFrame& frame = snapshot_.frames[index];
    for (const std::uint32_t part : {frame.file, frame.name, frame.line})
      key.append(reinterpret_cast<const char*>(&part), sizeof part);
  }
  const auto next = static_cast<std::uint32_t>(snapshot_.stacks.size());
  std::uint32_t index = kNoStack;
  if (!frames.empty()) {
    const auto [found, is_new] = stack_indexes_.try_emplace(std::move(key), next);
    if (is_new) snapshot_.stacks.push_back(std::move(frames));
    index = found->second;
  }
  node = {.kind = Kind::Stack, .index = index};
  return index;
}

void SnapshotBuilder::set_entry(SnapshotEntry& entry, Key key, const PickleValue& value) {
  if (key == Key::Action) entry.action = action_of(text_in(value, "action"));
  if (key == Key::Addr || key == Key::DeviceFree) entry.address = number(value, "addr");
  if (key == Key::Size) entry.size_bytes = size_in(value, "size") & (kSizeEnd - 1);
  if (key == Key::Stream) entry.stream = stream_of(value) & (kIndexEnd - 1);
  if (key == Key::TimeUs) entry.time_us = relative_us(number(value, "time_us")) & (kTimeEnd - 1);
  if (key == Key::Frames) entry.stack = stack_of(value);
  if (key == Key::PoolId) {
    entry.pool = pool_of(value) & (kIndexEnd - 1);
    entry.has_pool = 1;
  }
  if (key == Key::InternalMetadata)
    entry.synthetic = value.is(Tag::Text) && !snapshot_.texts[value.bits].empty();
}

void SnapshotBuilder::set_block(SnapshotBlock& block, Key key, const PickleValue& value) {
  if (key == Key::Address) block.address = number(value, "address");
  if (key == Key::Size) block.size_bytes = size_in(value, "size");
  if (key == Key::RequestedSize || key == Key::RealSize)
    block.requested_bytes = size_in(value, "requested_size");
  if (key == Key::Frames) block.stack = stack_of(value);
  if (key == Key::History) take_past(block, value);
  if (key == Key::State) {
    const std::string& state = text_in(value, "state");
    block.state = state == "inactive"           ? SnapshotBlockState::Inactive
                  : state == "active_allocated" ? SnapshotBlockState::Allocated
                                                : SnapshotBlockState::PendingFree;
  }
}

// PyTorch 2.0 has the request and its stack in a list of what the block was, the newest first.
void SnapshotBuilder::take_past(SnapshotBlock& block, const PickleValue& value) {
  if (!is_list(value)) return;
  for (const PickleValue& item : items_[nodes_[value.bits].index]) {
    if (!item.is(Tag::Past)) continue;
    block.requested_bytes = pasts_[item.bits].requested_bytes;
    block.stack = pasts_[item.bits].stack;
    break;
  }
  give_up_items(nodes_[value.bits]);
  nodes_[value.bits] = {.kind = Kind::Stack, .used = true, .index = kNoStack};
}

void SnapshotBuilder::set_segment(SnapshotSegment& segment, Key key, const PickleValue& value) {
  if (key == Key::Device) segment.device = static_cast<std::int64_t>(number(value, "device"));
  if (key == Key::Address) segment.address = number(value, "address");
  if (key == Key::TotalSize) segment.size_bytes = size_in(value, "total_size");
  if (key == Key::Stream) segment.stream = stream_of(value);
  if (key == Key::SegmentType) segment.is_large = text_in(value, "segment_type") == "large";
  if (key == Key::SegmentPoolId) segment.pool = pool_of(value);
  if (key == Key::IsExpandable) segment.is_expandable = value.is(Tag::Bool) && value.bits != 0;
  if (key == Key::Frames) segment.stack = stack_of(value);
  if (key == Key::Blocks) set_blocks(segment, value);
}

void SnapshotBuilder::set_blocks(SnapshotSegment& segment, const PickleValue& value) {
  const Items items = items_of(value, Kind::List, "the list 'blocks' of a segment");
  for (const PickleValue& item : items) {
    const bool follows =
        segment.block_count == 0 || segment.first_block + segment.block_count == item.bits;
    if (!item.is(Tag::Block) || !follows)
      refuse_field("blocks", "a list of dictionaries with 'size' and 'state'");
    if (segment.block_count == 0) segment.first_block = item.bits;
    segment.block_count += item.count;
  }
}

void SnapshotBuilder::set_annotation(SnapshotAnnotation& annotation, Key key,
                                     const PickleValue& value) {
  if (key == Key::Name && value.is(Tag::Text))
    annotation.name = static_cast<std::uint32_t>(value.bits);
  if (key == Key::Stage && value.is(Tag::Text))
    annotation.is_start = snapshot_.texts[value.bits] == "START";
  if (key == Key::Device && value.is_number())
    annotation.device = static_cast<std::int64_t>(value.bits);
  if (key == Key::TimeUs) annotation.time_us = number(value, "time_us");
}

void SnapshotBuilder::set_frame(SnapshotFrame& frame, Key key, const PickleValue& value) {
  if (key == Key::Filename && value.is(Tag::Text))
    frame.file = static_cast<std::uint32_t>(value.bits);
  if (key == Key::Name && value.is(Tag::Text)) frame.name = static_cast<std::uint32_t>(value.bits);
  if (key == Key::Line && value.is_number()) frame.line = static_cast<std::uint32_t>(value.bits);
}

}  // namespace allocmark
