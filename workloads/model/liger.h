// What Liger-Kernel's fused operators ask for, of its release 0.8.5: RMSNorm, SwiGLU, rotation, and
// the head with its loss. They save less than the operators they replace, and write gradients into
// what they saved.
#pragma once

#include "workloads/model/tape.h"

namespace allocmark {

// Saves its input and a number of each row; the gradient of the input overwrites the incoming one.
[[nodiscard]] Var liger_rms_norm(Tape& tape, Var input, std::uint64_t rows, std::size_t weight);
// silu(gate) * up. Saves both; their gradients overwrite them.
[[nodiscard]] Var liger_swiglu(Tape& tape, Var gate, Var up);
// Rotates queries or keys in place and saves the angles. A gradient with the heads first is copied,
// unless there `is_one`.
[[nodiscard]] Var liger_rotated(Tape& tape, Var input, const Var& cosine, const Var& sine,
                                bool is_one = false);

struct LigerLossSizes {
  std::uint64_t rows = 0;  // tokens
  std::uint64_t hidden = 0;
  std::uint64_t words = 0;
};
// Scores exist for a part of the tokens at a time, and gradients of input and weight are made in
// the forward.
[[nodiscard]] Var liger_loss(Tape& tape, Var input, std::size_t head, const LigerLossSizes& sizes);

}  // namespace allocmark
