// The shadow heap. This file checks.
#include "harness/core/check/shadow_heap.h"

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

}  // namespace

const char* to_string(HeapRule rule) {
  switch (rule) {
    case HeapRule::NotNull:
      return "a successful request of more than 0 bytes has an address";
    case HeapRule::Aligned:
      return "addresses are aligned as the backend promises";
    case HeapRule::InRange:
      return "a block lies inside device memory";
    case HeapRule::InPinnedRange:
      return "a block lies inside pinned memory of the host";
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
}

}  // namespace allocmark
