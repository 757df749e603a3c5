// The pools of the caching allocator, small and large, and, in each, the free blocks of every
// stream; and private pools, which have two such pools each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "allocators/caching/counters.h"
#include "allocators/caching/sorted_blocks.h"

namespace allocmark::caching {

struct Pool;
struct PrivatePool;

// What one stream has in one pool. Lives as long as the allocator.
struct StreamBlocks {
  Stream stream = 0;
  Pool* pool = nullptr;
  SortedBlocks free;      // free and mapped, by (size, address)
  SortedBlocks unmapped;  // address space of expandable segments without memory, by address
};

struct Pool {
  explicit Pool(PoolKind pool_kind) : kind(pool_kind) {}

  PoolKind kind;
  bool never_splits = false;     // a request gets a whole block
  PrivatePool* owner = nullptr;  // null: one of the common pools
  std::int64_t probe_count = 0;  // searches so far; the clock that garbage collection ages by
  std::vector<std::unique_ptr<StreamBlocks>> streams;  // by stream handle

  [[nodiscard]] bool is_small() const { return kind == PoolKind::Small; }

  [[nodiscard]] StreamBlocks& of(Stream stream) {
    if (recent_ != nullptr && recent_->stream == stream) return *recent_;
    const auto before = [](const std::unique_ptr<StreamBlocks>& entry, Stream wanted) {
      return entry->stream < wanted;
    };
    auto found = std::lower_bound(streams.begin(), streams.end(), stream, before);
    if (found == streams.end() || (*found)->stream != stream) {
      found = streams.insert(found, std::make_unique<StreamBlocks>());
      (*found)->stream = stream;
      (*found)->pool = this;
    }
    recent_ = found->get();
    return *recent_;
  }

  // All free blocks, in the order (stream, size, address). A copy, so that the caller may release
  // them.
  [[nodiscard]] std::vector<Block*> free_blocks() const {
    std::vector<Block*> blocks;
    for (const auto& entry : streams) {
      const SortedBlocks& free = entry->free;
      for (auto at = free.begin(); at != free.end(); at = free.next(at))
        blocks.push_back(free.at(at));
    }
    return blocks;
  }

 private:
  StreamBlocks* recent_ = nullptr;
};

// Memory that only requests routed to it get: torch.cuda.MemPool, and the pools of CUDA graphs.
struct PrivatePool {
  PrivatePool(std::uint64_t pool_id, bool never_splits) : id(pool_id) {
    small.owner = large.owner = this;
    small.never_splits = large.never_splits = never_splits;
  }
  PrivatePool(const PrivatePool&) = delete;
  PrivatePool& operator=(const PrivatePool&) = delete;

  [[nodiscard]] Pool& of(PoolKind kind) { return kind == PoolKind::Small ? small : large; }

  std::uint64_t id;
  int use_count = 1;  // 0: what it has cached can go back to the device
  // What it has of the device, as PyTorch counts: one for each request that the device served,
  // less one for each block given back. Of expandable segments that is not the same number.
  std::int64_t device_count = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t active_bytes = 0;  // of it in blocks that are held, or that another stream uses
  Pool small{PoolKind::Small};
  Pool large{PoolKind::Large};
};

}  // namespace allocmark::caching
