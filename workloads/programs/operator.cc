// Generator operator: forward and backward of one operator alone, as a benchmark repeats them.
// Gradients are added to those of the step before, which nobody drops, and the graph is retained
// until the step's end, but for losses.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "workloads/model/functions.h"
#include "workloads/model/liger.h"
#include "workloads/trace/coroutine_program.h"

namespace allocmark {
namespace {

enum class Operator : std::uint8_t {
  RmsNorm,
  LayerNorm,
  Softmax,
  ReluSquared,
  CrossEntropy,
  LinearCrossEntropy,
  Rotation,
  GatedMlp,
};

enum class OperatorMode : std::uint8_t { Full, Forward, Backward };

struct OperatorConfig {
  Operator what = Operator::RmsNorm;
  OperatorMode mode = OperatorMode::Full;
  bool by_liger = false;
  std::uint64_t row_count = 0;  // tokens
  std::uint64_t hidden = 0;     // elements of a row
  std::uint64_t ffn = 0;
  std::uint64_t words = 0;
  std::uint64_t head_count = 0, kv_head_count = 0;
  std::uint64_t width = 0;            // bytes of an element
  std::uint64_t workspace_bytes = 0;  // of cuBLAS, for each thread
  std::uint64_t step_count = 0;
};

class OperatorRun {
 public:
  using Config = OperatorConfig;
  OperatorRun(const OperatorConfig& config, std::uint64_t /*seed*/, EventBatch* batch)
      : config_(config),
        batch_(batch),
        pool_(std::make_unique<TensorPool>(batch)),
        tape_(std::make_unique<Tape>(pool_.get(), config.width, false)) {
    tape_->set_cublas_workspace(config.workspace_bytes);
  }

  Coroutine run() {
    make_inputs();
    co_await room_in(batch_);
    for (std::uint64_t step = 0; step < config_.step_count; ++step) {
      if (config_.mode != OperatorMode::Backward) batch_->mark("step", step);
      std::vector<Var> outputs = forward();
      if (config_.mode == OperatorMode::Backward) batch_->mark("step", step);
      if (config_.mode != OperatorMode::Forward) backward(outputs);
      tape_->drop_graph();
      outputs.clear();
      co_await room_in(batch_);
    }
    end();
  }

 private:
  std::size_t leaf(std::uint64_t count, std::uint64_t width, std::uint64_t rows = 0) {
    return tape_->add_parameter({.data = tape_->allocate(count * width, TensorKind::Parameter),
                                 .count = count,
                                 .width = width,
                                 .rows = rows});
  }

  // Weights of a norm have four bytes: the benchmark does not cast them.
  void make_inputs() {
    batch_->mark("begin");
    // A forward alone is measured in a process that has run backwards.
    if (config_.mode == OperatorMode::Forward) {
      tape_->enter_backward();
      tape_->use_cublas(false);
      tape_->end_backward();
    }
    const std::uint64_t rows = config_.row_count, hidden = config_.hidden;
    inputs_.push_back(leaf(rows * hidden, config_.width));
    switch (config_.what) {
      case Operator::RmsNorm:
        inputs_.push_back(leaf(hidden, 4));
        break;
      case Operator::LayerNorm:
        inputs_.push_back(leaf(hidden, 4));
        inputs_.push_back(leaf(hidden, 4));
        break;
      case Operator::LinearCrossEntropy:
        inputs_.push_back(leaf(config_.words * hidden, config_.width, config_.words));
        labels_ = tape_->activation(rows * 8);
        break;
      case Operator::CrossEntropy:
        labels_ = tape_->activation(rows * 8);
        break;
      case Operator::Rotation:
        inputs_.push_back(
            leaf(rows * hidden / config_.head_count * config_.kv_head_count, config_.width));
        for (Var* table : {&cosine_, &sine_}) {
          *table = tape_->make(rows * hidden / config_.head_count, config_.width);
        }
        tape_->use_cublas(false);  // positions times frequencies
        break;
      case Operator::GatedMlp:
        for (int i = 0; i < 3; ++i) {
          inputs_.push_back(leaf(config_.ffn * hidden, config_.width, config_.ffn));
        }
        break;
      case Operator::Softmax:
      case Operator::ReluSquared:
        break;
    }
  }

  [[nodiscard]] Var input(std::size_t index) const { return tape_->parameter(inputs_[index]); }

  [[nodiscard]] Var turned(const Var& heads) {
    if (config_.by_liger) return liger_rotated(*tape_, heads, cosine_, sine_);
    Var straight = multiply(*tape_, heads, cosine_);
    Var across = multiply(*tape_, rotate_half(*tape_, heads), sine_);
    return add(*tape_, std::move(straight), std::move(across));
  }

  [[nodiscard]] Var gated_mlp() {
    const std::uint64_t rows = config_.row_count;
    Var gate = linear(*tape_, input(0), rows, {.weight = inputs_[1]});
    if (!config_.by_liger) gate = activation_of_input(*tape_, std::move(gate));
    Var up = linear(*tape_, input(0), rows, {.weight = inputs_[2]});
    Var product = config_.by_liger ? liger_swiglu(*tape_, std::move(gate), std::move(up))
                                   : multiply(*tape_, std::move(gate), std::move(up));
    return linear(*tape_, std::move(product), rows, {.weight = inputs_[3]});
  }

