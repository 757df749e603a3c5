// Generator unet: training steps of a denoising UNet as eager PyTorch allocates them. Noise is
// predicted from noisy images and times.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "workloads/model/functions.h"
#include "workloads/model/optimizer.h"
#include "workloads/model/unet.h"
#include "workloads/trace/coroutine_program.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kChannelStep = 64;  // channels of a head; groups of a norm divide it

struct UnetConfig {
  UnetSetup setup;
  std::uint64_t step_count = 4;
  OptimizerKind optimizer = OptimizerKind::AdamW;
  bool kernels = false;
};

class UnetTraining {
 public:
  using Config = UnetConfig;
  UnetTraining(const UnetConfig& config, std::uint64_t /*seed*/, EventBatch* batch)
      : config_(config),
        batch_(batch),
        pool_(std::make_unique<TensorPool>(batch)),
        tape_(
            std::make_unique<Tape>(pool_.get(), config.setup.narrow_bytes, config.setup.autocast)),
        model_(config.setup, tape_.get()),
        optimizer_(config.optimizer, pool_.get()) {
    tape_->set_kernels(config.kernels);
  }

  Coroutine run() {
    batch_->mark("begin");
    model_.make_parameters();
    co_await room_in(batch_);
    for (std::uint64_t step = 0; step < config_.step_count; ++step) {
      batch_->mark("step", step);
      forward();
      co_await room_in(batch_);
      while (tape_->backward(64, nullptr)) co_await room_in(batch_);
      optimize();
      co_await room_in(batch_);
    }
    end();
  }

 private:
  // Each batch and what is predicted of it replace those of the last step one by one.
  void forward() {
    const UnetSetup& setup = config_.setup;
    const std::uint64_t image_bytes = setup.batch * setup.colours * setup.side * setup.side * 4;
    images_ = tape_->activation(image_bytes);
    noise_ = tape_->activation(image_bytes);
    times_ = tape_->activation(setup.batch * 8);
    Var predicted = model_.forward(images_);
    predicted_ = predicted.tensor;
    Var loss = mean_squared_error(*tape_, std::move(predicted), noise_);
    tape_->end_autocast();
    loss_ = std::move(loss.tensor);
    tape_->begin_backward(loss, tape_->gradient(loss.width));
  }

  void optimize() {
    tape_->end_backward();
    std::vector<OptimizedTensor> tensors;
    for (const Parameter& parameter : tape_->parameters()) {
      tensors.push_back({.count = parameter.count, .width = parameter.width});
    }
    optimizer_.step(tensors);
    for (Parameter& parameter : tape_->parameters()) parameter.gradient.reset();
  }

  void end() {
    optimizer_.clear();
    drop({&images_, &noise_, &times_, &predicted_, &loss_});
    tape_.reset();
    batch_->mark("end");
  }

  UnetConfig config_;
  EventBatch* batch_;
  std::unique_ptr<TensorPool> pool_;
  std::unique_ptr<Tape> tape_;
  Unet model_;
  Optimizer optimizer_;
  Tensor images_, noise_, times_, predicted_, loss_;
};

void read_resolutions(Parameters& parameters, UnetSetup* setup) {
  const std::vector<std::uint64_t> channels =
      parameters.numbers("channels", 0, {kChannelStep, 8192});
  if (channels.front() > 0) setup->channels = channels;
  for (const std::uint64_t count : setup->channels) {
    if (count % kChannelStep == 0) continue;
    parameters.refuse("channels", "multiples of " + std::to_string(kChannelStep), count);
  }
  // Without the key the resolution in the middle attends.
  setup->attends.assign(setup->channels.size(), 0);
  setup->attends[setup->channels.size() / 2] = 1;
  const std::vector<std::uint64_t> attends = parameters.numbers("attention", UINT64_MAX, {0, 1});
  if (attends.front() != UINT64_MAX) {
    parameters.refuse_if(
        attends.size() != setup->channels.size(), "attention",
        "0 or 1 for each of " + std::to_string(setup->channels.size()) + " channels",
        attends.size());
    setup->attends = attends;
  }
  setup->side = parameters.number("image", 64, {1, 4096});
  const std::uint64_t divisor = std::uint64_t{1} << (setup->channels.size() - 1);
  parameters.refuse_if(setup->channels.size() > 8 || setup->side % divisor != 0, "image",
                       "a multiple of " + std::to_string(divisor) +
                           ", which is halved for each of at most 8 channels but the last",
                       setup->side);
}

std::unique_ptr<EventSource> make_unet(Parameters& parameters, std::uint64_t seed) {
  parameters.refuse_variant();
  UnetConfig config;
  UnetSetup& setup = config.setup;
  read_resolutions(parameters, &setup);
  setup.block_count = parameters.number("blocks", 2, {1, 16});
  // Slices of a single image are contiguous, which would need other copies.
  setup.batch = parameters.number("batch", 16, {2, 4096});
  config.step_count = parameters.number("steps", 4, {1, 1'000'000});
  setup.autocast = parameters.choice("precision", {"bf16_autocast", "fp32"}) == 0;
  setup.narrow_bytes = setup.autocast ? 2 : 4;
  config.optimizer = parameters.pick<OptimizerKind>("optimizer", {"adamw", "adamw_fused", "sgd"});
  config.kernels = parameters.flag("kernels", false);
  return make_running<UnetTraining>(parameters, {.name = "unet", .seed = seed}, config);
}

}  // namespace

extern constinit const GeneratorEntry kUnetGenerator{
    "unet", "unet:channels=128/256/256,attention=0/1/0,image=64,batch=16,steps=4",
    "training steps of a denoising UNet: convolutions, GroupNorm, and a way down that joins the "
    "way "
    "up",
    make_unet};

}  // namespace allocmark
