// The rules of arena.h.
#include "allocators/rmm/arena.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/divided_up.h"

namespace allocmark::rmm {
namespace {

using Blocks = std::map<std::uint64_t, std::uint64_t>;  // bytes, by address

Blocks::iterator first_that_fits(Blocks* free, std::uint64_t size_bytes) {
  return std::ranges::find_if(*free, [&](const auto& one) { return one.second >= size_bytes; });
}

Superblocks::iterator first_that_fits(Superblocks* superblocks, std::uint64_t size_bytes) {
  return std::ranges::find_if(*superblocks, [&](auto& one) {
    return first_that_fits(&one.second.free, size_bytes) != one.second.free.end();
  });
}

// One fits.
std::uint64_t take_first(Superblock* superblock, std::uint64_t size_bytes) {
  const auto found = first_that_fits(&superblock->free, size_bytes);
  const auto [address, block_bytes] = *found;
  superblock->free.erase(found);
  if (block_bytes > size_bytes)
    superblock->free.emplace(address + size_bytes, block_bytes - size_bytes);
  return address;
}

void put_back(Superblock* superblock, std::uint64_t address, std::uint64_t size_bytes) {
  Blocks& free = superblock->free;
  const auto next = free.lower_bound(address);
  if (next != free.end() && next->first == address + size_bytes) {
    size_bytes += next->second;
    free.erase(next);
  }
  const auto after = free.lower_bound(address);
  if (after != free.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == address) {
      before->second += size_bytes;
      return;
    }
  }
  free.emplace(address, size_bytes);
}

// The superblock in which the block lies.
Superblocks::iterator holder_of(Superblocks* superblocks, std::uint64_t address) {
  const auto after = superblocks->upper_bound(address);
  if (after == superblocks->begin()) return superblocks->end();
  const auto found = std::prev(after);
  return address < found->first + found->second.size_bytes ? found : superblocks->end();
}

bool give_owned(Superblocks* owned, std::uint64_t address, std::uint64_t size_bytes) {
  const auto found = holder_of(owned, address);
  if (found == owned->end()) return false;
  put_back(&found->second, address, size_bytes);
  return true;
}

Superblock empty_superblock(std::uint64_t address, std::uint64_t size_bytes) {
  return {.size_bytes = size_bytes, .free = {{address, size_bytes}}};
}

}  // namespace

bool Arena::open() {
  const std::optional<std::uint64_t> address = upstream_.allocate(size_bytes_, 0);
  if (!address) return false;
  shared_.emplace(*address, empty_superblock(*address, size_bytes_));
  return true;
}

std::uint64_t Arena::taken_bytes(std::uint64_t size_bytes) const {
  return rounded_up(size_bytes, kAlignmentBytes);
}

std::optional<std::uint64_t> Arena::allocate(std::uint64_t size_bytes, caching::Stream stream) {
  const std::uint64_t rounded_bytes = taken_bytes(size_bytes);
  Superblocks& own = owned_[stream];
  if (const auto address = try_allocate(rounded_bytes, &own)) return address;
  site_.driver.wait_for_device();
  ++site_.counters.device_wait_count;
  collect();
  return try_allocate(rounded_bytes, &own);
}

std::optional<std::uint64_t> Arena::try_allocate(std::uint64_t size_bytes, Superblocks* own) {
  if (size_bytes > kSuperblockBytes) return take_shared(size_bytes, &shared_);
  const auto found = first_that_fits(own, size_bytes);
  if (found != own->end()) return take_first(&found->second, size_bytes);
  return take_shared(size_bytes, own);
}

