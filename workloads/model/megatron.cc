#include "workloads/model/megatron.h"

#include <utility>

#include "base/divided_up.h"

namespace allocmark {

std::size_t MegatronModel::add_weight(std::uint64_t count) {
  return tape_.add_parameter(
      {.data = tape_.allocate(count * kMegatronElementBytes, TensorKind::Parameter),
       .count = count,
       .width = kMegatronElementBytes});
}

std::size_t MegatronModel::add_matrix(std::uint64_t count, std::uint64_t bias_count) {
  const std::size_t index = add_weight(count);
  if (has_bias()) static_cast<void>(add_weight(bias_count));
  return index;
}

std::size_t MegatronModel::add_norm() {
  return add_matrix(setup_.model.hidden, setup_.model.hidden);
}

void MegatronModel::make_parameters() {
  const ModelShape& model = setup_.model;
  const std::uint64_t h = model.hidden;
  // The vocabulary is filled up to a multiple of 128 per rank.
  const std::uint64_t table = rounded_up(model.vocabulary, 128 * ranks()) / ranks() * h;
  if (setup_.parallel.is_first()) {
    word_table_ = add_weight(table);
    if (model.positions > 0) position_table_ = add_weight(model.positions * h);
  }
  const std::uint64_t joint = (h + 2 * model.kv_width()) / ranks();
  const std::uint64_t inner = model.ffn / ranks();
  // Llama's gate and inner layer are one matrix.
  const std::uint64_t up = model.family == ModelFamily::Llama ? 2 * inner : inner;
  for (std::uint64_t i = 0; i < setup_.own_layer_count(); ++i) {
    LayerWeights own;
    own.first_norm = add_norm();
    own.joint = add_matrix(h * joint, joint);
    own.output = add_matrix(h / ranks() * h, h);
    own.second_norm = add_norm();
    own.up = add_matrix(h * up, up);
    own.down = add_matrix(inner * h, h);
    layers_.push_back(own);
  }
  if (!setup_.parallel.is_last()) return;
  final_norm_ = add_norm();
  // With several stages, the last one has a copy of a table that is tied.
  head_ = model.tied_head && setup_.parallel.is_first() ? word_table_ : add_weight(table);
}

void MegatronModel::use_buffer(std::uint64_t size_bytes) {
  if (buffer_.size_bytes() >= size_bytes) return;
  Tensor larger = tape_.scratch(size_bytes);
  if (larger) buffer_ = std::move(larger);
}

Var MegatronModel::embed(const Tensor& tokens) {
  const ModelShape& model = setup_.model;
  const std::uint64_t rows = setup_.token_count();
  Tensor indexes = tokens;
  Var outside;
  if (ranks() > 1) {  // tokens of other ranks' part of the table are masked
    outside = tape_.make(rows, 1);
    indexes = tape_.make(rows, 8).tensor;
  }
  Var hidden = embedding(tape_, indexes, rows, word_table_, model.hidden);
  indexes.reset();
  hidden = sum_over_ranks(tape_, std::move(hidden), {.ranks = ranks(), .in_place = true});
  outside.drop();
  if (model.positions > 0) {
    Var positions = tape_.make(rows, 8);
    Var rows_of_positions = embedding(tape_, positions.tensor, rows, position_table_, model.hidden);
    positions.drop();
    hidden = add(tape_, std::move(hidden), std::move(rows_of_positions));
  }
  // Tokens before sequences; with one sequence that is the same order.
  if (setup_.batch > 1) hidden = clone(tape_, std::move(hidden));
  if (setup_.parallel.sequence) {
    hidden = reduce_scatter_tokens(tape_, std::move(hidden), {.ranks = ranks()});
  }
  if (setup_.has_dropout()) hidden = dropout(tape_, std::move(hidden));
  return hidden;
}

Var MegatronModel::layer(std::size_t index, Var hidden) {
  const LayerWeights& own = layers_[index];
  Var residual = hidden;
  Var normed = norm(std::move(hidden), own.first_norm);
  Var joint =
      linear(std::move(normed), {.weight = own.joint, .from_shared = true, .adds_bias = true});
  if (setup_.recomputes_attention) {
    tape_.begin_segment({.first_layer = static_cast<std::uint32_t>(index),
                         .layer_count = 0,
                         .inputs = {joint, Var(), Var()}});
  }
  Var context = attention_core(joint);
  if (setup_.recomputes_attention) tape_.end_segment();
  joint.drop();
  Var output = summed(linear(std::move(context), {.weight = own.output}));
  hidden = bias_dropout_add(std::move(output), own.output + 1, std::move(residual));
  residual = hidden;
  normed = norm(std::move(hidden), own.second_norm);
  Var inner = linear(std::move(normed), {.weight = own.up, .from_shared = true});
  inner = activation(std::move(inner), own.up + 1);
  output = summed(linear(std::move(inner), {.weight = own.down}));
  return bias_dropout_add(std::move(output), own.down + 1, std::move(residual));
}

Var MegatronModel::finish(Var hidden) { return norm(std::move(hidden), final_norm_); }

Var MegatronModel::attention_core(const Var& joint) {
  return setup_.fused_attention ? flash_core(joint) : eager_core(joint);
}

Var MegatronModel::summed(Var partial) {
  if (setup_.parallel.sequence) {
    return reduce_scatter_tokens(tape_, std::move(partial), {.ranks = ranks()});
  }
  return sum_over_ranks(tape_, std::move(partial), {.ranks = ranks(), .in_place = true});
}

}  // namespace allocmark
