#include "allocators/ggml/stack_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "base/divided_up.h"
#include "base/error.h"

namespace allocmark::ggml {

StackPool::~StackPool() {
  try {
    for (const Mapping& mapping : mappings_)
      driver_.unmap_page(mapping.address, mapping.size_bytes);
    if (address_ != 0) driver_.free_address(address_, kAddressBytes);
  } catch (const std::exception&) {
    // The context is gone, and all of it with that.
  }
}

std::optional<std::uint64_t> StackPool::allocate(std::uint64_t size_bytes) {
  if (order_ == FreeOrder::Strict && counters_.live_bytes < counters_.stack_bytes) {
    const auto freed = std::ranges::find(blocks_, true, &Block::is_free);
    throw UsageError(
        {.what = "llama.cpp's pool is a stack, and a block was freed that others lie on",
         .where = "ggml_vmm backend",
         .wanted = "frees in the reverse order of the requests of a stream",
         .got = fmt::format("a free of {} bytes below {} blocks", freed->size_bytes,
                            blocks_.end() - freed - 1),
         .next = "use free_order:any, which llama.cpp does not have"});
  }
  const std::uint64_t rounded_bytes = rounded_up(size_bytes, kAlignmentBytes);
  if (rounded_bytes > kAddressBytes - counters_.stack_bytes) return std::nullopt;
  if (rounded_bytes > room_bytes() && !map_more(rounded_bytes - room_bytes())) return std::nullopt;
  blocks_.push_back({.address = address_ + counters_.stack_bytes, .size_bytes = rounded_bytes});
  counters_.stack_bytes += rounded_bytes;
  counters_.live_bytes += rounded_bytes;
  return blocks_.back().address;
}

bool StackPool::map_more(std::uint64_t size_bytes) {
  const std::uint64_t mapped_bytes = rounded_up(size_bytes, kUnitBytes);
  const std::optional<caching::PageHandle> page = driver_.create_page(mapped_bytes);
  if (!page) return false;
  bool is_mapped = false, is_released = false;
  Mapping mapping{.address = 0, .size_bytes = mapped_bytes};
  try {
    if (address_ == 0) address_ = driver_.reserve_address(kAddressBytes);
    mapping.address = address_ + counters_.mapped_bytes;
    driver_.map_page(mapping.address, mapped_bytes, *page);
    is_mapped = true;
    // The mapping keeps the memory.
    driver_.release_page(*page);
    is_released = true;
    driver_.allow_access(mapping.address, mapped_bytes);
  } catch (...) {
    if (is_mapped) driver_.unmap_page(mapping.address, mapped_bytes);
    if (!is_released) driver_.release_page(*page);
    throw;
  }
  mappings_.push_back(mapping);
  counters_.mapped_bytes += mapped_bytes;
  ++counters_.map_count;
  return true;
}

bool StackPool::deallocate(std::uint64_t address) {
  const auto found = std::ranges::lower_bound(blocks_, address, {}, &Block::address);
  if (found == blocks_.end() || found->address != address || found->is_free) return false;
  found->is_free = true;
  counters_.live_bytes -= found->size_bytes;
  while (!blocks_.empty() && blocks_.back().is_free) {
    counters_.stack_bytes -= blocks_.back().size_bytes;
    blocks_.pop_back();
  }
  return true;
}

}  // namespace allocmark::ggml
