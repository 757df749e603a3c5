// The rules of pool.h.
#include "allocators/rmm/pool.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include "base/divided_up.h"

namespace allocmark::rmm {
namespace {

constexpr std::uint64_t kAlignmentBytes = 256;

}  // namespace

Pool::~Pool() {
  try {
    driver_.wait_for_device();
    for (const auto& [address, size_bytes] : upstream_) driver_.free(address);
    for (const StreamBlocks& one : streams_) driver_.destroy_event(one.event);
  } catch (const std::exception&) {
    // The context is gone, and all of it with that.
  }
}

bool Pool::open() {
  if (options_.initial_bytes == 0) return true;
  StreamBlocks& first = of(0);
  first.is_listed = true;
  return take_from_device(options_.initial_bytes, options_.initial_bytes, &first.free);
}

// A stream's event is made at its first call.
Pool::StreamBlocks& Pool::of(caching::Stream stream) {
  const auto found = std::ranges::find(streams_, stream, &StreamBlocks::stream);
  if (found != streams_.end()) return *found;
  streams_.push_back({.stream = stream, .event = driver_.create_event()});
  return streams_.back();
}

std::optional<std::uint64_t> Pool::allocate(std::uint64_t size_bytes, caching::Stream stream) {
  const std::uint64_t rounded_bytes = rounded_up(size_bytes, kAlignmentBytes);
  StreamBlocks& own = of(stream);
  std::optional<std::uint64_t> address = take_best(rounded_bytes, &own.free);
  own.is_listed = true;
  if (!address) address = take_of_others(rounded_bytes, &own, false);
  if (!address) address = take_of_others(rounded_bytes, &own, true);
  if (!address) address = grow(rounded_bytes, &own);
  if (!address) return std::nullopt;
  used_.emplace(*address, rounded_bytes);
  counters_.used_bytes += rounded_bytes;
  return address;
}

bool Pool::deallocate(std::uint64_t address, caching::Stream stream) {
  const auto found = used_.find(address);
  if (found == used_.end()) return false;
  StreamBlocks& own = of(stream);
  driver_.record_event(own.event, stream);
  const std::uint64_t size_bytes = found->second;
  used_.erase(found);
  counters_.used_bytes -= size_bytes;
  own.is_listed = true;
  insert(address, {.size_bytes = size_bytes, .is_head = upstream_.contains(address)}, &own.free);
  return true;
}

// Joins it with what lies beside it.
void Pool::insert(std::uint64_t address, Block block, Blocks* blocks) {
  const auto next = blocks->lower_bound(address);
  if (next != blocks->end() && address + block.size_bytes == next->first && !next->second.is_head) {
    block.size_bytes += next->second.size_bytes;
    blocks->erase(next);
  }
  const auto after = blocks->lower_bound(address);
  if (after != blocks->begin() && !block.is_head) {
    const auto before = std::prev(after);
    if (before->first + before->second.size_bytes == address) {
      before->second.size_bytes += block.size_bytes;
      return;
    }
  }
  blocks->emplace(address, block);
}

std::optional<std::uint64_t> Pool::take_best(std::uint64_t size_bytes, Blocks* blocks) {
  auto best = blocks->end();
  for (auto at = blocks->begin(); at != blocks->end(); ++at) {
    if (at->second.size_bytes < size_bytes) continue;
    if (best == blocks->end() || at->second.size_bytes < best->second.size_bytes) best = at;
  }
  if (best == blocks->end()) return std::nullopt;
  const std::uint64_t address = best->first;
  const std::uint64_t rest_bytes = best->second.size_bytes - size_bytes;
  blocks->erase(best);
  if (rest_bytes > 0)
    insert(address + size_bytes, {.size_bytes = rest_bytes, .is_head = false}, blocks);
  return address;
}

void Pool::wait(const StreamBlocks& own, const StreamBlocks& other) {
  driver_.make_stream_wait(own.stream, other.event);
  ++counters_.wait_count;
}

// `joins`: the lists of other streams become part of the own one.
std::optional<std::uint64_t> Pool::take_of_others(std::uint64_t size_bytes, StreamBlocks* own,
                                                  bool joins) {
  for (StreamBlocks& other : streams_) {
    if (&other == own || !other.is_listed) continue;
    if (joins) {
      wait(*own, other);
      for (const auto& [address, block] : std::exchange(other.free, {}))
        insert(address, block, &own->free);
      other.is_listed = false;
      if (const auto address = take_best(size_bytes, &own->free)) return address;
      continue;
    }
    const bool fits = std::ranges::any_of(
        other.free, [&](const auto& one) { return one.second.size_bytes >= size_bytes; });
    if (!fits) continue;
    wait(*own, other);
    return take_best(size_bytes, &other.free);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> Pool::grow(std::uint64_t size_bytes, StreamBlocks* own) {
  if (options_.reclaims && growth_for(size_bytes) < size_bytes) reclaim(size_bytes);
  if (!take_from_device(growth_for(size_bytes), size_bytes, &own->free)) return std::nullopt;
  return take_best(size_bytes, &own->free);
}

// 0 where the maximum leaves less than that.
std::uint64_t Pool::growth_for(std::uint64_t size_bytes) const {
  if (!options_.bytes_max) return std::max(size_bytes, counters_.pool_bytes);
  const std::uint64_t left_bytes = *options_.bytes_max - counters_.pool_bytes;
  return size_bytes <= left_bytes ? std::max(size_bytes, left_bytes / 2) : 0;
}

bool Pool::take_from_device(std::uint64_t try_bytes, std::uint64_t least_bytes, Blocks* blocks) {
  while (try_bytes >= least_bytes) {
    if (const std::optional<std::uint64_t> address = driver_.allocate(try_bytes, 0)) {
      upstream_.emplace(*address, try_bytes);
      counters_.pool_bytes += try_bytes;
      ++counters_.take_count;
      insert(*address, {.size_bytes = try_bytes, .is_head = true}, blocks);
      return true;
    }
    ++counters_.refusal_count;
    if (try_bytes == least_bytes) return false;
    try_bytes = std::max(least_bytes, try_bytes / 2);
  }
  return false;
}

// In the order of addresses, until the maximum leaves room for the request.
void Pool::reclaim(std::uint64_t size_bytes) {
  if (size_bytes > options_.bytes_max.value_or(0)) return;
  bool is_first = true;
  for (auto at = upstream_.begin(); at != upstream_.end();) {
    const auto [address, upstream_bytes] = *at;
    Blocks* const blocks = list_with_whole(address, upstream_bytes);
    if (blocks == nullptr) {
      ++at;
      continue;
    }
    if (*options_.bytes_max - counters_.pool_bytes >= size_bytes) return;
    if (std::exchange(is_first, false)) {
      for (const StreamBlocks& one : streams_) driver_.wait_for_event(one.event);
    }
    driver_.free(address);
    blocks->erase(address);
    counters_.pool_bytes -= upstream_bytes;
    ++counters_.give_count;
    at = upstream_.erase(at);
  }
}

Pool::Blocks* Pool::list_with_whole(std::uint64_t address, std::uint64_t size_bytes) {
  for (StreamBlocks& one : streams_) {
    const auto found = one.free.find(address);
    if (found != one.free.end() && found->second.size_bytes == size_bytes) return &one.free;
  }
  return nullptr;
}

std::uint64_t Pool::free_bytes_largest(caching::Stream stream) const {
  const auto found = std::ranges::find(streams_, stream, &StreamBlocks::stream);
  std::uint64_t largest_bytes = 0;
  if (found == streams_.end()) return largest_bytes;
  for (const auto& [address, block] : found->free)
    largest_bytes = std::max(largest_bytes, block.size_bytes);
  return largest_bytes;
}

std::uint64_t Pool::free_bytes(caching::Stream stream) const {
  const auto found = std::ranges::find(streams_, stream, &StreamBlocks::stream);
  std::uint64_t sum_bytes = 0;
  if (found == streams_.end()) return sum_bytes;
  for (const auto& [address, block] : found->free) sum_bytes += block.size_bytes;
  return sum_bytes;
}

}  // namespace allocmark::rmm
