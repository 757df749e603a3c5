// Generator train: training steps of a transformer, lowered to the allocations that eager PyTorch
// makes: forward (model/transformer.cc), loss, backward (model/tape.cc), optimizer, zero_grad. The
// seed matters only where the lengths of sequences are drawn.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "workloads/generated_source.h"
#include "workloads/generators.h"
#include "workloads/model/lengths.h"
#include "workloads/model/transformer.h"
#include "workloads/model_options.h"

namespace allocmark {
namespace {

enum class Optimizer : std::uint8_t { AdamW, AdamWFused, Sgd };

struct TrainConfig {
  TransformerSetup setup;
  LoraSettings lora;
  std::uint64_t step_count = 1;
  std::uint64_t accumulate = 1;
  Optimizer optimizer = Optimizer::AdamW;
  bool checkpointed = false;
  bool keeps_cache = true;
  bool given_mask = false;
  std::vector<std::uint64_t> sequences;  // lengths in turn
  bool draws_lengths = false;
  LengthSettings lengths;
};

class Training {
 public:
  using Config = TrainConfig;
  Training(const TrainConfig& config, std::uint64_t seed, EventBatch* batch)
      : config_(config),
        random_(seed),
        batch_(batch),
        pool_(std::make_unique<TensorPool>(batch)),
        model_(std::make_unique<Transformer>(config.setup, config.lora, pool_.get())),
        cache_(KvMode::Concat, config.setup.model.block_count()) {
    if (config.keeps_cache) model_->set_cache(&cache_);
    model_->set_given_mask(config.given_mask);
    model_->set_routing_seed(seed);
  }

  // One phase, one layer of the forward, or some nodes of the backward per call.
  bool advance();

 private:
  enum class Phase { Start, Embed, Forward, Head, Backward, Optimize, End };

  void start();
  void embed();
  void forward_layer();
  void head();
  void backward();
  void make_optimizer_state();
  void optimize();
  void end();
  [[nodiscard]] Tape& tape() { return model_->tape(); }

