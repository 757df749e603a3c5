#include "harness/simcuda/core/order_clock.h"

#include <algorithm>

namespace simcuda {

std::uint64_t OrderClock::position_of(std::uint32_t stream) const {
  if (!entries_) return 0;
  for (const Entry& entry : *entries_) {
    if (entry.stream == stream) return entry.position;
  }
  return 0;
}

void OrderClock::raise(std::uint32_t stream, std::uint64_t position) {
  if (position_of(stream) >= position) return;
  Entries& entries = own_entries();
  const auto at =
      std::lower_bound(entries.begin(), entries.end(), stream,
                       [](const Entry& entry, std::uint32_t id) { return entry.stream < id; });
  if (at != entries.end() && at->stream == stream) {
    at->position = position;
  } else {
    entries.insert(at, Entry{.stream = stream, .position = position});
  }
}

void OrderClock::merge(const OrderClock& other) {
  if (!other.entries_ || entries_ == other.entries_) return;
  for (const Entry& entry : *other.entries_) {
    raise(entry.stream, entry.position);
  }
}

OrderClock::Entries& OrderClock::own_entries() {
  if (!entries_) {
    entries_ = std::make_shared<Entries>();
  } else if (entries_.use_count() > 1) {
    entries_ = std::make_shared<Entries>(*entries_);
  }
  return *entries_;
}

}  // namespace simcuda
