#include "harness/simcuda/core/device_heap.h"

#include <iterator>
#include <optional>
#include <utility>
#include <vector>

namespace simcuda {
namespace {

// No device has more; keeps rounding up from overflowing.
constexpr std::uint64_t kRequestBytesMax = std::uint64_t{1} << 60;

Range slab_of(std::uint64_t address) {
  const std::uint64_t lo = round_down(address, kPageBytes);
  return {lo, lo + kPageBytes};
}

}  // namespace

DeviceHeap::DeviceHeap(const DeviceConfig& config, PhysicalMemory& memory, ReservedArea& area,
                       std::function<void(Work&)> on_shortage)
    : memory_(memory), on_shortage_(std::move(on_shortage)), chunks_(config, area) {}

AllocationOutcome DeviceHeap::allocate(std::uint64_t size_bytes) {
  if (size_bytes == 0) return {};
  if (size_bytes <= kPageBytes - kUnitBytes) return allocate_small(size_bytes);
  AllocationOutcome outcome = take_large(size_bytes);
  if (outcome.status == Status::Ok) {
    large_.emplace(outcome.address,
                   Sizes{.size_bytes = outcome.size_bytes, .asked_bytes = size_bytes});
  }
  return outcome;
}

Outcome DeviceHeap::deallocate(std::uint64_t address) {
  if (address == 0) return {};
  if (const auto small = small_.find(address); small != small_.end()) {
    const std::uint64_t size_bytes = small->second.size_bytes;
    small_.erase(small);
    return deallocate_small(address, size_bytes);
  }
  const auto large = large_.find(address);
  if (large == large_.end()) return {.status = Status::InvalidValue};
  Outcome outcome;
  give_large({address, address + large->second.size_bytes}, outcome.work);
  large_.erase(large);
  return outcome;
}

bool DeviceHeap::has_memory(Range range) const {
  const auto large = large_.lower_bound(range.hi);
  if (large != large_.begin() &&
      std::prev(large)->first + std::prev(large)->second.size_bytes > range.lo) {
    return true;
  }
  const auto small = small_.lower_bound(slab_of(range.hi + kPageBytes - 1).lo);
  return small != small_.begin() && slab_of(std::prev(small)->first).hi > range.lo;
}

std::vector<std::uint64_t> DeviceHeap::live_addresses() const {
  std::vector<std::uint64_t> addresses;
  for (const auto& [address, small] : small_) addresses.push_back(address);
  for (const auto& [address, large] : large_) addresses.push_back(address);
  return addresses;
}

DeviceHeap::Allocation DeviceHeap::find(std::uint64_t address) const {
  for (const auto* blocks : {&small_, &large_}) {
    const auto found = last_up_to(*blocks, address);
    if (found == blocks->end()) continue;
    const auto& [lo, block] = *found;
    if (address < lo + block.size_bytes) {
      return {.address = lo, .size_bytes = block.size_bytes, .asked_bytes = block.asked_bytes};
    }
  }
  return {};
}

AllocationOutcome DeviceHeap::take_large(std::uint64_t size_bytes) {
  if (size_bytes > kRequestBytesMax) return {.status = Status::OutOfMemory};
  AllocationOutcome outcome;
  outcome.size_bytes = round_up(size_bytes, kPageBytes);
  const std::uint64_t page_count = outcome.size_bytes / kPageBytes;
  if (!memory_.take_pages(page_count, [&] { on_shortage_(outcome.work); })) {
    outcome.status = Status::OutOfMemory;
    return outcome;
  }
  const std::optional<std::uint64_t> address = chunks_.take(outcome.size_bytes);
  if (!address) {
    memory_.return_pages(page_count);
    outcome.status = Status::OutOfMemory;
    return outcome;
  }
  outcome.address = *address;
  outcome.work.pages_taken += page_count;
  return outcome;
}

void DeviceHeap::give_large(Range range, Work& work) {
  chunks_.give(range);
  memory_.return_pages(range.size_bytes() / kPageBytes);
  work.pages_returned += range.size_bytes() / kPageBytes;
}

AllocationOutcome DeviceHeap::allocate_small(std::uint64_t asked_bytes) {
  const std::uint64_t size_bytes = round_up(asked_bytes, kUnitBytes);
  AllocationOutcome outcome;
  std::optional<FreeBlock> block = small_free_.best_fit(size_bytes);
  outcome.work.served_by_slab = block.has_value();
  if (!block) {
    outcome = take_large(kPageBytes);
    if (outcome.status != Status::Ok) return outcome;
    // No merging: the slabs beside it are other slabs.
    block = small_free_.insert(slab_of(outcome.address), 0, slab_of(outcome.address));
  }
  outcome.address = block->range.lo;
  outcome.size_bytes = size_bytes;
  small_free_.cut_low_end(*block, size_bytes);
  small_.emplace(outcome.address, Sizes{.size_bytes = size_bytes, .asked_bytes = asked_bytes});
  return outcome;
}

Outcome DeviceHeap::deallocate_small(std::uint64_t address, std::uint64_t size_bytes) {
  Outcome outcome;
  const Range slab = slab_of(address);
  const FreeBlock merged = small_free_.insert({address, address + size_bytes}, 0, slab);
  outcome.work.served_by_slab = merged.range.size_bytes() != kPageBytes;
  if (!outcome.work.served_by_slab) {
    small_free_.remove(merged);
    give_large(slab, outcome.work);
  }
  return outcome;
}

}  // namespace simcuda
