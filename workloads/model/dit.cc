// A diffusion transformer (Peebles and Xie, arXiv 2212.09748) of timm's parts: noisy latents in
// patches, blocks whose norms are shifted, scaled and gated by the time and the class, and the
// error of the predicted noise.
#include <algorithm>
#include <utility>
#include <vector>

#include "workloads/model/transformer.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kTimeWidth = 256;
constexpr std::uint64_t kChannels = 4;

// What a row of each image was repeated for is summed up, in the gradient's type, then cast.
// sizes: bytes of the result, of the rows in the result's type, in their own; their elements.
void sum_to_rows(const Node& node, Backprop& b) {
  b.reduced_bytes[1] = node.sizes[1];
  b.reduced_rows[1] = node.sizes[0] / node.sizes[1];
  b.reduced_columns[1] = node.sizes[3];
  if (node.sizes[1] != node.sizes[2]) b.narrowed_bytes[1] = node.sizes[2];
}

void add_rows_backward(Tape&, Node& node, Backprop& b) {
  b.out[0] = b.gradient;
  sum_to_rows(node, b);
}

void scale_rows_backward(Tape& tape, Node& node, Backprop& b) {
  b.out[1].tensor = tape.gradient(node.sizes[0]);
  if (node.edges[0] != kNoEdge) b.out[0].tensor = tape.gradient(node.sizes[0]);
  sum_to_rows(node, b);
}

// Patches come as the convolution laid them out, channels first, and so do all sums with them: a
// norm copies them, forward and backward.
void plain_norm_backward(Tape& tape, Node& node, Backprop& b) {
  const Tensor contiguous = tape.gradient(node.sizes[0]);
  b.out[0].tensor = tape.gradient(node.sizes[0]);
}

// The gates come first, and are summed last.
void gate_backward(Tape& tape, Node& node, Backprop& b) {
  b.out[0].tensor = tape.gradient(node.sizes[0]);
  b.out[1].tensor = tape.gradient(node.sizes[0]);
  sum_to_rows(node, b);
}

Var with_rows(Tape& tape, Var values, const Var& rows, BackwardFunction backward) {
  const std::uint64_t width = std::max(values.width, rows.width);
  Node* node =
      tape.record(backward, {&values, &rows},
                  {values.count * width, rows.count * width, rows.size_bytes(), rows.count});
  const bool is_product = backward != add_rows_backward;
  if (is_product && rows.edge != kNoEdge) tape.save(node, 1, values.tensor);
  if (is_product && values.edge != kNoEdge) tape.save(node, 0, rows.tensor);
  Var out = tape.result(node, values.count, width);
  values.drop();
  return out;
}

// LayerNorm without weights of its own.
Var plain_norm(Tape& tape, const Var& values, std::uint64_t rows) {
  Var exact = tape.autocast() ? cast(tape, values, 4) : values;
  Node* node = tape.record(plain_norm_backward, {&exact}, {exact.size_bytes()});
  tape.save(node, 0, exact.tensor);
  const Var contiguous = tape.make(exact.count, exact.width);
  Var out = tape.result(node, exact.count, exact.width);
  for (const std::size_t slot : {std::size_t{1}, std::size_t{2}}) {
    tape.save(node, slot, tape.make(rows, 4).tensor);
  }
  return out;
}

Var modulated(Tape& tape, const Var& values, const Var& shift, const Var& scale) {
  const Var factors = add_scalar(tape, scale);
  return with_rows(tape, with_rows(tape, values, factors, scale_rows_backward), shift,
                   add_rows_backward);
}

}  // namespace

void Transformer::make_dit_parameters() {
  const ModelShape& model = setup_.model;
  const std::uint64_t h = model.hidden;
  patch_weight_ = add_weight_and_bias(kChannels * model.patch * model.patch, h);
  time_weight_ = add_weight_and_bias(kTimeWidth, h);
  transform_ = add_weight_and_bias(h, h);
  class_token_ = add_weight((model.vocabulary + 1) * h);  // one more for no class
  for (std::uint64_t i = 0; i < model.layer_count; ++i) {
    const std::size_t first = tape_.parameters().size();
    LayerWeights own;
    own.query = add_weight_and_bias(h, 3 * h);
    own.output = add_weight_and_bias(h, h);
    own.up = add_weight_and_bias(h, model.ffn);
    own.down = add_weight_and_bias(model.ffn, h);
    own.modulation = add_weight_and_bias(h, 6 * h);
    end_layer_parameters(own, first);
  }
  final_norm_ = add_weight_and_bias(h, 2 * h);
  head_ = add_weight_and_bias(h, model.patch * model.patch * 2 * kChannels);
  // Not trained, and the model's own: moved last.
  position_table_ = add_weight(model.patch_count() * h);
  tape_.parameters()[position_table_].trainable = false;
}

