#include "workloads/serving/engine.h"

#include <algorithm>
#include <utility>

namespace allocmark {
namespace {

// Of every card: it is the host's.
constexpr std::uint64_t kLaunchNs = 2'000;
// cuBLAS's, on compute capability 9.0.
constexpr std::uint64_t kWorkspaceBytes = std::uint64_t{32} << 20;

}  // namespace

Engine::Engine(TensorPool* pool, const EngineSetup& setup)
    : pool_(pool), setup_(setup), slots_(setup.slot_count) {
  for (SlotCache& slot : slots_) slot.layers.resize(setup.model.layer_count);
}

void Engine::make_weight(std::uint64_t count) {
  weights_.push_back(pool_->make(count * setup_.width, TensorKind::Parameter));
}

void Engine::make_weights() {
  const ModelShape& model = setup_.model;
  const std::uint64_t h = model.hidden;
  const bool is_llama = model.is_llama_like();
  const std::uint64_t experts = std::max<std::uint64_t>(model.expert_count, 1);
  const auto linear = [&](std::uint64_t in, std::uint64_t out) {
    make_weight(in * out);
    if (!is_llama) make_weight(out);
  };
  const auto norm = [&] {
    make_weight(h);
    if (!is_llama) make_weight(h);
  };
  const std::uint64_t words = (model.vocabulary + setup_.ranks - 1) / setup_.ranks;
  make_weight(words * h);
  if (model.positions > 0) make_weight(model.positions * h);
  for (std::uint64_t i = 0; i < model.layer_count; ++i) {
    linear(h, model.attention_width() + 2 * model.kv_width());
    if (model.qkv_bias) make_weight(model.attention_width() + 2 * model.kv_width());
    linear(model.attention_width(), h);
    for (int half = 0; model.head_norms && half < 2; ++half) make_weight(model.head_width());
    if (model.expert_count > 0) make_weight(h * experts);  // the router
    linear(experts * h, is_llama ? 2 * model.ffn : model.ffn);
    linear(experts * model.ffn, h);
    norm();
    norm();
  }
  norm();
  if (!model.tied_head) make_weight(words * h);
}

std::uint64_t Engine::cache_bytes_per_token() const {
  return 2 * setup_.model.layer_count * setup_.model.kv_width() * setup_.width;
}

void Engine::make_pool(std::uint64_t block_count, std::uint64_t block_tokens) {
  for (std::uint64_t i = 0; i < setup_.model.layer_count; ++i) {
    blocks_.push_back(
        pool_->make(2 * block_count * block_tokens * setup_.model.kv_width() * setup_.width,
                    TensorKind::KvCache));
  }
}

void Engine::reserve(std::uint32_t slot, std::uint64_t tokens) {
  SlotCache& cache = slots_[slot];
  cache.bytes_per_layer = setup_.beams * tokens * setup_.model.kv_width() * setup_.width;
  for (std::array<Tensor, 2>& halves : cache.layers) {
    for (Tensor& half : halves) half = pool_->make(cache.bytes_per_layer, TensorKind::KvCache);
  }
}

void Engine::release(std::uint32_t slot) {
  for (std::array<Tensor, 2>& halves : slots_[slot].layers) halves = {};
}

void Engine::clear() {
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) release(slot);
  blocks_.clear();
  weights_.clear();
  workspace_.reset();
}

void Engine::reorder(std::size_t layer, const PassPart& part) {
  if (setup_.kv_mode != KvMode::Concat) return;
  for (Tensor& half : slots_[part.slot].layers[layer]) {
    half = pool_->make(part.width * part.context * setup_.model.kv_width() * setup_.width,
                       TensorKind::KvCache);
  }
}

void Engine::begin(std::span<const PassPart> parts) {
  tokens_ = 0;
  for (const PassPart& part : parts) tokens_ += part.tokens * part.width;
  // Inputs are copied into buffers that are there; the embedding makes the first hidden states.
  hidden_ = rows_of(tokens_, setup_.model.hidden);
  if (setup_.model.family == ModelFamily::Gpt2) {
    const Tensor words = std::move(hidden_);
    const Tensor positions = rows_of(tokens_, setup_.model.hidden);
    hidden_ = rows_of(tokens_, setup_.model.hidden);
  }
  emit_kernel(0, 3 * tokens_ * setup_.model.hidden * setup_.width, 2);
}

void Engine::layer(std::size_t index, std::span<const PassPart> parts) {
  if (setup_.model.family == ModelFamily::Gpt2) {
    gpt2_layer(index, parts);
  } else {
    llama_layer(index, parts);
  }
  emit_layer_kernel(parts, setup_.kv_mode == KvMode::Paged ? 9 : 9 + 4 * parts.size());
}

void Engine::replay(std::uint64_t graph_tokens, std::span<const PassPart> parts) {
  tokens_ = graph_tokens;
  // One launch starts them all.
  for (std::uint64_t i = 0; i < layer_count(); ++i) emit_layer_kernel(parts, i == 0 ? 1 : 0);
}

void Engine::emit_layer_kernel(std::span<const PassPart> parts, std::uint64_t launch_count) {
  const ModelShape& model = setup_.model;
  const std::uint64_t attention =
      model.hidden * (2 * model.attention_width() + 2 * model.kv_width());
  const std::uint64_t expert = model.hidden * model.ffn * (model.is_llama_like() ? 3 : 2);
  // Each token computes with its experts; few tokens read few of them.
  const std::uint64_t computed = std::max<std::uint64_t>(model.experts_per_token, 1);
  const std::uint64_t read =
      std::min(std::max<std::uint64_t>(model.expert_count, 1), computed * tokens_);
  const std::uint64_t matrices = attention + computed * expert;
  std::uint64_t pairs = 0;
  std::uint64_t cached = 0;
  for (const PassPart& part : parts) {
    pairs += part.tokens * part.width * part.context;
    cached += part.width * part.context;
  }
  emit_kernel(2 * tokens_ * matrices + 4 * pairs * model.attention_width(),
              (attention + read * expert + 2 * cached * model.kv_width()) * setup_.width,
              launch_count);
}

