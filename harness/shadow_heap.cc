// The shadow heap. This file checks.
#include "harness/shadow_heap.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

namespace allocmark {

namespace {

std::string describe(const ShadowBlock& block) {
  char address[32];
  std::snprintf(address, sizeof address, "0x%llx", static_cast<unsigned long long>(block.address));
  return "block " + std::to_string(block.id) + " (event " + std::to_string(block.event_index) +
         ", " + std::to_string(block.size_bytes) + " bytes at " + address + ", stream " +
         std::to_string(block.stream) + ")";
}

bool overlap(const ShadowBlock& a, const ShadowBlock& b) {
  return a.address < b.address + b.size_bytes && b.address < a.address + a.size_bytes;
}

bool contains(const std::vector<std::uint32_t>& streams, std::uint32_t stream) {
  return std::find(streams.begin(), streams.end(), stream) != streams.end();
}

}  // namespace

const char* to_string(HeapRule rule) {
  switch (rule) {
    case HeapRule::NotNull:
      return "a successful request of more than 0 bytes has an address";
    case HeapRule::Aligned:
      return "addresses are aligned as the backend promises";
    case HeapRule::InRange:
      return "a block lies inside device memory";
    case HeapRule::NoOverlap:
      return "live blocks never overlap";
    case HeapRule::NoEarlyReuse:
      return "memory that a stream still uses is not handed to another stream";
  }
  return "unknown rule";
}

std::string BrokenRule::text() const {
  std::string text = std::string("broken rule: ") + to_string(rule) + ": event " +
                     std::to_string(block.event_index) + ": " + describe(block);
  if (other) text += " and " + describe(*other);
  if (rule == HeapRule::NoEarlyReuse) {
    text += ", which stream " + std::to_string(user_stream) + " still uses";
  }
  return text;
}

std::optional<BrokenRule> ShadowHeap::allocate(const ShadowBlock& block) {
  if (block.size_bytes == 0) return std::nullopt;
  const auto broken = [&](HeapRule rule) { return BrokenRule{.rule = rule, .block = block}; };
  if (block.address == 0) return broken(HeapRule::NotNull);
  if (block.address + block.size_bytes < block.address) return broken(HeapRule::InRange);
  if (block.address % alignment_bytes_ != 0) return broken(HeapRule::Aligned);

  // Live blocks do not overlap each other, so only the nearest one on either side can overlap the
  // new one.
  const auto behind = live_by_address_.lower_bound(block.address);
  if (behind != live_by_address_.end() && overlap(block, behind->second)) {
    return BrokenRule{.rule = HeapRule::NoOverlap, .block = block, .other = behind->second};
  }
  if (behind != live_by_address_.begin() && overlap(block, std::prev(behind)->second)) {
    return BrokenRule{
        .rule = HeapRule::NoOverlap, .block = block, .other = std::prev(behind)->second};
  }
  live_by_address_.emplace(block.address, block);
  return std::nullopt;
}

void ShadowHeap::deallocate(const ShadowBlock& block) {
  if (block.size_bytes == 0) return;
  live_by_address_.erase(block.address);
  std::vector<std::uint32_t> users{block.stream};
  const auto recorded = recorded_streams_by_id_.find(block.id);
  if (recorded != recorded_streams_by_id_.end()) {
    users.insert(users.end(), recorded->second.begin(), recorded->second.end());
    recorded_streams_by_id_.erase(recorded);
  }
  std::vector<std::uint32_t> unfinished;
  for (const std::uint32_t stream : users) {
    if (contains(working_streams_, stream) && !contains(unfinished, stream)) {
      unfinished.push_back(stream);
    }
  }
  if (!unfinished.empty()) pending_.push_back({.block = block, .streams = unfinished});
}

void ShadowHeap::begin_work(std::uint32_t stream) {
  if (!contains(working_streams_, stream)) working_streams_.push_back(stream);
}

void ShadowHeap::record(std::uint64_t id, std::uint32_t stream) {
  recorded_streams_by_id_[id].push_back(stream);
}

void ShadowHeap::end_all_work() {
  working_streams_.clear();
  pending_.clear();
}

void ShadowHeap::end_work(std::uint32_t stream) {
  std::erase(working_streams_, stream);
  for (PendingBlock& pending : pending_) std::erase(pending.streams, stream);
  std::erase_if(pending_, [](const PendingBlock& pending) { return pending.streams.empty(); });
}

std::optional<BrokenRule> ShadowHeap::early_reuse(const ShadowBlock& block) const {
  if (block.size_bytes == 0) return std::nullopt;
  for (const PendingBlock& pending : pending_) {
    if (!overlap(block, pending.block)) continue;
    for (const std::uint32_t stream : pending.streams) {
      // The new owner's work on the same stream runs after the old work by itself.
      if (stream == block.stream) continue;
      return BrokenRule{.rule = HeapRule::NoEarlyReuse,
                        .block = block,
                        .other = pending.block,
                        .user_stream = stream};
    }
  }
  return std::nullopt;
}

}  // namespace allocmark
