#include "allocators/caching/sorted_blocks.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/assert.h"

namespace allocmark::caching {
namespace {

constexpr std::uint64_t kNoEnd = std::numeric_limits<std::uint64_t>::max();

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
  std::memmove(&entries[index], &entries[index] + 1, (count - index) * sizeof(Entry));
  --count;
}

void SortedBlocks::Chunk::cut(std::size_t kept) {
  std::fill(entries.begin() + kept, entries.begin() + count, Entry{});
  count = kept;
}

SortedBlocks::SortedBlocks() : ends_{kNoEnd} { chunks_.push_back(make_chunk()); }

bool SortedBlocks::comes_before(const Entry& entry, std::uint64_t rank, const Block& block) {
  return entry.rank != rank ? entry.rank < rank : is_before(*entry.block, block);
}

// Halves without a branch: which half holds the rank cannot be foretold.
std::size_t SortedBlocks::chunk_for(std::uint64_t rank) const {
  const std::uint64_t* first = ends_.data();
  for (std::size_t left = ends_.size(); left > 1;) {
    const std::size_t half = left / 2;
    first += first[half - 1] < rank ? half : 0;
    left -= half;
  }
  return static_cast<std::size_t>(first - ends_.data());
}

std::size_t SortedBlocks::chunk_for(std::uint64_t rank, const Block& block) const {
  std::size_t chunk = chunk_for(rank);
  while (ends_[chunk] == rank && chunk + 1 < chunks_.size() &&
         comes_before(chunks_[chunk]->entries[chunks_[chunk]->count - 1], rank, block))
    ++chunk;
  return chunk;
}

// The last chunk takes all that is above the others.
void SortedBlocks::note_end(std::size_t chunk) {
  if (chunk + 1 < chunks_.size())
    ends_[chunk] = chunks_[chunk]->entries[chunks_[chunk]->count - 1].rank;
}

void SortedBlocks::insert(std::uint64_t rank, Block* block) {
  std::size_t chunk = chunk_for(rank, *block);
  if (chunks_[chunk]->count == kChunkCapacity) {
    split(chunk);
    if (comes_before(chunks_[chunk]->entries[chunks_[chunk]->count - 1], rank, *block)) ++chunk;
  }
  Chunk& target = *chunks_[chunk];
  const std::size_t index = target.index_for(rank, *block);
  target.insert(index, {rank, block});
  if (index + 1 == target.count) note_end(chunk);
  ++count_;
}

SortedBlocks::Position SortedBlocks::find(std::uint64_t rank, const Block* block) const {
  const std::size_t chunk = chunk_for(rank, *block);
  const Position position{chunk, chunks_[chunk]->index_of(rank, block)};
  ALLOCMARK_ASSERT(position.index < chunks_[chunk]->count);
  return position;
}

void SortedBlocks::erase(Position position) {
  Chunk& target = *chunks_[position.chunk];
  target.erase(position.index);
  --count_;
  if (target.count < kChunkCapacity / 8 && chunks_.size() > 1) {
    drop_or_join(position.chunk);
  } else if (position.index == target.count) {
    note_end(position.chunk);
  }
}

// Mostly the new place is the old one or near it, so that stepping there is cheaper than a search.
void SortedBlocks::replace(Position position, std::uint64_t rank, Block* block) {
  Chunk& chunk = *chunks_[position.chunk];
  Entry* const entries = chunk.entries.data();
  const std::uint64_t old_rank = entries[position.index].rank;
  std::size_t to = position.index;
  if (rank <= old_rank) {
    for (; to > 0 && !comes_before(entries[to - 1], rank, *block); --to)
      entries[to] = entries[to - 1];
  }
  if (rank >= old_rank) {
    for (; comes_before(entries[to + 1], rank, *block); ++to) entries[to] = entries[to + 1];
  }
  entries[to] = {rank, block};
  if (std::max(position.index, to) + 1 == chunk.count) note_end(position.chunk);
  const bool follows_others = to > 0 || position.chunk == 0 || ends_[position.chunk - 1] < rank;
  const bool precedes_others = to + 1 < chunk.count || position.chunk + 1 == chunks_.size() ||
                               rank < chunks_[position.chunk + 1]->entries[0].rank;
  if (follows_others && precedes_others) return;
  erase({position.chunk, to});
  insert(rank, block);
}

SortedBlocks::Position SortedBlocks::lower_bound(std::uint64_t rank) const {
  const std::size_t chunk = chunk_for(rank);
  return {chunk, chunks_[chunk]->count_below(rank)};
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
  ends_.insert(ends_.begin() + static_cast<std::ptrdiff_t>(chunk), 0);
  note_end(chunk);
}

// A chunk that is nearly empty is joined with a neighbour that has room for it.
void SortedBlocks::drop_or_join(std::size_t chunk) {
  const std::size_t upper = chunk > 0 ? chunk : 1;
  Chunk& into = *chunks_[upper - 1];
  const Chunk& from = *chunks_[upper];
  if (into.count + from.count > kChunkCapacity / 2 && into.count > 0 && from.count > 0)
    return note_end(chunk);
  std::copy_n(from.entries.begin(), from.count, into.entries.begin() + into.count);
  into.count += from.count;
  chunks_[upper]->cut(0);
  spare_.push_back(std::move(chunks_[upper]));
  chunks_.erase(chunks_.begin() + static_cast<std::ptrdiff_t>(upper));
  ends_.erase(ends_.begin() + static_cast<std::ptrdiff_t>(upper) - 1);
  note_end(upper - 1);
}

std::unique_ptr<SortedBlocks::Chunk> SortedBlocks::make_chunk() {
  if (spare_.empty()) return std::make_unique<Chunk>();
  std::unique_ptr<Chunk> chunk = std::move(spare_.back());
  spare_.pop_back();
  return chunk;
}

}  // namespace allocmark::caching
