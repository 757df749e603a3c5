#include "allocators/caching/policy.h"

#include <algorithm>

#include "allocators/caching/sizes.h"

namespace allocmark::caching {
namespace {

using Position = SortedBlocks::Position;

// What an expandable block could grow to: itself and the hole behind it.
std::uint64_t size_when_grown(const Block* block) {
  const bool hole_follows = block->next != nullptr && !block->next->mapped;
  return block->size_bytes + (hole_follows ? block->next->size_bytes : 0);
}

// Prefers a block that is enclosed on both sides to one that could grow, so that the growing end
// stays large.
Position prefer_enclosed(const SortedBlocks& free, Position at) {
  while (free.at(at)->segment != nullptr) {
    const Position following = free.next(at);
    if (following == free.end()) break;
    if (size_when_grown(free.at(following)) >= size_when_grown(free.at(at))) break;
    at = following;
  }
  return at;
}

Position skip_expandable(const SortedBlocks& free, Position at) {
  while (at != free.end() && free.at(at)->segment != nullptr) at = free.next(at);
  return at;
}

}  // namespace

Position choose_free_block(const Request& request, const Settings& settings) {
  const SortedBlocks& free = request.home->free;
  Position at = free.lower_bound(request.size_bytes);
  const Block* block = free.at(at);
  if (block != nullptr && block->segment != nullptr) {
    at = settings.expandable_segments ? prefer_enclosed(free, at) : skip_expandable(free, at);
    block = free.at(at);
  }
  if (block == nullptr) return at;
  const bool oversize_request = request.size_bytes >= settings.max_split_size_bytes;
  if (!oversize_request && block->size_bytes >= settings.max_split_size_bytes) return free.end();
  const std::uint64_t allowed_bytes = request.size_bytes + settings.max_non_split_rounding_bytes;
  if (oversize_request && block->size_bytes >= allowed_bytes) return free.end();
  return at;
}

bool should_split(const Block& block, std::uint64_t size_bytes, const Settings& settings) {
  if (block.home->pool->never_splits) [[unlikely]]
    return false;
  const std::uint64_t rest_bytes = block.size_bytes - size_bytes;
  const bool splits_off_any = block.home->pool->is_small() || settings.expandable_segments;
  const std::uint64_t rest_bytes_min = splits_off_any ? kBlockSizeMin : kSmallSizeMax + 1;
  return rest_bytes >= rest_bytes_min &&
         (splits_off_any || size_bytes < settings.max_split_size_bytes);
}

Release choose_oversize_release(const Request& request, const Settings& settings) {
  Release release;
  if (settings.max_split_size_bytes == kUnlimited) return release;
  const SortedBlocks& free = request.home->free;
  const std::uint64_t wanted_bytes = std::max(request.size_bytes, settings.max_split_size_bytes);
  Position at = free.lower_bound(wanted_bytes);
  if (at != free.end() && free.at(at)->segment == nullptr) {
    release.blocks.push_back(free.at(at));
    release.enough = true;
    return release;
  }
  std::uint64_t released_bytes = 0;
  while (at != free.begin() && released_bytes < wanted_bytes) {
    at = free.previous(at);
    Block* block = free.at(at);
    if (block->size_bytes < settings.max_split_size_bytes) break;
    if (block->segment != nullptr) continue;
    release.blocks.push_back(block);
    released_bytes += block->size_bytes;
  }
  release.enough = released_bytes >= wanted_bytes;
  return release;
}

std::vector<Block*> choose_garbage(const Pool& pool, std::uint64_t surplus_bytes) {
  std::vector<Block*> candidates;
  for (Block* block : pool.free_blocks()) {
    if (!block->is_split()) candidates.push_back(block);
  }
  const auto age = [&](const Block* block) {
    return static_cast<double>(pool.probe_count - block->probes_at_insert);
  };
  double total_age = 0;
  for (const Block* block : candidates) total_age += age(block);

  std::vector<Block*> garbage;
  std::uint64_t reclaimed_bytes = 0;
  bool freed_some = true;
  while (reclaimed_bytes < surplus_bytes && freed_some && !candidates.empty()) {
    freed_some = false;
    const double average_age = total_age / static_cast<double>(candidates.size());
    std::vector<Block*> kept;
    for (Block* block : candidates) {
      if (block->segment != nullptr || age(block) < average_age) {
        kept.push_back(block);
        continue;
      }
      freed_some = true;
      reclaimed_bytes += block->size_bytes;
      total_age -= age(block);
      garbage.push_back(block);
    }
    candidates.swap(kept);
  }
  return garbage;
}

}  // namespace allocmark::caching