// The residual is added inside the norms, in place.
void Engine::llama_layer(std::size_t index, std::span<const PassPart> parts) {
  const ModelShape& model = setup_.model;
  if (index == 0) {
    residual_ = hidden_;
    hidden_ = rows_of(tokens_, model.hidden);
  }
  hidden_ = summed(attention(index, parts));
  hidden_ = summed(model.expert_count > 0 ? experts_of() : gated_mlp());
}

// With both of its projections.
Tensor Engine::attention(std::size_t index, std::span<const PassPart> parts) {
  const ModelShape& model = setup_.model;
  Tensor joint = rows_of(tokens_, model.attention_width() + 2 * model.kv_width());
  if (!workspace_) workspace_ = pool_->make(kWorkspaceBytes, TensorKind::Workspace);
  Tensor mixed = attend(index, parts);
  Tensor out = rows_of(tokens_, model.hidden);
  drop({&mixed, &joint});
  return out;
}

Tensor Engine::summed(Tensor partial) {
  if (setup_.ranks == 1) return partial;
  return rows_of(tokens_, setup_.model.hidden);
}

Tensor Engine::gated_mlp() {
  const ModelShape& model = setup_.model;
  Tensor inner = rows_of(tokens_, 2 * model.ffn);
  inner = rows_of(tokens_, model.ffn);
  return rows_of(tokens_, model.hidden);
}

// One kernel for all experts: the choice, tokens sorted by expert in blocks of 64, both products.
Tensor Engine::experts_of() {
  const ModelShape& model = setup_.model;
  const std::uint64_t rows = tokens_ * model.experts_per_token;
  const Tensor shares = rows_of(tokens_, model.expert_count);
  const Tensor weights = make(rows * 4);
  const Tensor chosen = make(rows * 4);
  Tensor out = rows_of(tokens_, model.hidden);
  const Tensor first = rows_of(rows, std::max(2 * model.ffn, model.hidden));
  const Tensor second = rows_of(rows, model.ffn);
  const std::uint64_t padded = rows + model.expert_count * 63;
  const Tensor sorted = make(padded * 4);
  const Tensor expert_of_block = make((padded + 63) / 64 * 4);
  const Tensor count = make(4);
  return out;
}

void Engine::gpt2_layer(std::size_t index, std::span<const PassPart> parts) {
  const ModelShape& model = setup_.model;
  residual_ = hidden_;
  hidden_ = rows_of(tokens_, model.hidden);
  {
    const Tensor out = attention(index, parts);
    hidden_ = rows_of(tokens_, model.hidden);
  }
  residual_ = hidden_;
  hidden_ = rows_of(tokens_, model.hidden);
  Tensor inner = rows_of(tokens_, model.ffn);
  inner = rows_of(tokens_, model.ffn);
  Tensor out = rows_of(tokens_, model.hidden);
  inner.reset();
  hidden_ = rows_of(tokens_, model.hidden);
  residual_.reset();
}

Tensor Engine::attend(std::size_t index, std::span<const PassPart> parts) {
  // One kernel reads pages; without them each request is a call of its own.
  const std::uint64_t width = setup_.model.attention_width();
  if (setup_.kv_mode == KvMode::Paged) return rows_of(tokens_, width);
  std::vector<Tensor> outputs;
  for (const PassPart& part : parts) {
    reorder(index, part);  // the part's new keys and values join what the slot holds
    outputs.push_back(rows_of(part.tokens * part.width, width));
  }
  if (outputs.size() == 1) return std::move(outputs.front());
  return rows_of(tokens_, width);
}

void Engine::finish_hidden() {
  if (setup_.model.family == ModelFamily::Gpt2) hidden_ = rows_of(tokens_, setup_.model.hidden);
  residual_.reset();
}

void Engine::finish_graph() {
  finish_hidden();
  hidden_.reset();
}

Tensor Engine::logits(std::uint64_t rows) {
  const ModelShape& model = setup_.model;
  if (hidden_) finish_hidden();
  Tensor chosen = rows_of(rows, model.hidden);
  Tensor narrow;
  if (setup_.ranks > 1) {
    // Each rank's words are gathered, one rank's after the other's, and laid out anew.
    const std::uint64_t words = (model.vocabulary + setup_.ranks - 1) / setup_.ranks;
    const Tensor own = rows_of(rows, words);
    const Tensor gathered = rows_of(rows, words * setup_.ranks);
    narrow = rows_of(rows, words * setup_.ranks);
  } else {
    narrow = rows_of(rows, model.vocabulary);
  }
  emit_kernel(2 * rows * model.hidden * model.vocabulary,
              (model.hidden + 2 * rows) * model.vocabulary * setup_.width, 4);
  drop({&chosen, &hidden_});
  if (setup_.width == 4) return narrow;
  return make(rows * model.vocabulary * 4);
}

void Engine::emit_kernel(std::uint64_t flops, std::uint64_t bytes, std::uint64_t kernel_count) {
  const std::uint64_t duration_ns =
      std::max(flops / setup_.card.flops_per_ns(), bytes / setup_.card.bytes_per_ns()) +
      kernel_count * kLaunchNs;
  pool_->batch().kernel(duration_ns, 0);
  duration_ns_ += duration_ns;
}

std::uint64_t Engine::take_duration_ns() { return std::exchange(duration_ns_, 0); }

}  // namespace allocmark
