// The blocks that are live at one point of a trace: an open-addressing table keyed by id. Its
// memory follows the largest number of blocks live at once, never the length of the trace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace allocmark {

struct TracedBlock {
  std::uint64_t id = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t birth = 0;  // what the owner of the table counts: a line or an event index
};

class LiveBlocks {
 public:
  // This id marks an empty slot and cannot be inserted.
  static constexpr std::uint64_t kNoId = std::numeric_limits<std::uint64_t>::max();

  LiveBlocks() { clear(); }

  // The block of that id; null where it is not live. Valid until the next insert or erase.
  [[nodiscard]] const TracedBlock* find(std::uint64_t id) const;
  // The id must not be live.
  void insert(const TracedBlock& block);
  // False where the id is not live.
  bool erase(std::uint64_t id);
  void clear();
  // In an order that depends only on what was inserted and erased.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (const TracedBlock& block : slots_) {
      if (block.id != kNoId) visit(block);
    }
  }
  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  // Multiplying by 2^64 / golden ratio spreads the dense ids that traces use over the whole table.
  [[nodiscard]] std::size_t home(std::uint64_t id) const {
    return static_cast<std::size_t>((id * 0x9E3779B97F4A7C15u) >> shift_);
  }
  void resize(std::size_t slot_count);

  std::vector<TracedBlock> slots_;
  std::size_t count_ = 0;
  int shift_ = 0;
};

}  // namespace allocmark
