// The streams that pools have met, in the order of their first allocation or free in any pool of
// the device: the order in which every pool looks through the lists of its streams. In: streams as
// they are used. Out: places, from 0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "harness/simcuda/core/stream_order.h"

namespace simcuda {

class PoolStreams {
 public:
  // A stream that is new comes last.
  [[nodiscard]] std::size_t place_of(StreamId stream) {
    const auto found = std::find(streams_.begin(), streams_.end(), stream);
    if (found != streams_.end()) return static_cast<std::size_t>(found - streams_.begin());
    streams_.push_back(stream);
    return streams_.size() - 1;
  }
  // Its id will mean another stream.
  void forget(StreamId stream) { std::erase(streams_, stream); }

 private:
  std::vector<StreamId> streams_;
};

}  // namespace simcuda
