// The rules of pool.h.
#include "allocators/rmm/pool.h"

#include <algorithm>
#include <utility>

#include "base/divided_up.h"

namespace allocmark::rmm {

bool Pool::open() {
  if (options_.initial_bytes == 0) return true;
  StreamLists<CoalescingList>::One& first = lists_.of(0);
  first.is_listed = true;
  return take_from_upstream(
      {.try_bytes = options_.initial_bytes, .least_bytes = options_.initial_bytes}, 0, &first.free);
}

std::uint64_t Pool::taken_bytes(std::uint64_t size_bytes) const {
  return rounded_up(size_bytes, kAlignmentBytes);
}

std::optional<std::uint64_t> Pool::allocate(std::uint64_t size_bytes, caching::Stream stream) {
  const std::uint64_t rounded_bytes = taken_bytes(size_bytes);
  return lists_.take(rounded_bytes, stream,
                     [&](CoalescingList& blocks) { return grow(rounded_bytes, stream, &blocks); });
}

void Pool::deallocate(std::uint64_t address, std::uint64_t size_bytes, caching::Stream stream) {
  lists_.list_for_free(stream).insert(
      address, {.size_bytes = taken_bytes(size_bytes), .is_head = pieces_.contains(address)});
}

bool Pool::grow(std::uint64_t size_bytes, caching::Stream stream, CoalescingList* blocks) {
  if (options_.reclaims && growth_for(size_bytes) < size_bytes) reclaim(size_bytes, stream);
  return take_from_upstream({.try_bytes = growth_for(size_bytes), .least_bytes = size_bytes},
                            stream, blocks);
}

// 0 where the maximum leaves less than that. What is left counts as a multiple of 256 B, so that a
// pool may end up to 255 B above its maximum: half of what is left need be none.
std::uint64_t Pool::growth_for(std::uint64_t size_bytes) const {
  if (!options_.bytes_max) return std::max(size_bytes, pool_bytes_);
  const std::uint64_t left_bytes = rounded_up(*options_.bytes_max - pool_bytes_, kAlignmentBytes);
  return size_bytes <= left_bytes ? std::max(size_bytes, left_bytes / 2) : 0;
}

bool Pool::take_from_upstream(Growth growth, caching::Stream stream, CoalescingList* blocks) {
  while (growth.try_bytes >= growth.least_bytes) {
    if (const auto address = upstream_.allocate(growth.try_bytes, stream)) {
      pieces_.emplace(*address, growth.try_bytes);
      pool_bytes_ += growth.try_bytes;
      blocks->insert(*address, {.size_bytes = growth.try_bytes, .is_head = true});
      return true;
    }
    if (growth.try_bytes == growth.least_bytes) return false;
    growth.try_bytes = std::max(growth.least_bytes, growth.try_bytes / 2);
  }
  return false;
}

// In the order of addresses, until the maximum leaves room for the request.
void Pool::reclaim(std::uint64_t size_bytes, caching::Stream stream) {
  if (size_bytes > options_.bytes_max.value_or(0)) return;
  bool is_first = true;
  for (auto at = pieces_.begin(); at != pieces_.end();) {
    const auto [address, piece_bytes] = *at;
    CoalescingList* const blocks = list_with_whole(address, piece_bytes);
    if (blocks == nullptr) {
      ++at;
      continue;
    }
    if (*options_.bytes_max - pool_bytes_ >= size_bytes) return;
    if (std::exchange(is_first, false)) {
      for (const auto& one : lists_.all()) site_.driver.wait_for_event(one.event);
    }
    upstream_.deallocate(address, piece_bytes, stream);
    (void)blocks->erase(address, piece_bytes);
    pool_bytes_ -= piece_bytes;
    at = pieces_.erase(at);
  }
}

CoalescingList* Pool::list_with_whole(std::uint64_t address, std::uint64_t size_bytes) {
  for (auto& one : lists_.all()) {
    if (one.free.has(address, size_bytes)) return &one.free;
  }
  return nullptr;
}

std::uint64_t Pool::free_bytes(caching::Stream stream) const {
  const CoalescingList* const blocks = lists_.list_of(stream);
  return blocks == nullptr ? 0 : blocks->bytes();
}

std::uint64_t Pool::free_bytes_largest(caching::Stream stream) const {
  const CoalescingList* const blocks = lists_.list_of(stream);
  return blocks == nullptr ? 0 : blocks->bytes_largest();
}

}  // namespace allocmark::rmm
