// What blocks take from the device beyond what was asked for, where the allocator does not say: the
// size of the device's own allocation that holds a block, less the block. Flows in: blocks as they
// are handed out and given back; flows out: the sum over live blocks. It is known only where a
// block has its allocation to itself: blocks that share one are left out of the sum.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "harness/core/replay/simcu_api.h"

namespace allocmark {

class BlockOverhead {
 public:
  explicit BlockOverhead(const SimcuApi& simcu) : simcu_(simcu) {}

  void allocate(const void* pointer, std::uint64_t size_bytes);
  void deallocate(const void* pointer, std::uint64_t size_bytes);
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  struct Allocation {
    std::uint64_t size_bytes = 0;        // the device's
    std::uint64_t block_bytes_live = 0;  // of all blocks in it
    std::uint64_t block_count = 0;
  };
  void count(const Allocation& allocation, bool adds);

  SimcuApi simcu_;
  std::unordered_map<std::uint64_t, Allocation> allocations_;          // by their base
  std::unordered_map<const void*, std::uint64_t> base_by_block_ = {};  // of live blocks
  std::uint64_t bytes_ = 0;
};

}  // namespace allocmark
