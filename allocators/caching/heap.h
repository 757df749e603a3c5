// The blocks of the caching allocator and the memory behind them: segments taken and given back,
// blocks split and merged, the counters of all this kept. Mechanism only: which block serves a
// request is decided in policy.h, when to do what in allocator.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "allocators/caching/block.h"
#include "allocators/caching/counters.h"
#include "allocators/caching/expandable.h"
#include "allocators/caching/pointer_map.h"
#include "allocators/caching/pool.h"
#include "allocators/caching/segment_info.h"
#include "allocators/caching/settings.h"
#include "allocators/cuda/driver.h"

namespace allocmark::caching {

class Heap {
 public:
  Heap(Driver& driver, const Settings& settings);
  // Gives every segment back, live blocks or not. `waiting` blocks are known to nobody else.
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // Segments from cudaMalloc. The new block is in no set.
  [[nodiscard]] Block* make_segment(StreamBlocks& home,
                                    std::uint64_t size_bytes);  // null: out of memory
  void release_segment(Block* block);  // a free block that is a whole segment

  // Expandable memory for a request of this rounded size: at the first place of the stream's
  // address space where it fits, or in a new expandable segment. The block may be larger. Null: out
  // of memory.
  [[nodiscard]] Block* make_expandable(StreamBlocks& home, std::uint64_t size_bytes);
  // Gives the whole pages inside a free block back, and the segment where nothing else is in it.
  void unmap_expandable(Block* block);

  // Moves blocks in and out of the free set of their home.
  void insert_free(Block* block);
  void erase_free(Block* block);

  // Cuts the first size_bytes off a block that is in no set; returns the new front block.
  [[nodiscard]] Block* split_front(Block* block, std::uint64_t size_bytes);
  // The same with the free block that stands there, whose rest stays free.
  [[nodiscard]] Block* split_front_of_free(SortedBlocks& free, SortedBlocks::Position position,
                                           std::uint64_t size_bytes);

  // Makes an unused block free: merges it with its free neighbours and keeps the counters of
  // inactive blocks.
  void free_block(Block* block);

  // Takes over segments with their blocks, as a snapshot shows them (heap_seed.cc).
  void adopt(const std::vector<SegmentInfo>& segments);

  // The first block of every segment; `waiting` are the blocks that are in no set and not
  // allocated.
  [[nodiscard]] std::vector<Block*> segment_heads(const std::vector<Block*>& waiting) const;
  // Blocks without owner that wait for events are only known by name; the destructor needs them.
  void give_back_all(const std::vector<Block*>& waiting);

  [[nodiscard]] Pool& pool(PoolKind kind) { return kind == PoolKind::Small ? small_ : large_; }
  [[nodiscard]] const Pool& pool(PoolKind kind) const {
    return kind == PoolKind::Small ? small_ : large_;
  }
  [[nodiscard]] std::uint64_t reserved_bytes() const { return reserved_bytes_; }

  // Private pools, by id.
  std::map<std::uint64_t, PrivatePool> private_pools;
  [[nodiscard]] PrivatePool& make_private_pool(std::uint64_t id);
  // From here on a request to that pool gets a whole block, whether it is there already or not.
  void never_split(std::uint64_t id);
  // The common pools, then the private ones; small before large.
  template <typename Action>
  void for_each_pool(Action action) const {
    action(small_);
    action(large_);
    for (const auto& [id, pool] : private_pools) {
      action(pool.small);
      action(pool.large);
    }
  }
  // What they have together, as PrivatePool has it.
  std::uint64_t private_reserved_bytes = 0;
  std::uint64_t private_active_bytes = 0;
  // A block of that pool came into use.
  void count_used(const Pool& pool, std::uint64_t bytes) {
    if (pool.owner == nullptr) [[likely]]
      return;
    pool.owner->active_bytes += bytes;
    private_active_bytes += bytes;
  }
  // Notes that the device served a request of that pool.
  static void count_served(const Pool& pool) {
    if (pool.owner != nullptr) ++pool.owner->device_count;
  }

  // Times that giving back memory would have torn a segment apart (see release_available in
  // allocator_release.cc).
  std::uint64_t split_release_count = 0;
  // Times that PyTorch's count of what a private pool has of the device goes wrong: it stops with
  // an internal error, or forgets a pool that has live blocks (release_unused in private_pools.cc).
  std::uint64_t pool_count_error_count = 0;

  PointerMap allocated;  // the blocks that callers hold
  Counters counters;

 private:
  [[nodiscard]] Block* find_expandable(StreamBlocks& home, std::uint64_t size_bytes);
  [[nodiscard]] Block* make_expandable_segment(StreamBlocks& home);
  [[nodiscard]] bool map_block(Block* block, std::uint64_t size_bytes);
  [[nodiscard]] Block* split_back(Block* block, std::uint64_t size_bytes);
  void cut_to_range(Block* block, ExpandableSegment::Range range);
  std::uint64_t merge(Block* into, Block* from);
  std::uint64_t join(Block* into, Block* from);
  void destroy_expandable_segment(Block* block);
  void insert_unmapped(Block* block);
  void adopt_expandable(const std::vector<SegmentInfo>& ranges);
  [[nodiscard]] StreamBlocks& home_of(const SegmentInfo& segment);
  [[nodiscard]] Block* adopt_segment(const SegmentInfo& segment);
  void carve(Block* block, const SegmentInfo& segment);
  void erase_from_set(Block* block);
  void count_reserved(const Pool& pool, std::uint64_t bytes);
  void count_given_back(const Pool& pool, std::uint64_t bytes);
  [[nodiscard]] std::int64_t next_order();
  // Of a block that is cut off `whole`.
  [[nodiscard]] std::int64_t order_of_piece(const Block& whole) {
    return tie_break_ == TieBreak::BlockOrder ? next_order() : whole.order;
  }

  Driver& driver_;
  const Settings& settings_;
  Pool small_{PoolKind::Small};
  Pool large_{PoolKind::Large};
  BlockSlab slab_;
  std::set<std::uint64_t> never_split_ids_;
  std::vector<std::unique_ptr<ExpandableSegment>> expandable_segments_;
  std::uint64_t reserved_bytes_ = 0;
  TieBreak tie_break_;  // a copy of what settings_ say, which never changes
  std::int64_t order_count_ = 0;
};

}  // namespace allocmark::caching
