// See compiled_parts.h.
#include "workloads/model/compiled_parts.h"

#include "base/divided_up.h"

namespace allocmark {
namespace {

// Sums over rows are made in parts of so many.
constexpr std::uint64_t kRowsPerPart = 128;
// Where the loss saves its logits, and behind them what it makes of them.
constexpr std::size_t kLogits = 2;

std::uint64_t product_width(const Tape& tape, const Var& input) {
  return tape.autocast() ? tape.narrow_bytes() : input.width;
}

// sizes: bytes of the input, elements and bytes of the weight, rows.
void compiled_norm_backward(Tape& tape, Node& node, Backprop& b) {
  b.out[0].tensor = tape.gradient(node.sizes[0]);
  if (node.edges[1] == kNoEdge) return;
  const Tensor parts = tape.scratch(divided_up(node.sizes[3], kRowsPerPart) * node.sizes[1] * 4);
  b.out[1].tensor = tape.gradient(node.sizes[2]);
}

// sizes: bytes of the branch where it is narrower than the sum, else 0.
void compiled_sum_backward(Tape& tape, Node& node, Backprop& b) {
  b.out[0] = b.gradient;
  b.out[1] = b.gradient;
  if (node.sizes[0] > 0) b.out[1] = {.tensor = tape.gradient(node.sizes[0])};
}

void compiled_swiglu_backward(Tape& tape, Node& node, Backprop& b) {
  b.out[0].tensor = tape.gradient(node.saved[0].size_bytes());
  b.out[1].tensor = node.saved[1];
}

// sizes: elements and bytes of the table; whether it is the head, too.
void compiled_embedding_backward(Tape& tape, Node& node, Backprop& b) {
  Tensor exact = tape.gradient(node.sizes[0] * 4);
  b.out[0].tensor = node.sizes[1] == node.sizes[0] * 4 ? exact : tape.gradient(node.sizes[1]);
  exact.reset();
  if (node.sizes[2] > 0) b.out[0].tensor = tape.gradient(node.sizes[1]);
}

// sizes: bytes of the logits, of the weight, of the input; whether the weight is the table's.
void compiled_loss_backward(Tape& tape, Node& node, Backprop& b) {
  tape.keep_until_end(tape.gradient(node.sizes[0]));
  Tensor of_logits = tape.gradient(node.sizes[0]);
  for (std::size_t slot = kLogits; slot < node.saved.size(); ++slot) node.saved[slot].reset();
  if (node.sizes[3] > 0) {
    tape.keep_until_end(of_logits);
  } else if (node.edges[1] != kNoEdge) {
    b.out[1].tensor = tape.gradient(node.sizes[1]);
  }
  b.out[0].tensor = tape.gradient(node.sizes[2]);
  tape.use_cublas(false);
}

}  // namespace

Var compiled_norm(Tape& tape, const Var& input, std::uint64_t rows, std::size_t weight) {
  const Var scale = tape.parameter(weight);
  Node* node = tape.record(compiled_norm_backward, {&input, &scale},
                           {input.size_bytes(), scale.count, scale.size_bytes(), rows});
  tape.save(node, 0, input.tensor);
  const Var roots = tape.make(rows, 4);
  tape.save(node, 1, roots.tensor);
  Var out = tape.result(node, input.count, product_width(tape, input));
  tape.save_parameter(node);
  return out;
}

Var compiled_heads(Tape& tape, Var projected, const CompiledHeads& heads) {
  Var scale;
  if (heads.norm != kNoNorm) scale = tape.parameter(heads.norm);
  Node* node = tape.record(new_gradients, {&projected, &scale},
                           {projected.size_bytes(), scale.size_bytes()});
  if (heads.norm != kNoNorm) {
    tape.save(node, 0, projected.tensor);
    const Var roots = tape.make(heads.rows, 4);
    tape.save(node, 1, roots.tensor);
  }
  return tape.result(node, heads.count, projected.width);
}

Var compiled_add(Tape& tape, Var residual, Var branch) {
  const bool widens = branch.width != residual.width;
  Node* node =
      tape.record(compiled_sum_backward, {&residual, &branch}, {widens ? branch.size_bytes() : 0});
  Var out = widens ? tape.make(residual.count, residual.width) : branch;
  tape.attach(node, &out);
  return out;
}

Var compiled_swiglu(Tape& tape, Var gate, Var up) {
  Node* node = tape.record(compiled_swiglu_backward, {&gate, &up});
  tape.save(node, 0, gate.tensor);
  tape.save(node, 1, up.tensor);
  return tape.result(node, gate.count, gate.width);
}

Var compiled_embedding(Tape& tape, const Tensor& indexes, std::uint64_t index_count,
                       std::size_t weight, bool is_head) {
  const Var table = tape.parameter(weight);
  const std::uint64_t columns = table.count / tape.parameters()[weight].rows;
  Node* node = tape.record(compiled_embedding_backward, {&table},
                           {table.count, table.size_bytes(), is_head ? 1u : 0u});
  tape.save(node, 0, indexes);
  return tape.result(node, index_count * columns, table.width);
}

Var compiled_loss(Tape& tape, Var input, std::size_t head, const CompiledLossSizes& sizes) {
  const Var weight = tape.cast_parameter(head);
  const std::uint64_t logit_count = sizes.rows * sizes.words;
  const Var summed = sizes.is_table ? Var{} : weight;
  Node* node = tape.record(compiled_loss_backward, {&input, &summed},
                           {logit_count * input.width, weight.size_bytes(), input.size_bytes(),
                            sizes.is_table ? 1u : 0u});
  const Var logits = tape.make(logit_count, input.width);
  tape.use_cublas(false);
  const Var labels = tape.make(sizes.label_count, 8);
  const Var largest = tape.make(sizes.rows, 4);
  const Var sums = tape.make(sizes.rows, 4);
  Var loss = tape.result(node, 1, 4);
  const Var counted = tape.make(1, 4);
  tape.save(node, 0, input.tensor);
  tape.save(node, 1, weight.tensor);
  std::size_t slot = kLogits;
  for (const Var* saved : {&logits, &labels, &largest, &sums}) {
    tape.save(node, slot++, saved->tensor);
  }
  return loss;
}

}  // namespace allocmark
