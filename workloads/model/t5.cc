// T5: Transformer's forward functions for an encoder and a decoder. Positions are relative: a bias
// per head and distance is added to the scores, and as its last dimension is not contiguous no
// fused kernel takes it, so that self attention runs operator by operator. Cross attention has a
// bias of zeros and is fused.
#include <array>
#include <utility>

#include "workloads/model/module_scope.h"
#include "workloads/model/transformer.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kBucketCount = 32;

// Gradient where the mask let it through, summed where the bias was the same for all sequences. The
// other value is a number of its own. sizes: bytes of the result, of a number, of the bias.
void where_backward(Tape& tape, Node& node, Backprop& b) {
  const Tensor zero = tape.gradient(node.sizes[1]);
  b.out[0].tensor = tape.gradient(node.sizes[0]);
  if (node.sizes[2] != node.sizes[0]) b.reduced_bytes[0] = node.sizes[2];
}

}  // namespace

void Transformer::make_t5_parameters() {
  const ModelShape& model = setup_.model;
  const std::uint64_t h = model.hidden;
  const std::uint64_t inner = model.attention_width();
  word_table_ = head_ = add_weight(model.vocabulary * h, model.vocabulary);
  share(word_table_);
  const auto attention = [&](LayerWeights* own, bool has_bias) {
    own->query = add_weight(h * inner, inner);
    own->key = add_weight(h * inner, inner);
    own->value = add_weight(h * inner, inner);
    own->output = add_weight(inner * h, h);
    if (has_bias) own->position_bias = add_weight(kBucketCount * model.head_count, kBucketCount);
    own->first_norm = add_weight(h);
  };
  for (std::uint64_t i = 0; i < model.block_count(); ++i) {
    const bool decodes = i >= model.layer_count;
    const std::size_t first = tape_.parameters().size();
    LayerWeights own, cross;
    attention(&own, i % model.layer_count == 0);
    if (decodes) attention(&cross, false);
    own.up = add_weight(h * model.ffn, model.ffn);
    own.down = add_weight(model.ffn * h, h);
    own.second_norm = add_weight(h);
    end_layer_parameters(own, first);
    if (decodes) cross_layers_.push_back(cross);
    if (i + 1 == model.layer_count) {
      encoder_norm_ = add_weight(h);
      share(word_table_);
    }
  }
  final_norm_ = add_weight(h);
  share(word_table_);
}

// Without a mean; in four bytes, and back to the weight's type before the weight.
Var Transformer::t5_norm(Var hidden, std::size_t weight, std::uint64_t rows) {
  const ModuleScope module(tape_, {.parameters = {weight}});
  Var variance = mean_of_rows(tape_, power(tape_, cast(tape_, hidden, 4)), rows);
  hidden = multiply(tape_, hidden, rsqrt(tape_, add_scalar(tape_, variance)));
  hidden = cast(tape_, std::move(hidden), setup_.wide_bytes);
  Var out = multiply(tape_, tape_.parameter(weight), hidden);
  drop({&hidden, &variance});
  return out;
}

// Which of the buckets each pair of positions falls in: exact near, logarithmic far.
Tensor Transformer::t5_buckets(std::uint64_t pairs, bool is_decoder) {
  const auto chain = [this, pairs](Var input, std::uint64_t width) {
    Var out = tape_.make(pairs, width);
    input.drop();
    return out;
  };
  Var buckets, positions;
  if (is_decoder) {
    Var zeros = tape_.make(pairs, 8);
    Var nearer = tape_.make(pairs, 8);
    zeros.drop();
    positions = chain(std::move(nearer), 8);
  } else {
    buckets = chain(chain(chain(tape_.make(pairs, 1), 8), 8), 8);
    positions = tape_.make(pairs, 8);
  }
  Var is_small = tape_.make(pairs, 1);
  Var large = tape_.make(pairs, 4);
  for (int i = 0; i < 4; ++i) large = chain(std::move(large), 4);
  large = chain(chain(std::move(large), 8), 8);
  Var last = tape_.make(pairs, 8);
  Var bounded = tape_.make(pairs, 8);
  drop({&last, &large});
  Var chosen = tape_.make(pairs, 8);
  if (is_decoder) {
    buckets = chain(std::move(chosen), 8);
  } else {
    chosen.drop();  // added in place
  }
  drop({&positions, &is_small, &bounded});
  return buckets.tensor;
}

