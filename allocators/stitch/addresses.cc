// First fit in the order of places; see addresses.h.
#include "allocators/stitch/addresses.h"

#include <algorithm>
#include <exception>
#include <iterator>

namespace allocmark::stitch {
namespace {

// The offset within a region is below the region's index: no device has so many addresses.
constexpr int kRegionShift = 52;
constexpr std::uint64_t kOffsetMask = (std::uint64_t{1} << kRegionShift) - 1;

}  // namespace

Addresses::Addresses(caching::Driver& driver, std::uint64_t region_bytes)
    : driver_(driver), region_bytes_(region_bytes) {}

Addresses::~Addresses() {
  try {
    for (const Region& region : regions_) driver_.free_address(region.address, region.size_bytes);
  } catch (const std::exception&) {
    // The context is gone, and the addresses with it.
  }
}

Place Addresses::place_at(std::uint64_t order) const {
  const Region& region = regions_[order >> kRegionShift];
  return {.address = region.address + (order & kOffsetMask), .order = order};
}

Place Addresses::take(std::uint64_t size_bytes) {
  auto found = std::find_if(free_.begin(), free_.end(),
                            [&](const auto& each) { return each.second >= size_bytes; });
  if (found == free_.end()) {
    const std::uint64_t new_bytes = std::max(region_bytes_, size_bytes);
    const std::uint64_t order = std::uint64_t{regions_.size()} << kRegionShift;
    regions_.push_back({.address = driver_.reserve_address(new_bytes), .size_bytes = new_bytes});
    found = free_.emplace(order, new_bytes).first;
  }
  const auto [order, free_bytes] = *found;
  free_.erase(found);
  if (free_bytes > size_bytes) free_.emplace(order + size_bytes, free_bytes - size_bytes);
  return place_at(order);
}

void Addresses::give(const Place& place, std::uint64_t size_bytes) {
  const auto same_region = [&](std::uint64_t order) {
    return order >> kRegionShift == place.order >> kRegionShift;
  };
  auto at = free_.emplace(place.order, size_bytes).first;
  const auto next = std::next(at);
  if (next != free_.end() && at->first + at->second == next->first && same_region(next->first)) {
    at->second += next->second;
    free_.erase(next);
  }
  if (at == free_.begin()) return;
  const auto before = std::prev(at);
  if (before->first + before->second == at->first && same_region(before->first)) {
    before->second += at->second;
    free_.erase(at);
  }
}

}  // namespace allocmark::stitch
