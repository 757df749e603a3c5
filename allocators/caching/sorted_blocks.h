// A set of blocks ordered by a rank, their size or their address, then by (order, address): the
// choice it gives is the one a red-black tree would give, at the cost of a few cache lines. Ranks
// stand in sorted chunks of at most 64, so that an insertion moves at most a kilobyte whatever the
// number of blocks. A block is only looked into where ranks are equal.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "allocators/caching/block.h"

namespace allocmark::caching {

class SortedBlocks {
 public:
  // A place in the set; valid until the next insert or erase.
  struct Position {
    std::size_t chunk = 0;
    std::size_t index = 0;
    friend bool operator==(const Position&, const Position&) = default;
  };

  SortedBlocks();

  // A block's order and address stay what they are while it is in the set.
  void insert(std::uint64_t rank, Block* block);
  // Where a block stands that is present. Not after its order or address changed.
  [[nodiscard]] Position find(std::uint64_t rank, const Block* block) const;
  void erase(Position position);
  // Takes what stands there out and puts `block` in, which may be the same one with another rank
  // and address. Mostly both places are near each other, and what lies between them moves once.
  void replace(Position position, std::uint64_t rank, Block* block);

  // The first block whose rank is not below `rank`; end() where there is none.
  [[nodiscard]] Position lower_bound(std::uint64_t rank) const;
  [[nodiscard]] Position begin() const { return {0, 0}; }
  [[nodiscard]] Position end() const { return {chunks_.size() - 1, chunks_.back()->count}; }
  // Null at end().
  [[nodiscard]] Block* at(Position position) const {
    return chunks_[position.chunk]->entries[position.index].block;
  }
  [[nodiscard]] Position next(Position position) const;      // not at end()
  [[nodiscard]] Position previous(Position position) const;  // not at begin()
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] bool empty() const { return count_ == 0; }

 private:
  static constexpr std::size_t kGroupSize = 8;
  static constexpr std::size_t kGroupCount = 8;
  static constexpr std::size_t kChunkCapacity = kGroupSize * kGroupCount;

  struct Entry {
    std::uint64_t rank = std::numeric_limits<std::uint64_t>::max();
    Block* block = nullptr;
  };
  struct Chunk {
    std::size_t count = 0;
    std::array<Entry, kChunkCapacity + 1> entries;  // the last is always empty

    // How many ranks are below this one.
    [[nodiscard]] std::size_t count_below(std::uint64_t rank) const;
    // How many entries come before this block.
    [[nodiscard]] std::size_t index_for(std::uint64_t rank, const Block& block) const;
    // Where this block stands.
    [[nodiscard]] std::size_t index_of(std::uint64_t rank, const Block* block) const;
    void insert(std::size_t index, Entry entry);
    void erase(std::size_t index);
    void cut(std::size_t kept);  // to so many entries
  };

  [[nodiscard]] static bool comes_before(const Entry& entry, std::uint64_t rank,
                                         const Block& block);
  // The first chunk that does not end below the rank, else the last.
  [[nodiscard]] std::size_t chunk_for(std::uint64_t rank) const;
  // The first chunk that does not end before the block, else the last.
  [[nodiscard]] std::size_t chunk_for(std::uint64_t rank, const Block& block) const;
  void note_end(std::size_t chunk);
  [[gnu::noinline]] void split(std::size_t chunk);
  [[gnu::noinline]] void drop_or_join(std::size_t chunk);
  std::unique_ptr<Chunk> make_chunk();

  std::vector<std::unique_ptr<Chunk>> chunks_;  // never empty; only a single one may hold nothing
  std::vector<std::uint64_t> ends_;             // the last rank of each but the last chunk
  std::vector<std::unique_ptr<Chunk>> spare_;
  std::size_t count_ = 0;
};

}  // namespace allocmark::caching
