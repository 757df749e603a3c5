// See block_overhead.h.
#include "harness/core/check/block_overhead.h"

namespace allocmark {

void BlockOverhead::count(const Allocation& allocation, bool adds) {
  if (allocation.block_count != 1 || allocation.size_bytes <= allocation.block_bytes_live) return;
  const std::uint64_t bytes = allocation.size_bytes - allocation.block_bytes_live;
  bytes_ = adds ? bytes_ + bytes : bytes_ - bytes;
}

void BlockOverhead::allocate(const void* pointer, std::uint64_t size_bytes) {
  if (!simcu_.present || pointer == nullptr || base_by_block_.contains(pointer)) return;
  std::uint64_t base = 0;
  std::uint64_t range_bytes = 0;
  int device = 0;
  if (simcu_.allocation_of(pointer, &base, &range_bytes, &device) != 0) return;
  Allocation& allocation = allocations_[base];
  count(allocation, false);
  allocation.size_bytes = range_bytes;
  allocation.block_bytes_live += size_bytes;
  ++allocation.block_count;
  count(allocation, true);
  base_by_block_[pointer] = base;
}

void BlockOverhead::deallocate(const void* pointer, std::uint64_t size_bytes) {
  const auto block = base_by_block_.find(pointer);
  if (block == base_by_block_.end()) return;
  const auto found = allocations_.find(block->second);
  count(found->second, false);
  found->second.block_bytes_live -= size_bytes;
  --found->second.block_count;
  count(found->second, true);
  if (found->second.block_count == 0) allocations_.erase(found);
  base_by_block_.erase(block);
}

}  // namespace allocmark
