// Keys and values that generation keeps per layer, and the three ways of keeping them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "workloads/model/tape.h"

namespace allocmark {

enum class KvMode : std::uint8_t {
  Concat,        // every token makes new, longer tensors and drops the old ones
  Preallocated,  // one tensor of the longest length per batch, layer and half
  Paged,  // one pool per layer and half for the whole run; its pages never reach the allocator
};

class KvCache {
 public:
  KvCache(KvMode mode, std::uint64_t layer_count) : mode_(mode), layers_(layer_count) {}

  // Paged: takes the pools for the whole run. Preallocated: the tensors of one batch. Else nothing.
  void reserve(Tape& tape, std::uint64_t size_bytes);
  // What `layer` makes of its new keys (half 0) or values (half 1), with `count` elements of
  // `width` bytes then: a new cache has the type of the first keys.
  [[nodiscard]] Var append(Tape& tape, std::size_t layer, std::size_t half, const Var& fresh,
                           std::uint64_t count, std::uint64_t width);
  // The batch is done.
  void end_batch();

  [[nodiscard]] KvMode mode() const { return mode_; }

 private:
  KvMode mode_;
  std::vector<std::array<Tensor, 2>> layers_;
};

}  // namespace allocmark
