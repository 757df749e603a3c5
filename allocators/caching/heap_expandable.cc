// The part of the heap that works on expandable segments: where in the address space to grow,
// mapping and unmapping of blocks.
#include <algorithm>
#include <exception>

#include "allocators/caching/heap.h"
#include "allocators/caching/sizes.h"
#include "base/assert.h"

namespace allocmark::caching {
namespace {

std::uint64_t round_up_to(std::uint64_t value, std::uint64_t step) {
  return (value + step - 1) / step * step;
}

// Whether `start` and its unused neighbours behind it, with or without memory, have room for
// size_bytes.
bool has_room(const Block* start, std::uint64_t size_bytes) {
  std::uint64_t room_bytes = 0;
  for (const Block* block = start; block != nullptr && block->is_unused(); block = block->next) {
    room_bytes += block->size_bytes;
    if (room_bytes >= size_bytes) return true;
  }
  return false;
}

}  // namespace

Block* Heap::make_expandable(StreamBlocks& home, std::uint64_t size_bytes) {
  Block* block = find_expandable(home, size_bytes);
  if (block == nullptr) return nullptr;
  if (!block->mapped && !map_block(block, std::min(block->size_bytes, size_bytes))) return nullptr;
  while (block->size_bytes < size_bytes) {
    // What follows has no memory yet: a mapped free neighbour would have been merged.
    Block* following = block->next;
    // The segment ends here. Only a device with more memory than it says gets so far.
    if (following == nullptr) return nullptr;
    const std::uint64_t missing_bytes = size_bytes - block->size_bytes;
    if (!map_block(following, std::min(missing_bytes, following->size_bytes))) return nullptr;
    block = following;  // has taken the old block in
  }
  erase_free(block);
  return block;
}

Block* Heap::find_expandable(StreamBlocks& home, std::uint64_t size_bytes) {
  const SortedBlocks& unmapped = home.unmapped;
  for (auto at = unmapped.begin(); at != unmapped.end(); at = unmapped.next(at)) {
    Block* hole = unmapped.at(at);
    Block* start = hole->prev != nullptr && hole->prev->is_unused() ? hole->prev : hole;
    if (has_room(start, size_bytes)) return start;
  }
  const std::uint64_t page_bytes = page_size(home.pool->is_small(), settings_);
  const std::uint64_t reserve_bytes = segment_reserve(driver_.device_total_bytes(), settings_);
  // Segments are smaller than the device only where the settings say so.
  if (settings_.expandable_segments_reserve && size_bytes > round_up_to(reserve_bytes, page_bytes))
    return nullptr;
  return make_expandable_segment(home);
}

Block* Heap::make_expandable_segment(StreamBlocks& home) {
  const std::uint64_t page_bytes = page_size(home.pool->is_small(), settings_);
  expandable_segments_.push_back(std::make_unique<ExpandableSegment>(
      driver_, home.stream, page_bytes, segment_reserve(driver_.device_total_bytes(), settings_)));
  ExpandableSegment* segment = expandable_segments_.back().get();
  Block* block = slab_.make();
  block->address = segment->base();
  block->size_bytes = segment->size_bytes();
  block->home = &home;
  block->segment = segment;
  block->order = next_order();
  block->mapped = false;
  insert_unmapped(block);
  return block;
}

// Puts memory behind the first size_bytes of an unmapped block, in whole pages, and makes that
// free. The block merges with its free neighbours and stays the one that exists.
bool Heap::map_block(Block* block, std::uint64_t size_bytes) {
  ALLOCMARK_ASSERT(!block->mapped);
  const ExpandableSegment::Range range = block->segment->map(block->address, size_bytes);
  if (range.size_bytes == 0) return false;
  ALLOCMARK_ASSERT(range.address == block->address);
  ALLOCMARK_ASSERT(range.size_bytes <= block->size_bytes);
  erase_from_set(block);
  block->mapped = true;
  if (range.size_bytes < block->size_bytes) {
    Block* rest = split_back(block, range.size_bytes);
    rest->mapped = false;
    insert_unmapped(rest);
  }
  merge(block, block->prev);
  merge(block, block->next);
  insert_free(block);
  count_reserved(*block->home->pool, range.size_bytes);
  ++counters.num_device_alloc;
  return true;
}

// Leaves size_bytes to a block and makes the rest one behind it, which is in no set yet.
Block* Heap::split_back(Block* block, std::uint64_t size_bytes) {
  Block* rest = slab_.make();
  rest->address = block->address + size_bytes;
  rest->size_bytes = block->size_bytes - size_bytes;
  rest->home = block->home;
  rest->segment = block->segment;
  rest->order = order_of_piece(*block);
  rest->prev = block;
  rest->next = block->next;
  if (rest->next != nullptr) rest->next->prev = rest;
  block->next = rest;
  block->size_bytes = size_bytes;
  return rest;
}

void Heap::unmap_expandable(Block* block) {
  const ExpandableSegment::Range range =
      block->segment->whole_pages(block->address, block->size_bytes);
  std::exception_ptr failure;
  if (range.size_bytes > 0) {
    failure = block->segment->unmap(range);
    erase_free(block);
    cut_to_range(block, range);
    block->mapped = false;
    merge(block, block->prev);
    merge(block, block->next);
    insert_unmapped(block);
    count_given_back(*block->home->pool, range.size_bytes);
    ++counters.num_device_free;
  }
  if (!block->mapped && !block->is_split()) destroy_expandable_segment(block);
  if (failure) std::rethrow_exception(failure);
}

// Makes what a block in no set has before and behind the range free blocks of their own.
void Heap::cut_to_range(Block* block, ExpandableSegment::Range range) {
  if (range.address > block->address) {
    Block* before = split_front(block, range.address - block->address);
    insert_free(before);
  }
  if (range.size_bytes < block->size_bytes) insert_free(split_back(block, range.size_bytes));
}

// `block` is all of the segment and has no memory.
void Heap::destroy_expandable_segment(Block* block) {
  ExpandableSegment* segment = block->segment;
  segment->give_back();
  erase_from_set(block);
  slab_.take_back(block);
  const auto same = [&](const std::unique_ptr<ExpandableSegment>& entry) {
    return entry.get() == segment;
  };
  const auto found = std::ranges::find_if(expandable_segments_, same);
  ALLOCMARK_ASSERT(found != expandable_segments_.end());
  expandable_segments_.erase(found);
}

}  // namespace allocmark::caching
