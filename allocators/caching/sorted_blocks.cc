#include "allocators/caching/sorted_blocks.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace allocmark::caching {
namespace {

// Of two blocks of one rank.
bool is_before(const Block& one, const Block& other) {
  if (one.order != other.order) return one.order < other.order;
  return one.address < other.address;
}

}  // namespace

// The groups that end below the rank, then the entries of the one that does not. Both counts look
// at equally many entries whatever they hold, so that nothing waits for a comparison and no branch
// is to be foretold; entries that hold no block are above every rank.
std::size_t SortedBlocks::Chunk::count_below(std::uint64_t rank) const {
  std::size_t group = 0;
  for (std::size_t i = 0; i + 1 < kGroupCount; ++i)
    group += entries[i * kGroupSize + kGroupSize - 1].rank < rank ? 1 : 0;
  const Entry* const first = &entries[group * kGroupSize];
  std::size_t below = 0;
  for (std::size_t i = 0; i < kGroupSize; ++i) below += first[i].rank < rank ? 1 : 0;
  return group * kGroupSize + below;
}

// Mostly a few blocks share a rank. Where more do, each that is looked into costs a cache line.
std::size_t SortedBlocks::Chunk::index_for(std::uint64_t rank, const Block& block) const {
  std::size_t index = count_below(rank);
  const std::size_t few = std::min(index + kGroupSize / 2, count);
  for (; index < few; ++index) {
    if (!comes_before(entries[index], rank, block)) return index;
  }
  const auto before = [rank](const Entry& entry, const Block& wanted) {
    return comes_before(entry, rank, wanted);
  };
  const Entry* const end = entries.data() + count;
  const Entry* const found = std::lower_bound(entries.data() + index, end, block, before);
  return static_cast<std::size_t>(found - entries.data());
}

std::size_t SortedBlocks::Chunk::index_of(std::uint64_t rank, const Block* block) const {
  std::size_t index = count_below(rank);
  while (index < count && entries[index].block != block) ++index;
  return index;
}

void SortedBlocks::Chunk::insert(std::size_t index, Entry entry) {
  std::memmove(&entries[index] + 1, &entries[index], (count - index) * sizeof(Entry));
  entries[index] = entry;
  ++count;
}

void SortedBlocks::Chunk::erase(std::size_t index) {
  std::memmove(&entries[index], &entries[index] + 1, (count - index - 1) * sizeof(Entry));
  entries[--count] = Entry{};
}

void SortedBlocks::Chunk::cut(std::size_t kept) {
  std::fill(entries.begin() + kept, entries.begin() + count, Entry{});
  count = kept;
}

SortedBlocks::SortedBlocks() { chunks_.push_back(make_chunk()); }

bool SortedBlocks::comes_before(const Entry& entry, std::uint64_t rank, const Block& block) {
  return entry.rank != rank ? entry.rank < rank : is_before(*entry.block, block);
}

std::size_t SortedBlocks::chunk_for(std::uint64_t rank, const Block& block) const {
  if (chunks_.size() == 1) return 0;
  const auto ends_before = [rank](const std::unique_ptr<Chunk>& chunk, const Block& wanted) {
    return comes_before(chunk->entries[chunk->count - 1], rank, wanted);
  };
  const auto found = std::lower_bound(chunks_.begin(), chunks_.end() - 1, block, ends_before);
  return static_cast<std::size_t>(found - chunks_.begin());
}

void SortedBlocks::insert(std::uint64_t rank, Block* block) {
  std::size_t chunk = chunk_for(rank, *block);
  if (chunks_[chunk]->count == kChunkCapacity) {
    split(chunk);
    if (comes_before(chunks_[chunk]->entries[chunks_[chunk]->count - 1], rank, *block)) ++chunk;
  }
  Chunk& target = *chunks_[chunk];
  target.insert(target.index_for(rank, *block), {rank, block});
  ++count_;
}

void SortedBlocks::erase(std::uint64_t rank, const Block* block) {
  // What is taken out is mostly what was just found.
  Position position = found_;
  const bool just_found = position.chunk < chunks_.size() &&
                          position.index < chunks_[position.chunk]->count &&
                          chunks_[position.chunk]->entries[position.index].block == block;
  if (!just_found) {
    position.chunk = chunk_for(rank, *block);
    position.index = chunks_[position.chunk]->index_of(rank, block);
  }
  Chunk& target = *chunks_[position.chunk];
  ALLOCMARK_ASSERT(position.index < target.count);
  ALLOCMARK_ASSERT(target.entries[position.index].block == block);
  target.erase(position.index);
  --count_;
  if (target.count < kChunkCapacity / 8 && chunks_.size() > 1) drop_or_join(position.chunk);
}

SortedBlocks::Position SortedBlocks::lower_bound(std::uint64_t rank) const {
  std::size_t chunk = 0;
  if (chunks_.size() > 1) {
    const auto ends_before = [](const std::unique_ptr<Chunk>& entry, std::uint64_t wanted) {
      return entry->entries[entry->count - 1].rank < wanted;
    };
    chunk = static_cast<std::size_t>(
        std::lower_bound(chunks_.begin(), chunks_.end() - 1, rank, ends_before) - chunks_.begin());
  }
  found_ = {chunk, chunks_[chunk]->count_below(rank)};
  return found_;
}

SortedBlocks::Position SortedBlocks::next(Position position) const {
  ++position.index;
  const bool chunk_ended = position.index == chunks_[position.chunk]->count;
  if (chunk_ended && position.chunk + 1 < chunks_.size()) return {position.chunk + 1, 0};
  return position;
}

SortedBlocks::Position SortedBlocks::previous(Position position) const {
  if (position.index > 0) return {position.chunk, position.index - 1};
  return {position.chunk - 1, chunks_[position.chunk - 1]->count - 1};
}

void SortedBlocks::split(std::size_t chunk) {
  std::unique_ptr<Chunk> upper = make_chunk();
  Chunk& lower = *chunks_[chunk];
  const std::size_t kept = lower.count / 2;
  upper->count = lower.count - kept;
  std::copy_n(lower.entries.begin() + kept, upper->count, upper->entries.begin());
  lower.cut(kept);
  chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(chunk) + 1, std::move(upper));
}

// A chunk that is nearly empty is joined with a neighbour that has room for it.
void SortedBlocks::drop_or_join(std::size_t chunk) {
  const std::size_t upper = chunk > 0 ? chunk : 1;
  Chunk& into = *chunks_[upper - 1];
  const Chunk& from = *chunks_[upper];
  if (into.count + from.count > kChunkCapacity / 2 && into.count > 0 && from.count > 0) return;
  std::copy_n(from.entries.begin(), from.count, into.entries.begin() + into.count);
  into.count += from.count;
  chunks_[upper]->cut(0);
  spare_.push_back(std::move(chunks_[upper]));
  chunks_.erase(chunks_.begin() + static_cast<std::ptrdiff_t>(upper));
}

std::unique_ptr<SortedBlocks::Chunk> SortedBlocks::make_chunk() {
  if (spare_.empty()) return std::make_unique<Chunk>();
  std::unique_ptr<Chunk> chunk = std::move(spare_.back());
  spare_.pop_back();
  return chunk;
}

}  // namespace allocmark::caching
