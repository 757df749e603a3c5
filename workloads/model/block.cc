#include "workloads/model/block.h"

#include <utility>

#include "workloads/model/kv_cache.h"

namespace allocmark {
namespace {

// Sizes that the operators of a block have in common.
struct Sizes {
  explicit Sizes(const TransformerSetup& setup)
      : stream(setup.token_count() * setup.model.hidden),
        grouped(setup.token_count() * setup.model.kv_width()),
        keys(setup.batch * setup.key_count() * setup.model.hidden),
        scores(setup.token_count() * setup.key_count() * setup.model.head_count),
        inner(setup.token_count() * setup.model.ffn),
        narrow(setup.narrow_bytes),
        wide(setup.wide_bytes) {}
  std::uint64_t stream;   // elements of the residual stream
  std::uint64_t grouped;  // elements of the keys before they are repeated
  std::uint64_t keys;     // elements of the keys of all heads, as long as the context
  std::uint64_t scores;   // elements of the S x S matrices of all heads
  std::uint64_t inner;    // elements inside the MLP
  std::uint64_t narrow;   // bytes per element
  std::uint64_t wide;
};

DropoutShape branch_dropout(const TransformerSetup& setup) {
  return {.element_count = Sizes(setup).stream, .element_bytes = setup.narrow_bytes};
}

void append_to_cache(Ops& ops) {
  if (ops.kv_cache() != nullptr) ops.kv_cache()->append(ops);
}

}  // namespace

void Attention::project(Ops& ops, const Tensor& input) {
  const ModelShape& model = ops.setup().model;
  const Sizes sizes(ops.setup());
  if (model.family == ModelFamily::Gpt2) {
    joint_output_ = joint_.forward(ops, {.in = model.hidden, .out = 3 * model.hidden}, input);
    if (ops.setup().fused_attention) {
      query_ = key_ = value_ = joint_output_;
      return;
    }
    append_to_cache(ops);
    query_ = ops.activation(sizes.stream * sizes.narrow);
    key_ = ops.activation(sizes.keys * sizes.narrow);
    value_ = ops.activation(sizes.keys * sizes.narrow);
    return;
  }
  const bool bias = model.family == ModelFamily::Bert;
  query_ = query_projection_.forward(ops, {.in = model.hidden, .out = model.hidden, .bias = bias},
                                     input);
  key_ = key_projection_.forward(ops, {.in = model.hidden, .out = model.kv_width(), .bias = bias},
                                 input);
  value_ = value_projection_.forward(
      ops, {.in = model.hidden, .out = model.kv_width(), .bias = bias}, input);
  if (model.family != ModelFamily::Llama) return;
  // Rotary positions: x * cos + rotate_half(x) * sin, for q and for k.
  for (Tensor* rotated : {&query_, &key_}) {
    const std::uint64_t size_bytes =
        (rotated == &query_ ? sizes.stream : sizes.grouped) * sizes.narrow;
    const Tensor cosine_part = ops.activation(size_bytes);
    Tensor half = ops.activation(size_bytes / 2);
    Tensor turned = ops.activation(size_bytes);
    half.reset();
    const Tensor sine_part = ops.activation(size_bytes);
    turned.reset();
    *rotated = ops.activation(size_bytes);
  }
  append_to_cache(ops);
  if (model.kv_head_count != model.head_count) {
    key_ = ops.activation(sizes.keys * sizes.narrow);
    value_ = ops.activation(sizes.keys * sizes.narrow);
  }
}

Tensor Attention::mix(Ops& ops, Tensor* weights) {
  const TransformerSetup& setup = ops.setup();
  const Sizes sizes(setup);
  Tensor scores = ops.activation(sizes.scores * sizes.narrow);
  ops.matmul(setup.token_count(), setup.sequence, setup.model.hidden);
  ops.keep_saved(&query_);
  ops.keep_saved(&key_);
  // Scaled and masked, then the softmax in four bytes.
  scores = ops.activation(sizes.scores * sizes.narrow);
  if (sizes.narrow != 4) scores = ops.activation(sizes.scores * 4);
  Tensor mixed = ops.activation(sizes.scores * 4);
  scores.reset();
  probabilities_ = ops.saved(mixed);
  if (sizes.narrow != 4) mixed = ops.activation(sizes.scores * sizes.narrow);
  if (setup.has_dropout()) {
    const Tensor mask = ops.activation(sizes.scores);
    mask_ = ops.saved(mask);
    mixed = ops.activation(sizes.scores * sizes.narrow);
  }
  dropped_ = ops.saved(mixed);
  Tensor output = ops.activation(sizes.stream * sizes.narrow);
  ops.matmul(setup.token_count(), setup.model.hidden, setup.sequence);
  ops.keep_saved(&value_);
  output = ops.activation(sizes.stream * sizes.narrow);  // heads side by side again
  *weights = std::move(mixed);
  return output;
}

Tensor Attention::mix_fused(Ops& ops) {
  const TransformerSetup& setup = ops.setup();
  const Sizes sizes(setup);
  Tensor output = ops.activation(sizes.stream * sizes.narrow);
  const Tensor sums = ops.activation(setup.token_count() * setup.model.head_count * 4);
  ops.workspace(8);  // the dropout's seed and offset
  ops.workspace(8);
  ops.matmul(setup.token_count(), 2 * setup.sequence, setup.model.hidden);
  fused_output_ = ops.saved(output);
  fused_sums_ = ops.saved(sums);
  ops.keep_saved(&query_);
  ops.keep_saved(&key_);
  ops.keep_saved(&value_);
  return output;
}

Tensor Attention::forward(Ops& ops, const Tensor& input, Tensor* weights) {
  const std::uint64_t hidden = ops.setup().model.hidden;
  const bool bias = ops.setup().model.family != ModelFamily::Llama;
  project(ops, input);
  const Tensor mixed = ops.setup().fused_attention ? mix_fused(ops) : mix(ops, weights);
  Tensor output = output_projection_.forward(
      ops, {.in = hidden, .out = hidden, .bias = bias, .wide_input = false}, mixed);
  joint_output_.reset();
  return output;
}

Tensor Attention::mix_backward(Ops& ops, Tensor gradient) {
  const TransformerSetup& setup = ops.setup();
  const Sizes sizes(setup);
  gradient = ops.gradient(sizes.stream * sizes.narrow);  // heads apart again
  Tensor value = ops.gradient(sizes.stream * sizes.narrow);
  Tensor scores = ops.gradient(sizes.scores * sizes.narrow);
  gradient.reset();
  value_.reset();
  dropped_.reset();
  if (setup.has_dropout()) {
    scores = ops.gradient(sizes.scores * sizes.narrow);
    mask_.reset();
  }
  if (sizes.narrow != 4) scores = ops.gradient(sizes.scores * 4);
  Tensor softmax = ops.gradient(sizes.scores * 4);
  ops.workspace(sizes.scores * 4);
  scores = std::move(softmax);
  probabilities_.reset();
  if (sizes.narrow != 4) scores = ops.gradient(sizes.scores * sizes.narrow);
  scores = ops.gradient(sizes.scores * sizes.narrow);
  Tensor query = ops.gradient(sizes.stream * sizes.narrow);
  Tensor key = ops.gradient(sizes.stream * sizes.narrow);
  scores.reset();
  query_.reset();
  key_.reset();
  key = ops.gradient(sizes.stream * sizes.narrow);  // transposed back
  value = ops.gradient(sizes.stream * sizes.narrow);
  return project_backward(ops, std::move(query), std::move(key), std::move(value));
}

Tensor Attention::mix_fused_backward(Ops& ops, Tensor gradient) {
  const TransformerSetup& setup = ops.setup();
  const Sizes sizes(setup);
  Tensor query = ops.gradient(sizes.stream * sizes.narrow);
  Tensor key = ops.gradient(sizes.stream * sizes.narrow);
  Tensor value = ops.gradient(sizes.stream * sizes.narrow);
  ops.workspace(setup.token_count() * setup.model.head_count * 4);
  ops.workspace(sizes.stream * 4);
  gradient.reset();
  fused_output_.reset();
  fused_sums_.reset();
  query_.reset();
  key_.reset();
  value_.reset();
  return project_backward(ops, std::move(query), std::move(key), std::move(value));
}

Tensor Attention::project_backward(Ops& ops, Tensor query, Tensor key, Tensor value) {
  const ModelShape& model = ops.setup().model;
  const Sizes sizes(ops.setup());
  if (model.family == ModelFamily::Gpt2) {
    Tensor joint = ops.gradient(3 * sizes.stream * sizes.narrow);
    query.reset();
    key.reset();
    value.reset();
    return joint_.backward(ops, std::move(joint));
  }
  if (model.kv_head_count != model.head_count) {
    key = ops.gradient(sizes.grouped * sizes.narrow);  // summed over the repeats
    value = ops.gradient(sizes.grouped * sizes.narrow);
  }
  if (model.family == ModelFamily::Llama) {
    query = ops.gradient(sizes.stream * sizes.narrow);  // turned back
    key = ops.gradient(sizes.grouped * sizes.narrow);
  }
  Tensor input = value_projection_.backward(ops, std::move(value));
  static_cast<void>(key_projection_.backward(ops, std::move(key)));
  static_cast<void>(query_projection_.backward(ops, std::move(query)));
  return input;
}

Tensor Attention::backward(Ops& ops, Tensor gradient) {
  gradient = output_projection_.backward(ops, std::move(gradient));
  if (ops.setup().fused_attention) return mix_fused_backward(ops, std::move(gradient));
  return mix_backward(ops, std::move(gradient));
}

// 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))), operator by operator; autocast runs
// pow in four bytes.
Tensor Mlp::activate_written_out(Ops& ops, Tensor inner) {
  const Sizes sizes(ops.setup());
  const std::uint64_t element_bytes = ops.setup().autocast ? 4 : sizes.narrow;
  const std::uint64_t size_bytes = sizes.inner * element_bytes;
  const Tensor half = ops.activation(sizes.inner * sizes.narrow);
  Tensor chain = ops.setup().autocast ? ops.activation(size_bytes) : inner;
  inner_ = ops.saved(chain);
  for (int i = 0; i < 5; ++i) chain = ops.activation(size_bytes);  // pow, times, plus, times, tanh
  tanh_ = ops.saved(chain);
  chain = ops.activation(size_bytes);
  one_plus_ = ops.saved(chain);
  half_ = ops.saved(half);
  return ops.activation(size_bytes);
}

Tensor Mlp::activate_written_out_backward(Ops& ops, Tensor gradient) {
  const Sizes sizes(ops.setup());
  const bool autocast = ops.setup().autocast;
  const std::uint64_t size_bytes = sizes.inner * (autocast ? 4 : sizes.narrow);
  Tensor chain = ops.gradient(size_bytes);
  Tensor half = ops.gradient(size_bytes);
  if (autocast) half = ops.gradient(sizes.inner * sizes.narrow);
  gradient.reset();
  one_plus_.reset();
  half_.reset();
  chain = ops.gradient(size_bytes);
  tanh_.reset();
  chain = ops.gradient(size_bytes);
  Tensor inner = ops.narrowed(chain, sizes.inner);
  chain = ops.gradient(size_bytes);
  {
    const Tensor square = ops.gradient(size_bytes);
    const Tensor tripled = ops.gradient(size_bytes);
    chain = ops.gradient(size_bytes);
  }
  inner_.reset();
  chain = ops.narrowed(chain, sizes.inner);  // added to `inner` in place
  chain.reset();
  half = ops.gradient(sizes.inner * sizes.narrow);  // likewise
  return inner;
}

Tensor Mlp::activate_gated(Ops& ops, const Tensor& input) {
  const ModelShape& model = ops.setup().model;
  const Sizes sizes(ops.setup());
  inner_ = gate_.forward(ops, {.in = model.hidden, .out = model.ffn, .bias = false}, input);
  half_ = ops.activation(sizes.inner * sizes.narrow);
  ops.keep_saved(&inner_);
  tanh_ = up_.forward(ops, {.in = model.hidden, .out = model.ffn, .bias = false}, input);
  Tensor product = ops.activation(sizes.inner * sizes.narrow);
  ops.keep_saved(&half_);
  ops.keep_saved(&tanh_);
  return product;
}

Tensor Mlp::activate_gated_backward(Ops& ops, Tensor gradient) {
  const Sizes sizes(ops.setup());
  Tensor gate = ops.gradient(sizes.inner * sizes.narrow);
  Tensor up = ops.gradient(sizes.inner * sizes.narrow);
  gradient.reset();
  half_.reset();
  tanh_.reset();
  Tensor input = up_.backward(ops, std::move(up));
  gate = ops.gradient(sizes.inner * sizes.narrow);
  inner_.reset();
  static_cast<void>(gate_.backward(ops, std::move(gate)));
  return input;
}

Tensor Mlp::forward(Ops& ops, const Tensor& input) {
  const ModelShape& model = ops.setup().model;
  const Sizes sizes(ops.setup());
  LinearShape down{.in = model.ffn, .out = model.hidden, .bias = true, .wide_input = false};
  Tensor activated;
  if (model.family == ModelFamily::Llama) {
    down.bias = false;
    activated = activate_gated(ops, input);
  } else {
    Tensor inner = up_.forward(ops, {.in = model.hidden, .out = model.ffn}, input);
    if (model.family == ModelFamily::Gpt2) {
      down.wide_input = true;
      activated = activate_written_out(ops, std::move(inner));
    } else {
      activated = ops.activation(sizes.inner * sizes.narrow);
      inner_ = ops.saved(inner);
    }
  }
  return down_.forward(ops, down, activated);
}

Tensor Mlp::backward(Ops& ops, Tensor gradient) {
  const ModelShape& model = ops.setup().model;
  const Sizes sizes(ops.setup());
  gradient = down_.backward(ops, std::move(gradient));
  if (model.family == ModelFamily::Llama) return activate_gated_backward(ops, std::move(gradient));
  if (model.family == ModelFamily::Gpt2) {
    gradient = activate_written_out_backward(ops, std::move(gradient));
  } else {
    gradient = ops.gradient(sizes.inner * sizes.narrow);
    inner_.reset();
  }
  return up_.backward(ops, std::move(gradient));
}

Tensor Block::added(Ops& ops) {
  return ops.activation(Sizes(ops.setup()).stream * ops.setup().wide_bytes);
}

Tensor Block::forward(Ops& ops, Tensor input, bool early_stop) {
  const DropoutShape dropout = branch_dropout(ops.setup());
  const bool norm_after = ops.setup().model.family == ModelFamily::Bert;
  Tensor weights;
  Tensor normed = norm_after ? input : first_norm_.forward(ops, input);
  Tensor branch =
      attention_dropout_.forward(ops, attention_.forward(ops, normed, &weights), dropout);
  input = added(ops);
  normed = norm_after ? first_norm_.forward(ops, input) : Tensor();
  if (!norm_after) normed = second_norm_.forward(ops, input);
  Tensor mlp = mlp_dropout_.forward(ops, mlp_.forward(ops, normed), dropout);
  // A recomputation stops where the last saved tensor is there.
  if (early_stop && !norm_after) return {};
  Tensor output = added(ops);
  normed.reset();
  return norm_after ? second_norm_.forward(ops, output) : output;
}

void Block::backward(Ops& ops, Tensor* stream_gradient) {
  const DropoutShape dropout = branch_dropout(ops.setup());
  const bool norm_after = ops.setup().model.family == ModelFamily::Bert;
  const auto narrowed = [&] {
    return ops.setup().autocast ? ops.gradient(dropout.element_count * dropout.element_bytes)
                                : *stream_gradient;
  };
  if (norm_after) *stream_gradient = second_norm_.backward(ops, std::move(*stream_gradient));
  Tensor branch = mlp_.backward(ops, mlp_dropout_.backward(ops, narrowed(), dropout));
  // The branch's gradient is added to the stream's in place.
  if (!norm_after) branch = second_norm_.backward(ops, std::move(branch));
  branch.reset();
  if (norm_after) *stream_gradient = first_norm_.backward(ops, std::move(*stream_gradient));
  branch = attention_.backward(ops, attention_dropout_.backward(ops, narrowed(), dropout));
  if (!norm_after) branch = first_norm_.backward(ops, std::move(branch));
}

}  // namespace allocmark
