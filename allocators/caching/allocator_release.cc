// What the caching allocator does when memory is short: garbage collection, giving cached memory
// back, and saying that nothing helped.

#include "allocators/caching/allocator.h"
#include "allocators/caching/sizes.h"

namespace allocmark::caching {
namespace {

std::uint64_t private_free_bytes(const Heap& heap) {
  std::uint64_t bytes = 0;
  heap.for_each_pool([&](const Pool& pool) {
    if (pool.owner == nullptr) return;
    for (const Block* block : pool.free_blocks()) bytes += block->size_bytes;
  });
  return bytes;
}

}  // namespace

// Works on the large pool whatever the request, as PyTorch does.
void CachingAllocator::collect_garbage() {
  const double kept = settings_.garbage_collection_threshold * static_cast<double>(*limit_bytes_);
  const auto kept_bytes = static_cast<std::uint64_t>(kept);
  if (heap_.reserved_bytes() <= kept_bytes) return;
  const std::uint64_t surplus_bytes = heap_.reserved_bytes() - kept_bytes;
  for (Block* block : choose_garbage(heap_.pool(PoolKind::Large), surplus_bytes))
    heap_.release_segment(block);
}

// PyTorch gives a block back here without looking whether it is a whole segment. It always is,
// unless max_split_size was lowered while larger blocks were split; there the original fails or
// leaves neighbours without memory, and we count the case and keep the block.
bool CachingAllocator::release_oversize(const Request& request) {
  const Release release = choose_oversize_release(request, settings_);
  for (Block* block : release.blocks) {
    if (block->is_split()) {
      ++heap_.split_release_count;
    } else {
      heap_.release_segment(block);
    }
  }
  return release.enough;
}

void CachingAllocator::release_cached(std::uint64_t private_id) {
  if (private_id == 0 && !captures()) {
    ++heap_.counters.num_sync_all_streams;
    end_deferral(nullptr);
    events_.wait_and_take_all([this](Block* block) { free_if_unused(block); });
    release_blocks(heap_.pool(PoolKind::Large));
    release_blocks(heap_.pool(PoolKind::Small));
  }
  release_unused(private_id);
}

void CachingAllocator::release_blocks(const Pool& pool) {
  std::vector<Block*> expandable;
  for (Block* block : pool.free_blocks()) {
    if (block->segment != nullptr) {
      expandable.push_back(block);
    } else if (!block->is_split()) {
      heap_.release_segment(block);
    }
  }
  for (Block* block : expandable) heap_.unmap_expandable(block);
}

bool CachingAllocator::release_free_segment(std::uint64_t address) {
  Block* found = nullptr;
  heap_.for_each_pool([&](const Pool& pool) {
    for (Block* block : pool.free_blocks()) {
      if (block->address == address && block->segment == nullptr && !block->is_split())
        found = block;
    }
  });
  if (found != nullptr) heap_.release_segment(found);
  return found != nullptr;
}

void CachingAllocator::note_failure(const Request& request) {
  if (rejected_) {
    ++*heap_.counters.num_oom_rejections;
  } else {
    ++heap_.counters.num_ooms;
  }
  last_failure_ = OutOfMemory{
      .requested_bytes = request.requested_bytes,
      .size_bytes = request.size_bytes,
      .segment_bytes = request.segment_bytes,
      .allocated_bytes = static_cast<std::uint64_t>(heap_.counters.allocated_bytes.all().current()),
      .reserved_bytes = static_cast<std::uint64_t>(heap_.counters.reserved_bytes.all().current()),
      .private_free_bytes = private_free_bytes(heap_),
      .limit_bytes = limit_bytes_,
      .device = driver_.memory(),
      .process_lines = driver_.process_lines(),
      .rules = settings_.rules,
      .expandable_segments = settings_.expandable_segments,
      .reserve_bytes = segment_reserve(driver_.device_total_bytes(), settings_),
      .rejected = rejected_,
  };
}

}  // namespace allocmark::caching
