// The device blocks that a backend has handed out: what its destructor must give back and how many
// bytes they are. An open-addressing table, because std::unordered_map would add an allocation to
// every measured call. Lookups cost a few nanoseconds; the table doubles (and then allocates) only
// when it is half full. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace allocmark {

struct LiveBlock {
  void* pointer = nullptr;       // null: the slot is empty
  std::uint64_t size_bytes = 0;  // as requested
};

class LiveSet {
 public:
  LiveSet() : slots_(std::size_t{1} << kInitialLog2), shift_(64 - kInitialLog2) {}

  [[nodiscard]] std::uint64_t size_bytes_total() const { return size_bytes_total_; }
  [[nodiscard]] std::size_t count() const { return count_; }

  // Memory for one more block, taken before the block itself is, so that insert cannot fail.
  void reserve_one() {
    if ((count_ + 1) * 2 > slots_.size()) [[unlikely]] {
      grow();
    }
  }

  // `block.pointer` must not be null, and reserve_one must have been called. A pointer that is
  // already in the set (a faulty allocator's) is then in it twice, and erase takes one of them out.
  void insert(LiveBlock block) {
    std::size_t index = home(block.pointer);
    while (slots_[index].pointer != nullptr) {
      index = next(index);
    }
    slots_[index] = block;
    ++count_;
    size_bytes_total_ += block.size_bytes;
  }

  // Takes the block out; false where it is not in the set.
  [[nodiscard]] bool erase(const void* pointer) {
    std::size_t index = home(pointer);
    while (slots_[index].pointer != pointer) {
      if (slots_[index].pointer == nullptr) {
        return false;
      }
      index = next(index);
    }
    --count_;
    size_bytes_total_ -= slots_[index].size_bytes;
    close_gap(index);
    return true;
  }

  // Calls `function` with every block; the set must not be changed meanwhile.
  template <typename Function>
  void for_each(Function&& function) const {
    for (const LiveBlock& block : slots_) {
      if (block.pointer != nullptr) {
        function(block);
      }
    }
  }

 private:
  static constexpr int kInitialLog2 = 10;

  [[nodiscard]] std::size_t home(const void* pointer) const {
    // Fibonacci hashing: the high bits depend on all bits of the address.
    return static_cast<std::size_t>(
        (reinterpret_cast<std::uintptr_t>(pointer) * 0x9E3779B97F4A7C15u) >> shift_);
  }
  [[nodiscard]] std::size_t next(std::size_t index) const {
    return (index + 1) & (slots_.size() - 1);
  }

  // Moves later entries of the same probe run into the hole, so that no tombstones pile up.
  void close_gap(std::size_t hole) {
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t index = next(hole); slots_[index].pointer != nullptr; index = next(index)) {
      const std::size_t distance_home = (index - home(slots_[index].pointer)) & mask;
      const std::size_t distance_hole = (index - hole) & mask;
      if (distance_home >= distance_hole) {
        slots_[hole] = slots_[index];
        hole = index;
      }
    }
    slots_[hole] = LiveBlock{};
  }

  void grow() {
    std::vector<LiveBlock> old = std::exchange(slots_, std::vector<LiveBlock>(slots_.size() * 2));
    --shift_;
    count_ = 0;
    size_bytes_total_ = 0;
    for (const LiveBlock& block : old) {
      if (block.pointer != nullptr) {
        insert(block);
      }
    }
  }

  std::vector<LiveBlock> slots_;
  int shift_;
  std::size_t count_ = 0;
  std::uint64_t size_bytes_total_ = 0;
};

}  // namespace allocmark
