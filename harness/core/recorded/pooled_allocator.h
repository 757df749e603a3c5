// `caching` with the private pools of a snapshot, which says of each request what pool it went to,
// and of memory that went back what pool had it. Checks; times nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "allocators/caching/allocator.h"
#include "allocators/caching/snapshot.h"
#include "harness/core/recorded/pool_story.h"

namespace allocmark {

// Pools are numbered as in the snapshot; 0 is the common one. One that is asked for again after its
// last use ended is a new pool to the allocator, as PyTorch has no other.
class PooledAllocator {
 public:
  PooledAllocator(caching::Driver& driver, const caching::Settings& settings,
                  std::uint64_t memory_limit_bytes = 0)
      : allocator_(driver, settings, memory_limit_bytes) {}

  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint32_t pool, std::uint64_t size_bytes,
                                                      caching::Stream stream) {
    const Routing routing(*this, pool);
    return allocator_.allocate(size_bytes, stream);
  }
  // Whether the cache has a block for it.
  [[nodiscard]] bool has_cached(std::uint32_t pool, std::uint64_t size_bytes,
                                caching::Stream stream) {
    const Routing routing(*this, pool);
    return allocator_.has_cached(size_bytes, stream);
  }
  [[nodiscard]] bool restore_block(std::uint32_t pool, std::uint64_t address,
                                   std::uint64_t size_bytes) {
    return allocator_.restore_block(use(pool), address, size_bytes);
  }

  // Nobody uses the pool any more: what it has cached goes back when the common pool's does.
  void end_use(std::uint32_t pool) {
    const auto found = pools_.find(pool);
    if (pool == 0 || found == pools_.end() || !found->second.used) return;
    allocator_.release_pool(found->second.id);
    found->second.used = false;
  }
  // Of a pool whose use has ended.
  void empty_pool(std::uint32_t pool) {
    const auto found = pools_.find(pool);
    if (found != pools_.end()) allocator_.empty_pool(found->second.id);
  }

  // Takes over what the allocator had, by pool; see CachingAllocator::adopt.
  void adopt(std::uint32_t pool, std::vector<caching::SegmentInfo> segments) {
    if (pool != 0) {
      const std::uint64_t id = use(pool);
      for (caching::SegmentInfo& segment : segments) segment.pool = id;
    }
    allocator_.adopt(segments);
  }
  // What it holds now, by pool.
  [[nodiscard]] std::map<std::uint32_t, std::vector<caching::SegmentInfo>> snapshot() const {
    std::map<std::uint32_t, std::vector<caching::SegmentInfo>> pools{{0, {}}};
    for (caching::SegmentInfo& segment : caching::take_snapshot(allocator_))
      pools[segment.pool == 0 ? 0 : numbers_.at(segment.pool)].push_back(std::move(segment));
    return pools;
  }

  [[nodiscard]] PoolSample sample(std::uint64_t entry_index) const {
    const caching::Heap& heap = allocator_.heap();
    return {.entry_index = entry_index,
            .reserved_bytes = heap.reserved_bytes(),
            .live_bytes = static_cast<std::uint64_t>(heap.counters.active_bytes.all().current()),
            .stranded_bytes = heap.private_reserved_bytes - heap.private_active_bytes};
  }
  [[nodiscard]] PoolMoment moment(std::uint64_t entry_index) const {
    const PoolSample all = sample(entry_index);
    PoolMoment moment{.entry_index = entry_index,
                      .reserved_bytes = all.reserved_bytes,
                      .live_bytes = all.live_bytes};
    for (const auto& [id, pool] : allocator_.heap().private_pools) {
      if (pool.reserved_bytes == 0) continue;
      moment.pools.push_back({.pool = numbers_.at(id),
                              .reserved_bytes = pool.reserved_bytes,
                              .live_bytes = pool.active_bytes});
    }
    std::ranges::stable_sort(moment.pools, std::greater<>(), &PoolHeld::stranded_bytes);
    return moment;
  }

  [[nodiscard]] caching::CachingAllocator& get() { return allocator_; }
  [[nodiscard]] const caching::CachingAllocator& get() const { return allocator_; }

 private:
  struct Pool {
    std::uint64_t id = 0;  // of the allocator
    bool used = false;
  };
  // Requests go to the pool, as long as this lives.
  class Routing {
   public:
    Routing(PooledAllocator& pooled, std::uint32_t pool)
        : allocator_(pooled.allocator_), id_(pool == 0 ? 0 : pooled.use(pool)) {
      if (id_ != 0) allocator_.begin_pool(id_, std::nullopt);
    }
    ~Routing() {
      if (id_ == 0) return;
      allocator_.end_pool(id_);
      allocator_.release_pool(id_);
    }
    Routing(const Routing&) = delete;
    Routing& operator=(const Routing&) = delete;

   private:
    caching::CachingAllocator& allocator_;
    std::uint64_t id_;
  };

  std::uint64_t use(std::uint32_t pool) {
    Pool& one = pools_[pool];
    if (one.used) return one.id;
    one = {.id = ++id_count_, .used = true};
    numbers_[one.id] = pool;
    allocator_.use_pool(one.id);
    return one.id;
  }

  caching::CachingAllocator allocator_;
  std::map<std::uint32_t, Pool> pools_;             // by the snapshot's number
  std::map<std::uint64_t, std::uint32_t> numbers_;  // of the snapshot, by the allocator's id
  std::uint64_t id_count_ = 0;
};

}  // namespace allocmark
