// Where Transformer's layers meet parallel ranks and checkpoints: the borders of tensor parallel
// regions, attention over shared sequences, the input of later pipeline stages, the attention core
// as a checkpoint of its own, and the recomputation of segments.
#include <utility>

#include "workloads/model/module_scope.h"
#include "workloads/model/ring_attention.h"
#include "workloads/model/transformer.h"

namespace allocmark {

// What products whose weights are shared over ranks have as input, all tokens of it.
Var Transformer::into_parallel(Var hidden) {
  if (!setup_.parallel.sequence) return hidden;
  tape_.set_adds_apart(true);
  hidden = gather_tokens(tape_, std::move(hidden), token_group());
  tape_.set_adds_apart(false);
  return hidden;
}

// Every such product sums its input's gradient over the ranks, where nobody does it for all.
Var Transformer::into_product(Var input) {
  if (setup_.parallel.sequence) return input;
  return copy_to_ranks(tape_, std::move(input), {.ranks = setup_.parallel.tensor});
}

// Gemma's are multiplied by a number.
Var Transformer::scaled_words(Var words) {
  if (!setup_.model.gemma) return words;
  const Var scale = casts_scale_ ? tape_.make(1, 2) : Var();
  return multiply_scalar(tape_, std::move(words));
}

// A rank with some of the words looks up its own; the rows of others are zero.
Var Transformer::embed_words(const Tensor& tokens) {
  const ModelShape& model = setup_.model;
  const std::uint64_t rows = setup_.token_count();
  const std::uint64_t ranks = setup_.word_ranks();
  const ModuleScope module(tape_, {.parameters = {word_table_}, .hears_end = false});
  if (ranks == 1) {
    return scaled_words(embedding(tape_, tokens, rows, word_table_, model.hidden));
  }
  Var outside, own;
  {
    const Var below = tape_.make(rows, 1), above = tape_.make(rows, 1);
    outside = tape_.make(rows, 1);
  }
  {
    const Var moved = tape_.make(rows, 8);
    own = tape_.make(rows, 8);
  }
  Var found = embedding(tape_, tokens, rows, word_table_, model.hidden, false, model.vocabulary);
  drop({&own, &outside});
  if (setup_.parallel.tensor > 1) return scaled_words(out_of_parallel(std::move(found)));
  return scaled_words(sum_over_ranks(tape_, std::move(found), {.ranks = ranks}));
}

CollectiveGroup Transformer::token_group() const {
  return {.ranks = setup_.parallel.tensor, .copies_whole = true, .one_sequence = setup_.batch == 1};
}

// A DTensor of this rank's tokens goes in.
Var Transformer::norm_of_shared(Var hidden, std::size_t weight, std::uint64_t rows) {
  tape_.set_adds_apart(true);
  Var out = norm_of_rows(view(tape_, std::move(hidden)), weight, rows);
  tape_.set_adds_apart(false);
  return out;
}

Var Transformer::out_of_parallel(Var partial) {
  const CollectiveGroup group = token_group();
  if (setup_.parallel.sequence) return reduce_scatter_tokens(tape_, std::move(partial), group);
  return sum_over_ranks(tape_, std::move(partial), group);
}

Var Transformer::out_of_layer(Var partial) {
  if (setup_.head_ranks == 1) return out_of_parallel(std::move(partial));
  return sum_over_ranks(tape_, std::move(partial), {.ranks = setup_.head_ranks, .in_place = true});
}

Var Transformer::enter(Var hidden) {
  if (megatron_) return hidden;
  const Var raw = tape_.make(setup_.sequence, 8);
  positions_ = tape_.make(setup_.sequence, 8).tensor;
  mask_ = make_causal_mask(cache_ == nullptr);
  if (setup_.model.family == ModelFamily::Llama) make_rotaries();
  return hidden;
}

// transformers' masks are dropped for it (accelerate's hook): it knows causal attention only.
Var Transformer::attend_in_ring(const Var& query, Var key, Var value) {
  const ModelShape& model = setup_.model;
  const ParallelSetup& parallel = setup_.parallel;
  // With one head of keys, heads come before tokens already.
  if (has_one_key_head()) key.heads_first = value.heads_first = true;
  // DTensor makes a number once, before the first of a job's casts of its gradients.
  const bool is_last = forward_index_ == 1 && block_ + 1 == setup_.own_layer_count();
  Var out =
      ring_attention(tape_, query, std::move(key), std::move(value),
                     {.ranks = parallel.context,
                      .rank = parallel.context_rank,
                      .gathers = parallel.gathers_keys,
                      .batch = setup_.batch,
                      .token_count = setup_.sequence,
                      .head_count = model.head_count / parallel.tensor,
                      .head_width = model.head_width(),
                      .repeats = model.head_count / model.kv_head_count,
                      .makes_number = is_last && tape_.autocast() && !setup_.defers_parameters});
  return out.heads_first && !has_one_head() ? clone(tape_, std::move(out)) : out;
}

Var Transformer::attend(const Var& query, Var key, Var value, Var* weights) {
  // Before the first adapter nothing has a gradient, and a checkpoint that saves nothing ends.
  const bool has_gradient = query.edge != kNoEdge || key.edge != kNoEdge || value.edge != kNoEdge;
  if (!setup_.recomputes_attention || !has_gradient) {
    return attend_core(query, std::move(key), std::move(value), weights);
  }
  tape_.begin_segment({.first_layer = static_cast<std::uint32_t>(block_),
                       .layer_count = 0,
                       .inputs = {query, key, value}});
  if (!setup_.parallel.splits_sequences()) tape_.hold(block_mask().tensor);
  if (setup_.model.is_llama_like()) tape_.hold(positions_);
  Var out = attend_core(query, std::move(key), std::move(value), weights);
  tape_.end_segment();
  return out;
}

Var Transformer::recompute(const SegmentInput& segment) {
  Var out;
  if (segment.layer_count > 0) {
    out = segment.inputs[0];
    for (std::uint32_t i = 0; i < segment.layer_count; ++i) {
      out = layer(segment.first_layer + i, out);
    }
  } else if (segment.is_loss) {
    out = chunk_loss(segment.inputs[0], {});
  } else if (megatron_) {
    out = megatron_->attention_core(segment.inputs[0]);
  } else {
    Var weights;
    slides_ = setup_.model.slides(segment.first_layer);
    out = attend_core(segment.inputs[0], segment.inputs[1], segment.inputs[2], &weights);
  }
  tape_.end_autocast();
  for (Var& bias : position_bias_) bias.drop();
  cross_bias_.drop();
  return out;
}

}  // namespace allocmark
