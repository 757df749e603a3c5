// See coalescing_list.h.
#include "allocators/rmm/coalescing_list.h"

#include <algorithm>
#include <iterator>

namespace allocmark::rmm {

void CoalescingList::insert(std::uint64_t address, Block block) {
  const auto next = blocks_.lower_bound(address);
  if (next != blocks_.end() && address + block.size_bytes == next->first && !next->second.is_head) {
    block.size_bytes += next->second.size_bytes;
    blocks_.erase(next);
  }
  const auto after = blocks_.lower_bound(address);
  if (after != blocks_.begin() && !block.is_head) {
    const auto before = std::prev(after);
    if (before->first + before->second.size_bytes == address) {
      before->second.size_bytes += block.size_bytes;
      return;
    }
  }
  blocks_.emplace(address, block);
}

bool CoalescingList::fits(std::uint64_t size_bytes) const {
  return std::ranges::any_of(blocks_,
                             [&](const auto& one) { return one.second.size_bytes >= size_bytes; });
}

std::optional<std::uint64_t> CoalescingList::take(std::uint64_t size_bytes) {
  auto best = blocks_.end();
  for (auto at = blocks_.begin(); at != blocks_.end(); ++at) {
    if (at->second.size_bytes < size_bytes) continue;
    if (best == blocks_.end() || at->second.size_bytes < best->second.size_bytes) best = at;
  }
  if (best == blocks_.end()) return std::nullopt;
  const std::uint64_t address = best->first;
  const std::uint64_t rest_bytes = best->second.size_bytes - size_bytes;
  blocks_.erase(best);
  if (rest_bytes > 0) insert(address + size_bytes, {.size_bytes = rest_bytes, .is_head = false});
  return address;
}

void CoalescingList::join(CoalescingList&& other) {
  for (const auto& [address, block] : other.blocks_) insert(address, block);
  other.blocks_.clear();
}

bool CoalescingList::has(std::uint64_t address, std::uint64_t size_bytes) const {
  const auto found = blocks_.find(address);
  return found != blocks_.end() && found->second.size_bytes == size_bytes;
}

bool CoalescingList::erase(std::uint64_t address, std::uint64_t size_bytes) {
  return has(address, size_bytes) && blocks_.erase(address) == 1;
}

std::uint64_t CoalescingList::bytes() const {
  std::uint64_t sum_bytes = 0;
  for (const auto& [address, block] : blocks_) sum_bytes += block.size_bytes;
  return sum_bytes;
}

std::uint64_t CoalescingList::bytes_largest() const {
  std::uint64_t largest_bytes = 0;
  for (const auto& [address, block] : blocks_)
    largest_bytes = std::max(largest_bytes, block.size_bytes);
  return largest_bytes;
}

}  // namespace allocmark::rmm
