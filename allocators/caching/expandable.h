// One expandable segment: a reserved address range whose pages get physical memory and lose it
// again. Mechanism only; which pages is decided by the heap.
#pragma once

#include <cstdint>
#include <exception>
#include <vector>

#include "allocators/cuda/driver.h"

namespace allocmark::caching {

class ExpandableSegment {
 public:
  // Reserves 9/8 of the device's memory, in whole pages.
  ExpandableSegment(Driver& driver, Stream stream, std::uint64_t page_size_bytes,
                    std::uint64_t reserve_bytes);
  // Gives back every page and the address range. A failing driver call is dropped: there is nobody
  // left to tell.
  ~ExpandableSegment();
  ExpandableSegment(const ExpandableSegment&) = delete;
  ExpandableSegment& operator=(const ExpandableSegment&) = delete;

  // The same, for a segment without users; where the driver fails the segment is still there, and
  // good.
  void give_back();

  // A range of whole pages.
  struct Range {
    std::uint64_t address = 0;
    std::uint64_t size_bytes = 0;
  };

  // Puts memory behind every page that [address, address + size_bytes) touches; address is a page's
  // start. An empty range where physical memory is out: then nothing changed, as when the driver
  // throws.
  [[nodiscard]] Range map(std::uint64_t address, std::uint64_t size_bytes);

  // The pages that lie wholly inside [address, address + size_bytes); may be empty.
  [[nodiscard]] Range whole_pages(std::uint64_t address, std::uint64_t size_bytes) const;

  // Waits for the stream, then takes the memory from behind whole pages. A page on which the driver
  // fails stays as it is, to be used again by map or tried again by the destructor; the others are
  // done. The first failure is returned, for the caller to throw when its books are in order.
  [[nodiscard]] std::exception_ptr unmap(Range range);

  [[nodiscard]] std::uint64_t base() const { return base_; }
  [[nodiscard]] std::uint64_t size_bytes() const { return page_count_ * page_size_bytes_; }
  [[nodiscard]] std::uint64_t page_size_bytes() const { return page_size_bytes_; }

 private:
  [[nodiscard]] std::uint64_t page_address(std::size_t page) const {
    return base_ + page * page_size_bytes_;
  }
  std::exception_ptr drop_page(std::size_t page) noexcept;

  Driver& driver_;
  Stream stream_;
  std::uint64_t page_size_bytes_;
  std::uint64_t page_count_;
  std::uint64_t base_;
  bool given_back_ = false;
  struct Page {
    PageHandle handle = 0;
    bool created = false;
    bool mapped = false;
  };
  std::vector<Page> pages_;  // up to the highest page that ever had memory
};

}  // namespace allocmark::caching
