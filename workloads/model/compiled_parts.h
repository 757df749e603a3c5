// The parts of a Llama as inductor compiles them: which tensors its code keeps for the backward,
// and which it makes on the way. Forward and backward are walked by the tape as eager operators
// are, so that shards, checkpoints and optimizers see what they know. Written from recordings of
// PyTorch 2.11 on simcuda. Where inductor sums in another order than the tape, what lives between
// is the tape's.
#pragma once

#include "workloads/model/tape.h"

namespace allocmark {

// Saves its input and a number of each row. Narrow under autocast, as products want it.
[[nodiscard]] Var compiled_norm(Tape& tape, const Var& input, std::uint64_t rows,
                                std::size_t weight);

inline constexpr std::size_t kNoNorm = ~std::size_t{0};

struct CompiledHeads {
  std::uint64_t count = 0;     // elements of the result, with repeated heads
  std::uint64_t rows = 0;      // tokens x heads before they are repeated
  std::size_t norm = kNoNorm;  // Qwen 3: each head is normed first, which saves the projection
};
// What turns, repeats and moves the heads of a projection at once.
[[nodiscard]] Var compiled_heads(Tape& tape, Var projected, const CompiledHeads& heads);

// Into the branch's own tensor where both have the same type.
[[nodiscard]] Var compiled_add(Tape& tape, Var residual, Var branch);

// silu(gate) * up. Saves both; the gradient of `up` overwrites it.
[[nodiscard]] Var compiled_swiglu(Tape& tape, Var gate, Var up);

// A gradient of the table in four bytes, then in its own type. Where it is the head's as well, the
// head's is added last, into a tensor of its own.
[[nodiscard]] Var compiled_embedding(Tape& tape, const Tensor& indexes, std::uint64_t index_count,
                                     std::size_t weight, bool is_head);

struct CompiledLossSizes {
  std::uint64_t rows = 0;         // tokens
  std::uint64_t label_count = 0;  // padded at the end of each sequence
  std::uint64_t words = 0;
  bool is_table = false;  // the head's weight is the table of words
};
// Head and loss. The logits are an output that has no gradient: zeros stand for it, until the
// backward's end. So long the logits' gradient stays where the head's is added to the table's.
[[nodiscard]] Var compiled_loss(Tape& tape, Var input, std::size_t head,
                                const CompiledLossSizes& sizes);

}  // namespace allocmark
