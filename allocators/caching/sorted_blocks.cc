#include "allocators/caching/sorted_blocks.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace allocmark::caching {

// Without branches that depend on the keys: they follow no pattern that a processor could learn.
std::size_t SortedBlocks::Chunk::lower_bound(Key key) const {
  const Key* base = keys.data();
  std::size_t length = count;
  while (length > 1) {
    const std::size_t half = length / 2;
    base += half & (std::size_t{0} - static_cast<std::size_t>(base[half - 1] < key));
    length -= half;
  }
  const auto index = static_cast<std::size_t>(base - keys.data());
  return index + (length == 1 && *base < key ? 1 : 0);
}

void SortedBlocks::Chunk::insert(std::size_t index, Key key, Block* block) {
  const std::size_t moved = count - index;
  std::memmove(&keys[index] + 1, &keys[index], moved * sizeof(Key));
  std::memmove(&blocks[index] + 1, &blocks[index], moved * sizeof(Block*));
  keys[index] = key;
  blocks[index] = block;
  ++count;
}

void SortedBlocks::Chunk::erase(std::size_t index) {
  const std::size_t moved = count - index - 1;
  std::memmove(&keys[index], &keys[index] + 1, moved * sizeof(Key));
  std::memmove(&blocks[index], &blocks[index] + 1, moved * sizeof(Block*));
  --count;
}

SortedBlocks::SortedBlocks() { chunks_.push_back(make_chunk()); }

std::size_t SortedBlocks::chunk_for(Key key) const {
  if (chunks_.size() == 1) return 0;
  const auto ends_before = [](const std::unique_ptr<Chunk>& chunk, Key wanted) {
    return chunk->keys[chunk->count - 1] < wanted;
  };
  const auto found = std::lower_bound(chunks_.begin(), chunks_.end() - 1, key, ends_before);
  return static_cast<std::size_t>(found - chunks_.begin());
}

void SortedBlocks::insert(Key key, Block* block) {
  std::size_t chunk = chunk_for(key);
  if (chunks_[chunk]->count == kChunkCapacity) {
    split(chunk);
    if (chunks_[chunk]->keys[chunks_[chunk]->count - 1] < key) ++chunk;
  }
  Chunk& target = *chunks_[chunk];
  target.insert(target.lower_bound(key), key, block);
  ++count_;
}

void SortedBlocks::erase(Key key) {
  // What is taken out is mostly what was just found.
  const bool just_found = found_.chunk < chunks_.size() &&
                          found_.index < chunks_[found_.chunk]->count &&
                          chunks_[found_.chunk]->keys[found_.index] == key;
  const Position position = just_found ? found_ : lower_bound(key);
  Chunk& target = *chunks_[position.chunk];
  ALLOCMARK_ASSERT(position.index < target.count);
  ALLOCMARK_ASSERT(target.keys[position.index] == key);
  target.erase(position.index);
  --count_;
  if (target.count < kChunkCapacity / 8 && chunks_.size() > 1) drop_or_join(position.chunk);
}

SortedBlocks::Position SortedBlocks::lower_bound(Key key) const {
  const std::size_t chunk = chunk_for(key);
  found_ = {chunk, chunks_[chunk]->lower_bound(key)};
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
  std::copy_n(lower.keys.begin() + kept, upper->count, upper->keys.begin());
  std::copy_n(lower.blocks.begin() + kept, upper->count, upper->blocks.begin());
  lower.count = kept;
  chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(chunk) + 1, std::move(upper));
}

// A chunk that is nearly empty is joined with a neighbour that has room for it.
void SortedBlocks::drop_or_join(std::size_t chunk) {
  const std::size_t upper = chunk > 0 ? chunk : 1;
  Chunk& into = *chunks_[upper - 1];
  const Chunk& from = *chunks_[upper];
  if (into.count + from.count > kChunkCapacity / 2 && into.count > 0 && from.count > 0) return;
  std::copy_n(from.keys.begin(), from.count, into.keys.begin() + into.count);
  std::copy_n(from.blocks.begin(), from.count, into.blocks.begin() + into.count);
  into.count += from.count;
  chunks_[upper]->count = 0;
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
