#include "harness/simcuda/core/virtual_memory.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace simcuda {
namespace {

constexpr std::uint64_t kMappedBytesMax = std::uint64_t{1} << 56;

bool is_multiple(std::uint64_t value) { return value % VirtualMemory::kGranularityBytes == 0; }

bool is_length(std::uint64_t size_bytes) {
  return size_bytes != 0 && size_bytes <= kMappedBytesMax && is_multiple(size_bytes);
}

// A range that a caller may name: not empty, whole pages, no overflow.
bool is_range(std::uint64_t address, std::uint64_t size_bytes) {
  return is_length(size_bytes) && is_multiple(address) && address <= ~std::uint64_t{0} - size_bytes;
}

Outcome refused() { return {.status = Status::InvalidValue}; }

}  // namespace

VirtualMemory::VirtualMemory(PhysicalMemory& memory, DeviceHeap& heap,
                             std::function<void(Work&)> on_shortage)
    : memory_(memory), heap_(heap), on_shortage_(std::move(on_shortage)) {}

AllocationOutcome VirtualMemory::reserve(std::uint64_t size_bytes, std::uint64_t alignment_bytes) {
  if (!is_length(size_bytes) || (alignment_bytes & (alignment_bytes - 1)) != 0) {
    return {.status = Status::InvalidValue};
  }
  const std::optional<std::uint64_t> address =
      heap_.reserve_addresses(size_bytes, std::max(alignment_bytes, kPageBytes));
  if (!address) return {.status = Status::OutOfMemory};
  reservations_.emplace(*address, size_bytes);
  return {.address = *address, .size_bytes = size_bytes};
}

Outcome VirtualMemory::free_reservation(std::uint64_t address, std::uint64_t size_bytes) {
  const auto found = reservations_.find(address);
  if (found == reservations_.end() || found->second != size_bytes ||
      has_mapping({address, address + size_bytes})) {
    return refused();
  }
  heap_.give_addresses({address, address + size_bytes});
  reservations_.erase(found);
  return {};
}

HandleOutcome VirtualMemory::create(std::uint64_t size_bytes) {
  if (!is_length(size_bytes)) return {.status = Status::InvalidValue};
  HandleOutcome outcome;
  const std::uint64_t page_count = size_bytes / kPageBytes;
  if (!memory_.take_pages(page_count, [&] { on_shortage_(outcome.work); })) {
    outcome.status = Status::OutOfMemory;
    return outcome;
  }
  outcome.work.pages_taken += page_count;
  outcome.handle = next_handle_++;
  handles_.emplace(outcome.handle, Memory{.size_bytes = size_bytes, .handle_count = 1});
  return outcome;
}

HandleOutcome VirtualMemory::adopt(std::uint64_t size_bytes) {
  if (!is_length(size_bytes)) return {.status = Status::InvalidValue};
  handles_.emplace(next_handle_,
                   Memory{.size_bytes = size_bytes, .handle_count = 1, .is_adopted = true});
  return {.handle = next_handle_++};
}

Outcome VirtualMemory::release(MemoryHandle handle) {
  const auto found = handles_.find(handle);
  if (found == handles_.end() || found->second.handle_count == 0) return refused();
  Outcome outcome;
  --found->second.handle_count;
  drop_if_unused(handle, outcome.work);
  return outcome;
}

HandleOutcome VirtualMemory::retain(std::uint64_t address) {
  const Mapping mapping = find(address);
  if (mapping.handle == 0) return {.status = Status::InvalidValue};
  ++handles_.at(mapping.handle).handle_count;
  return {.handle = mapping.handle};
}

Outcome VirtualMemory::map(std::uint64_t address, std::uint64_t size_bytes,
                           std::uint64_t offset_bytes, MemoryHandle handle) {
  const auto found = handles_.find(handle);
  if (!is_range(address, size_bytes) || offset_bytes != 0 || found == handles_.end() ||
      found->second.handle_count == 0 || size_bytes > found->second.size_bytes) {
    return refused();
  }
  const Range range = {address, address + size_bytes};
  if (!in_one_chunk(range) || has_mapping(range) || heap_.has_memory(range)) return refused();
  ++found->second.mapping_count;
  mappings_.emplace(address, Mapping{.range = range, .handle = handle});
  return {};
}

