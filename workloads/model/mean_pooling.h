// The mean of the hidden states of what is no padding, normalized: what an embedding service makes
// of an encoder's output.
#pragma once

#include <cstdint>

#include "workloads/model/tape.h"

namespace allocmark {

struct PoolingSizes {
  std::uint64_t batch = 1;
  std::uint64_t length = 1;  // tokens of each text, padded
  std::uint64_t hidden = 1;
};

// The embeddings; `states` are let go.
[[nodiscard]] Var mean_pooling(Tape& tape, Var states, const PoolingSizes& sizes);

}  // namespace allocmark
