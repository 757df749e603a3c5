// Attention over sequences that several ranks share: PyTorch's context parallelism
// (torch.distributed.tensor.experimental.context_parallel). Every rank has a piece from the head of
// the sequence and one from its tail, so that causal attention costs all the same. Keys and values
// of the others come by, and what each gives is merged in four bytes.
#pragma once

#include <cstdint>

#include "workloads/model/tape.h"

namespace allocmark {

struct RingShape {
  std::uint64_t ranks = 2;
  std::uint64_t rank = 0;
  bool gathers = true;  // keys and values of all ranks at once, else passed on from rank to rank
  std::uint64_t batch = 1;
  std::uint64_t token_count = 0;  // of each sequence, on this rank
  std::uint64_t head_count = 1;   // of queries
  std::uint64_t head_width = 0;
  std::uint64_t repeats = 1;  // query heads per key head
  bool makes_number = false;  // its backward makes one of four bytes, for a moment
};

// By cuDNN in two bytes, and the memory-efficient kernel in four. The result of all ranks but the
// last has the heads first.
[[nodiscard]] Var ring_attention(Tape& tape, Var query, Var key, Var value, const RingShape& shape);

}  // namespace allocmark