Outcome VirtualMemory::unmap(std::uint64_t address, std::uint64_t size_bytes) {
  if (!is_range(address, size_bytes)) return refused();
  const Range range = {address, address + size_bytes};
  if (!in_one_chunk(range) || cuts_mapping(range)) return refused();
  Outcome outcome;
  auto at = mappings_.lower_bound(range.lo);
  while (at != mappings_.end() && at->first < range.hi) {
    const MemoryHandle handle = at->second.handle;
    --handles_.at(handle).mapping_count;
    at = mappings_.erase(at);
    drop_if_unused(handle, outcome.work);
  }
  return outcome;
}

template <class Change>
Outcome VirtualMemory::change_mappings(Range range, Change change) {
  if (!is_range(range.lo, range.size_bytes()) || !whole_mappings(range)) return refused();
  for (auto at = mappings_.find(range.lo); at != mappings_.end() && at->first < range.hi; ++at) {
    change(at->second);
  }
  return {};
}

Outcome VirtualMemory::set_access(std::uint64_t address, std::uint64_t size_bytes, Access access) {
  return change_mappings({address, address + size_bytes},
                         [&](Mapping& mapping) { mapping.access = access; });
}

Outcome VirtualMemory::set_peer_access(std::uint64_t address, std::uint64_t size_bytes,
                                       unsigned peer, Access access) {
  return change_mappings({address, address + size_bytes}, [&](Mapping& mapping) {
    std::uint32_t& all = mapping.peer_access;
    all = (all & ~(3u << 2 * peer)) | static_cast<std::uint32_t>(access) << 2 * peer;
  });
}

Mapping VirtualMemory::find(std::uint64_t address) const {
  const auto found = last_up_to(mappings_, address);
  return found == mappings_.end() || found->second.range.hi <= address ? Mapping{} : found->second;
}

std::uint64_t VirtualMemory::handle_bytes(MemoryHandle handle) const {
  const auto found = handles_.find(handle);
  return found == handles_.end() || found->second.handle_count == 0 ? 0 : found->second.size_bytes;
}

bool VirtualMemory::reserved(std::uint64_t address) const {
  return reservation_at(address) != reservations_.end();
}

VirtualMemory::Reservations::const_iterator VirtualMemory::reservation_at(
    std::uint64_t address) const {
  const auto found = last_up_to(reservations_, address);
  return found != reservations_.end() && address < found->first + found->second
             ? found
             : reservations_.end();
}

// A range that begins in a reservation may reach to the end of its chunk, through other
// reservations too; one that begins behind it may not (an H200, driver 580.159.04).
bool VirtualMemory::in_one_chunk(Range range) const {
  const auto reservation = reservation_at(range.lo);
  return reservation != reservations_.end() && range.hi <= heap_.chunk_end(reservation->first);
}

// Whether a mapping lies partly in the range and partly outside.
bool VirtualMemory::cuts_mapping(Range range) const {
  const auto cut_at = [&](std::uint64_t address) {
    const Mapping mapping = find(address);
    return mapping.handle != 0 && mapping.range.lo < address;
  };
  return cut_at(range.lo) || cut_at(range.hi);
}

bool VirtualMemory::has_mapping(Range range) const {
  const auto behind = mappings_.lower_bound(range.hi);
  return behind != mappings_.begin() && std::prev(behind)->second.range.hi > range.lo;
}

// Whether mappings cover the range without gaps, the first and the last of them wholly.
bool VirtualMemory::whole_mappings(Range range) const {
  std::uint64_t covered_to = range.lo;
  for (auto at = mappings_.find(range.lo); at != mappings_.end() && at->first == covered_to; ++at) {
    covered_to = at->second.range.hi;
    if (covered_to >= range.hi) break;
  }
  return covered_to == range.hi && in_one_chunk(range);
}

void VirtualMemory::drop_if_unused(MemoryHandle handle, Work& work) {
  const auto found = handles_.find(handle);
  if (found->second.handle_count != 0 || found->second.mapping_count != 0) return;
  if (!found->second.is_adopted) {
    const std::uint64_t page_count = found->second.size_bytes / kPageBytes;
    memory_.return_pages(page_count);
    work.pages_returned += page_count;
  }
  handles_.erase(found);
}

}  // namespace simcuda