// A row of the table per pair of positions, in the order query, key, head.
Var Transformer::t5_position_bias(std::size_t table, std::uint64_t queries, std::uint64_t keys,
                                  bool is_decoder) {
  Var raw = tape_.make(queries, 8);
  Var query_positions = tape_.make(queries, 8);
  raw.drop();
  Var key_positions = tape_.make(keys, 8);
  Var distances = tape_.make(queries * keys, 8);
  const Tensor buckets = t5_buckets(queries * keys, is_decoder);
  Var out = embedding(tape_, buckets, queries * keys, table, setup_.model.head_count, true);
  drop({&query_positions, &key_positions, &distances});
  return out;
}

// sdpa's own mask: the bias where `allowed` lets it through, `count` elements.
Var Transformer::t5_masked_bias(const Var& bias, const Var& allowed, std::uint64_t count) {
  Node* node =
      tape_.record(where_backward, {&bias}, {count * bias.width, bias.width, bias.size_bytes()});
  tape_.save(node, 0, allowed.tensor);
  const Var lowest = tape_.make(1, bias.width);
  return tape_.result(node, count, bias.width);
}

Var Transformer::t5_causal_bias(const Var& bias, std::uint64_t queries, std::uint64_t keys) {
  Var allowed;
  {
    Var query_positions = tape_.make(queries, 8);
    Var key_positions = tape_.make(keys, 8);
    allowed = tape_.make(queries * keys, 1);
    query_positions.drop();
  }
  return t5_masked_bias(bias, allowed, bias.count);
}

// The encoder's padding as seen by so many queries: found out and left out where there is none.
Var Transformer::t5_padding_mask(std::uint64_t queries) {
  const Var allowed = tape_.make(setup_.token_count(), 1);
  { const Var all = tape_.make(1, 1); }
  if (!padded_) return {};
  Var mask = make_padding_mask(queries, setup_.sequence, KeysSeen::All);
  return setup_.fused_attention ? mask : mask_numbers(std::move(mask));
}

Var Transformer::t5_attend(Var query, Var key, Var value, const T5Attention& what, Var* weights) {
  const ModelShape& model = setup_.model;
  const std::uint64_t inner = model.attention_width();
  const std::uint64_t rows = setup_.batch * what.queries;
  const AttentionSizes sizes{.query_count = rows * inner,
                             .key_count = setup_.batch * what.keys * inner,
                             .score_count = rows * what.keys * model.head_count,
                             .row_count = rows * model.head_count,
                             .viewable = setup_.batch == 1 || what.queries == 1};
  if (!setup_.fused_attention) {
    Var scores = multiply_scalar(tape_, query_times_key(tape_, query, key, sizes));
    scores = add(tape_, std::move(scores), *what.bias);
    if (what.mask->count > 0) scores = add(tape_, std::move(scores), *what.mask);
    *weights = softmax(tape_, std::move(scores));
    if (setup_.has_dropout()) *weights = dropout(tape_, std::move(*weights));
    Var out = weights_times_value(tape_, *weights, value, sizes);
    if (what.queries > 1) out = clone(tape_, std::move(out));
    return out;
  }
  const bool is_padded = what.mask->count > 0;
  Var bias = *what.bias;
  if (is_padded) bias = t5_masked_bias(bias, *what.mask, sizes.score_count);
  if (what.is_cross) {
    bias = bias_of_whole_steps(tape_, std::move(bias), what.keys);
    return fused_attention(tape_, query, key, value,
                           {.query_count = sizes.query_count,
                            .key_count = sizes.key_count,
                            .row_count = rows * model.head_count,
                            .query_rows = what.queries,
                            .one_query = what.queries == 1,
                            .one_key = what.keys == 1,
                            .bias = bias.tensor,
                            .bias_edge = bias.edge,
                            .bias_repeats = is_padded ? 1 : setup_.batch,
                            .bias_columns = what.keys});
  }
  if (what.is_causal && what.queries > 1) bias = t5_causal_bias(bias, what.queries, what.keys);
  Var out = unfused_attention(tape_, std::move(query), std::move(key), std::move(value), bias,
                              sizes, setup_.has_dropout());
  if (what.queries > 1) out = clone(tape_, std::move(out));
  return out;
}

