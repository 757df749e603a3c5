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
  KvCache(KvMode mode, std::uint64_t layer_count)
      : mode_(mode), layers_(layer_count), counts_(layer_count) {}

  // Paged: takes the pools for the whole run. Preallocated: each layer takes tensors of that size
  // when it is first used in a batch. Else nothing.
  void reserve(Tape& tape, std::uint64_t size_bytes);
  // What `layer` makes of its new keys (half 0) or values (half 1), with `count` elements of
  // `width` bytes then: a new cache has the type of the first keys. `tokens`: new ones of a
  // sequence.
  [[nodiscard]] Var append(Tape& tape, std::size_t layer, std::size_t half, const Var& fresh,
                           std::uint64_t count, std::uint64_t width, std::uint64_t tokens);
  // `layer` has a window. Concat: its cache begins with the window's length on the device.
  void keep_window(Tape& tape, std::size_t layer);
  // What `layer` holds: `count` elements, as `append` left them.
  [[nodiscard]] Var held(std::size_t layer, std::size_t half, std::uint64_t count,
                         std::uint64_t width) const;
  // Selects the cache of so many elements anew in one layer, for the beams that live on.
  void reorder(Tape& tape, std::size_t layer);
  // The program ends: pools go, too.
  void clear();
  // The batch is done.
  void end_batch();

  [[nodiscard]] KvMode mode() const { return mode_; }

 private:
  KvMode mode_;
  std::vector<std::array<Tensor, 2>> layers_;
  std::uint64_t reserved_bytes_ = 0;  // preallocated: of one half
  // A number of each layer: preallocated, the tokens that it holds; concat, its window.
  std::vector<Tensor> counts_;
};

}  // namespace allocmark
