#include "allocators/caching/heap.h"

#include <algorithm>
#include <exception>

#include "base/assert.h"

namespace allocmark::caching {
namespace {

PoolKind kind_of(const Block* block) { return block->home->pool->kind; }

// Whether the two neighbours, the second of which may be null, are unused and of a kind.
bool can_join(const Block& into, const Block* from) {
  return from != nullptr && from->is_unused() && from->mapped == into.mapped;
}

}  // namespace

Heap::Heap(Driver& driver, const Settings& settings)
    : driver_(driver), settings_(settings), tie_break_(settings.rules->tie_break) {}

Heap::~Heap() { give_back_all({}); }

Block* Heap::make_segment(StreamBlocks& home, std::uint64_t size_bytes) {
  const std::optional<std::uint64_t> address = driver_.allocate(size_bytes, home.stream);
  if (!address) return nullptr;
  Block* block = slab_.make();
  block->address = *address;
  block->size_bytes = size_bytes;
  block->home = &home;
  block->order = next_order();
  counters.segment.increase(home.pool->kind, 1);
  count_reserved(*home.pool, size_bytes);
  if (size_bytes >= settings_.max_split_size_bytes) counters.oversize_segments.increase(1);
  ++counters.num_device_alloc;
  return block;
}

// The order of memory that is new.
std::int64_t Heap::next_order() { return tie_break_ == TieBreak::Address ? 0 : ++order_count_; }

void Heap::release_segment(Block* block) {
  ALLOCMARK_ASSERT(!block->is_split());
  driver_.free(block->address);
  ++counters.num_device_free;
  counters.segment.decrease(kind_of(block), 1);
  count_given_back(*block->home->pool, block->size_bytes);
  if (block->size_bytes >= settings_.max_split_size_bytes) counters.oversize_segments.decrease(1);
  erase_free(block);
  slab_.take_back(block);
}

void Heap::count_reserved(const Pool& pool, std::uint64_t bytes) {
  reserved_bytes_ += bytes;
  counters.reserved_bytes.increase(pool.kind, signed_bytes(bytes));
  if (pool.owner == nullptr) return;
  pool.owner->reserved_bytes += bytes;
  private_reserved_bytes += bytes;
  if (settings_.rules->counts_private_pools)
    counters.reserved_bytes_by_private_pool[pool.owner->id].increase(pool.kind,
                                                                     signed_bytes(bytes));
}

void Heap::count_given_back(const Pool& pool, std::uint64_t bytes) {
  reserved_bytes_ -= bytes;
  counters.reserved_bytes.decrease(pool.kind, signed_bytes(bytes));
  if (pool.owner == nullptr) return;
  pool.owner->reserved_bytes -= bytes;
  private_reserved_bytes -= bytes;
  if (settings_.rules->counts_private_pools)
    counters.reserved_bytes_by_private_pool[pool.owner->id].decrease(pool.kind,
                                                                     signed_bytes(bytes));
  if (pool.owner->device_count == 0) {
    ++pool_count_error_count;
  } else {
    --pool.owner->device_count;
  }
}

PrivatePool& Heap::make_private_pool(std::uint64_t id) {
  return private_pools.try_emplace(id, id, never_split_ids_.contains(id)).first->second;
}

void Heap::never_split(std::uint64_t id) {
  never_split_ids_.insert(id);
  const auto found = private_pools.find(id);
  if (found == private_pools.end()) return;
  found->second.small.never_splits = found->second.large.never_splits = true;
}

void Heap::insert_free(Block* block) {
  block->probes_at_insert = block->home->pool->probe_count;
  block->home->free.insert(block->size_bytes, block);
}

void Heap::erase_free(Block* block) {
  SortedBlocks& free = block->home->free;
  free.erase(free.find(block->size_bytes, block));
}

void Heap::insert_unmapped(Block* block) { block->home->unmapped.insert(block->address, block); }

void Heap::erase_from_set(Block* block) {
  if (block->mapped) return erase_free(block);
  SortedBlocks& unmapped = block->home->unmapped;
  unmapped.erase(unmapped.find(block->address, block));
}

Block* Heap::split_front(Block* block, std::uint64_t size_bytes) {
  Block* front = slab_.make();
  front->address = block->address;
  front->size_bytes = size_bytes;
  front->home = block->home;
  front->segment = block->segment;
  front->order = order_of_piece(*block);
  front->prev = block->prev;
  if (front->prev != nullptr) front->prev->next = front;
  front->next = block;
  block->prev = front;
  block->address += size_bytes;
  block->size_bytes -= size_bytes;
  return front;
}

Block* Heap::split_front_of_free(SortedBlocks& free, SortedBlocks::Position position,
                                 std::uint64_t size_bytes) {
  Block* block = free.at(position);
  Block* front = split_front(block, size_bytes);
  block->probes_at_insert = block->home->pool->probe_count;
  free.replace(position, block->size_bytes, block);
  return front;
}

// Joins `from` into its neighbour `into` where both are of a kind; returns the bytes won, 0 where
// they stay apart.
std::uint64_t Heap::merge(Block* into, Block* from) {
  if (!can_join(*into, from)) return 0;
  erase_from_set(from);
  return join(into, from);
}

// `from`, which is in no set, becomes a part of its neighbour.
std::uint64_t Heap::join(Block* into, Block* from) {
  if (into->prev == from) {
    into->address = from->address;
    into->prev = from->prev;
    if (into->prev != nullptr) into->prev->next = into;
  } else {
    into->next = from->next;
    if (into->next != nullptr) into->next->prev = into;
  }
  const std::uint64_t won_bytes = from->size_bytes;
  into->size_bytes += won_bytes;
  slab_.take_back(from);
  return won_bytes;
}

void Heap::free_block(Block* block) {
  ALLOCMARK_ASSERT(block->is_unused());
  const std::uint64_t own_bytes = block->size_bytes;
  std::int64_t count_change = 0;
  std::int64_t bytes_change = 0;
  const bool joins_next = can_join(*block, block->next);
  if (joins_next) {
    const std::uint64_t won_bytes = merge(block, block->prev);
    count_change -= won_bytes > 0 ? 1 : 0;
    bytes_change -= signed_bytes(won_bytes);
  }
  // Takes the last one's place among the free blocks.
  Block* const last = joins_next ? block->next : block->prev;
  if (can_join(*block, last)) {
    SortedBlocks& free = block->home->free;
    const SortedBlocks::Position position = free.find(last->size_bytes, last);
    --count_change;
    bytes_change -= signed_bytes(join(block, last));
    block->probes_at_insert = block->home->pool->probe_count;
    free.replace(position, block->size_bytes, block);
  } else {
    insert_free(block);
  }
  const PoolKind kind = kind_of(block);
  if (block->segment == nullptr) {
    if (block->is_split()) {
      ++count_change;
      bytes_change += signed_bytes(block->size_bytes);
    }
    counters.inactive_split.change(kind, count_change);
    counters.inactive_split_bytes.change(kind, bytes_change);
  }
  counters.active.decrease(kind, 1);
  counters.active_bytes.decrease(kind, signed_bytes(own_bytes));
  if (PrivatePool* const owner = block->home->pool->owner; owner != nullptr) [[unlikely]] {
    owner->active_bytes -= own_bytes;
    private_active_bytes -= own_bytes;
  }
  counters.requested_bytes.decrease(kind, signed_bytes(block->requested_bytes));
}

std::vector<Block*> Heap::segment_heads(const std::vector<Block*>& waiting) const {
  std::vector<Block*> heads;
  const auto add = [&](Block* block) {
    if (block->prev == nullptr) heads.push_back(block);
  };
  allocated.for_each(add);
  for_each_pool([&](const Pool& pool) {
    for (Block* block : pool.free_blocks()) add(block);
    for (const auto& entry : pool.streams) {
      const SortedBlocks& unmapped = entry->unmapped;
      for (auto at = unmapped.begin(); at != unmapped.end(); at = unmapped.next(at))
        add(unmapped.at(at));
    }
  });
  for (Block* block : waiting) add(block);
  std::ranges::sort(heads, {}, &Block::address);
  // clang 14 does not compile libstdc++'s std::ranges::unique.
  heads.erase(std::unique(heads.begin(), heads.end()), heads.end());
  return heads;
}

void Heap::give_back_all(const std::vector<Block*>& waiting) {
  for (const Block* head : segment_heads(waiting)) {
    if (head->segment != nullptr) continue;
    try {
      driver_.free(head->address);
    } catch (const std::exception&) {
      // The allocator is going away; the other segments are still to be given back.
    }
  }
  small_ = Pool(PoolKind::Small);
  large_ = Pool(PoolKind::Large);
  private_pools.clear();
  private_reserved_bytes = private_active_bytes = 0;
  allocated = PointerMap();
  expandable_segments_.clear();
}

}  // namespace allocmark::caching
