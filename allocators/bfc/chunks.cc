// See chunks.h.
#include "allocators/bfc/chunks.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace allocmark::bfc {

int bin_of(std::uint64_t size_bytes) {
  const std::uint64_t grains = std::max(size_bytes, kGrainBytes) / kGrainBytes;
  return std::min(kBinCount - 1, static_cast<int>(std::bit_width(grains)) - 1);
}

Handle Chunks::find(std::uint64_t address) const {
  const auto found = by_address_.find(address);
  return found == by_address_.end() ? kNoChunk : found->second;
}

std::uint64_t Chunks::free_bytes_largest() const {
  std::uint64_t largest = gap_ == kNoChunk ? 0 : at(gap_).size_bytes;
  for (int index = kBinCount - 1; index >= 0; --index) {
    if (!bin(index).empty()) return std::max(largest, bin(index).rbegin()->size_bytes);
  }
  return largest;
}

Handle Chunks::take_handle() {
  if (unused_head_ == kNoChunk) {
    chunks_.emplace_back();
    return chunks_.size() - 1;
  }
  const Handle handle = unused_head_;
  unused_head_ = at(handle).next;
  return handle;
}

Handle Chunks::add_region(const Region& region) {
  const auto behind = std::ranges::upper_bound(regions_, region.address, {}, &Region::address);
  Handle last = kNoChunk;
  if (options_.joins_regions && behind != regions_.begin()) {
    Region& before = *(behind - 1);
    if (before.address + before.size_bytes == region.address) {
      last = find(before.address);
      while (at(last).next != kNoChunk) last = at(last).next;
      before.size_bytes += region.size_bytes;
    }
  }
  if (last == kNoChunk) regions_.insert(behind, region);
  const Handle handle = take_handle();
  Chunk& chunk = at(handle);
  chunk.address = region.address;
  chunk.size_bytes = region.size_bytes;
  chunk.allocation_id = -1;
  chunk.prev = last;
  chunk.next = kNoChunk;
  chunk.freed_at = 0;
  chunk.tag = options_.has_gap ? Tag::Gap : Tag::Lower;
  by_address_[chunk.address] = handle;
  if (last != kNoChunk) at(last).next = handle;
  return handle;
}

bool Chunks::region_in_use(const Region& region) const {
  for (Handle handle = find(region.address); handle != kNoChunk; handle = at(handle).next) {
    if (at(handle).in_use()) return true;
  }
  return false;
}

void Chunks::remove_region(std::size_t index) {
  Handle handle = find(regions_[index].address);
  while (handle != kNoChunk) {
    remove_free(handle);
    const Handle next = at(handle).next;
    erase(handle);
    handle = next;
  }
  regions_.erase(regions_.begin() + static_cast<std::ptrdiff_t>(index));
}

Chunks::Place Chunks::place_of(Handle handle) const {
  const Chunk& chunk = at(handle);
  const bool descending =
      chunk.tag == Tag::Lower ? options_.lower_descending : options_.upper_descending;
  return {.size_bytes = chunk.size_bytes,
          .tag = chunk.tag,
          .rank = descending ? ~chunk.address : chunk.address,
          .handle = handle};
}

void Chunks::insert_free(Handle handle) {
  Chunk& chunk = at(handle);
  if (chunk.tag == Tag::Gap) {
    if (gap_ != kNoChunk) {
      throw EnvironmentError(
          {.what = "XLA ends the process here: its allocator has a second central gap",
           .where = "bfc",
           .wanted = "one region of memory, as spatial partitioning needs",
           .got = "another region, because the first one is smaller than the limit",
           .next = "give it less memory (fraction:0.7), or spatial_partitioning:False"});
    }
    gap_ = handle;
    return;
  }
  chunk.bin = bin_of(chunk.size_bytes);
  bins_[static_cast<std::size_t>(chunk.bin)].insert(place_of(handle));
}

void Chunks::remove_free(Handle handle) {
  Chunk& chunk = at(handle);
  if (chunk.bin == kNoBin) {
    gap_ = kNoChunk;
    return;
  }
  bins_[static_cast<std::size_t>(chunk.bin)].erase(place_of(handle));
  chunk.bin = kNoBin;
}

Handle Chunks::split(Handle handle, std::uint64_t size_bytes) {
  const Handle rest = take_handle();  // may move all chunks
  Chunk& chunk = at(handle);
  Chunk& behind = at(rest);
  behind.address = chunk.address + size_bytes;
  behind.size_bytes = chunk.size_bytes - size_bytes;
  behind.allocation_id = -1;
  behind.freed_at = chunk.freed_at;
  behind.tag = chunk.tag;
  behind.prev = handle;
  behind.next = chunk.next;
  chunk.size_bytes = size_bytes;
  chunk.next = rest;
  if (behind.next != kNoChunk) at(behind.next).prev = rest;
  by_address_[behind.address] = rest;
  insert_free(rest);
  return rest;
}

void Chunks::merge(Handle first, Handle second) {
  Chunk& before = at(first);
  const Chunk& behind = at(second);
  before.next = behind.next;
  if (before.next != kNoChunk) at(before.next).prev = first;
  before.size_bytes += behind.size_bytes;
  // Free memory of the two ends that meets is the gap.
  if (before.tag != behind.tag) before.tag = Tag::Gap;
  before.freed_at = std::max(before.freed_at, behind.freed_at);
  erase(second);
}

// The address and the timestamp stay: a list may still hold the number.
void Chunks::erase(Handle handle) {
  Chunk& chunk = at(handle);
  by_address_.erase(chunk.address);
  chunk.allocation_id = -1;
  chunk.bin = kNoBin;
  chunk.next = unused_head_;
  unused_head_ = handle;
}

bool Chunks::may_join(Handle handle, bool ignores_timestamps) const {
  return handle != kNoChunk && !at(handle).in_use() &&
         (at(handle).freed_at == 0 || ignores_timestamps);
}

Handle Chunks::coalesce(Handle handle, bool ignores_timestamps) {
  if (!ignores_timestamps && at(handle).freed_at > 0) return handle;
  if (const Handle next = at(handle).next; may_join(next, ignores_timestamps)) {
    remove_free(next);
    merge(handle, next);
  }
  if (const Handle prev = at(handle).prev; may_join(prev, ignores_timestamps)) {
    remove_free(prev);
    merge(prev, handle);
    return prev;
  }
  return handle;
}

void Chunks::return_to_gap(Handle handle) {
  if (!options_.has_gap) return;
  Chunk& chunk = at(handle);
  if (chunk.tag == Tag::Gap) return;
  const Handle inner = chunk.tag == Tag::Lower ? chunk.next : chunk.prev;
  if (inner == kNoChunk || at(inner).tag != chunk.tag) chunk.tag = Tag::Gap;
}

}  // namespace allocmark::bfc
