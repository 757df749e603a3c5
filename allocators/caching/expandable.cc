#include "allocators/caching/expandable.h"

#include <exception>
#include <optional>

namespace allocmark::caching {

ExpandableSegment::ExpandableSegment(Driver& driver, Stream stream, std::uint64_t page_size_bytes,
                                     std::uint64_t reserve_bytes)
    : driver_(driver), stream_(stream), page_size_bytes_(page_size_bytes) {
  page_count_ = (reserve_bytes + page_size_bytes - 1) / page_size_bytes;
  base_ = driver.reserve_address(size_bytes());
}

ExpandableSegment::~ExpandableSegment() {
  try {
    give_back();
  } catch (const std::exception&) {
    // The allocator is going away and nobody can act on it.
  }
}

void ExpandableSegment::give_back() {
  if (given_back_) return;
  std::exception_ptr failure;
  for (std::size_t page = 0; page < pages_.size(); ++page) {
    const std::exception_ptr page_failure = drop_page(page);
    if (!failure) failure = page_failure;
  }
  if (failure) std::rethrow_exception(failure);
  driver_.free_address(base_, size_bytes());
  given_back_ = true;
}

ExpandableSegment::Range ExpandableSegment::map(std::uint64_t address, std::uint64_t size_bytes) {
  const auto first = static_cast<std::size_t>((address - base_) / page_size_bytes_);
  const auto end = static_cast<std::size_t>((address + size_bytes - base_ + page_size_bytes_ - 1) /
                                            page_size_bytes_);
  if (pages_.size() < end) pages_.resize(end);
  const auto undo = [&] {
    for (std::size_t page = first; page < end; ++page) drop_page(page);
  };
  const Range range{page_address(first), (end - first) * page_size_bytes_};
  try {
    for (std::size_t page = first; page < end; ++page) {
      // A page that could not be given back when it should have been is still good.
      if (pages_[page].created || pages_[page].mapped) continue;
      const std::optional<PageHandle> handle = driver_.create_page(page_size_bytes_);
      if (!handle) return undo(), Range{range.address, 0};
      pages_[page] = Page{.handle = *handle, .created = true};
    }
    for (std::size_t page = first; page < end; ++page) {
      if (pages_[page].mapped) continue;
      driver_.map_page(page_address(page), page_size_bytes_, pages_[page].handle);
      pages_[page].mapped = true;
    }
    driver_.allow_access(range.address, range.size_bytes);
  } catch (...) {
    undo();
    throw;
  }
  return range;
}

ExpandableSegment::Range ExpandableSegment::whole_pages(std::uint64_t address,
                                                        std::uint64_t size_bytes) const {
  const std::uint64_t first = (address - base_ + page_size_bytes_ - 1) / page_size_bytes_;
  const std::uint64_t end = (address + size_bytes - base_) / page_size_bytes_;
  return {page_address(first), end > first ? (end - first) * page_size_bytes_ : 0};
}

std::exception_ptr ExpandableSegment::unmap(Range range) {
  driver_.wait_for_stream(stream_);
  const auto first = static_cast<std::size_t>((range.address - base_) / page_size_bytes_);
  const auto end = first + static_cast<std::size_t>(range.size_bytes / page_size_bytes_);
  std::exception_ptr failure;
  for (std::size_t page = first; page < end; ++page) {
    const std::exception_ptr page_failure = drop_page(page);
    if (!failure) failure = page_failure;
  }
  return failure;
}

std::exception_ptr ExpandableSegment::drop_page(std::size_t page) noexcept {
  Page& entry = pages_[page];
  std::exception_ptr failure;
  try {
    if (entry.mapped) driver_.unmap_page(page_address(page), page_size_bytes_);
    entry.mapped = false;
  } catch (...) {
    failure = std::current_exception();
  }
  try {
    if (entry.created) driver_.release_page(entry.handle);
    entry.created = false;
  } catch (...) {
    failure = std::current_exception();
  }
  return failure;
}

}  // namespace allocmark::caching
