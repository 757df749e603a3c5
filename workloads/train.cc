// Generator train: training steps of a transformer, lowered to the allocations that eager PyTorch
// makes: embedding, blocks (model/block.cc), output head and cross-entropy, the backward in
// reverse, the optimizer, zero_grad. It does not depend on the seed: the same text gives the same
// trace.
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "workloads/event_names.h"
#include "workloads/generated_source.h"
#include "workloads/generators.h"
#include "workloads/model/block.h"

namespace allocmark {
namespace {

struct TrainConfig {
  TransformerSetup setup;
  std::uint64_t step_count = 1;
  bool adamw = true;
  bool checkpointed = false;
};

class Training {
 public:
  using Config = TrainConfig;
  Training(const TrainConfig& config, std::uint64_t, EventBatch* batch)
      : config_(config),
        batch_(batch),
        pool_(std::make_unique<TensorPool>(batch)),
        ops_(config.setup, pool_.get()),
        parameter_counts_(parameter_element_counts(config.setup.model)),
        blocks_(config.setup.model.layer_count),
        block_inputs_(config.setup.model.layer_count) {}

  // One phase, or one block of the forward or backward, per call.
  bool advance();

 private:
  enum class Phase { Start, Embed, Forward, Head, Backward, EmbedBackward, Optimize, End };

  void start();
  void embed();
  void forward_block();
  void head();
  void backward_block();
  void embed_backward();
  void optimize();
  void end();
  [[nodiscard]] std::uint64_t stream_bytes() const {
    return config_.setup.token_count() * config_.setup.model.hidden * config_.setup.wide_bytes;
  }

