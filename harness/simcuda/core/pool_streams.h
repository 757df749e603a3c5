// The streams that pools have met: every pool of the device looks through the lists of its streams
// in the order of their places here. A stream gets its place with its first allocation or free in
// any pool. In: streams as they are used. Out: places, from 0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "harness/simcuda/core/stream_order.h"

namespace simcuda {

class PoolStreams {
 public:
  // A stream that is new gets the lowest place that is free: behind all others, or where a
  // destroyed one was, then before streams that are older.
  [[nodiscard]] std::size_t place_of(StreamId stream) {
    auto found = std::find(places_.begin(), places_.end(), stream);
    if (found == places_.end()) found = std::find(places_.begin(), places_.end(), std::nullopt);
    if (found == places_.end()) found = places_.insert(found, stream);
    *found = stream;
    return static_cast<std::size_t>(found - places_.begin());
  }
  // Its id will mean another stream.
  void forget(StreamId stream) {
    std::ranges::replace(places_, std::optional(stream), std::optional<StreamId>());
  }

 private:
  std::vector<std::optional<StreamId>> places_;
};

}  // namespace simcuda