// Sines and cosines of the time through two layers.
Var Transformer::dit_time() {
  auto [frequencies, angles, waves] = waves_of(tape_, setup_.batch, kTimeWidth);
  waves = cast(tape_, std::move(waves), setup_.wide_bytes);
  Var out = linear(tape_, waves, setup_.batch, with_bias(time_weight_));
  out = activation_of_input(tape_, std::move(out));
  out = linear(tape_, std::move(out), setup_.batch, with_bias(transform_));
  drop({&frequencies, &angles, &waves});
  return out;
}

Var Transformer::dit_embed(const Tensor& images) {
  Var patches = vit_patches(images);
  Var values = add(tape_, std::move(patches), tape_.parameter(position_table_));
  Var time = dit_time();
  const Var label =
      embedding(tape_, conditions_.labels, setup_.batch, class_token_, setup_.model.hidden);
  condition_ = add(tape_, std::move(time), label);
  return values;
}

std::vector<Var> Transformer::dit_modulation(std::size_t weight, std::uint64_t count) {
  Var joint =
      linear(tape_, activation_of_input(tape_, condition_), setup_.batch, with_bias(weight));
  const Var whole = begin_parts(tape_, joint);
  std::vector<Var> parts;
  for (std::uint64_t i = 0; i < count; ++i) {
    parts.push_back(part_of(tape_, whole, whole.count / count));
  }
  return parts;
}

Var Transformer::dit_layer(const LayerWeights& own, Var values) {
  const std::uint64_t rows = setup_.token_count();
  const std::vector<Var> parts = dit_modulation(own.modulation, 6);
  const auto gated = [&](Var branch, const Var& gate) {
    Var product = with_rows(tape_, std::move(branch), gate, gate_backward);
    return add(tape_, values, std::move(product));
  };
  {
    Var input = modulated(tape_, plain_norm(tape_, values, rows), parts[0], parts[1]);
    std::vector<Var> apart =
        split_parts(tape_, linear(tape_, input, rows, with_bias(own.query)), 3, true);
    Var query = heads(std::move(apart[0]));
    Var key = heads(std::move(apart[1]));
    Var value = heads(std::move(apart[2]));
    Var weights;
    Var mixed = attend(query, key, value, &weights);
    drop({&query, &key, &value});
    Var branch = linear(tape_, std::move(mixed), rows, with_bias(own.output));
    input.drop();
    values = gated(std::move(branch), parts[2]);
  }
  Var input = modulated(tape_, plain_norm(tape_, values, rows), parts[3], parts[4]);
  Var inner = linear(tape_, input, rows, with_bias(own.up));
  inner = activation_of_input(tape_, std::move(inner));
  Var branch = linear(tape_, std::move(inner), rows, with_bias(own.down));
  input.drop();
  return gated(std::move(branch), parts[5]);
}

Var Transformer::dit_loss(Var values) {
  const std::uint64_t rows = setup_.token_count();
  const ModelShape& model = setup_.model;
  Var predicted;
  {
    const std::vector<Var> parts = dit_modulation(final_norm_, 2);
    Var input = modulated(tape_, plain_norm(tape_, values, rows), parts[0], parts[1]);
    Var out = linear(tape_, std::move(input), rows, with_bias(head_));
    predicted = multiply_scalar(tape_, out);  // laid out as images: a copy, there and back
  }
  drop({&values, &condition_});
  predicted_ = predicted.tensor;  // the program's variable, until the next one is there
  Var noise = slice(tape_, predicted, setup_.batch * kChannels * model.image * model.image);
  return mean_squared_error(tape_, std::move(noise), conditions_.noise);
}

}  // namespace allocmark
