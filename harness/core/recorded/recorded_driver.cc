#include "harness/core/recorded/recorded_driver.h"

#include <utility>

namespace allocmark {

void RecordedDriver::begin(Operation operation) {
  operation_ = std::move(operation);
  segment_at_ = 0;
  mappable_bytes_ = 0;
  for (const Piece& piece : operation_.mappings) mappable_bytes_ += piece.size_bytes;
  expected_release_bytes_ = operation_.released_bytes;
  released_bytes_ = 0;
}

std::uint64_t RecordedDriver::invent_address(std::uint64_t size_bytes) {
  constexpr std::uint64_t kGap = std::uint64_t{1} << 21;
  ++surprise_count_;
  const std::uint64_t address = invented_next_;
  invented_next_ += (size_bytes + 2 * kGap - 1) / kGap * kGap;
  return address;
}

std::optional<std::uint64_t> RecordedDriver::allocate(std::uint64_t size_bytes, caching::Stream) {
  if (must_release_first()) return std::nullopt;
  std::uint64_t address = 0;
  if (segment_at_ < operation_.segments.size() &&
      operation_.segments[segment_at_].size_bytes == size_bytes) {
    address = operation_.segments[segment_at_++].address;
  } else if (operation_.failed) {
    return std::nullopt;
  } else {
    address = invent_address(size_bytes);
  }
  sizes_[address] = size_bytes;
  return address;
}

void RecordedDriver::free(std::uint64_t address) {
  released_bytes_ += sizes_[address];
  sizes_.erase(address);
  freed_.push_back(address);
}

bool RecordedDriver::event_done(caching::Event event) {
  return passes_[event] < operation_.entry_index;
}

std::uint64_t RecordedDriver::reserve_address(std::uint64_t size_bytes) {
  if (seeding_) return seed_base_;
  if (!operation_.mappings.empty()) return operation_.mappings.front().address;
  // One that no memory comes to is never seen.
  if (operation_.failed) --surprise_count_;
  return invent_address(size_bytes);
}

std::optional<caching::PageHandle> RecordedDriver::create_page(std::uint64_t size_bytes) {
  if (seeding_) return ++page_count_;
  if (must_release_first()) return std::nullopt;
  if (mappable_bytes_ >= size_bytes) {
    mappable_bytes_ -= size_bytes;
  } else if (operation_.failed) {
    return std::nullopt;
  } else {
    ++surprise_count_;
  }
  return ++page_count_;
}

}  // namespace allocmark
