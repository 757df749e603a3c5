// The layers of each family: Transformer's forward functions.
#include <utility>

#include "workloads/model/liger.h"
#include "workloads/model/module_scope.h"
#include "workloads/model/transformer.h"

namespace allocmark {

Var Transformer::rms_norm(Var hidden, std::size_t weight) {
  const std::uint64_t rows = setup_.own_token_count();
  if (setup_.liger != LigerParts::None) {
    return liger_rms_norm(tape_, std::move(hidden), rows, weight);
  }
  if (setup_.parallel.sequence) return norm_of_shared(std::move(hidden), weight, rows);
  return norm_of_rows(std::move(hidden), weight, rows);
}

// Of every head's query or key alone, before heads and tokens change places.
Var Transformer::head_norm(Var projected, std::size_t weight) {
  if (!setup_.model.head_norms) return projected;
  const std::uint64_t rows = projected.count / setup_.model.head_width();
  // The caller's argument lives until the norm is done.
  return norm_of_rows(projected, weight, rows);
}

Var Transformer::norm_of_rows(Var hidden, std::size_t weight, std::uint64_t rows) {
  if (setup_.model.gemma) return offset_norm_of_rows(hidden, weight, rows);
  return rms_norm_written_out(tape_, std::move(hidden), rows, weight);
}

// Gemma's: four bytes to the end.
Var Transformer::offset_norm_of_rows(const Var& hidden, std::size_t weight, std::uint64_t rows) {
  const ModuleScope module(tape_, {.parameters = {weight}});
  Var exact = cast(tape_, hidden, 4);
  Var root = rsqrt(tape_, add_scalar(tape_, mean_of_rows(tape_, power(tape_, exact), rows)));
  exact = multiply(tape_, exact, std::move(root));
  Var scale = add_scalar(tape_, cast(tape_, tape_.parameter(weight), 4));
  exact = multiply(tape_, exact, std::move(scale), true);
  return cast(tape_, exact, hidden.width);
}

Var Transformer::adapted(const Var& input, const LinearWeights& weights, const Adapter& adapter) {
  const std::uint64_t rows = setup_.token_count();
  Var result = linear(tape_, input, rows, weights);
  if (adapter.low == 0) return result;
  const std::uint64_t width = result.width;
  Var exact = cast(tape_, input, tape_.parameters()[adapter.low].width);
  const bool drops = lora_.dropout && !setup_.evaluating;
  Var delta = linear(tape_, drops ? dropout(tape_, exact) : exact, rows, {.weight = adapter.low});
  delta = linear(tape_, std::move(delta), rows, {.weight = adapter.high});
  delta = multiply_scalar(tape_, std::move(delta));
  result = add(tape_, result, std::move(delta));
  result = cast(tape_, std::move(result), width);
  exact.drop();
  return result;
}

// Of a temporary: without an adapter the product drops it, an adapter's module holds it to its end.
Var Transformer::product_of(Var input, const LinearWeights& weights, const Adapter& adapter) {
  if (adapter.low != 0) return adapted(input, weights, adapter);
  return linear(tape_, std::move(input), setup_.token_count(), weights);
}

Var Transformer::heads(Var projected, bool copies) {
  if (projected.count == setup_.token_count() * setup_.model.head_width()) {
    return one_head(tape_, std::move(projected));
  }
  return split_heads(tape_, std::move(projected), viewable(), copies);
}

Var Transformer::normed_heads(Var projected, std::size_t norm) {
  if (!setup_.model.head_norms) return heads(std::move(projected));
  // Heads are apart for the norm, and change places with tokens after it.
  Var apart = split_heads(tape_, std::move(projected), false);
  return heads(head_norm(std::move(apart), norm), false);
}

Var Transformer::rotated(const Var& input) {
  const bool has_own = slides_ && setup_.model.gemma;
  Var straight = multiply(tape_, input, has_own ? window_cosine_ : cosine_);
  Var turned = multiply(tape_, rotate_half(tape_, input), has_own ? window_sine_ : sine_);
  return add(tape_, std::move(straight), std::move(turned));
}

void Transformer::cache(std::size_t index, Var* key, Var* value) {
  if (cache_ == nullptr) return;
  const std::uint64_t count = sizes().grouped;
  if (slides_) cache_->keep_window(tape_, index);
  Var keys = cache_->append(tape_, index, 0, *key, count, key->width, setup_.sequence);
  Var values = cache_->append(tape_, index, 1, *value, count, key->width, setup_.sequence);
  *key = std::move(keys);
  *value = std::move(values);
}

// Eager: scores, scaled and masked, softmax in four bytes; `weights` outlives the call.
Var Transformer::attend_by_scores(const Var& query, Var key, Var value, Var* weights) {
  const ModelShape& model = setup_.model;
  const Sizes own = sizes();
  const std::uint64_t repeats = model.head_count / model.kv_head_count;
  key = repeat_heads(tape_, std::move(key), repeats, has_one_key_head());
  value = repeat_heads(tape_, std::move(value), repeats, has_one_key_head());
  // Products of several sequences cannot read one head as many.
  if (has_one_key_head() && repeats > 1) {
    key.heads_viewable = value.heads_viewable = setup_.batch == 1;
    // Autocast's narrow copy of one head as many has them all, one after the other.
    if (tape_.autocast()) {
      key.heads_first = key.width == 4;
      value.heads_first = value.width == 4;
    }
  }
  const AttentionSizes counts{.query_count = own.queries,
                              .key_count = own.keys,
                              .score_count = own.scores,
                              .viewable = viewable()};
  Var scores = multiply_scalar(tape_, query_times_key(tape_, query, key, counts));
  if (block_mask().count != 0) scores = add(tape_, std::move(scores), block_mask());
  if (model.is_llama_like() || model.family == ModelFamily::Vit) {
    Var exact = softmax(tape_, setup_.is_half ? scores : cast(tape_, scores, 4));
    *weights = cast(tape_, std::move(exact), query.width);
    scores.drop();
  } else {
    // BERT leaves the softmax in four bytes to the product's autocast.
    const bool is_bert = model.family == ModelFamily::Bert;
    scores = softmax(tape_, std::move(scores));
    const std::uint64_t width = is_bert ? scores.width : value.width;
    *weights = cast(tape_, std::move(scores), width);
  }
  if (setup_.has_dropout()) *weights = dropout(tape_, std::move(*weights));
  AttentionSizes mixed = counts;
  mixed.query_count = own.mixed;
  mixed.key_count = own.values;
  Var out = weights_times_value(tape_, *weights, value, mixed);
  if (setup_.sequence > 1 && !has_one_head()) out = clone(tape_, std::move(out));
  return out;
}

// cuDNN's results lie as the queries do.
Var Transformer::by_tokens(const Var& query, Var mixed) {
  const bool lies_by_heads =
      query.heads_first && mixed.width == 2 && setup_.sequence > 1 && !has_one_head();
  return lies_by_heads ? clone(tape_, std::move(mixed)) : mixed;
}

Var Transformer::attend_core(const Var& query, Var key, Var value, Var* weights) {
  const ModelShape& model = setup_.model;
  const Sizes own = sizes();
  const std::uint64_t repeats = model.head_count / model.kv_head_count;
  if (setup_.parallel.splits_sequences()) return attend_in_ring(query, key, value);
  if (setup_.fused_attention) {
    const FusedAttentionShape shape{
        .query_count = own.queries,
        .value_count = model.is_latent() ? own.values : 0,
        .row_count = own.rows * model.head_count / setup_.parallel.tensor,
        .query_rows = setup_.sequence,
        .repeats = repeats,
        .one_query = setup_.sequence == 1,
        .one_key = setup_.key_count() == 1,
        .one_head = has_one_head()};
    if (block_mask().count != 0) {
      return masked_fused_attention(query, std::move(key), std::move(value), shape);
    }
    // No fused kernel takes grouped heads in four bytes.
    if (query.width == 4 && repeats > 1 && !tape_.autocast()) {
      // A prompt in a preallocated cache is cut out of it: attention's causal mode wants a square.
      const std::uint64_t all = setup_.key_count();
      const std::uint64_t seen = mask_length_ > 0 && setup_.sequence > 1 ? setup_.sequence : all;
      for (Var* half : {&key, &value}) half->count = half->count / all * seen;
      Var out = unfused_attention(tape_, query, std::move(key), std::move(value), {},
                                  {.query_count = own.queries,
                                   .key_count = own.keys / all * seen,
                                   .score_count = own.scores / all * seen,
                                   .row_count = shape.row_count,
                                   .repeats = repeats,
                                   .causal_count = setup_.sequence > 1 ? setup_.sequence * seen : 0,
                                   .viewable = viewable()},
                                  false);
      if (setup_.sequence > 1) out = clone(tape_, std::move(out));
      return out;
    }
    return by_tokens(query, fused_attention(tape_, query, key, value, shape));
  }
  return attend_by_scores(query, std::move(key), std::move(value), weights);
}

Var Transformer::gpt2_attention(const LayerWeights& own, std::size_t index, const Var& input,
                                Var* weights) {
  const std::uint64_t rows = setup_.token_count();
  Var joint = adapted(into_product(into_parallel(input)), projection(own.query), own.query_adapter);
  std::vector<Var> parts = split_parts(tape_, joint, 3);
  joint.drop();
  Var key = heads(std::move(parts[1]));
  Var value = heads(std::move(parts[2]));
  Var query = heads(std::move(parts[0]));
  // Rows of several sequences have other parts between them, even with one token each.
  query.heads_viewable = key.heads_viewable = value.heads_viewable = setup_.batch == 1;
  cache(index, &key, &value);
  Var out = attend(query, key, value, weights);
  out = out_of_parallel(linear(tape_, std::move(out), rows, with_bias(own.output)));
  out = dropped(std::move(out));
  drop({&query, &key, &value});
  return out;
}

// Query, key and value, with their positions. `shared`: all tokens of it.
std::array<Var, 3> Transformer::llama_heads(const LayerWeights& own, const Var& shared) {
  Var query = adapted(into_product(shared), projection(own.query), own.query_adapter);
  // Gemma norms heads after heads and tokens changed places.
  const bool norms_last = setup_.model.gemma;
  query = norms_last ? heads(std::move(query)) : normed_heads(std::move(query), own.query_norm);
  Var key = adapted(into_product(shared), projection(own.key), own.key_adapter);
  key = norms_last ? heads(std::move(key)) : normed_heads(std::move(key), own.key_norm);
  Var value = heads(adapted(into_product(shared), projection(own.value), own.value_adapter));
  if (norms_last) {
    query = head_norm(query, own.query_norm);
    key = head_norm(key, own.key_norm);
  }
  if (setup_.liger != LigerParts::None) {
    // One function for both, whose backward begins with the queries'.
    key = liger_rotated(tape_, std::move(key), cosine_, sine_, has_one_key_head());
    query = liger_rotated(tape_, std::move(query), cosine_, sine_, has_one_head());
  } else {
    Var turned_query = rotated(query);
    Var turned_key = rotated(key);
    query = std::move(turned_query);
    key = std::move(turned_key);
  }
  return {std::move(query), std::move(key), std::move(value)};
}

Var Transformer::llama_attention(const LayerWeights& own, std::size_t index, const Var& input,
                                 Var* weights) {
  Var joint;  // what query, key and value are parts of, where they are
  if (setup_.model.joint_products) {
    joint = adapted(input, projection(own.query), own.query_adapter);
  }
  const Var shared = into_parallel(input);  // attention's own argument, which it keeps
  auto [query, key, value] = joint.count > 0 ? joint_heads(joint) : llama_heads(own, shared);
  cache(index, &key, &value);
  Var mixed = attend(query, key, value, weights);
  Var out = out_of_layer(product_of(std::move(mixed), with_bias(own.output), own.output_adapter));
  drop({&joint, &query, &key, &value});
  return out;
}

// 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))), operator by operator; autocast runs
// pow in four bytes.
Var Transformer::gelu_written_out(Var input) {
  Var half = multiply_scalar(tape_, input);
  Var exact = tape_.autocast() ? cast(tape_, input, 4) : input;
  Var chain = multiply_scalar(tape_, power(tape_, std::move(exact)));
  chain = add(tape_, input, std::move(chain));
  chain = multiply_scalar(tape_, std::move(chain));
  chain = activation_of_result(tape_, std::move(chain));
  chain = add_scalar(tape_, std::move(chain));
  return multiply(tape_, std::move(half), std::move(chain));
}

Var Transformer::dropped(Var input) {
  return tape_.in_module(
      [&] { return setup_.has_dropout() ? dropout(tape_, std::move(input)) : std::move(input); });
}

Var Transformer::gpt2_layer(const LayerWeights& own, std::size_t index, Var hidden) {
  const std::uint64_t rows = setup_.token_count();
  tape_.pass_module();
  Var residual = hidden;
  hidden = layer_norm(tape_, hidden, rows, own.first_norm);
  Var weights;
  Var branch = tape_.in_module([&] { return gpt2_attention(own, index, hidden, &weights); });
  hidden = add(tape_, branch, residual);
  residual = hidden;
  hidden = layer_norm(tape_, hidden, rows, own.second_norm);
  tape_.pass_module();
  Var inner = linear(tape_, into_product(into_parallel(hidden)), rows, with_bias(own.up));
  inner = tape_.in_module([&] { return gelu_written_out(std::move(inner)); });
  inner = out_of_parallel(linear(tape_, std::move(inner), rows, with_bias(own.down)));
  inner = tape_.behind_module(dropped(std::move(inner)));
  hidden = add(tape_, residual, inner);
  drop({&residual, &branch, &weights, &inner});
  return tape_.behind_module(std::move(hidden));
}

Var Transformer::bert_layer(const LayerWeights& own, Var hidden) {
  const std::uint64_t rows = setup_.token_count();
  const auto output = [&](Var branch, std::size_t weight, const Var& input, std::size_t norm) {
    branch = out_of_parallel(linear(tape_, std::move(branch), rows, with_bias(weight)));
    if (setup_.has_dropout()) branch = dropout(tape_, std::move(branch));
    Var sum = add(tape_, branch, input);
    branch = layer_norm(tape_, std::move(sum), rows, norm);
    return branch;
  };
  Var weights;
  Var shared = into_parallel(hidden);
  Var query = heads(adapted(into_product(shared), projection(own.query), own.query_adapter));
  Var key = heads(linear(tape_, into_product(shared), rows, with_bias(own.key)));
  Var value = heads(adapted(into_product(shared), projection(own.value), own.value_adapter));
  shared.drop();
  Var mixed = attend(query, key, value, &weights);
  drop({&query, &key, &value});
  Var attention = output(mixed, own.output, hidden, own.first_norm);
  mixed.drop();
  Var inner = linear(tape_, into_product(into_parallel(attention)), rows, with_bias(own.up));
  inner = activation_of_input(tape_, std::move(inner));
  Var out = output(inner, own.down, attention, own.second_norm);
  drop({&inner, &weights, &attention});
  return out;
}

Var Transformer::llama_layer(const LayerWeights& own, std::size_t index, Var hidden) {
  if (setup_.compiled != Compiled::None) return compiled_llama_layer(own, std::move(hidden));
  block_ = index;
  slides_ = setup_.model.slides(index);
  tape_.pass_module();
  Var residual = hidden;
  hidden = rms_norm(hidden, own.first_norm);
  Var weights;
  hidden = tape_.in_module([&] {
    return setup_.model.is_latent() ? latent_attention(own, index, hidden, &weights)
                                    : llama_attention(own, index, hidden, &weights);
  });
  if (setup_.model.joint_products) hidden = dropped(std::move(hidden));
  if (setup_.model.gemma) hidden = rms_norm(hidden, own.attention_norm);
  hidden = add(tape_, residual, std::move(hidden));
  residual = hidden;
  Var normed = rms_norm(hidden, own.second_norm);  // the layer's own until the MLP is through
  hidden = into_parallel(normed);
  tape_.pass_module();
  if (setup_.model.has_experts(index)) {
    hidden = mixtral_mlp(own, index, hidden);
    if (setup_.head_ranks > 1) hidden = out_of_layer(std::move(hidden));
  } else if (setup_.model.joint_products) {
    hidden = joint_mlp(own, hidden);
  } else {
    const bool is_fused = setup_.liger != LigerParts::None;
    Var gate = adapted(into_product(hidden), with_bias(own.gate), own.gate_adapter);
    tape_.pass_module();
    if (!is_fused) gate = tape_.behind_module(activation_of_input(tape_, std::move(gate)));
    Var up = adapted(into_product(hidden), with_bias(own.up), own.up_adapter);
    Var product = is_fused ? liger_swiglu(tape_, std::move(gate), std::move(up))
                           : multiply(tape_, std::move(gate), std::move(up));
    hidden = out_of_layer(product_of(std::move(product), with_bias(own.down), own.down_adapter));
  }
  normed.drop();
  hidden = tape_.behind_module(std::move(hidden));
  if (setup_.model.joint_products) hidden = dropped(std::move(hidden));
  if (setup_.model.gemma) hidden = rms_norm(hidden, own.mlp_norm);
  hidden = add(tape_, residual, std::move(hidden));
  drop({&residual, &weights});
  return tape_.behind_module(std::move(hidden));
}

}  // namespace allocmark
