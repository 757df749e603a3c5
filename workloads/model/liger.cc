// See liger.h.
#include "workloads/model/liger.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/divided_up.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kLigerSums = 132;  // an H100's: each sums the weight's gradient on its own

// sizes: elements and bytes of the weight.
void liger_norm_backward(Tape& tape, Node& node, Backprop& b) {
  const bool is_trained = node.edges[1] != kNoEdge;
  Tensor sums = tape.gradient(kLigerSums * node.sizes[0] * 4);
  b.out[0] = b.gradient;
  b.out[0].is_view = true;  // of the rows, seen as sequences again
  Tensor sum = tape.gradient(node.sizes[0] * 4);
  Tensor narrow = node.sizes[1] == node.sizes[0] * 4 ? sum : tape.gradient(node.sizes[1]);
  if (is_trained) b.out[1].tensor = std::move(narrow);
  // Variables of a function in Python go in their order.
  sums.reset();
  for (Tensor& saved : node.saved) saved.reset();
}

// The saved gate and up are overwritten.
void liger_swiglu_backward(Tape&, Node& node, Backprop& b) {
  b.out[0].tensor = node.saved[0];
  b.out[1].tensor = node.saved[1];
}

void liger_rotated_backward(Tape& tape, Node& node, Backprop& b) {
  if (b.gradient.layout == GradLayout::Tokens || node.sizes[1] == 1) {
    b.out[0] = b.gradient;
    b.out[0].is_view = true;  // in place, and seen as heads again
    return;
  }
  b.out[0].tensor = tape.gradient(node.sizes[0]);
}

// The gradients that the forward made. The check whether the loss is the last operation compares
// with a one that comes from the host.
void liger_loss_backward(Tape& tape, Node& node, Backprop& b) {
  {
    const Tensor one = tape.gradient(4);
    const Tensor is_equal = tape.gradient(1);
    const Tensor all_equal = tape.gradient(1);
  }
  b.out[0] = {.tensor = node.saved[0], .is_view = true};
  if (node.edges[1] != kNoEdge) b.out[1].tensor = node.saved[1];
}

}  // namespace

Var liger_rms_norm(Tape& tape, Var input, std::uint64_t rows, std::size_t weight) {
  const Var scale = tape.parameter(weight);
  Node* node =
      tape.record(liger_norm_backward, {&input, &scale}, {scale.count, scale.size_bytes()});
  Var out = tape.result(node, input.count, input.width);
  const Var deviations = tape.make(rows, 4);
  tape.save(node, 0, input.tensor);
  tape.save_parameter(node);
  tape.save(node, 1, deviations.tensor);
  return out;
}

Var liger_swiglu(Tape& tape, Var gate, Var up) {
  Node* node = tape.record(liger_swiglu_backward, {&gate, &up});
  Var out = tape.result(node, gate.count, gate.width);
  tape.save(node, 0, gate.tensor);
  tape.save(node, 1, up.tensor);
  return out;
}

Var liger_rotated(Tape& tape, Var input, const Var& cosine, const Var& sine, bool is_one) {
  Node* node =
      tape.record(liger_rotated_backward, {&input}, {input.size_bytes(), is_one ? 1u : 0u});
  tape.save(node, 0, cosine.tensor);
  tape.save(node, 1, sine.tensor);
  tape.attach(node, &input);
  return input;
}

Var liger_loss(Tape& tape, Var input, std::size_t head, const LigerLossSizes& sizes) {
  const Var weight = tape.parameter(head);
  Node* node = tape.record(liger_loss_backward, {&input, &weight});
  const std::uint64_t parts = divided_up(sizes.words, sizes.hidden);
  const std::uint64_t chunk_rows =
      std::min(sizes.rows, std::bit_ceil(divided_up(sizes.rows, parts)));
  const Var of_input = tape.make(input.count, input.width);
  Var of_weight;
  if (weight.edge != kNoEdge) of_weight = tape.make(weight.count, weight.width);
  const Var losses = tape.make(sizes.rows, 4);
  const Var is_counted = tape.make(sizes.rows, 1);
  {
    const Var count = tape.make(1, 8);
    const Var numbers = tape.make(sizes.rows, 8);  // a sum of booleans
  }
  const Var scores = tape.make(chunk_rows * sizes.words, input.width);
  tape.use_cublas(false);
  // In four bytes no product adds to the weight's gradient: each chunk makes one of that size.
  const bool adds_apart = of_weight.count > 0 && input.width == 4;
  for (std::uint64_t row = 0; adds_apart && row < sizes.rows; row += chunk_rows) {
    tape.take_scratch(of_weight.size_bytes());
  }
  Var loss = tape.result(node, 1, 4);
  tape.save(node, 0, of_input.tensor);
  tape.save(node, 1, of_weight.tensor);
  return loss;
}

}  // namespace allocmark
