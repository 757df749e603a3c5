// What something comes after: per stream the last epoch that is known to have ended before it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace simcuda::order {

using Stream = std::uint32_t;  // dense and small: the core's StreamId
using Epoch = std::uint64_t;   // of one stream, from 1; 0 is before all of its work

class VectorClock {
 public:
  [[nodiscard]] Epoch of(Stream stream) const {
    return stream < epochs_.size() ? epochs_[stream] : 0;
  }
  void raise(Stream stream, Epoch epoch) {
    if (epochs_.size() <= stream) epochs_.resize(stream + 1, 0);
    epochs_[stream] = std::max(epochs_[stream], epoch);
  }
  // Afterwards this comes after everything that `other` comes after.
  void join(const VectorClock& other) {
    if (epochs_.size() < other.epochs_.size()) epochs_.resize(other.epochs_.size(), 0);
    for (std::size_t i = 0; i < other.epochs_.size(); ++i) {
      epochs_[i] = std::max(epochs_[i], other.epochs_[i]);
    }
  }

 private:
  std::vector<Epoch> epochs_;
};

}  // namespace simcuda::order
