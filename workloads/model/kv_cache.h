// Keys and values that generation keeps per layer, and the three ways of keeping them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "workloads/model/operators.h"

namespace allocmark {

enum class KvMode : std::uint8_t {
  Concat,        // every token makes new, longer tensors and drops the old ones
  Preallocated,  // one tensor of the longest length per batch, layer and half
  Paged,  // one pool per layer and half for the whole run; its pages never reach the allocator
};

class KvCache {
 public:
  KvCache(KvMode mode, std::uint64_t layer_count) : mode_(mode), layers_(layer_count) {}

  // Paged: takes the pool for `token_count` tokens in all. Preallocated: the tensors of one batch.
  // Else nothing.
  void reserve(Ops& ops, std::uint64_t token_count);
  // Called by each layer in turn with the context of ops.setup().
  void append(Ops& ops);
  // The batch is done.
  void end_batch();

  [[nodiscard]] KvMode mode() const { return mode_; }

 private:
  [[nodiscard]] static Tensor make(Ops& ops, std::uint64_t token_count);

  KvMode mode_;
  std::vector<std::array<Tensor, 2>> layers_;
  std::size_t next_layer_ = 0;
};

}  // namespace allocmark
