#include "workloads/model/transformer.h"

#include <utility>

#include "workloads/model/compiled_parts.h"

namespace allocmark {

Transformer::Transformer(const TransformerSetup& setup, const LoraSettings& lora, TensorPool* pool)
    : setup_(setup),
      lora_(lora),
      own_tape_(std::in_place, pool, setup.narrow_bytes, setup.autocast),
      tape_(*own_tape_) {
  tape_.set_kernels(setup.kernels, setup.card, setup.products_only);
  if (setup.meetings) tape_.set_meetings(setup.parallel);
  tape_.set_half(setup.is_half);
  if (setup.implementation == Implementation::Megatron) {
    megatron_ = std::make_unique<MegatronModel>(setup, &tape_);
  }
  if (setup.sees_images()) make_tower();
}

Transformer::Transformer(const TransformerSetup& setup, Tape* tape) : setup_(setup), tape_(*tape) {}

void Transformer::set_lengths(std::uint64_t batch, std::uint64_t sequence, std::uint64_t context) {
  setup_.batch = batch;
  setup_.sequence = sequence;
  setup_.context = context;
  if (megatron_) megatron_->set_lengths(batch, sequence);
  if (tower_) tower_->set_lengths(batch, setup_.vision.positions, 0);
}

std::array<Var, 2> Transformer::make_rotary(std::uint64_t width) {
  // Positions that the caller gives are each sequence's own.
  const std::uint64_t batch = given_positions_ && !has_one_row_ ? setup_.batch : 1;
  const std::uint64_t half = setup_.model.rotary_width() / 2;
  const std::uint64_t count = batch * setup_.sequence * half * 2;
  Var frequencies;
  // Qwen casts them before it expands them over the batch.
  const bool is_qwen = setup_.model.has_qwen_parts() && !setup_.model.gemma;
  if (parameter_bytes() != 4 || has_narrow_buffers_) {
    frequencies = tape_.make((is_qwen ? 1 : batch) * half, 4);
  }
  Var positions = tape_.make(batch * setup_.sequence, 4);
  Var angles = tape_.make(batch * setup_.sequence * half, 4);
  tape_.use_cublas(false);
  Var both = tape_.make(count, 4);
  const auto scaled = [&] {
    const Var raw = tape_.make(count, 4);
    return tape_.make(count, 4);
  };
  Var cosine = scaled();
  Var sine = scaled();
  std::array<Var, 2> out = {cast(tape_, cosine, width), cast(tape_, sine, width)};
  drop({&frequencies, &positions, &angles, &both, &cosine, &sine});
  return out;
}

void Transformer::narrow_buffers() {
  if (has_narrow_buffers_ || !setup_.model.is_llama_like()) return;
  has_narrow_buffers_ = true;
  for (Tensor& buffer : buffers_) {
    buffer = tape_.allocate(buffer.size_bytes() / 2, TensorKind::Unknown);
  }
}

// Gemma's blocks with a window turn by other frequencies.
void Transformer::make_rotaries() {
  const auto make = [&](Var* cosine, Var* sine) {
    tape_.pass_module();
    std::array<Var, 2> made = make_rotary(setup_.wide_bytes);
    *cosine = std::move(made[0]);
    *sine = std::move(made[1]);
  };
  make(&cosine_, &sine_);
  if (setup_.model.gemma) make(&window_cosine_, &window_sine_);
}

// Checkpoints of a model with adapters need a gradient to pass on.
void Transformer::let_checkpoints_begin(Var* words) {
  if (!tape_.grad_enabled() || !lora_.input_gradient || lora_.trains_tables) return;
  words->edge = tape_.parameter(input_leaf_).edge;
  *words = tape_.passed_on(std::move(*words), {.parameters = {word_table_}, .hears_end = false});
  new_graph_input_ = words->tensor;
}

Var Transformer::embed(const Tensor& tokens) {
  if (megatron_) return megatron_->embed(tokens);
  const ModelShape& model = setup_.model;
  ++forward_index_;
  if (model.family == ModelFamily::Vit) return vit_embed(tokens);
  if (model.family == ModelFamily::Dit) return dit_embed(tokens);
  if (model.family == ModelFamily::T5) return t5_embed(tokens);
  const std::uint64_t rows = setup_.token_count();
  if (model.family == ModelFamily::Bert) {
    Var types = tape_.make(setup_.sequence, 8);
    Var words = embed_words(tokens);
    let_checkpoints_begin(&words);
    // The same row of type ids for every sequence becomes rows of their own.
    Var type_indexes = setup_.batch == 1 || setup_.sequence == 1 ? types : tape_.make(rows, 8);
    Var type_rows = embedding(tape_, types.tensor, rows, type_table_, model.hidden);
    type_indexes.drop();
    Var sum = add(tape_, words, type_rows);
    Var position_rows =
        embedding(tape_, buffers_[0], setup_.sequence, position_table_, model.hidden);
    sum = add(tape_, sum, position_rows);
    sum = layer_norm(tape_, sum, rows, embedding_norm_);
    if (setup_.has_dropout()) sum = dropout(tape_, std::move(sum));
    drop({&words, &types, &type_rows, &position_rows});
    if (given_mask_) make_bidirectional_mask();
    words_ = sum;
    return sum;
  }
  if (setup_.compiled == Compiled::Whole) return compiled_embed(tokens);
  // generate() makes the masks of a cache that is longer than what it holds.
  const bool has_masks = mask_length_ > 0;
  if (has_masks) make_causal_masks();
  words_ = embed_words(tokens);
  if (conditions_.images) words_ = with_images(std::move(words_));
  if (!given_positions_) {
    const Var raw = tape_.make(setup_.sequence, 8);
    positions_ = tape_.make(setup_.sequence, 8).tensor;
  }
  let_checkpoints_begin(&words_);
  if (model.is_llama_like()) {
    if (!has_masks) make_causal_masks();
    make_rotaries();
    return words_;
  }
  position_rows_ = embedding(tape_, positions_, given_positions_ ? rows : setup_.sequence,
                             position_table_, model.hidden);
  Var hidden = add(tape_, words_, position_rows_);
  if (!has_masks) make_causal_masks();
  return dropped(std::move(hidden));
}

std::vector<std::size_t> Transformer::ordered_parameters() {
  std::vector<std::size_t> order;
  const auto take = [&](std::size_t index) {
    if (tape_.parameters()[index].count > 0) order.push_back(index);
  };
  const bool is_vit = setup_.model.family == ModelFamily::Vit;
  const std::size_t end = adapters_begin_ > 0 ? adapters_begin_ : tape_.parameters().size();
  std::size_t layer = 0;
  for (std::size_t i = 0; i < end; ++i) {
    // A module's own parameters come before its children's: BERT's output bias before the head.
    if (head_bias_ != 0 && i == transform_) take(head_bias_);
    if (is_vit && i == patch_weight_) {
      take(class_token_);
      take(position_table_);
    }
    const bool is_done = (is_vit && (i == class_token_ || i == position_table_)) ||
                         (head_bias_ != 0 && i == head_bias_);
    if (!is_done) take(i);
    if (lora_.trains_tables && i == frozen_table_) take(word_table_);
    if (end != adapters_begin_) continue;
    while (layer < layer_parameters_.size() && i >= layer_parameters_[layer].end()) ++layer;
    if (layer < layers_.size()) add_adapter_behind(layers_[layer], i, &order);
  }
  if (lora_.trains_tables) take(head_);
  return order;
}

std::vector<std::size_t> Transformer::trained_parameters() {
  std::vector<std::size_t> order;
  if (tower_) order = trained_tower_parameters();
  for (const std::size_t index : ordered_parameters()) {
    if (index >= first_own_ && tape_.parameters()[index].trainable) order.push_back(index);
  }
  return order;
}

void Transformer::end_graph(bool keeps_graphs) {
  if (bias_leaf_ > 0) {
    old_zeros_.reset();
    tape_.parameters()[bias_leaf_].gradient.reset();
  }
  if (!new_graph_input_) return;
  std::vector<Tensor>& inputs = setup_.evaluating ? evaluated_inputs_ : graph_inputs_;
  if (!setup_.evaluating) {
    Tensor gradient = std::move(tape_.parameters()[input_leaf_].gradient);
    if (keeps_graphs && gradient) inputs.push_back(std::move(gradient));
  }
  if (!keeps_graphs) inputs.clear();
  inputs.push_back(std::move(new_graph_input_));
}

Transformer::InputSizes Transformer::input_sizes() const {
  const ModelShape& model = setup_.model;
  if (model.image > 0) {
    return {.input_bytes =
                setup_.batch * model.channels() * model.image * model.image * setup_.wide_bytes,
            .label_bytes = setup_.batch * 8};
  }
  // A decoder's tokens are its labels, shifted.
  return {.input_bytes = setup_.token_count() * 8, .label_bytes = setup_.batch * setup_.target * 8};
}

void Transformer::set_evaluating(bool evaluating) {
  setup_.evaluating = evaluating;
  if (megatron_) megatron_->set_evaluating(evaluating);
}

void Transformer::hold_inputs(const Var& hidden, std::uint64_t first_layer,
                              std::uint64_t layer_count) {
  bool has_near = false, has_whole = false;
  for (std::uint64_t i = first_layer; i < first_layer + layer_count; ++i) {
    (setup_.model.slides(i) ? has_near : has_whole) = true;
  }
  tape_.hold(hidden.tensor);
  for (const Tensor& held : shared_inputs(has_near, has_whole)) tape_.hold(held);
}

std::vector<Tensor> Transformer::shared_inputs(bool has_near, bool has_whole) const {
  std::vector<Tensor> inputs;
  const auto take = [&](std::initializer_list<const Tensor*> tensors) {
    for (const Tensor* held : tensors) {
      if (*held) inputs.push_back(*held);
    }
  };
  // Blocks with a window have masks of their own, and Gemma's rotations, too.
  if (has_whole) take({&mask_.tensor, &encoder_mask_.tensor});
  if (has_whole || !setup_.model.gemma) take({&sine_.tensor, &cosine_.tensor});
  if (has_near) take({&window_mask_.tensor, &window_sine_.tensor, &window_cosine_.tensor});
  take({&positions_, &position_bias_[0].tensor, &position_bias_[1].tensor, &condition_.tensor,
        &cross_bias_.tensor, &cross_mask_.tensor, &encoded_.tensor});
  return inputs;
}

Tensor Transformer::placed_mask() const {
  const bool is_placed =
      setup_.model.family == ModelFamily::Gpt2 || setup_.model.family == ModelFamily::Bert;
  return is_placed ? mask_.tensor : Tensor();
}

Var Transformer::before_layer(std::size_t index, Var hidden) {
  if (setup_.model.family != ModelFamily::T5 || index != setup_.model.layer_count) return hidden;
  return t5_begin_decoder(std::move(hidden));
}

Var Transformer::layer(std::size_t index, Var hidden) {
  if (megatron_) return megatron_->layer(index, std::move(hidden));
  const LayerWeights& own = layers_[index];
  switch (setup_.model.family) {
    case ModelFamily::Gpt2:
      return gpt2_layer(own, index, std::move(hidden));
    case ModelFamily::Bert:
      return bert_layer(own, std::move(hidden));
    case ModelFamily::Llama:
    case ModelFamily::Mixtral:
      return llama_layer(own, index, std::move(hidden));
    case ModelFamily::Vit:
      return vit_layer(own, std::move(hidden));
    case ModelFamily::Dit:
      return dit_layer(own, std::move(hidden));
    case ModelFamily::T5:
      return t5_layer(own, index, std::move(hidden));
  }
  return hidden;
}

Var Transformer::finish(Var hidden) {
  if (megatron_) return megatron_->finish(std::move(hidden));
  const ModelShape& model = setup_.model;
  if (model.family == ModelFamily::T5) {
    return t5_finish(std::move(hidden), final_norm_, setup_.batch * setup_.target);
  }
  if (model.family == ModelFamily::Dit) return hidden;
  if (model.family == ModelFamily::Vit) {
    Var last = layer_norm(tape_, hidden, setup_.token_count(), final_norm_);
    drop_locals();
    return last;
  }
  if (model.family == ModelFamily::Gpt2) {
    hidden = tape_.behind_module(layer_norm(tape_, hidden, setup_.own_token_count(), final_norm_));
  } else if (setup_.compiled == Compiled::Whole) {
    hidden = compiled_norm(tape_, hidden, setup_.token_count(), final_norm_);
  } else if (model.is_llama_like()) {
    hidden = tape_.behind_module(rms_norm(hidden, final_norm_));
  }
  // BERT's pooler is part of its forward.
  if (model.family != ModelFamily::Bert || setup_.has_word_head()) drop_locals();
  return hidden;
}

void Transformer::drop_locals() {
  drop({&positions_, &image_mask_});
  // BERT's goes first; generate() keeps its own until it makes the next, but a prompt's.
  if (setup_.model.family == ModelFamily::Bert) mask_.drop();
  for (Var* local : {&words_, &position_rows_, &mask_, &sine_, &cosine_, &window_mask_,
                     &window_sine_, &window_cosine_}) {
    if (local != &mask_ || mask_length_ == 0 || setup_.sequence > 1) local->drop();
  }
}

// The label shift pads, copies, and goes with the logits in four bytes. One sequence without its
// first label is contiguous already, so contiguous() copies nothing. Who has pieces of sequences
// gets shifted labels.
Var Transformer::causal_loss(Var logits, const Tensor& given) {
  const std::uint64_t rows = setup_.token_count();
  Var exact = cast(tape_, logits, 4);
  if (setup_.parallel.splits_sequences()) return cross_entropy(tape_, exact, given);
  Var padded = tape_.make(rows + setup_.batch, 8);
  Var labels = setup_.batch == 1 ? padded : tape_.make(rows, 8);
  Var loss = cross_entropy(tape_, exact, labels.tensor);
  drop({&labels, &exact, &padded});
  return loss;
}

Var Transformer::loss(Var hidden, const Tensor& tokens) {
  if (megatron_) return megatron_->loss(std::move(hidden), tokens);
  const std::uint64_t rows = setup_.token_count();
  if (setup_.model.family == ModelFamily::T5) return t5_loss(std::move(hidden), tokens);
  if (setup_.model.family == ModelFamily::Dit) return dit_loss(std::move(hidden));
  if (setup_.model.family == ModelFamily::Vit) {
    Var logits = vit_logits(hidden);
    keep_output(logits.tensor);
    Var loss = cross_entropy(tape_, logits, tokens);
    hidden.drop();
    return loss;
  }
  if (setup_.model.family == ModelFamily::Bert) {
    Var scores = word_scores(hidden);
    scores = gather_columns(tape_, std::move(scores),
                            {.ranks = setup_.parallel.tensor, .copies_whole = true});
    keep_output(scores.tensor);
    return cross_entropy(tape_, scores, tokens);
  }
  if (setup_.compiled == Compiled::Whole) {
    return compiled_loss(tape_, std::move(hidden), head_,
                         {.rows = rows,
                          .label_count = rows + setup_.batch,
                          .words = setup_.model.vocabulary,
                          .is_table = adds_head_to_table()});
  }
  if (loss_chunks_ > 1) return chunked_loss(std::move(hidden));
  if (setup_.liger == LigerParts::All) return fused_loss(std::move(hidden));
  Tensor state = hidden.tensor;  // what the model without its head gave
  hidden = into_product(into_parallel(std::move(hidden)));
  Var logits = linear(tape_, hidden, rows, {.weight = head_});
  logits = gather_columns(tape_, std::move(logits),
                          {.ranks = setup_.parallel.tensor, .copies_whole = true});
  keep_output(logits.tensor);
  if (loss_apart_) tape_.end_autocast();
  Var loss = causal_loss(logits, tokens);
  state.reset();
  drop({&hidden, &logits, &image_rows_});
  return loss;
}

void Transformer::keep_output(const Tensor& logits) {
  if (kept_outputs_ == nullptr) return;
  if (keeps_last_output_) kept_outputs_->clear();
  kept_outputs_->push_back(logits);
}

// BERT's head of a masked language model.
Var Transformer::word_scores(const Var& hidden) {
  const std::uint64_t rows = setup_.token_count();
  Var scores = linear(tape_, hidden, rows, with_bias(transform_));
  scores = activation_of_input(tape_, std::move(scores));
  scores = layer_norm(tape_, std::move(scores), rows, transform_norm_);
  scores = into_product(into_parallel(std::move(scores)));
  return linear(tape_, std::move(scores), rows, {.weight = head_, .bias = head_bias_});
}

Var Transformer::answer(Var hidden) {
  const ModelShape& model = setup_.model;
  if (setup_.predicts_words) return word_scores(hidden);
  if (model.family == ModelFamily::Vit) return vit_logits(hidden);
  if (model.family == ModelFamily::T5) return t5_answer(std::move(hidden));
  Var row = hidden;  // a view of one token of each sequence
  row.count = setup_.batch * model.hidden;
  if (model.family == ModelFamily::Bert) {
    Var pooled = linear(tape_, std::move(row), setup_.batch, with_bias(transform_));
    pooled = activation_of_result(tape_, std::move(pooled));
    drop_locals();
    return pooled;
  }
  row.count *= answer_tokens_;
  Var logits = linear(tape_, std::move(row), setup_.batch * answer_tokens_, {.weight = head_});
  // Pieces of one row lie one behind the other already.
  const bool is_row = setup_.batch * answer_tokens_ == 1;
  return gather_columns(tape_, std::move(logits),
                        {.ranks = setup_.head_ranks, .copies_whole = !is_row});
}

}  // namespace allocmark