  [[nodiscard]] Var linear_cross_entropy() {
    const std::uint64_t rows = config_.row_count;
    if (config_.by_liger) {
      return liger_loss(*tape_, input(0), inputs_[1],
                        {.rows = rows, .hidden = config_.hidden, .words = config_.words});
    }
    return cross_entropy(*tape_, linear(*tape_, input(0), rows, {.weight = inputs_[1]}), labels_);
  }

  [[nodiscard]] std::vector<Var> forward() {
    const std::uint64_t rows = config_.row_count;
    switch (config_.what) {
      case Operator::RmsNorm:
        return {config_.by_liger ? liger_rms_norm(*tape_, input(0), rows, inputs_[1])
                                 : rms_norm_written_out(*tape_, input(0), rows, inputs_[1])};
      case Operator::LayerNorm:
        return {layer_norm(*tape_, input(0), rows, inputs_[1])};
      case Operator::Softmax:
        return {softmax(*tape_, input(0))};
      case Operator::ReluSquared:
        return {power(*tape_, activation_of_result(*tape_, input(0)))};
      case Operator::CrossEntropy:
        return {cross_entropy(*tape_, input(0), labels_)};
      case Operator::LinearCrossEntropy:
        return {linear_cross_entropy()};
      case Operator::Rotation:
        return {turned(input(0)), turned(input(1))};
      case Operator::GatedMlp:
        return {gated_mlp()};
    }
    return {};
  }

  void backward(const std::vector<Var>& outputs) {
    std::vector<Tensor> retained;
    const bool is_loss = outputs[0].count == 1;
    for (std::size_t i = 0; i < tape_->node_count() && !is_loss; ++i) {
      for (const Tensor& saved : tape_->node(static_cast<std::int32_t>(i)).saved) {
        if (saved) retained.push_back(saved);
      }
    }
    std::vector<Tensor> given;
    for (const Var& output : outputs) {
      given.push_back(tape_->gradient(output.count * (is_loss ? output.width : config_.width)));
    }
    // Of another type than the output: it is cast.
    const auto fitting = [&](std::size_t i) {
      return given[i].size_bytes() == outputs[i].size_bytes()
                 ? given[i]
                 : tape_->gradient(outputs[i].size_bytes());
    };
    tape_->begin_backward(outputs[0], fitting(0));
    for (std::size_t i = 1; i < outputs.size(); ++i) {
      tape_->node(outputs[i].edge).gradient.tensor = fitting(i);
    }
    while (tape_->backward(64, nullptr)) {
    }
    tape_->end_backward();
    // torch.autograd.grad() adds nothing up.
    if (config_.what != Operator::Rotation) return;
    for (Parameter& parameter : tape_->parameters()) parameter.gradient.reset();
  }

  void end() {
    labels_.reset();
    drop({&cosine_, &sine_});
    tape_.reset();
    batch_->mark("end");
  }

  OperatorConfig config_;
  EventBatch* batch_;
  std::unique_ptr<TensorPool> pool_;
  std::unique_ptr<Tape> tape_;
  std::vector<std::size_t> inputs_;  // leaves: x, then weights
  Tensor labels_;
  Var cosine_, sine_;
};

void read_rotation(Parameters& parameters, OperatorConfig* config) {
  config->head_count = parameters.number("heads", 32, {1, 1024});
  config->kv_head_count = parameters.number("kv_heads", 8, {1, 1024});
  parameters.refuse_if(config->hidden % config->head_count != 0, "hidden", "a multiple of heads",
                       config->hidden);
}

std::unique_ptr<EventSource> make_operator(Parameters& parameters, std::uint64_t seed) {
  OperatorConfig config;
  config.what = static_cast<Operator>(
      parameters.variant_index("operator",
                               {"rms_norm", "layer_norm", "softmax", "relu_squared",
                                "cross_entropy", "linear_cross_entropy", "rotation", "gated_mlp"},
                               true));
  const bool has_liger = config.what == Operator::RmsNorm || config.what == Operator::Rotation ||
                         config.what == Operator::GatedMlp ||
                         config.what == Operator::LinearCrossEntropy;
  config.by_liger = parameters.choice("by", has_liger ? std::vector<std::string>{"torch", "liger"}
                                                      : std::vector<std::string>{"torch"}) == 1;
  config.mode = parameters.pick<OperatorMode>("mode", {"full", "forward", "backward"});
  config.row_count = parameters.number("rows", 4096, {1, 1'048'576});
  config.hidden = parameters.number("hidden", 4096, {1, 1'048'576});
  config.width = parameters.choice("precision", {"bf16", "fp32"}) == 0 ? 2 : 4;
  if (config.what == Operator::Rotation) read_rotation(parameters, &config);
  if (config.what == Operator::GatedMlp) {
    config.ffn = parameters.number("ffn", 11'008, {1, 1'048'576});
  }
  if (config.what == Operator::LinearCrossEntropy) {
    config.words = parameters.number("vocabulary", 128'256, {1, 1'048'576});
  }
  config.workspace_bytes = parameters.number("workspace_kib", 32'768, {1, 1'048'576}) << 10;
  config.step_count = parameters.number("steps", 3, {1, 1'000'000});
  return make_running<OperatorRun>(parameters, {.name = "operator", .seed = seed}, config);
}

}  // namespace

extern constinit const GeneratorEntry kOperatorGenerator{
    "operator", "operator:rms_norm,rows=2048,hidden=4096,by=torch,mode=full,steps=100",
    "one operator alone, forward and backward, as a benchmark repeats it", make_operator};

}  // namespace allocmark
