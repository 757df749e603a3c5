// The live blocks of a generator whose program is about how many bytes are live, and the bytes they
// add up to.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>

#include "base/random.h"
#include "workloads/patterns/octave_sizes.h"
#include "workloads/trace/event_batch.h"

namespace allocmark {

enum class FreeOrder : std::uint8_t { Newest, Oldest, Random };

class SizedBlocks {
 public:
  [[nodiscard]] std::uint64_t live_bytes() const { return live_bytes_; }
  [[nodiscard]] bool empty() const { return blocks_.empty(); }

  void allocate(std::uint64_t size_bytes, EventBatch* batch) {
    blocks_.push_back({batch->allocate({.size_bytes = size_bytes}), size_bytes});
    live_bytes_ += size_bytes;
  }
  // A block of a random size, or of what is still missing to level_bytes where that is less.
  void allocate_towards(std::uint64_t level_bytes, const OctaveSizes& sizes, Random* random,
                        EventBatch* batch) {
    allocate(std::min(sizes.pick(random->next()), level_bytes - live_bytes_), batch);
  }
  // Must not be empty.
  void free_one(FreeOrder order, Random* random, EventBatch* batch) {
    if (order == FreeOrder::Random) {
      std::swap(blocks_[random->below(blocks_.size())], blocks_.back());
    }
    const Block block = order == FreeOrder::Oldest ? blocks_.front() : blocks_.back();
    if (order == FreeOrder::Oldest) {
      blocks_.pop_front();
    } else {
      blocks_.pop_back();
    }
    batch->free(block.id);
    live_bytes_ -= block.size_bytes;
  }

 private:
  struct Block {
    std::uint64_t id = 0;
    std::uint64_t size_bytes = 0;
  };
  std::deque<Block> blocks_;  // oldest first, until the first random one goes
  std::uint64_t live_bytes_ = 0;
};

}  // namespace allocmark
