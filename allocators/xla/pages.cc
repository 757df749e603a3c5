// The rules of pages.h.
#include "allocators/xla/pages.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/divided_up.h"

namespace allocmark::xla {

Pages::~Pages() {
  try {
    driver_.wait_for_device();
    for (Freed& freed : freed_) release(freed);
    for (const auto& [address, block] : used_) unmap(block);
    for (const caching::Event event : spare_events_) driver_.destroy_event(event);
  } catch (const std::exception&) {
    // The context is gone, and all of it with that.
  }
}

std::optional<std::uint64_t> Pages::allocate(std::uint64_t size_bytes, caching::Stream stream) {
  const std::uint64_t rounded_bytes = rounded_up(size_bytes, kPageBytes);
  std::optional<std::uint64_t> address = reuse(rounded_bytes, stream);
  if (address) return address;
  address = create(rounded_bytes);
  if (address) return address;
  ++counters_.reclaim_count;
  release_done();
  address = create(rounded_bytes);
  if (address || freed_.empty()) return address;
  ++counters_.wait_count;
  wait_for(rounded_bytes + rounded_bytes / 10);
  return create(rounded_bytes);
}

std::optional<std::uint64_t> Pages::reuse(std::uint64_t size_bytes, caching::Stream stream) {
  const auto found = std::ranges::find(freed_, size_bytes,
                                       [](const Freed& freed) { return freed.block.size_bytes; });
  if (found == freed_.end()) return std::nullopt;
  for (const Use& use : found->uses) {
    if (use.stream != stream) driver_.make_stream_wait(stream, use.event);
  }
  for (const Use& use : found->uses) spare_events_.push_back(use.event);
  const Block block = found->block;
  freed_.erase(found);
  used_.emplace(block.address, block);
  counters_.used_bytes += block.size_bytes;
  ++counters_.reuse_count;
  return block.address;
}

std::optional<std::uint64_t> Pages::create(std::uint64_t size_bytes) {
  if (size_bytes > budget_bytes_ || counters_.held_bytes > budget_bytes_ - size_bytes)
    return std::nullopt;
  const std::optional<caching::PageHandle> page = driver_.create_page(size_bytes);
  if (!page) return std::nullopt;
  const Block block = map_new(*page, size_bytes);
  used_.emplace(block.address, block);
  counters_.used_bytes += size_bytes;
  counters_.held_bytes += size_bytes;
  ++counters_.create_count;
  return block.address;
}

// Gives the page back where the driver refuses a step.
Pages::Block Pages::map_new(caching::PageHandle page, std::uint64_t size_bytes) {
  Block block{.address = 0, .size_bytes = size_bytes, .page = page};
  bool is_mapped = false;
  try {
    block.address = driver_.reserve_address(size_bytes);
    driver_.map_page(block.address, size_bytes, page);
    is_mapped = true;
    driver_.allow_access(block.address, size_bytes);
  } catch (...) {
    if (is_mapped) driver_.unmap_page(block.address, size_bytes);
    if (block.address != 0) driver_.free_address(block.address, size_bytes);
    driver_.release_page(page);
    throw;
  }
  return block;
}

bool Pages::deallocate(std::uint64_t address, const std::vector<caching::Stream>& streams) {
  const auto found = used_.find(address);
  if (found == used_.end()) return false;
  Freed freed{.block = found->second, .uses = {}};
  try {
    for (const caching::Stream stream : streams) {
      freed.uses.push_back({.stream = stream, .event = take_event()});
      driver_.record_event(freed.uses.back().event, stream);
    }
  } catch (...) {
    for (const Use& use : freed.uses) spare_events_.push_back(use.event);
    throw;
  }
  used_.erase(found);
  counters_.used_bytes -= freed.block.size_bytes;
  freed_.push_back(std::move(freed));
  return true;
}

void Pages::clear() {
  for (Freed& freed : freed_) {
    for (const Use& use : freed.uses) driver_.wait_for_event(use.event);
    release(freed);
  }
  freed_.clear();
}

bool Pages::is_done(const Freed& freed) {
  return std::ranges::all_of(freed.uses,
                             [&](const Use& use) { return driver_.event_done(use.event); });
}

void Pages::release_done() {
  std::erase_if(freed_, [&](Freed& freed) {
    if (!is_done(freed)) return false;
    release(freed);
    return true;
  });
}

void Pages::wait_for(std::uint64_t size_bytes) {
  std::uint64_t back_bytes = 0;
  while (!freed_.empty() && back_bytes < size_bytes) {
    Freed& oldest = freed_.front();
    for (const Use& use : oldest.uses) driver_.wait_for_event(use.event);
    back_bytes += oldest.block.size_bytes;
    release(oldest);
    freed_.pop_front();
  }
}

void Pages::release(Freed& freed) {
  unmap(freed.block);
  for (const Use& use : freed.uses) spare_events_.push_back(use.event);
  freed.uses.clear();
  counters_.held_bytes -= freed.block.size_bytes;
  ++counters_.release_count;
}

void Pages::unmap(const Block& block) {
  driver_.unmap_page(block.address, block.size_bytes);
  driver_.free_address(block.address, block.size_bytes);
  driver_.release_page(block.page);
}

caching::Event Pages::take_event() {
  if (spare_events_.empty()) return driver_.create_event();
  const caching::Event event = spare_events_.back();
  spare_events_.pop_back();
  return event;
}

std::uint64_t Pages::free_bytes_largest() const {
  std::uint64_t largest_bytes = 0;
  for (const Freed& freed : freed_) largest_bytes = std::max(largest_bytes, freed.block.size_bytes);
  return largest_bytes;
}

std::vector<Pages::Held> Pages::held() const {
  std::vector<Held> held;
  for (const auto& [address, block] : used_) held.push_back({address, block.size_bytes, true});
  for (const Freed& freed : freed_)
    held.push_back({freed.block.address, freed.block.size_bytes, false});
  std::ranges::sort(held, {}, &Held::address);
  return held;
}

}  // namespace allocmark::xla
