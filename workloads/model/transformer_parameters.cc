// A transformer's parameters, in the order in which its modules register them (transformer.h).
#include <utility>

#include "base/divided_up.h"
#include "workloads/model/quantized.h"
#include "workloads/model/transformer.h"

namespace allocmark {

std::size_t Transformer::add_weight(std::uint64_t count, std::uint64_t rows) {
  Parameter parameter;
  parameter.width = parameter_bytes();
  if (!setup_.defers_parameters) {
    parameter.data = tape_.allocate(count * parameter.width, TensorKind::Parameter);
  }
  parameter.count = count;
  parameter.rows = rows;
  parameter.is_distributed = rows > 0 && setup_.parallel.tensor > 1;
  parameter.trainable = lora_.rank == 0 && !setup_.frozen;
  return tape_.add_parameter(std::move(parameter));
}

void Transformer::add_buffer(std::uint64_t size_bytes) {
  if (!setup_.defers_buffers) {
    buffers_.push_back(tape_.allocate(size_bytes, TensorKind::Unknown));
    return;
  }
  buffers_.emplace_back();
  late_.push_back({.behind = tape_.parameters().size() - 1, .buffer_bytes = size_bytes});
}

// Of another module, which has it too.
void Transformer::share(std::size_t parameter) {
  if (!setup_.defers_buffers) return;
  late_.push_back({.behind = tape_.parameters().size() - 1, .again = parameter});
}

// Of a block, with a bias where its family has one.
std::size_t Transformer::add_matrix(std::uint64_t in, std::uint64_t out, std::uint64_t rows) {
  const ModelShape& model = setup_.model;
  if (lora_.bits != WeightBits::Whole) {
    quantize_weight(tape_.pool(), lora_.bits, in * out, &quantized_);
    return tape_.add_parameter({.data = {}, .count = in * out, .width = 2, .trainable = false});
  }
  if (rows == 0) rows = model.family == ModelFamily::Gpt2 ? in : out;
  const std::size_t index = add_weight(in * out, rows);
  if (!model.is_llama_like()) static_cast<void>(add_weight(out));
  return index;
}

std::size_t Transformer::add_weight_and_bias(std::uint64_t in, std::uint64_t out) {
  const std::size_t index = add_weight(in * out, out);
  static_cast<void>(add_weight(out));
  return index;
}

std::size_t Transformer::add_norm() {
  const std::size_t index = add_weight(setup_.model.hidden);
  // Each rank has a part of its gradient's sum, which is made whole anew at each use.
  tape_.parameters()[index].cuts_gradient = setup_.parallel.sequence;
  tape_.parameters()[index].is_distributed = setup_.parallel.sequence;
  if (!setup_.model.is_llama_like()) static_cast<void>(add_weight(setup_.model.hidden));
  return index;
}

// `first`: of its parameters.
void Transformer::end_layer_parameters(const LayerWeights& own, std::size_t first) {
  layers_.push_back(own);
  layer_parameters_.push_back({.first = first, .count = tape_.parameters().size() - first});
}

LinearWeights Transformer::with_bias(std::size_t weight) const {
  return {.weight = weight,
          .bias = setup_.model.is_llama_like() ? kNoBias : weight + 1,
          .conv1d = setup_.model.family == ModelFamily::Gpt2,
          .bits = lora_.bits,
          .float8 = setup_.float8};
}

LinearWeights Transformer::projection(std::size_t weight) const {
  LinearWeights weights = with_bias(weight);
  if (setup_.model.qkv_bias) weights.bias = weight + 1;
  return weights;
}

Transformer::Sizes Transformer::sizes() const {
  const ModelShape& model = setup_.model;
  const std::uint64_t ranks = setup_.parallel.tensor;
  return {.rows = setup_.token_count(),
          .queries = setup_.token_count() * model.attention_width() / ranks,
          .grouped = setup_.batch * setup_.key_count() * model.kv_width() / ranks,
          .keys = setup_.batch * setup_.key_count() * model.attention_width() / ranks,
          .scores = setup_.token_count() * setup_.key_count() * model.head_count / ranks,
          .values = setup_.batch * setup_.key_count() * model.value_width() / ranks,
          .mixed = setup_.token_count() * model.value_width() / ranks};
}

void Transformer::make_layer_parameters() {
  const ModelShape& model = setup_.model;
  const std::uint64_t h = model.hidden;
  const std::uint64_t ranks = setup_.parallel.tensor;
  LayerWeights own;
  const std::size_t first = tape_.parameters().size();
  if (model.family == ModelFamily::Gpt2) {
    own.first_norm = add_norm();
    own.query = add_matrix(h, 3 * h / ranks);
    own.output = add_matrix(h / ranks, h);
    own.second_norm = add_norm();
    own.up = add_matrix(h, model.ffn / ranks);
    own.down = add_matrix(model.ffn / ranks, h);
  } else {
    const auto projected = [&](std::uint64_t width) {
      const std::size_t index = add_matrix(h, width / ranks);
      // Rows, since ranks share them as the matrix's.
      if (model.qkv_bias) static_cast<void>(add_weight(width / ranks, width / ranks));
      return index;
    };
    if (model.is_latent()) {
      make_latent_parameters(&own);
    } else if (model.joint_products) {
      own.output = add_matrix(model.attention_width(), h);
      own.query = add_matrix(h, model.attention_width() + 2 * model.kv_width());
    } else {
      own.query = projected(model.attention_width());
      own.key = projected(model.kv_width());
      own.value = projected(model.kv_width());
      own.output = add_matrix(model.attention_width() / ranks, h);
    }
    if (model.head_norms) {
      own.query_norm = add_weight(model.head_width());
      own.key_norm = add_weight(model.head_width());
    }
    if (model.family == ModelFamily::Bert) own.first_norm = add_norm();
    make_mlp_parameters(&own);
    if (model.is_llama_like()) own.first_norm = add_norm();
    if (model.gemma) own.attention_norm = add_norm();
    own.second_norm = add_norm();
    if (model.gemma) own.mlp_norm = add_norm();
  }
  end_layer_parameters(own, first);
}

void Transformer::make_mlp_parameters(LayerWeights* own) {
  const ModelShape& model = setup_.model;
  const std::uint64_t h = model.hidden;
  const auto gated = [&](std::size_t* gate, std::size_t* up, std::size_t* down,
                         std::uint64_t inner) {
    *gate = add_matrix(h, inner);
    *up = add_matrix(h, inner);
    *down = add_matrix(inner, h);
  };
  const std::uint64_t inner = model.ffn / setup_.parallel.tensor;
  if (layers_.size() < model.dense_count) {
    gated(&own->gate, &own->up, &own->down, model.dense_ffn);
  } else if (model.joint_products) {
    own->gate = add_matrix(h, 2 * inner);
    own->down = add_matrix(inner, h);
  } else if (model.family == ModelFamily::Llama) {
    gated(&own->gate, &own->up, &own->down, inner);
  } else if (model.family == ModelFamily::Mixtral) {
    const bool is_router_last = model.is_latent() || model.head_norms;
    if (!is_router_last) own->router = add_matrix(h, model.expert_count);
    const std::uint64_t experts = setup_.own_expert_count();
    own->gate = add_matrix(h, 2 * model.ffn * experts, experts);
    own->down = add_matrix(model.ffn, h * experts, experts);
    for (const std::size_t part : {own->gate, own->down}) {
      tape_.parameters()[part].is_distributed |= setup_.parallel.expert > 1;
    }
    if (is_router_last) own->router = add_matrix(h, model.expert_count);
    if (!model.is_latent()) return;
    // What balances the experts' load.
    add_buffer(model.expert_count * parameter_bytes());
    if (model.shared_ffn == 0) return;
    gated(&own->shared_gate, &own->shared_up, &own->shared_down, model.shared_ffn);
  } else {
    own->up = add_matrix(h, inner);
    own->down = add_matrix(inner, h);
  }
}

void Transformer::make_latent_parameters(LayerWeights* own) {
  const ModelShape& model = setup_.model;
  const std::uint64_t h = model.hidden;
  if (model.query_rank > 0) {
    own->query_low = add_weight(h * model.query_rank, model.query_rank);
    own->query_norm = add_weight(model.query_rank);
  }
  const std::uint64_t queries = model.attention_width();
  own->query = add_weight((model.query_rank > 0 ? model.query_rank : h) * queries, queries);
  own->key_low =
      add_weight(h * (model.key_rank + model.rope_size), model.key_rank + model.rope_size);
  own->key_norm = add_weight(model.key_rank);
  const std::uint64_t plain = model.head_width() - model.rope_size;
  const std::uint64_t values = model.head_count * (plain + model.value_size);
  own->value = add_weight(model.key_rank * values, values);
  own->output = add_weight(model.value_width() * h, h);
}

void Transformer::make_parameters() {
  const ModelShape& model = setup_.model;
  if (megatron_) return megatron_->make_parameters();
  if (model.family == ModelFamily::Vit) return make_vit_parameters();
  if (model.family == ModelFamily::T5) return make_t5_parameters();
  if (model.family == ModelFamily::Dit) return make_dit_parameters();
  if (tower_) make_tower_parameters();
  first_own_ = tape_.parameters().size();
  const std::uint64_t h = model.hidden;
  const std::uint64_t words = divided_up(model.vocabulary, setup_.word_ranks());
  if (setup_.parallel.is_first()) {
    word_table_ = add_weight(words * h, words);
    // The head's gradient is of this rank's words, and so is its sum with the table's.
    const bool is_head = model.tied_head && setup_.parallel.is_last();
    tape_.parameters()[word_table_].cuts_gradient = setup_.parallel.tensor > 1 && !is_head;
    if (model.gemma) add_buffer(parameter_bytes());  // the scale of the embeddings
    if (model.positions > 0) position_table_ = add_weight(model.positions * h, model.positions);
  }
  if (model.family == ModelFamily::Bert) {
    type_table_ = add_weight(2 * h, 2);
    embedding_norm_ = add_norm();
    for (int i = 0; i < 2; ++i) add_buffer(model.positions * 8);  // position and type ids
  }
  const bool is_last = setup_.parallel.is_last();
  const std::uint64_t chunks = setup_.parallel.chunks, layer_count = setup_.own_layer_count();
  for (std::uint64_t chunk = 0; chunk < chunks; ++chunk) {
    for (std::uint64_t i = 0; i < layer_count / chunks; ++i) make_layer_parameters();
    const bool is_end = is_last && chunk + 1 == chunks;
    if (model.family != ModelFamily::Bert && is_end) final_norm_ = add_norm();
    // Inverse frequencies, twice; Gemma has two kinds.
    for (int i = 0; model.is_llama_like() && i < (model.gemma ? 4 : 2); ++i) {
      add_buffer(model.rotary_width() / 2 * parameter_bytes());
    }
  }
  if (model.family == ModelFamily::Bert) {
    transform_ = add_weight_and_bias(h, h);  // the head's, or the pooler
    if (setup_.has_word_head()) transform_norm_ = add_norm();
    if (setup_.has_word_head()) {
      share(word_table_);
      head_bias_ = add_weight(words);
      share(head_bias_);
    }
  }
  const bool shares_table = model.tied_head && setup_.parallel.is_first();
  if (shares_table && model.family != ModelFamily::Bert) share(word_table_);
  const std::uint64_t head_words =
      model.tied_head ? words : (words + setup_.head_ranks - 1) / setup_.head_ranks;
  if (is_last) head_ = shares_table ? word_table_ : add_weight(head_words * h, head_words);
  if (lora_.rank > 0) make_adapters();
}

std::vector<std::vector<std::size_t>> Transformer::unit_parameters() const {
  std::vector<std::vector<std::size_t>> units(layer_parameters_.size());
  for (std::size_t i = 0; i < units.size(); ++i) {
    const ParameterRange& range = layer_parameters_[i];
    for (std::size_t p = range.first; p < range.first + range.count; ++p) {
      units[i].push_back(p);
      if (lora_.rank > 0) add_adapter_behind(layers_[i], p, &units[i]);
    }
  }
  return units;
}

// A product's adapter is its module's child, and comes behind the product's own bias.
void Transformer::add_adapter_behind(const LayerWeights& layer, std::size_t parameter,
                                     std::vector<std::size_t>* unit) const {
  const std::size_t biases = setup_.model.is_llama_like() ? 0 : 1;
  const std::size_t read_biases = setup_.model.qkv_bias ? 1 : biases;
  const auto add = [&](std::size_t weight, std::size_t bias_count, const Adapter& adapter) {
    if (parameter != weight + bias_count || adapter.low == 0) return;
    unit->insert(unit->end(), {adapter.low, adapter.high});
  };
  add(layer.query, read_biases, layer.query_adapter);
  add(layer.key, read_biases, layer.key_adapter);
  add(layer.value, read_biases, layer.value_adapter);
  add(layer.output, biases, layer.output_adapter);
  add(layer.gate, biases, layer.gate_adapter);
  add(layer.up, biases, layer.up_adapter);
  add(layer.down, biases, layer.down_adapter);
}

void Transformer::make_trained_tables() {
  const ModelShape& model = setup_.model;
  frozen_table_ = word_table_;
  for (std::size_t* table : {&word_table_, &head_}) {
    *table = add_weight(model.vocabulary * model.hidden, model.vocabulary);
    tape_.parameters()[*table].trainable = true;
  }
}

void Transformer::make_adapters() {
  // peft makes adapters in the model's type, all of them, and then casts narrow ones to four bytes.
  const ModelShape& model = setup_.model;
  std::vector<Tensor> narrow;
  const std::uint64_t made_width = parameter_bytes();
  const std::uint64_t width = lora_.in_own_type ? made_width : 4;
  const auto make = [&](std::uint64_t rows, std::uint64_t columns) {
    const std::uint64_t count = rows * columns;
    if (!setup_.defers_parameters) {
      narrow.push_back(tape_.allocate(count * made_width, TensorKind::Parameter));
    }
    return tape_.add_parameter({.data = {}, .count = count, .width = width, .rows = rows});
  };
  const std::size_t first = adapters_begin_ = tape_.parameters().size();
  const bool is_joint = model.family == ModelFamily::Gpt2 || model.joint_products;
  const bool has_mlp = lora_.targets == LoraTargets::Mlp || lora_.targets == LoraTargets::All;
  const bool has_attention = lora_.targets != LoraTargets::Mlp;
  const bool is_whole = has_attention && lora_.targets != LoraTargets::QueryAndValue;
  for (LayerWeights& own : layers_) {
    const auto adapt = [&](Adapter* adapter, std::uint64_t in, std::uint64_t out) {
      adapter->low = make(lora_.rank, in);
      adapter->high = make(out, lora_.rank);
    };
    // Modules in the order of the model.
    const std::uint64_t queries = model.attention_width();
    if (is_whole && is_joint) adapt(&own.output_adapter, queries, model.hidden);
    if (has_attention) {
      adapt(&own.query_adapter, model.hidden, is_joint ? queries + 2 * model.kv_width() : queries);
      if (is_whole && !is_joint) adapt(&own.key_adapter, model.hidden, model.kv_width());
      if (!is_joint) adapt(&own.value_adapter, model.hidden, model.kv_width());
      if (is_whole && !is_joint) adapt(&own.output_adapter, queries, model.hidden);
    }
    if (has_mlp) {
      adapt(&own.gate_adapter, model.hidden, is_joint ? 2 * model.ffn : model.ffn);
      if (!is_joint) adapt(&own.up_adapter, model.hidden, model.ffn);
      adapt(&own.down_adapter, model.ffn, model.hidden);
    }
  }
  if (lora_.trains_tables) make_trained_tables();
  input_leaf_ = tape_.add_parameter({.data = {}, .count = 0, .width = setup_.wide_bytes});
  for (std::size_t i = 0; i < narrow.size(); ++i) {
    Parameter& parameter = tape_.parameters()[first + i];
    if (width == made_width) {
      parameter.data = std::move(narrow[i]);
      continue;
    }
    parameter.data = tape_.allocate(parameter.count * 4, TensorKind::Parameter);
    narrow[i].reset();
  }
}

}  // namespace allocmark
