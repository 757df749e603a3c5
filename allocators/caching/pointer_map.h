// From the address a caller holds to its block: a hash table with open addressing and no
// tombstones, so that a look up finds it at once as a rule, however long the program has run.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "allocators/caching/block.h"

namespace allocmark::caching {

class PointerMap {
 public:
  PointerMap() : slots_(kCapacityMin) {}

  void insert(Block* block) {
    if (count_ == count_max_) grow();
    place(block);
    ++count_;
  }

  // A block's place in the map, until the next insert or remove; without a block where the address
  // is not in it.
  struct Found {
    Block* block = nullptr;
    std::size_t index = 0;
  };
  [[nodiscard]] Found look_up(std::uint64_t address) const {
    const std::size_t index = index_of(address);
    return {slots_[index], index};
  }
  // Null where the address is not in the map.
  [[nodiscard]] Block* find(std::uint64_t address) const { return look_up(address).block; }

  void remove(const Found& found) {
    std::size_t hole = found.index;
    --count_;
    // Entries behind the hole move up, unless that would put them before their own place.
    for (std::size_t at = next(hole); slots_[at] != nullptr; at = next(at)) {
      const std::size_t home = home_of(slots_[at]->address);
      const std::size_t distance_to_home = (at - home) & mask();
      const std::size_t distance_to_hole = (at - hole) & mask();
      if (distance_to_home < distance_to_hole) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole] = nullptr;
  }

  [[nodiscard]] std::size_t size() const { return count_; }

  template <typename Action>
  void for_each(Action action) const {
    // Most slots are empty, and many of them are passed by at once.
    constexpr std::size_t kAtOnce = 32;
    static constexpr Block* kEmpty[kAtOnce] = {};
    for (std::size_t begin = 0; begin < slots_.size(); begin += kAtOnce) {
      if (std::memcmp(&slots_[begin], kEmpty, sizeof kEmpty) == 0) continue;
      for (std::size_t i = begin; i < begin + kAtOnce; ++i) {
        if (slots_[i] != nullptr) action(slots_[i]);
      }
    }
  }

 private:
  static constexpr std::size_t kCapacityMin = 4096;
  static constexpr std::size_t kLarge = std::size_t{1} << 20;  // 8 MiB of slots

  [[nodiscard]] std::size_t mask() const { return slots_.size() - 1; }
  [[nodiscard]] std::size_t next(std::size_t index) const { return (index + 1) & mask(); }

  // Fibonacci hashing: block addresses are multiples of 512 and often of much larger powers of two.
  [[nodiscard]] std::size_t home_of(std::uint64_t address) const {
    return static_cast<std::size_t>(((address >> 9) * 0x9E3779B97F4A7C15u) >> shift_);
  }

  // Where the address stands, or the empty slot where it would.
  [[nodiscard]] std::size_t index_of(std::uint64_t address) const {
    std::size_t index = home_of(address);
    while (slots_[index] != nullptr && slots_[index]->address != address) index = next(index);
    return index;
  }

  void place(Block* block) { slots_[index_of(block->address)] = block; }

  void grow() {
    std::vector<Block*> old(2 * slots_.size());
    old.swap(slots_);
    // Where the table leaves the processor's caches anyway, empty slots cost more than they save.
    count_max_ = slots_.size() / (slots_.size() < kLarge ? 8 : 2);
    shift_ -= 1;
    for (Block* block : old) {
      if (block != nullptr) place(block);
    }
  }

  std::vector<Block*> slots_;  // a power of two, at most an eighth full; half where it is large
  std::size_t count_ = 0;
  std::size_t count_max_ = kCapacityMin / 8;  // more of them, and the table grows
  int shift_ = 64 - std::countr_zero(kCapacityMin);
};

}  // namespace allocmark::caching
