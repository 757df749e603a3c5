// The two pools of the caching allocator and, in each, the free blocks of every stream.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "allocators/caching/counters.h"
#include "allocators/caching/sorted_blocks.h"

namespace allocmark::caching {

struct Pool;

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

}  // namespace allocmark::caching
