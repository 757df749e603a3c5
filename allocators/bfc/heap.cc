// See heap.h.
#include "allocators/bfc/heap.h"

#include <algorithm>
#include <utility>

namespace allocmark::bfc {
namespace {

ChunksOptions chunks_options(const HeapOptions& options) {
  return {.has_gap = options.spatial_partitioning,
          .joins_regions = options.joins_regions,
          .lower_descending = options.lower.descending,
          .upper_descending = options.upper.descending};
}

// Bytes before the first aligned address.
std::uint64_t padding_low(std::uint64_t address, std::uint64_t alignment_bytes) {
  return rounded((alignment_bytes - address % alignment_bytes) % alignment_bytes);
}

// The highest aligned start of a block that ends in the chunk; it may lie below the chunk.
std::uint64_t start_high(const Chunk& chunk, std::uint64_t size_bytes,
                         std::uint64_t alignment_bytes) {
  if (chunk.size_bytes < size_bytes) return 0;
  const std::uint64_t start = chunk.address + chunk.size_bytes - size_bytes;
  return start - start % alignment_bytes;
}

}  // namespace

Heap::Heap(const HeapOptions& options, Source& source)
    : options_(options),
      source_(source),
      chunks_(chunks_options(options)),
      next_region_bytes_(rounded(options.allow_growth
                                     ? std::min(options.limit_bytes, options.first_region_bytes)
                                     : options.limit_bytes)),
      padding_bytes_max_(static_cast<std::uint64_t>(
          options.fragmentation_fraction > 0
              ? static_cast<std::int64_t>(options.fragmentation_fraction *
                                          static_cast<double>(options.limit_bytes))
              : static_cast<std::int64_t>(options.rest_bytes_max))) {}

Heap::~Heap() {
  for (const Region& region : chunks_.regions()) source_.give(region);
}

std::optional<std::uint64_t> Heap::allocate(const Request& request) {
  if (request.size_bytes == 0) return std::nullopt;
  const Fit fit{.size_bytes = rounded(request.size_bytes),
                .requested_bytes = request.size_bytes,
                .alignment_bytes = options_.aligns ? std::max(request.alignment_bytes, kGrainBytes)
                                                   : request.alignment_bytes,
                .freed_before = request.freed_before,
                .end = request.end};
  if (!timestamped_.empty()) (void)merge_timestamped(0);
  if (const auto address = find(fit)) return address;
  if (extend(fit)) {
    if (const auto address = find(fit)) return address;
  }
  if (fit.freed_before == 0 && !timestamped_.empty() && merge_timestamped(fit.size_bytes)) {
    if (const auto address = find(fit)) return address;
  }
  if (collect_garbage(fit.size_bytes) && extend(fit)) return find(fit);
  return std::nullopt;
}

bool Heap::extend(const Fit& fit) {
  const auto pool_bytes = static_cast<std::uint64_t>(counters_.pool_bytes);
  const std::uint64_t left_bytes = (options_.limit_bytes - pool_bytes) / kGrainBytes * kGrainBytes;
  if (fit.size_bytes > left_bytes) return false;
  if (next_region_bytes_ == 0) {
    ++endless_count_;
    return false;
  }
  const ArenaRules& arena = options_.arena;
  bool doubles = !arena.takes_as_requested;
  while (!arena.takes_as_requested && fit.size_bytes > next_region_bytes_) {
    next_region_bytes_ *= 2;
    doubles = false;
  }
  const std::uint64_t size_bytes =
      arena.takes_as_requested ? fit.size_bytes : std::min(next_region_bytes_, left_bytes);
  if (doubles && arena.doubles_first) double_next_region();
  std::optional<Region> region = source_.take(fit.alignment_bytes, size_bytes);
  if (!region) region = take_less(fit, size_bytes);
  if (!region) return false;
  if (doubles && !arena.doubles_first) double_next_region();
  if (region_count_ == 0) first_region_ = region->address;
  ++region_count_;
  counters_.pool_bytes += static_cast<std::int64_t>(region->size_bytes);
  counters_.peak_pool_bytes = std::max(counters_.peak_pool_bytes, counters_.pool_bytes);
  chunks_.insert_free(chunks_.coalesce(chunks_.add_region(*region), false));
  return true;
}

void Heap::double_next_region() {
  next_region_bytes_ *= 2;
  if (const std::uint64_t most_bytes = options_.arena.doubling_bytes_max; most_bytes > 0)
    next_region_bytes_ = std::min(next_region_bytes_, most_bytes);
}

// Nine tenths at a time. TensorFlow counts them in single precision, and so decides by it.
std::optional<Region> Heap::take_less(const Fit& fit, std::uint64_t size_bytes) {
  constexpr float kBackpedalFactor = 0.9F;
  for (;;) {
    std::uint64_t less_bytes =
        rounded(static_cast<std::uint64_t>(static_cast<float>(size_bytes) * kBackpedalFactor));
    if (less_bytes >= size_bytes) {
      if (!options_.ends_backpedal) {
        ++endless_count_;
        return std::nullopt;
      }
      less_bytes = size_bytes - kGrainBytes;
    }
    size_bytes = less_bytes;
    if (size_bytes < std::max(fit.size_bytes, options_.arena.asked_bytes_min)) return std::nullopt;
    if (const auto region = source_.take(fit.alignment_bytes, size_bytes)) return region;
  }
}

bool Heap::fits(const Chunk& chunk, const Fit& fit) const {
  if (fit.freed_before > 0 && fit.freed_before < chunk.freed_at) return false;
  if (!options_.aligns) return chunk.size_bytes >= fit.size_bytes;
  if (fit.end == End::Upper)
    return start_high(chunk, fit.size_bytes, fit.alignment_bytes) >= chunk.address;
  return chunk.size_bytes >= fit.size_bytes + padding_low(chunk.address, fit.alignment_bytes);
}

std::optional<std::uint64_t> Heap::find(const Fit& fit) {
  const Tag wanted = fit.end == End::Upper ? Tag::Upper : Tag::Lower;
  Handle found = kNoChunk;
  for (int index = bin_of(fit.size_bytes); index < kBinCount && found == kNoChunk; ++index) {
    for (const Chunks::Place& place : chunks_.bin(index)) {
      if (place.tag != wanted || !fits(chunks_.at(place.handle), fit)) continue;
      found = place.handle;
      break;
    }
  }
  if (found == kNoChunk) {
    found = chunks_.gap();
    if (found == kNoChunk || !fits(chunks_.at(found), fit)) return std::nullopt;
  }
  chunks_.remove_free(found);
  return fit.end == End::Upper ? place_high(found, fit) : place_low(found, fit);
}

bool Heap::splits(const Chunk& chunk, const Fit& fit, std::uint64_t padding_bytes) const {
  const std::uint64_t size_bytes = chunk.size_bytes - padding_bytes;
  if (size_bytes >= fit.size_bytes * 2) return true;
  // A chunk whose aligned part is too small is split at its end instead.
  return size_bytes >= fit.size_bytes && size_bytes - fit.size_bytes >= padding_bytes_max_;
}

bool Heap::splits_exactly(Tag tag, End end) const {
  const EndPolicy& policy = end == End::Upper ? options_.upper : options_.lower;
  return (tag == Tag::Gap ? policy.gap : policy.hole) == Split::Exact;
}

std::uint64_t Heap::place_low(Handle handle, const Fit& fit) {
  const std::uint64_t padding_bytes =
      options_.aligns ? padding_low(chunks_.at(handle).address, fit.alignment_bytes) : 0;
  if (padding_bytes > 0) {
    const Handle aligned = chunks_.split(handle, padding_bytes);
    chunks_.remove_free(aligned);
    chunks_.at(handle).tag = Tag::Lower;
    chunks_.insert_free(handle);
    handle = aligned;
  }
  const Chunk& chunk = chunks_.at(handle);
  const bool exactly = splits_exactly(chunk.tag, End::Lower);
  if (exactly ? chunk.size_bytes > fit.size_bytes : splits(chunk, fit, 0))
    chunks_.split(handle, fit.size_bytes);
  return hand_out(handle, fit, Tag::Lower);
}

std::uint64_t Heap::place_high(Handle handle, const Fit& fit) {
  const Chunk& whole = chunks_.at(handle);
  const bool exactly = splits_exactly(whole.tag, End::Upper);
  std::uint64_t start = start_high(whole, fit.size_bytes, fit.alignment_bytes);
  if (!exactly) {
    const std::uint64_t padding_bytes = padding_low(whole.address, fit.alignment_bytes);
    if (!splits(whole, fit, padding_bytes)) start = whole.address + padding_bytes;
  }
  if (const std::uint64_t prefix_bytes = start - whole.address; prefix_bytes > 0) {
    const Handle aligned = chunks_.split(handle, prefix_bytes);
    chunks_.remove_free(aligned);
    chunks_.insert_free(handle);
    handle = aligned;
  }
  Chunk& chunk = chunks_.at(handle);
  chunk.tag = Tag::Upper;
  if (exactly ? chunk.size_bytes > fit.size_bytes : splits(chunk, fit, 0))
    chunks_.split(handle, fit.size_bytes);
  return hand_out(handle, fit, Tag::Upper);
}

std::uint64_t Heap::hand_out(Handle handle, const Fit& fit, Tag tag) {
  Chunk& chunk = chunks_.at(handle);
  chunk.tag = tag;
  chunk.requested_bytes = fit.requested_bytes;
  chunk.allocation_id = next_allocation_id_++;
  const auto size_bytes = static_cast<std::int64_t>(chunk.size_bytes);
  ++counters_.num_allocs;
  counters_.bytes_in_use += size_bytes;
  counters_.peak_bytes_in_use = std::max(counters_.peak_bytes_in_use, counters_.bytes_in_use);
  counters_.largest_alloc_size = std::max(counters_.largest_alloc_size, size_bytes);
  return chunk.address;
}

void Heap::deallocate(std::uint64_t address) {
  const Handle handle = chunks_.find(address);
  Chunk& chunk = chunks_.at(handle);
  chunk.allocation_id = -1;
  chunk.freed_at = options_.timestamps ? ++clock_ : 0;
  counters_.bytes_in_use -= static_cast<std::int64_t>(chunk.size_bytes);
  if (options_.timestamps) {
    chunks_.insert_free(handle);
    timestamped_.push_back(handle);
    return;
  }
  chunks_.return_to_gap(handle);
  chunks_.insert_free(chunks_.coalesce(handle, false));
}

void Heap::set_safe_frontier(std::uint64_t count) {
  safe_frontier_ = std::max(safe_frontier_, count);
}

const Chunk& Heap::chunk_of(std::uint64_t address) const {
  return chunks_.at(chunks_.find(address));
}

void Heap::clear_peaks() {
  counters_.num_allocs = 0;
  counters_.peak_bytes_in_use = counters_.bytes_in_use;
  counters_.largest_alloc_size = 0;
}

// Addresses of free chunks whose time is over, or all with a timestamp; the others stay listed.
std::vector<std::uint64_t> Heap::chunks_to_merge(bool all) {
  std::vector<std::uint64_t> addresses;
  std::deque<Handle> later;
  for (const Handle listed : std::exchange(timestamped_, {})) {
    Chunk& chunk = chunks_.at(listed);
    // The chunk may be gone, and its number may name another one.
    const Handle handle = chunks_.find(chunk.address);
    if (handle == kNoChunk || chunk.in_use() || chunk.bin == kNoBin) continue;
    if (chunk.freed_at == 0 || chunk.freed_at < safe_frontier_) {
      chunk.freed_at = 0;
      addresses.push_back(chunk.address);
    } else if (all) {
      addresses.push_back(chunk.address);
    } else {
      later.push_back(handle);
    }
  }
  timestamped_ = std::move(later);
  return addresses;
}

bool Heap::merge_timestamped(std::uint64_t wanted_bytes) {
  bool satisfied = wanted_bytes == 0;
  for (const std::uint64_t address : chunks_to_merge(wanted_bytes > 0)) {
    const Handle handle = chunks_.find(address);
    if (handle == kNoChunk) continue;
    if (wanted_bytes > 0 && satisfied) {
      timestamped_.push_back(handle);
    } else {
      merge_one(handle, wanted_bytes, satisfied);
    }
  }
  return satisfied;
}

void Heap::merge_one(Handle handle, std::uint64_t wanted_bytes, bool& satisfied) {
  const bool forced = wanted_bytes > 0;
  chunks_.remove_free(handle);
  if (chunks_.at(handle).freed_at == 0 || forced) chunks_.return_to_gap(handle);
  const Handle merged = chunks_.coalesce(handle, forced);
  chunks_.insert_free(merged);
  if (!forced) return;
  if (merged != handle && chunks_.at(merged).freed_at > 0) timestamped_.push_back(merged);
  if (chunks_.at(merged).size_bytes >= wanted_bytes) satisfied = true;
}

bool Heap::collect_garbage(std::uint64_t size_bytes) {
  if (!options_.garbage_collection) return false;
  std::uint64_t unused_bytes = 0;
  for (const Region& region : chunks_.regions()) {
    if (!chunks_.region_in_use(region)) unused_bytes += region.size_bytes;
  }
  const auto pool_bytes = static_cast<std::uint64_t>(counters_.pool_bytes);
  if (unused_bytes == 0 || size_bytes > options_.limit_bytes - pool_bytes + unused_bytes)
    return false;
  give_unused(false);
  return true;
}

void Heap::give_unused(bool keeps_first) {
  std::size_t index = 0;
  while (index < chunks_.regions().size()) {
    const Region region = chunks_.regions()[index];
    if (chunks_.region_in_use(region) || (keeps_first && region.address == first_region_)) {
      ++index;
      continue;
    }
    chunks_.remove_region(index);
    source_.give(region);
    ++collected_count_;
    counters_.pool_bytes -= static_cast<std::int64_t>(region.size_bytes);
  }
}

void Heap::shrink() {
  if (options_.arena.regrowth_bytes == 0) return;
  give_unused(options_.arena.keeps_first_region);
  next_region_bytes_ = options_.arena.regrowth_bytes;
}

}  // namespace allocmark::bfc
