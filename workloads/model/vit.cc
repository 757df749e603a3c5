// ViT: Transformer's forward functions for images. Patches come from a convolution, a class token
// and learned positions join them, and the class token's last state is classified.
#include <utility>

#include "workloads/model/images.h"
#include "workloads/model/transformer.h"

namespace allocmark {
namespace {

// sizes: bytes of the weight, of the bias, of the output, rows, channels, workspace.
void patches_backward(Tape& tape, Node& node, Backprop& b) {
  // The gradient comes as rows of tokens; the convolution wants channels first. Images need none.
  Tensor channels_first = tape.gradient(node.sizes[2]);
  b.out[1].tensor = tape.gradient(node.sizes[0]);
  tape.take_scratch(node.sizes[5]);
  channels_first.reset();
  b.out[2] = b.gradient;
  b.reduced_bytes[2] = node.sizes[1];
  b.reduced_rows[2] = node.sizes[3];
  b.reduced_columns[2] = node.sizes[4];
}

// The class token's rows and the patches' are views of the gradient; narrower patches get a copy.
void class_token_backward(Tape& tape, Node& node, Backprop& b) {
  b.out[0] = b.gradient;
  b.out[0].is_view = true;
  b.out[1] = b.out[0];
  if (node.sizes[0] != 0) b.out[1] = {.tensor = tape.gradient(node.sizes[0])};
}

// One row per image, summed over the images where there are several. sizes: bytes of the sum.
void expand_backward(Tape&, Node& node, Backprop& b) {
  b.out[0] = b.gradient;
  b.reduced_bytes[0] = node.sizes[0];
}

}  // namespace

void Transformer::make_vit_parameters() {
  const ModelShape& model = setup_.model;
  const std::uint64_t h = model.hidden;
  patch_weight_ = add_weight_and_bias(3 * model.patch * model.patch, h);
  // A module's own parameters are moved after those of its children: timm's model has them itself.
  const auto own_parameters = [&] {
    class_token_ = add_weight(h, 1);
    position_table_ = add_weight((model.patch_count() + 1) * h, 1);
  };
  const bool is_timm = setup_.implementation == Implementation::Timm;
  if (!is_timm) own_parameters();
  for (std::uint64_t i = 0; i < model.layer_count; ++i) {
    const std::size_t first = tape_.parameters().size();
    LayerWeights own;
    if (is_timm) own.first_norm = add_weight_and_bias(1, h);
    own.query = add_weight_and_bias(h, is_timm ? 3 * h : h);
    if (!is_timm) own.key = add_weight_and_bias(h, h);
    if (!is_timm) own.value = add_weight_and_bias(h, h);
    own.output = add_weight_and_bias(h, h);
    if (!is_timm) own.first_norm = add_weight_and_bias(1, h);
    own.second_norm = add_weight_and_bias(1, h);
    own.up = add_weight_and_bias(h, model.ffn);
    own.down = add_weight_and_bias(model.ffn, h);
    end_layer_parameters(own, first);
  }
  final_norm_ = add_weight_and_bias(1, h);
  head_ = add_weight_and_bias(h, model.vocabulary);
  if (is_timm) own_parameters();
}

// Conv2d whose kernel is as large as its step: rows of patches, seen as tokens.
Var Transformer::vit_patches(const Tensor& pixels) {
  const ModelShape& model = setup_.model;
  const Var bias = tape_.cast_parameter(patch_weight_ + 1);
  const Var weight = tape_.cast_parameter(patch_weight_);
  Var images{.tensor = pixels,
             .count = setup_.batch * model.channels() * model.image * model.image,
             .width = setup_.wide_bytes};
  if (setup_.autocast) images = cast(tape_, std::move(images), setup_.narrow_bytes);
  const std::uint64_t width = images.width;
  const std::uint64_t rows = setup_.batch * model.patch_count();
  const ConvolutionSizes sizes{.type = convolution_type(tape_, width),
                               .kernel = model.patch,
                               .step = model.patch,
                               .images = setup_.batch,
                               .side_in = model.image,
                               .side_out = model.image / model.patch,
                               .channels_in = model.channels(),
                               .channels_out = model.hidden};
  Node* node =
      tape_.record(patches_backward, {&images, &weight, &bias},
                   {weight.size_bytes(), bias.size_bytes(), rows * model.hidden * width, rows,
                    model.hidden, workspace_bytes(sizes, ConvolutionDirection::Weight)});
  tape_.save(node, 0, images.tensor);
  tape_.save(node, 1, weight.tensor);
  Var out = tape_.result(node, rows * model.hidden, width);
  tape_.take_scratch(workspace_bytes(sizes, ConvolutionDirection::Forward));
  return out;
}

Var Transformer::vit_embed(const Tensor& pixels) {
  const std::uint64_t h = setup_.model.hidden;
  Var patches = vit_patches(pixels);
  Var token = tape_.parameter(class_token_);
  const std::uint64_t sum_bytes = setup_.batch > 1 ? token.size_bytes() : 0;
  Node* expanded = tape_.record(expand_backward, {&token}, {sum_bytes});
  tape_.attach(expanded, &token);
  Node* joined = tape_.record(class_token_backward, {&token, &patches},
                              {patches.width == setup_.wide_bytes ? 0 : patches.size_bytes()});
  Var rows = tape_.result(joined, setup_.token_count() * h, setup_.wide_bytes);
  patches.drop();
  words_ = add(tape_, std::move(rows), tape_.parameter(position_table_));
  return words_;
}

Var Transformer::vit_layer(const LayerWeights& own, Var hidden) {
  const std::uint64_t rows = setup_.token_count();
  Var residual = hidden;
  hidden = layer_norm(tape_, hidden, rows, own.first_norm);
  Var weights;
  Var query, key, value;
  if (setup_.implementation == Implementation::Timm) {
    Var joint = linear(tape_, hidden, rows, with_bias(own.query));
    std::vector<Var> parts = split_parts(tape_, joint, 3, true);
    joint.drop();
    query = heads(std::move(parts[0]));
    key = heads(std::move(parts[1]));
    value = heads(std::move(parts[2]));
  } else {
    query = heads(linear(tape_, hidden, rows, with_bias(own.query)));
    key = heads(linear(tape_, hidden, rows, with_bias(own.key)));
    value = heads(linear(tape_, hidden, rows, with_bias(own.value)));
  }
  Var mixed = attend(query, key, value, &weights);
  mixed = linear(tape_, std::move(mixed), rows, with_bias(own.output));
  drop({&query, &key, &value});
  hidden = std::move(mixed);
  hidden = add(tape_, std::move(hidden), residual);
  residual = hidden;
  hidden = layer_norm(tape_, hidden, rows, own.second_norm);
  Var inner = linear(tape_, hidden, rows, with_bias(own.up));
  inner = activation_of_input(tape_, std::move(inner));
  hidden = linear(tape_, std::move(inner), rows, with_bias(own.down));
  hidden = add(tape_, std::move(hidden), residual);
  residual.drop();
  return hidden;
}

// The class token's row of each image through the classifier.
Var Transformer::vit_logits(const Var& hidden) {
  Node* node = tape_.record(new_gradients, {&hidden}, {hidden.size_bytes()});
  Var token = hidden;
  token.count = setup_.batch * setup_.model.hidden;
  tape_.attach(node, &token);
  return linear(tape_, std::move(token), setup_.batch, with_bias(head_));
}

}  // namespace allocmark