// Of what they are made from, and of what the cache holds; across, the first token's stay.
std::array<Var, 2> Transformer::t5_keys_and_values(const LayerWeights& own, const Var& source,
                                                   const T5Attention& what) {
  const auto index = static_cast<std::size_t>(what.cache_index);
  const std::uint64_t count = setup_.batch * what.keys * setup_.model.kv_width();
  const bool is_cached = cache_ != nullptr && what.cache_index >= 0;
  if (is_cached && what.is_cross && setup_.target_seen > 0) {
    return {cache_->held(index, 0, count, setup_.narrow_bytes),
            cache_->held(index, 1, count, setup_.narrow_bytes)};
  }
  const std::uint64_t length = what.is_cross ? what.keys : what.queries;
  const std::uint64_t rows = setup_.batch * length;
  const auto apart = [&](Var projected) {
    return split_heads(tape_, std::move(projected), setup_.batch == 1 || length == 1);
  };
  Var key = apart(linear(tape_, source, rows, {.weight = own.key}));
  Var value = apart(linear(tape_, source, rows, {.weight = own.value}));
  if (is_cached) {
    Var keys = cache_->append(tape_, index, 0, key, count, key.width, setup_.target);
    Var values = cache_->append(tape_, index, 1, value, count, key.width, setup_.target);
    key = std::move(keys);
    value = std::move(values);
  }
  return {std::move(key), std::move(value)};
}

// transformers lets the zeros of cross attention require a gradient where it checkpoints. Zeros and
// gradient live as long as the loss's graph.
void Transformer::let_bias_be_leaf(Var* bias) {
  if (bias_leaf_ == 0) {
    bias_leaf_ = tape_.add_parameter({.data = {}, .count = 0, .width = setup_.wide_bytes});
  }
  bias->edge = tape_.parameter(bias_leaf_).edge;
  if (!tape_.recomputing()) old_zeros_ = std::exchange(zeros_, bias->tensor);
}

// `source`: what keys and values come from. `kept`: the block's variable, which holds the weights
// of eager attention until the next one returns or the block ends.
Var Transformer::t5_attention(const LayerWeights& own, const Var& input, const Var& source,
                              T5Attention what, Var* kept) {
  const std::uint64_t rows = setup_.batch * what.queries;
  Var query = split_heads(tape_, linear(tape_, input, rows, {.weight = own.query}),
                          setup_.batch == 1 || what.queries == 1);
  auto [key, value] = t5_keys_and_values(own, source, what);
  const std::uint64_t pair_count = what.queries * what.keys * setup_.model.head_count;
  if (what.makes_bias && what.is_cross) {
    *what.bias = tape_.make(pair_count, query.width);
    if (tape_.in_checkpoint()) let_bias_be_leaf(what.bias);
  } else if (what.is_cross && tape_.recomputing()) {
    // The first block made it, and comes last here.
    *what.bias = {.tensor = zeros_,
                  .count = pair_count,
                  .width = query.width,
                  .edge = tape_.parameter(bias_leaf_).edge};
  } else if (what.makes_bias) {
    *what.bias = t5_position_bias(own.position_bias, what.queries, what.keys, what.is_causal);
  }
  Var weights;
  Var out = t5_attend(query, key, value, what, &weights);
  out = linear(tape_, std::move(out), rows, {.weight = own.output});
  drop({&query, &key, &value});
  *kept = std::move(weights);
  return out;
}