  TrainConfig config_;
  Random random_;
  EventBatch* batch_;
  std::unique_ptr<TensorPool> pool_;
  std::unique_ptr<Transformer> model_;
  KvCache cache_;
  std::vector<Tensor> optimizer_states_;
  Tensor tokens_, labels_, given_mask_, loss_;
  Var stream_, loss_var_;
  std::vector<Var> layer_inputs_;  // checkpointed: to run a layer again
  Phase phase_ = Phase::Start;
  std::uint64_t step_ = 0;
  std::uint64_t micro_ = 0;
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
      forward_layer();
      break;
    case Phase::Head:
      head();
      break;
    case Phase::Backward:
      backward();
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
  model_->make_parameters();
  phase_ = Phase::Embed;
}

void Training::embed() {
  const std::uint64_t micro_index = step_ * config_.accumulate + micro_;
  if (micro_ == 0) batch_->mark("step", step_);
  std::uint64_t length = config_.sequences[micro_index % config_.sequences.size()];
  if (config_.draws_lengths) length = draw_lengths(config_.lengths, &random_).context;
  model_->set_lengths(config_.setup.batch, length, 0);
  // The new batch is there before the variable lets go of the old one.
  const Transformer::InputSizes sizes = model_->input_sizes();
  Tensor tokens = tape().allocate(sizes.input_bytes, TensorKind::Activation);
  Tensor labels = tokens;
  if (sizes.label_bytes > 0) labels = tape().allocate(sizes.label_bytes, TensorKind::Activation);
  Tensor mask;
  if (config_.given_mask) mask = tape().allocate(sizes.input_bytes, TensorKind::Activation);
  tokens_ = std::move(tokens);
  labels_ = std::move(labels);
  given_mask_ = std::move(mask);
  stream_ = model_->embed(tokens_);
  layer_ = 0;
  phase_ = Phase::Forward;
}

void Training::forward_layer() {
  stream_ = model_->before_layer(layer_, std::move(stream_));
  if (config_.checkpointed) {
    tape().begin_segment();
    model_->hold_inputs(stream_);
    Var input = stream_;
    input.tensor.reset();
    layer_inputs_.push_back(input);
  }
  stream_ = model_->layer(layer_, stream_);
  tape().end_segment();
  if (++layer_ == config_.setup.model.block_count()) phase_ = Phase::Head;
}

void Training::head() {
  Var hidden = model_->finish(std::move(stream_));
  stream_ = Var();
  Var loss = model_->loss(std::move(hidden), labels_);
  tape().end_autocast();
  cache_.end_batch();
  if (config_.accumulate > 1) loss = divide_scalar(tape(), std::move(loss));
  model_->end_graph();
  loss_ = loss.tensor;
  loss_var_ = loss;
  loss_var_.tensor.reset();
  tape().begin_backward(loss_var_, tape().gradient(loss_var_.width));
  phase_ = Phase::Backward;
}

void Training::backward() {
  const auto recompute = [this](std::size_t segment) {
    static_cast<void>(model_->layer(segment, layer_inputs_[segment]));
    tape().end_autocast();
  };
  if (tape().backward(64, recompute)) return;
  layer_inputs_.clear();
  const bool last = ++micro_ == config_.accumulate;
  if (last) micro_ = 0;
  phase_ = last ? Phase::Optimize : Phase::Embed;
}

void Training::make_optimizer_state() {
  for (const std::size_t index : model_->trained_parameters()) {
    const Parameter& parameter = tape().parameters()[index];
    const std::uint64_t size_bytes = parameter.count * parameter.width;
    // The fused implementation keeps each parameter's step count on the device.
    if (config_.optimizer == Optimizer::AdamWFused) {
      optimizer_states_.push_back(pool_->make(4, TensorKind::OptimizerState));
    }
    optimizer_states_.push_back(pool_->make(size_bytes, TensorKind::OptimizerState));
    optimizer_states_.push_back(pool_->make(size_bytes, TensorKind::OptimizerState));
  }
}

void Training::optimize() {
  if (config_.optimizer != Optimizer::Sgd && optimizer_states_.empty()) make_optimizer_state();
  const std::vector<std::size_t> trained = model_->trained_parameters();
  if (config_.optimizer == Optimizer::AdamW) {
    // The foreach implementation makes all denominators at once and drops them from the last to the
    // first.
    std::vector<Tensor> denominators;
    for (const std::size_t index : trained) {
      const Parameter& parameter = tape().parameters()[index];
      denominators.push_back(pool_->make(parameter.count * parameter.width, TensorKind::Workspace));
    }
    while (!denominators.empty()) denominators.pop_back();
  }
  // zero_grad(set_to_none=True) goes through the parameters in order.
  for (const std::size_t index : trained) tape().parameters()[index].gradient.reset();
  phase_ = ++step_ == config_.step_count ? Phase::End : Phase::Embed;
}

void Training::end() {
  optimizer_states_.clear();
  model_.reset();
  tokens_.reset();
  labels_.reset();
  given_mask_.reset();
  loss_.reset();
  batch_->mark("end");
}

void read_lengths(Parameters& parameters, TrainConfig* config) {
  const std::uint64_t positions = config->setup.model.positions;
  if (config->setup.model.image > 0) {
    config->sequences = {positions};
    return;
  }
  const std::uint64_t longest = positions > 0 ? positions : 131'072;
  config->sequences = parameters.numbers(
      "seq", {.preset = positions > 0 ? positions : 2048, .lowest = 1, .highest = longest});
  const std::size_t source = parameters.choice("lengths", {"fixed", "lognormal", "conv", "code"});
  config->draws_lengths = source != 0;
  LengthSettings& lengths = config->lengths;
  lengths.source = source == 1   ? LengthSource::Lognormal
                   : source == 2 ? LengthSource::Conversation
                                 : LengthSource::Code;
  lengths.context_max = *std::max_element(config->sequences.begin(), config->sequences.end());
  if (source != 1) return;
  lengths.median = parameters.number("median", {.preset = 500, .lowest = 1, .highest = 100'000});
  lengths.sigma_percent =
      parameters.number("sigma_percent", {.preset = 60, .lowest = 0, .highest = 300});
}

}  // namespace

std::unique_ptr<EventSource> make_train(Parameters& parameters, std::uint64_t seed) {
  TrainConfig config;
  TransformerSetup& setup = config.setup;
  setup.model = read_model_shape(parameters);
  setup.batch = parameters.number("batch", {.preset = 8, .lowest = 1, .highest = 4096});
  read_lengths(parameters, &config);
  config.step_count = parameters.number("steps", {.preset = 4, .lowest = 1, .highest = 1'000'000});
  config.accumulate =
      parameters.number("accumulate", {.preset = 1, .lowest = 1, .highest = 100'000});
  const std::size_t precision = parameters.choice("precision", {"bf16_autocast", "bf16", "fp32"});
  setup.autocast = precision == 0;
  setup.wide_bytes = precision == 1 ? 2 : 4;
  setup.narrow_bytes = precision == 2 ? 4 : 2;
  config.optimizer =
      static_cast<Optimizer>(parameters.choice("optimizer", {"adamw", "adamw_fused", "sgd"}));
  config.checkpointed = parameters.choice("checkpoint", {"none", "full"}) == 1;
  if (setup.model.family == ModelFamily::Llama) {
    config.lora.rank = parameters.number("lora", {.preset = 0, .lowest = 0, .highest = 4096});
  }
  // transformers keeps a KV cache in training too, unless told not to or checkpointing.
  config.keeps_cache = setup.model.generates() &&
                       parameters.choice("kv_cache", {"default", "none"}) == 0 &&
                       !config.checkpointed;
  if (setup.model.family == ModelFamily::Bert) {
    config.given_mask = parameters.choice("attention_mask", {"none", "ones"}) == 1;
  }
  if (setup.model.family == ModelFamily::T5) {
    setup.target = parameters.number("target", {.preset = 128, .lowest = 1, .highest = 131'072});
  }
  const bool one_length = config.sequences.size() == 1 && !config.draws_lengths;
  read_experts(parameters, one_length ? setup.batch * config.sequences.front() : 0, &setup);
  setup.fused_attention = parameters.choice("attention", {"eager", "fused"}) == 1;
  setup.kernels = parameters.number("kernels", {.preset = 0, .lowest = 0, .highest = 1}) == 1;
  return make_generated<Training>(parameters,
                                  {.name = "train-" + parameters.variant(), .seed = seed}, config);
}

}  // namespace allocmark
