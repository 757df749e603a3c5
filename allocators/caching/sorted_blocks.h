// A set of blocks ordered by (size, order, address), or by address alone: the choice it gives is
// the one a red-black tree would give, at the cost of a few cache lines. Keys stand in sorted
// chunks of at most 64, so that an insertion moves at most a kilobyte whatever the number of
// blocks.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "allocators/caching/block.h"

namespace allocmark::caching {

class SortedBlocks {
 public:
  __extension__ using Key = unsigned __int128;

  // A place in the set; valid until the next insert or erase.
  struct Position {
    std::size_t chunk = 0;
    std::size_t index = 0;
    friend bool operator==(const Position&, const Position&) = default;
  };

  // Sizes and addresses are multiples of 512, which leaves room for the order between them: sizes
  // are below 2^60 (larger ones are refused before), orders below 2^37. An order is made for the
  // place of its segment (order_at), so that addresses may be as high as they like.
  static constexpr std::uint64_t kOrderEnd = std::uint64_t{1} << 37;
  [[nodiscard]] static std::int64_t order_at(std::uint64_t number, std::uint64_t address) {
    return static_cast<std::int64_t>(number) - static_cast<std::int64_t>(address >> 49);
  }
  [[nodiscard]] static Key key(std::uint64_t size_bytes, std::int64_t order,
                               std::uint64_t address) {
    return (static_cast<Key>(size_bytes) << 68) + (static_cast<Key>(order) << 40) + (address >> 9);
  }
  [[nodiscard]] static Key key(const Block& block) {
    return key(block.size_bytes, block.order, block.address);
  }
  // Below every block of that size.
  [[nodiscard]] static Key first_of(std::uint64_t size_bytes) { return key(size_bytes, 0, 0); }

  SortedBlocks();

  void insert(Key key, Block* block);
  void erase(Key key);  // must be present

  // The first block whose key is not below `key`; end() where there is none.
  [[nodiscard]] Position lower_bound(Key key) const;
  [[nodiscard]] Position begin() const { return {0, 0}; }
  [[nodiscard]] Position end() const { return {chunks_.size() - 1, chunks_.back()->count}; }
  [[nodiscard]] Block* at(Position position) const {
    return chunks_[position.chunk]->blocks[position.index];
  }
  [[nodiscard]] Position next(Position position) const;      // not at end()
  [[nodiscard]] Position previous(Position position) const;  // not at begin()
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] bool empty() const { return count_ == 0; }

 private:
  static constexpr std::size_t kChunkCapacity = 64;

  struct Chunk {
    std::size_t count = 0;
    std::array<Key, kChunkCapacity> keys;
    std::array<Block*, kChunkCapacity> blocks;

    [[nodiscard]] std::size_t lower_bound(Key key) const;
    void insert(std::size_t index, Key key, Block* block);
    void erase(std::size_t index);
  };

  [[nodiscard]] std::size_t chunk_for(
      Key key) const;  // the first chunk that ends at or after key, else the last
  void split(std::size_t chunk);
  void drop_or_join(std::size_t chunk);
  std::unique_ptr<Chunk> make_chunk();

  std::vector<std::unique_ptr<Chunk>> chunks_;  // never empty; only a single one may hold nothing
  std::vector<std::unique_ptr<Chunk>> spare_;
  mutable Position found_;  // by the last lower_bound; only a guess after an insert or erase
  std::size_t count_ = 0;
};

}  // namespace allocmark::caching