Var Transformer::t5_layer(const LayerWeights& own, std::size_t index, Var hidden) {
  const std::uint64_t layers = setup_.model.layer_count;
  const bool decodes = index >= layers;
  const Var block_input = hidden;  // the loop's variable
  Var encoded;
  if (decodes) encoded = is_fully_sharded_ ? tape_.hooked(encoded_, kNoHook) : encoded_;
  Var weights;
  const std::uint64_t queries = decodes ? setup_.target : setup_.sequence;
  const std::uint64_t rows = setup_.batch * queries;
  Var normed = t5_norm(hidden, own.first_norm, rows);
  T5Attention what{.queries = queries,
                   .keys = decodes ? setup_.target_context() : queries,
                   .is_causal = decodes,
                   .makes_bias = index % layers == 0,
                   .cache_index = decodes ? static_cast<std::int64_t>(index) : -1,
                   .bias = &position_bias_[decodes ? 1 : 0],
                   .mask = decodes ? &mask_ : &encoder_mask_};
  Var branch = t5_attention(own, normed, normed, what, &weights);
  // The block's variable has the old states until a layer has returned.
  Var sum = add(tape_, hidden, dropped(branch));
  drop({&branch, &normed});
  hidden = std::move(sum);
  if (decodes) {
    const LayerWeights& cross = cross_layers_[index - layers];
    normed = t5_norm(hidden, cross.first_norm, rows);
    what = {.queries = queries,
            .keys = setup_.sequence,
            .is_cross = true,
            .makes_bias = index == layers,
            .cache_index = static_cast<std::int64_t>(index - layers),
            .bias = &cross_bias_,
            .mask = &cross_mask_};
    branch = t5_attention(cross, normed, encoded, what, &weights);
    encoded.drop();
    sum = add(tape_, hidden, dropped(branch));
    drop({&normed, &branch});
    hidden = std::move(sum);
  }
  normed = t5_norm(hidden, own.second_norm, rows);
  Var inner = linear(tape_, normed, rows, {.weight = own.up});
  inner = activation_of_result(tape_, std::move(inner));
  inner = dropped(std::move(inner));
  inner = cast(tape_, std::move(inner), setup_.wide_bytes);
  branch = linear(tape_, inner, rows, {.weight = own.down});
  drop({&inner, &normed});
  sum = add(tape_, hidden, dropped(branch));
  branch.drop();
  hidden = std::move(sum);
  return hidden;
}

Var Transformer::t5_embed(const Tensor& tokens) {
  words_ = embedding(tape_, tokens, setup_.token_count(), word_table_, setup_.model.hidden);
  mask_ = encoder_mask_ = cross_mask_ = Var();
  if (setup_.training && given_mask_) encoder_mask_ = t5_padding_mask(setup_.sequence);
  return dropped(words_);
}

// Final norm of one of the two, and what its forward held.
Var Transformer::t5_finish(Var hidden, std::size_t norm, std::uint64_t rows) {
  hidden = t5_norm(hidden, norm, rows);
  hidden = dropped(std::move(hidden));
  drop({&mask_, &encoder_mask_, &words_, &cross_mask_});
  for (Var& bias : position_bias_) bias.drop();
  cross_bias_.drop();
  return hidden;
}

// The encoder's result stays for cross attention; the decoder's tokens are the labels, one later.
Var Transformer::t5_begin_decoder(Var hidden) {
  encoded_ = t5_finish(std::move(hidden), encoder_norm_, setup_.token_count());
  const std::uint64_t rows = setup_.batch * setup_.target;
  Var shifted = tape_.make(rows, 8);
  { const Var before = tape_.make(rows - setup_.batch, 8); }
  { const Var is_ignored = tape_.make(rows, 1); }
  words_ = embedding(tape_, shifted.tensor, rows, word_table_, setup_.model.hidden);
  decoder_tokens_ = shifted.tensor;
  mask_ = Var();
  if (!setup_.fused_attention) mask_ = make_mask(setup_.target, setup_.target_context());
  if (given_mask_) cross_mask_ = t5_padding_mask(setup_.target);
  return dropped(words_);
}

void Transformer::end_encoder(Var hidden) {
  encoded_ = t5_finish(std::move(hidden), encoder_norm_, setup_.token_count());
}

Var Transformer::embed_target(const Tensor& tokens, std::uint64_t count, std::uint64_t seen) {
  setup_.target = count;
  setup_.target_seen = seen;
  words_ = embedding(tape_, tokens, setup_.batch * count, word_table_, setup_.model.hidden);
  if (!setup_.fused_attention) mask_ = make_mask(count, setup_.target_context());
  // The encoder's mask is looked at in every pass.
  Var allowed = tape_.make(setup_.token_count(), 1);
  { const Var all = tape_.make(1, 1); }
  return words_;
}

Var Transformer::t5_answer(Var hidden) {
  Var scaled = multiply_scalar(tape_, hidden);
  Var logits = linear(tape_, scaled, setup_.batch * setup_.target, {.weight = head_});
  drop({&hidden, &scaled});
  return logits;
}

Var Transformer::t5_loss(Var hidden, const Tensor& labels) {
  const std::uint64_t rows = setup_.batch * setup_.target;
  Var scaled = multiply_scalar(tape_, hidden);
  Var logits = linear(tape_, scaled, rows, {.weight = head_});
  keep_output(logits.tensor);
  Var loss = cross_entropy(tape_, logits, labels);
  decoder_tokens_.reset();
  drop({&hidden, &scaled, &logits, &encoded_});
  return loss;
}

}  // namespace allocmark
