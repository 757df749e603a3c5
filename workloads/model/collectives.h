// Collective operations inside a forward and its backward, as tensor and sequence parallel layers
// use them, from one rank's view: what they allocate, and kernel events on the stream of the
// collectives. Each needs `ranks` > 1; with one rank they return their input.
#pragma once

#include <cstdint>

#include "workloads/model/tape.h"

namespace allocmark {

// Streams of a program that trains in parallel; 0 is the one that computes.
inline constexpr std::uint32_t kGatherStream = 1;
inline constexpr std::uint32_t kReduceStream = 2;
inline constexpr std::uint32_t kReplicaStream = 4;  // sums over replicas of sharded models

struct CollectiveGroup {
  std::uint64_t ranks = 1;
  bool in_place = false;  // sums go where the input is (Megatron-LM), else to a tensor of their own
  // Pieces along another than the first dimension are joined, or cut, by a copy of the whole
  // (PyTorch's functional collectives).
  bool copies_whole = false;
  bool one_sequence = false;  // whose pieces lie one behind the other when they were gathered
};

// Identity forward; the gradient is summed over the ranks.
[[nodiscard]] Var copy_to_ranks(Tape& tape, Var input, const CollectiveGroup& group);
// Summed over the ranks; identity backward.
[[nodiscard]] Var sum_over_ranks(Tape& tape, Var input, const CollectiveGroup& group);
// All ranks' tokens; the gradient is summed and each rank keeps its part.
[[nodiscard]] Var gather_tokens(Tape& tape, Var input, const CollectiveGroup& group);
// All ranks' columns, where every rank goes on with the same: it keeps its part of the gradient.
[[nodiscard]] Var gather_columns(Tape& tape, Var input, const CollectiveGroup& group);
// The sum, of which each rank keeps its tokens; the gradient is gathered. Of what all ranks have
// alike a rank's tokens are copied, which asks for the same.
[[nodiscard]] Var reduce_scatter_tokens(Tape& tape, Var input, const CollectiveGroup& group);

}  // namespace allocmark
