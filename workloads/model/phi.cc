// Phi 3: a Llama with one product to query, key and value, and one to gate and up. As transformers
// writes it.
#include <utility>

#include "workloads/model/transformer.h"

namespace allocmark {

// The first elements of each head, which turn, and the rest, both as views.
std::array<Var, 2> Transformer::rotary_parts(const Var& input) {
  const ModelShape& model = setup_.model;
  const std::uint64_t turning = input.count / model.head_width() * model.rotary_width();
  Var first = slice(tape_, input, turning, GradLayout::Heads);
  return {std::move(first), slice(tape_, input, input.count - turning, GradLayout::Heads)};
}

// A copy, also where all elements turn.
Var Transformer::partly_rotated(const std::array<Var, 2>& parts) {
  return joined(rotated(parts[0]), parts[1]);
}

// Query, key and value are views of the joint product, until query and key turn.
std::array<Var, 3> Transformer::joint_heads(const Var& joint) {
  const ModelShape& model = setup_.model;
  const std::uint64_t rows = setup_.token_count();
  Var query = slice(tape_, joint, rows * model.attention_width());
  Var key = slice(tape_, joint, rows * model.kv_width());
  Var value = slice(tape_, joint, rows * model.kv_width());
  query = heads(std::move(query));
  key = heads(std::move(key));
  value = heads(std::move(value));
  // Rows of several sequences have other heads between them, even with one token each.
  value.heads_viewable = setup_.batch == 1 || has_one_key_head();
  const std::array<Var, 2> query_parts = rotary_parts(query);
  const std::array<Var, 2> key_parts = rotary_parts(key);
  query = partly_rotated(query_parts);
  key = partly_rotated(key_parts);
  return {std::move(query), std::move(key), std::move(value)};
}

// Both halves keep the whole. Their gradients are joined.
Var Transformer::joint_mlp(const LayerWeights& own, const Var& hidden) {
  const Var joint = begin_parts(tape_, adapted(hidden, with_bias(own.gate), own.gate_adapter));
  const Var gate = part_of(tape_, joint, joint.count / 2);
  Var up = part_of(tape_, joint, joint.count / 2);
  up = multiply(tape_, up, tape_.in_module([&] { return activation_of_input(tape_, gate); }));
  return product_of(up, with_bias(own.down), own.down_adapter);
}

}  // namespace allocmark
