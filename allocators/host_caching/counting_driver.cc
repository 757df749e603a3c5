// See counting_driver.h.
#include "allocators/host_caching/counting_driver.h"

#include "base/assert.h"
#include "base/bytes.h"

namespace allocmark::host_caching {

Address CountingDriver::pin(std::uint64_t size_bytes, PinKind kind,
                            std::uint64_t /*thread_count*/) {
  ++pin_calls_;
  if (size_bytes > room_bytes_ - pinned_bytes_) return 0;
  pinned_bytes_ += size_bytes;
  const Address address = next_address_;
  // An address is never given twice, and no two areas touch.
  next_address_ += (size_bytes / (2 * kMiB) + 2) * (2 * kMiB);
  pinned_[address] = {.size_bytes = size_bytes, .kind = kind};
  return address;
}

void CountingDriver::unpin(Address address, PinKind kind) {
  ++unpin_calls_;
  const auto found = pinned_.find(address);
  ALLOCMARK_ASSERT(found != pinned_.end());
  ALLOCMARK_ASSERT(found->second.kind == kind);
  pinned_bytes_ -= found->second.size_bytes;
  pinned_.erase(found);
}

Event CountingDriver::record_event(Stream stream) {
  const Event event = next_event_++;
  waits_for_[event] = stream;
  if (held_.contains(stream)) blocked_.insert(event);
  return event;
}

bool CountingDriver::event_done(Event event) {
  ALLOCMARK_ASSERT(waits_for_.contains(event));
  return !blocked_.contains(event);
}

void CountingDriver::destroy_event(Event event) {
  blocked_.erase(event);
  ALLOCMARK_ASSERT(waits_for_.erase(event) == 1);
}

void CountingDriver::release(Stream stream) {
  held_.erase(stream);
  std::erase_if(blocked_, [&](Event event) { return waits_for_.at(event) == stream; });
}

}  // namespace allocmark::host_caching