  TrainConfig config_;
  EventBatch* batch_;
  std::unique_ptr<TensorPool> pool_;
  Ops ops_;
  std::vector<std::uint64_t> parameter_counts_;
  std::vector<Tensor> parameters_, optimizer_states_, workspaces_;
  std::vector<Block> blocks_;
  std::vector<Tensor> block_inputs_;  // what a checkpoint keeps
  Norm embedding_norm_, final_norm_;
  Dropout embedding_dropout_;
  Tensor tokens_, attention_mask_, positions_, stream_, stream_gradient_, loss_;
  Phase phase_ = Phase::Start;
  std::uint64_t step_ = 0;
  std::uint64_t layer_ = 0;
};

bool Training::advance() {
  switch (phase_) {
    case Phase::Start:
      start();
      break;
    case Phase::Embed:
      embed();
      break;
    case Phase::Forward:
      forward_block();
      break;
    case Phase::Head:
      head();
      break;
    case Phase::Backward:
      backward_block();
      break;
    case Phase::EmbedBackward:
      embed_backward();
      break;
    case Phase::Optimize:
      optimize();
      break;
    case Phase::End:
      end();
      return false;
  }
  return true;
}

void Training::start() {
  batch_->mark("begin");
  for (const std::uint64_t count : parameter_counts_) {
    parameters_.push_back(pool_->make(count * config_.setup.wide_bytes, TensorKind::Parameter));
  }
  phase_ = Phase::Embed;
}

void Training::embed() {
  const TransformerSetup& setup = config_.setup;
  const std::uint64_t elements = setup.token_count() * setup.model.hidden;
  batch_->mark("step" + std::to_string(step_));
  tokens_ = ops_.activation(setup.token_count() * 8);
  Tensor words = ops_.activation(stream_bytes());
  if (setup.model.positions > 0) {
    positions_ = ops_.activation(setup.sequence * setup.model.hidden * setup.wide_bytes);
    stream_ = ops_.activation(stream_bytes());
  } else {
    stream_ = words;
    positions_ = ops_.activation(setup.sequence * setup.model.head_width() * 2 *
                                 setup.wide_bytes);  // cos and sin
  }
  if (!setup.fused_attention) {
    const Tensor allowed = ops_.activation(setup.sequence * setup.sequence);
    attention_mask_ =
        ops_.activation(setup.batch * setup.sequence * setup.sequence * setup.wide_bytes);
  }
  if (setup.model.family == ModelFamily::Bert) stream_ = embedding_norm_.forward(ops_, stream_);
  stream_ = embedding_dropout_.forward(
      ops_, std::move(stream_), {.element_count = elements, .element_bytes = setup.wide_bytes});
  layer_ = 0;
  phase_ = Phase::Forward;
}

void Training::forward_block() {
  ops_.set_saving(!config_.checkpointed);
  if (config_.checkpointed) block_inputs_[layer_] = stream_;
  stream_ = blocks_[layer_].forward(ops_, std::move(stream_), false);
  if (workspaces_.empty()) workspaces_ = cublas_workspaces(ops_);
  if (++layer_ == blocks_.size()) phase_ = Phase::Head;
}

// The last norm, the logits, the loss in four bytes, and their backward.
void Training::head() {
  const TransformerSetup& setup = config_.setup;
  const std::uint64_t rows = setup.token_count();
  const std::uint64_t logit_count = rows * setup.model.vocabulary;
  const bool upcast = setup.narrow_bytes != 4;
  ops_.set_saving(true);
  Linear projection;
  const LinearShape shape{.in = setup.model.hidden, .out = setup.model.vocabulary, .bias = false};
  Tensor normed = final_norm_.forward(ops_, stream_);
  stream_.reset();
  positions_.reset();
  attention_mask_.reset();
  Tensor logits = projection.forward(ops_, shape, normed);
  Tensor exact = upcast ? ops_.activation(logit_count * 4) : logits;
  Tensor shifted = ops_.activation((rows + setup.batch) * 8);
  Tensor labels = ops_.activation(rows * 8);
  Tensor probabilities = ops_.activation(logit_count * 4);
  loss_ = ops_.activation(4);
  Tensor weight_sum = ops_.activation(4);
  exact.reset();
  shifted.reset();
  normed.reset();
  logits.reset();
  ops_.end_autocast();
  Tensor gradient = ops_.gradient(logit_count * 4);
  labels.reset();
  weight_sum.reset();
  gradient = ops_.gradient(logit_count * 4);
  probabilities.reset();
  if (upcast) gradient = ops_.gradient(logit_count * setup.narrow_bytes);
  if (workspaces_.size() < 3) {
    // The backward runs on a thread of its own with its own cuBLAS handle.
    workspaces_.push_back(pool_->make(kCublasWorkspaceBytes, TensorKind::Workspace));
  }
  gradient = projection.backward(ops_, std::move(gradient));
  stream_gradient_ = final_norm_.backward(ops_, std::move(gradient));
  phase_ = Phase::Backward;
}

void Training::backward_block() {
  --layer_;
  if (config_.checkpointed) {
    static_cast<void>(blocks_[layer_].forward(ops_, block_inputs_[layer_], true));
    ops_.end_autocast();
    block_inputs_[layer_].reset();
  }
  blocks_[layer_].backward(ops_, &stream_gradient_);
  if (layer_ == 0) phase_ = Phase::EmbedBackward;
}

void Training::embed_backward() {
  const TransformerSetup& setup = config_.setup;
  const std::uint64_t elements = setup.token_count() * setup.model.hidden;
  stream_gradient_ =
      embedding_dropout_.backward(ops_, std::move(stream_gradient_),
                                  {.element_count = elements, .element_bytes = setup.wide_bytes});
  if (setup.model.family == ModelFamily::Bert) {
    stream_gradient_ = embedding_norm_.backward(ops_, std::move(stream_gradient_));
  }
  const std::uint64_t embedding_count = setup.model.vocabulary * setup.model.hidden;
  if (setup.model.positions > 0) ops_.keep_gradient(setup.model.positions * setup.model.hidden);
  // A tied head has made this gradient already: the new one is added to it and goes.
  if (setup.model.tied_head) {
    static_cast<void>(ops_.gradient(embedding_count * setup.wide_bytes));
  } else {
    ops_.keep_gradient(embedding_count);
  }
  stream_gradient_.reset();
  phase_ = Phase::Optimize;
}

void Training::optimize() {
  const std::uint64_t wide = config_.setup.wide_bytes;
  if (config_.adamw) {
    if (optimizer_states_.empty()) {
      for (const std::uint64_t count : parameter_counts_) {
        optimizer_states_.push_back(pool_->make(count * wide, TensorKind::OptimizerState));
        optimizer_states_.push_back(pool_->make(count * wide, TensorKind::OptimizerState));
      }
    }
    // The foreach implementation makes all denominators at once and drops them from the last to the
    // first.
    std::vector<Tensor> denominators;
    for (const std::uint64_t count : parameter_counts_) {
      denominators.push_back(pool_->make(count * wide, TensorKind::Workspace));
    }
    while (!denominators.empty()) denominators.pop_back();
  }
  // zero_grad(set_to_none=True) goes through the parameters in order, the backward made them in
  // reverse.
  std::vector<Tensor>& gradients = ops_.gradients();
  while (!gradients.empty()) gradients.pop_back();
  phase_ = ++step_ == config_.step_count ? Phase::End : Phase::Embed;
}

void Training::end() {
  optimizer_states_.clear();
  parameters_.clear();
  tokens_.reset();
  loss_.reset();
  batch_->mark("end");
}

}  // namespace

std::unique_ptr<EventSource> make_train(Parameters& parameters, std::uint64_t seed) {
  TrainConfig config;
  TransformerSetup& setup = config.setup;
  setup.model = model_shapes()[parameters.variant_index("model", model_names(), true)];
  setup.batch = parameters.number("batch", {.preset = 8, .lowest = 1, .highest = 4096});
  const bool has_limit = setup.model.positions > 0;
  setup.sequence =
      parameters.number("seq", {.preset = has_limit ? setup.model.positions : 2048,
                                .lowest = 1,
                                .highest = has_limit ? setup.model.positions : 131'072});
  config.step_count = parameters.number("steps", {.preset = 4, .lowest = 1, .highest = 1'000'000});
  const std::size_t precision = parameters.choice("precision", {"bf16_autocast", "bf16", "fp32"});
  setup.autocast = precision == 0;
  setup.wide_bytes = precision == 1 ? 2 : 4;
  setup.narrow_bytes = precision == 2 ? 4 : 2;
  config.adamw = parameters.choice("optimizer", {"adamw", "sgd"}) == 0;
  config.checkpointed = parameters.choice("checkpoint", {"none", "full"}) == 1;
  setup.fused_attention = parameters.choice("attention", {"eager", "fused"}) == 1;
  setup.kernels = parameters.number("kernels", {.preset = 0, .lowest = 0, .highest = 1}) == 1;
  const std::uint64_t event_count = parameters.number(
      "events", {.preset = std::numeric_limits<std::uint64_t>::max(), .lowest = 1});
  parameters.finish();
  return std::make_unique<GeneratedSource<Training>>(
      GeneratedHead{.header = {.name = "train-" + parameters.variant(),
                               .generator = parameters.text(),
                               .seed = seed,
                               .stream_count = 1},
                    .event_count_max = event_count},
      config);
}

}  // namespace allocmark
