// The block, the unit of the caching allocator's bookkeeping, and a slab that makes blocks without
// asking the heap on the hot path.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "allocators/cuda/driver.h"

namespace allocmark::caching {

class ExpandableSegment;
struct StreamBlocks;

struct Block {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t requested_bytes =
      0;                  // of the last request served; kept when the block becomes free
  Block* prev = nullptr;  // address neighbours inside the segment
  Block* next = nullptr;
  StreamBlocks* home = nullptr;          // the pool and stream the block belongs to, for ever
  ExpandableSegment* segment = nullptr;  // null for memory from cudaMalloc
  std::int64_t order = 0;                // see TieBreak; 0 where addresses decide
  std::int64_t probes_at_insert = 0;     // the pool's probe count when the block became free
  std::uint32_t event_count = 0;         // events to pass before an owner-less block is free
  bool allocated = false;
  bool mapped = true;               // false: address space without memory behind it
  bool has_capture_uses = false;    // some of stream_uses came in a capture (private_pools.cc)
  std::vector<Stream> stream_uses;  // other streams that use it, each once

  [[nodiscard]] bool is_split() const { return prev != nullptr || next != nullptr; }
  // Neither owned nor waiting for a stream.
  [[nodiscard]] bool is_unused() const {
    return !allocated && event_count == 0 && stream_uses.empty();
  }
};

// Makes and takes back blocks; they stay at their place. Freed with the slab, used or not.
class BlockSlab {
 public:
  [[nodiscard]] Block* make() {
    if (spare_ == nullptr) grow();
    Block* block = spare_;
    spare_ = block->next;
    block->next = nullptr;
    return block;
  }

  void take_back(Block* block) {
    block->stream_uses.clear();
    block->prev = nullptr;
    block->segment = nullptr;
    block->requested_bytes = 0;
    block->event_count = 0;
    block->allocated = false;
    block->mapped = true;
    block->has_capture_uses = false;
    block->next = spare_;
    spare_ = block;
  }

 private:
  void grow() {
    constexpr std::size_t kCount = 256;
    chunks_.push_back(std::make_unique<Block[]>(kCount));
    for (std::size_t i = 0; i < kCount; ++i) take_back(&chunks_.back()[i]);
  }

  std::vector<std::unique_ptr<Block[]>> chunks_;
  Block* spare_ = nullptr;
};

}  // namespace allocmark::caching
