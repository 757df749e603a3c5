#include "allocators/planned/profile.h"

namespace allocmark::planned {

void Profile::begin_step() { steps_.emplace_back(); }

void Profile::note_allocate(std::uint64_t address, std::uint64_t size_bytes, std::uint64_t stream) {
  if (steps_.empty()) return;
  Step& now = steps_.back();
  live_[address] = {.step = steps_.size() - 1, .request = now.requests.size()};
  now.requests.push_back({.size_bytes = size_bytes, .stream = stream, .begin = ++now.tick_count});
}

void Profile::note_free(std::uint64_t address) {
  if (steps_.empty()) return;
  const std::uint64_t tick = ++steps_.back().tick_count;
  const auto found = live_.find(address);
  if (found == live_.end()) return;
  const Place place = found->second;
  live_.erase(found);
  StepRequest& request = steps_[place.step].requests[place.request];
  if (place.step + 1 == steps_.size()) request.end = tick;
  if (place.step + 2 == steps_.size()) request.end_next = tick;
}

}  // namespace allocmark::planned