// Of the first superblock that no arena has and in which it fits. `owner` has that afterwards. An
// empty one is cut, if both parts are no smaller than a superblock.
std::optional<std::uint64_t> Arena::take_shared(std::uint64_t size_bytes, Superblocks* owner) {
  const auto found = first_that_fits(&shared_, size_bytes);
  if (found == shared_.end()) return std::nullopt;
  const std::uint64_t begin = found->first;
  const std::uint64_t head_bytes = std::max(kSuperblockBytes, size_bytes);
  Superblock superblock = std::move(found->second);
  shared_.erase(found);
  if (superblock.is_empty() && superblock.size_bytes >= head_bytes + kSuperblockBytes) {
    const std::uint64_t rest_bytes = superblock.size_bytes - head_bytes;
    shared_.emplace(begin + head_bytes, empty_superblock(begin + head_bytes, rest_bytes));
    superblock = empty_superblock(begin, head_bytes);
  }
  const std::uint64_t address = take_first(&superblock, size_bytes);
  owner->emplace(begin, std::move(superblock));
  return address;
}

void Arena::deallocate(std::uint64_t address, std::uint64_t size_bytes, caching::Stream stream) {
  const std::uint64_t rounded_bytes = taken_bytes(size_bytes);
  Superblocks& own = owned_[stream];
  if (rounded_bytes > kSuperblockBytes) {
    site_.driver.wait_for_stream(stream);
    if (give_shared(address, rounded_bytes)) return;
  }
  if (give_owned(&own, address, rounded_bytes)) return;
  site_.driver.wait_for_stream(stream);
  for (auto& [other, superblocks] : owned_) {
    if (give_owned(&superblocks, address, rounded_bytes)) return;
  }
  (void)give_shared(address, rounded_bytes);
}

bool Arena::give_shared(std::uint64_t address, std::uint64_t size_bytes) {
  const auto found = holder_of(&shared_, address);
  if (found == shared_.end()) return false;
  put_back(&found->second, address, size_bytes);
  if (found->second.is_empty()) join_shared(shared_.extract(found));
  return true;
}

// Where both are empty, it joins its neighbours.
void Arena::join_shared(Superblocks::node_type superblock) {
  std::uint64_t begin = superblock.key();
  std::uint64_t bytes = superblock.mapped().size_bytes;
  if (!superblock.mapped().is_empty()) {
    shared_.insert(std::move(superblock));
    return;
  }
  const auto next = shared_.find(begin + bytes);
  if (next != shared_.end() && next->second.is_empty()) {
    bytes += next->second.size_bytes;
    shared_.erase(next);
  }
  const auto after = shared_.lower_bound(begin);
  if (after != shared_.begin()) {
    const auto before = std::prev(after);
    if (before->second.is_empty() && before->first + before->second.size_bytes == begin) {
      begin = before->first;
      bytes += before->second.size_bytes;
      shared_.erase(before);
    }
  }
  shared_.emplace(begin, empty_superblock(begin, bytes));
}

// All arenas give their superblocks back, also those with blocks in use.
void Arena::collect() {
  for (auto& [stream, superblocks] : owned_) {
    while (!superblocks.empty()) join_shared(superblocks.extract(superblocks.begin()));
  }
}

std::uint64_t Arena::free_bytes(caching::Stream stream) const {
  std::uint64_t sum_bytes = 0;
  const auto add = [&](const Superblocks& superblocks) {
    for (const auto& [begin, superblock] : superblocks) {
      for (const auto& [address, size_bytes] : superblock.free) sum_bytes += size_bytes;
    }
  };
  add(shared_);
  if (const auto own = owned_.find(stream); own != owned_.end()) add(own->second);
  return sum_bytes;
}

std::uint64_t Arena::free_bytes_largest(caching::Stream stream) const {
  std::uint64_t largest_bytes = 0;
  const auto look = [&](const Superblocks& superblocks) {
    for (const auto& [begin, superblock] : superblocks) {
      for (const auto& [address, size_bytes] : superblock.free)
        largest_bytes = std::max(largest_bytes, size_bytes);
    }
  };
  look(shared_);
  if (const auto own = owned_.find(stream); own != owned_.end()) look(own->second);
  return largest_bytes;
}

}  // namespace allocmark::rmm
