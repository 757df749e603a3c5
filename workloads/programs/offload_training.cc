// The training kinds of generator offload: the optimizer's states on the host, and checkpoints that
// are staged in pinned memory.
#include <algorithm>
#include <ranges>
#include <utility>

#include "workloads/programs/offload.h"
#include "workloads/trace/coroutine_program.h"

namespace allocmark {
namespace {

enum class OffloadLibrary : std::uint8_t {
  Fsdp,      // fully_shard with CPUOffloadPolicy: parameters pinned one by one, gradients anew in
             // each step
  Torchao,   // CPUOffloadOptimizer: parameters and gradients pinned one by one, once
  Deepspeed  // ZeRO-Offload (stages 1 and 2): one flat buffer of weights and one of gradients for
             // each of two groups, in four bytes
};

struct OffloadedOptimizerConfig {
  OffloadLibrary library = OffloadLibrary::Fsdp;
  LayerTensors layers;
  std::uint64_t rank_count = 1;     // that share each tensor
  std::uint64_t element_bytes = 4;  // of what is pinned
  std::uint64_t step_count = 0;
  std::uint64_t compute_ns = 0;  // of a layer's forward, and half of its backward
  std::uint64_t update_ns = 0;   // of the optimizer, for a million elements
  std::uint64_t bus_gbs = 0;
};

// Parameters lie on the device in two bytes, but for Fsdp, which brings each layer for its turn.
class OffloadedOptimizer {
 public:
  using Config = OffloadedOptimizerConfig;
  OffloadedOptimizer(const OffloadedOptimizerConfig& config, std::uint64_t /*seed*/,
                     EventBatch* batch)
      : config_(config), batch_(batch), copies_(config.bus_gbs, batch) {}

  Coroutine run();

 private:
  struct Tensor {
    std::uint64_t elements = 0;                // of this rank
    std::uint64_t device = 0;                  // block of the parameter, 0: not there
    std::uint64_t weights = 0, gradients = 0;  // pinned blocks, 0: not there
  };
  using Layer = std::vector<Tensor>;

  void set_up();
  void make_flat_groups();
  void forward(Layer& layer);
  void backward(Layer& layer);
  void move_gradient(Tensor& tensor);
  void update();
  void end();
  // The final norm is the last layer's first tensor.
  bool is_matrix(const Tensor& tensor) const {
    return tensor.elements > layers_.back().front().elements;
  }
  std::uint64_t pinned_bytes(const Tensor& tensor) const {
    return tensor.elements * config_.element_bytes;
  }

  OffloadedOptimizerConfig config_;
  EventBatch* batch_;
  HostCopies copies_;
  std::vector<Layer> layers_;
  std::vector<std::uint64_t> flat_;  // Deepspeed's pinned blocks
};

Coroutine OffloadedOptimizer::run() {
  batch_->mark("setup");
  set_up();
  co_await room_in(batch_);
  for (std::uint64_t step = 0; step < config_.step_count; ++step) {
    batch_->mark("step", step);
    for (Layer& layer : layers_) {
      forward(layer);
      co_await room_in(batch_);
    }
    for (Layer& layer : std::views::reverse(layers_)) {
      backward(layer);
      co_await room_in(batch_);
    }
    update();
    co_await room_in(batch_);
  }
  end();
}

void OffloadedOptimizer::set_up() {
  for (const std::vector<std::uint64_t>& sizes : config_.layers) {
    Layer& layer = layers_.emplace_back();
    for (const std::uint64_t elements : sizes) {
      Tensor tensor{.elements = (elements + config_.rank_count - 1) / config_.rank_count};
      if (config_.library != OffloadLibrary::Deepspeed)
        tensor.weights = batch_->host_allocate(pinned_bytes(tensor), TensorKind::Parameter);
      if (config_.library != OffloadLibrary::Fsdp)
        tensor.device =
            batch_->allocate({.size_bytes = elements * 2, .tensor = TensorKind::Parameter});
      if (config_.library == OffloadLibrary::Torchao)
        tensor.gradients = batch_->host_allocate(pinned_bytes(tensor), TensorKind::Gradient);
      layer.push_back(tensor);
    }
  }
  if (config_.library == OffloadLibrary::Deepspeed) make_flat_groups();
}

// Matrices decay, vectors do not: the usual two groups.
void OffloadedOptimizer::make_flat_groups() {
  std::uint64_t matrices = 0, vectors = 0;
  for (const Layer& layer : layers_) {
    for (const Tensor& tensor : layer) (is_matrix(tensor) ? matrices : vectors) += tensor.elements;
  }
  for (const std::uint64_t elements : {matrices, vectors}) {
    flat_.push_back(batch_->host_allocate(elements * 4, TensorKind::Parameter));
    flat_.push_back(batch_->host_allocate(elements * 4, TensorKind::Gradient));
  }
}

void OffloadedOptimizer::forward(Layer& layer) {
  if (config_.library == OffloadLibrary::Fsdp) {
    for (Tensor& tensor : layer) {
      tensor.device = batch_->allocate({.size_bytes = pinned_bytes(tensor) * config_.rank_count,
                                        .stream = kCopyStream,
                                        .tensor = TensorKind::Parameter});
      copies_.copy(tensor.weights, pinned_bytes(tensor), kCopyStream);
    }
  }
  batch_->kernel(config_.compute_ns, 0);
  if (config_.library != OffloadLibrary::Fsdp) return;
  for (Tensor& tensor : layer) batch_->free(std::exchange(tensor.device, 0));
}

void OffloadedOptimizer::backward(Layer& layer) {
  forward(layer);
  batch_->kernel(2 * config_.compute_ns, 0);
  for (Tensor& tensor : layer) move_gradient(tensor);
}

void OffloadedOptimizer::move_gradient(Tensor& tensor) {
  const std::uint64_t gradient = batch_->allocate(
      {.size_bytes = pinned_bytes(tensor), .stream = kCopyStream, .tensor = TensorKind::Gradient});
  if (config_.library == OffloadLibrary::Fsdp)
    tensor.gradients = batch_->host_allocate(pinned_bytes(tensor), TensorKind::Gradient);
  const std::uint64_t target = config_.library == OffloadLibrary::Deepspeed
                                   ? flat_[is_matrix(tensor) ? 1 : 3]
                                   : tensor.gradients;
  copies_.copy(target, pinned_bytes(tensor), kCopyStream);
  batch_->free(gradient);
}

// On the host, once all gradients are there. Weights on the device are written anew.
void OffloadedOptimizer::update() {
  batch_->sync();
  std::uint64_t elements = 0;
  for (Layer& layer : layers_) {
    for (Tensor& tensor : layer) {
      elements += tensor.elements;
      if (config_.library == OffloadLibrary::Fsdp) {
        batch_->host_free(std::exchange(tensor.gradients, 0));
      } else if (config_.library == OffloadLibrary::Torchao) {
        copies_.copy(tensor.weights, pinned_bytes(tensor), 0);
      }
    }
  }
  batch_->host(std::min<std::uint64_t>(elements / 1'000'000 * config_.update_ns, 60'000'000'000));
  if (config_.library == OffloadLibrary::Deepspeed) copies_.copy(flat_[0], elements * 2, 0);
}

void OffloadedOptimizer::end() {
  batch_->mark("end");
  batch_->sync();
  for (const Layer& layer : layers_) {
    for (const Tensor& tensor : layer) {
      if (tensor.device != 0) batch_->free(tensor.device);
      if (tensor.weights != 0) batch_->host_free(tensor.weights);
      if (tensor.gradients != 0) batch_->host_free(tensor.gradients);
    }
  }
  for (const std::uint64_t block : flat_) batch_->host_free(block);
}

enum class Staging : std::uint8_t {
  Kept,    // a pinned copy of every tensor, made at the first save (DCP's StateDictStager)
  Fresh,   // made for each save, and given back after it
  Buffers  // a few pinned buffers through which everything goes
};

struct StagedCheckpointConfig {
  LayerTensors layers;
  std::uint64_t copy_count = 0;  // of each parameter: itself, and the states of the optimizer
  Staging staging = Staging::Kept;
  std::uint64_t buffer_count = 0;
  std::uint64_t buffer_bytes = 0;
  std::uint64_t save_count = 0;
  std::uint64_t write_gbs = 0;  // of the file system
  std::uint64_t bus_gbs = 0;
};

class StagedCheckpoint {
 public:
  using Config = StagedCheckpointConfig;
  StagedCheckpoint(const StagedCheckpointConfig& config, std::uint64_t /*seed*/, EventBatch* batch)
      : config_(config), batch_(batch), copies_(config.bus_gbs, batch) {
    for (const std::vector<std::uint64_t>& layer : config_.layers)
      for (const std::uint64_t elements : layer)
        for (std::uint64_t i = 0; i < config_.copy_count; ++i)
          tensors_.push_back({.size_bytes = elements * 4, .is_state = i > 0});
  }

  Coroutine run();

 private:
  struct Tensor {
    std::uint64_t size_bytes = 0;
    bool is_state = false;
    std::uint64_t device = 0;  // its block there
    std::uint64_t staged = 0;  // its pinned block, 0: none
  };
  void save(Tensor& tensor);
  void save_through_buffer(const Tensor& tensor, std::size_t index);
  void write_all();
  void drop_staged(Tensor& tensor) {
    if (tensor.staged != 0) batch_->host_free(std::exchange(tensor.staged, 0));
  }

  StagedCheckpointConfig config_;
  EventBatch* batch_;
  HostCopies copies_;
  std::vector<Tensor> tensors_;
  std::vector<std::uint64_t> buffers_;  // pinned blocks
};

Coroutine StagedCheckpoint::run() {
  batch_->mark("setup");
  for (Tensor& tensor : tensors_) {
    const TensorKind kind = tensor.is_state ? TensorKind::OptimizerState : TensorKind::Parameter;
    tensor.device = batch_->allocate({.size_bytes = tensor.size_bytes, .tensor = kind});
    co_await room_in(batch_);
  }
  for (std::uint64_t saved = 0; saved < config_.save_count; ++saved) {
    batch_->mark("save", saved);
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      config_.staging == Staging::Buffers ? save_through_buffer(tensors_[i], i) : save(tensors_[i]);
      co_await room_in(batch_);
    }
    if (config_.staging != Staging::Buffers) write_all();
    for (Tensor& tensor : tensors_) {
      if (config_.staging == Staging::Fresh) drop_staged(tensor);
      co_await room_in(batch_);
    }
  }
  batch_->mark("end");
  for (Tensor& tensor : tensors_) {
    drop_staged(tensor);
    batch_->free(tensor.device);
    co_await room_in(batch_);
  }
  for (const std::uint64_t buffer : buffers_) batch_->host_free(buffer);
}

void StagedCheckpoint::write_all() {
  std::uint64_t sum_bytes = 0;
  for (const Tensor& tensor : tensors_) sum_bytes += tensor.size_bytes;
  batch_->sync();
  batch_->host(std::min<std::uint64_t>(sum_bytes / config_.write_gbs, 600'000'000'000));
}

void StagedCheckpoint::save(Tensor& tensor) {
  if (tensor.staged == 0) tensor.staged = batch_->host_allocate(tensor.size_bytes);
  copies_.copy(tensor.staged, tensor.size_bytes, kCopyStream);
}

// As many pieces as the tensor has; here they are one copy, which is waited for.
void StagedCheckpoint::save_through_buffer(const Tensor& tensor, std::size_t index) {
  while (buffers_.size() < config_.buffer_count)
    buffers_.push_back(batch_->host_allocate(config_.buffer_bytes));
  copies_.copy(buffers_[index % buffers_.size()], tensor.size_bytes, kCopyStream);
  batch_->sync();
  batch_->host(tensor.size_bytes / config_.write_gbs);
}

}  // namespace

std::unique_ptr<EventSource> make_offload_optimizer(Parameters& parameters, std::uint64_t seed) {
  OffloadedOptimizerConfig config;
  config.library = parameters.pick<OffloadLibrary>("library", {"fsdp", "torchao", "deepspeed"});
  config.layers = read_layer_tensors(parameters);
  config.rank_count = parameters.number("ranks", 1, {1, 1024});
  if (config.library != OffloadLibrary::Deepspeed)
    config.element_bytes = parameters.number(
        "element_bytes", config.library == OffloadLibrary::Fsdp ? 4u : 2u, {1, 8});
  config.step_count = parameters.number("steps", 3, {1, 100'000});
  config.compute_ns = parameters.number("layer_us", 2000, {1, 1'000'000}) * 1000;
  config.update_ns = parameters.number("update_us", 300, {0, 1'000'000}) * 1000;
  config.bus_gbs = read_bus_gbs(parameters);
  return make_running<OffloadedOptimizer>(
      parameters, {.name = "offload", .seed = seed, .stream_count = 2}, std::move(config));
}

std::unique_ptr<EventSource> make_offload_checkpoint(Parameters& parameters, std::uint64_t seed) {
  StagedCheckpointConfig config;
  config.layers = read_layer_tensors(parameters);
  config.copy_count = 1 + parameters.number("states", 2, {0, 8});
  config.staging = parameters.pick<Staging>("staging", {"kept", "fresh", "buffers"});
  if (config.staging == Staging::Buffers) {
    config.buffer_count = parameters.number("buffers", 2, {1, 256});
    config.buffer_bytes =
        parameters.size_bytes("buffer_bytes", std::uint64_t{64} << 20, {1, std::uint64_t{1} << 40});
  }
  config.save_count = parameters.number("saves", 3, {1, 100'000});
  config.write_gbs = parameters.number("write_gbs", 5, {1, 1000});
  config.bus_gbs = read_bus_gbs(parameters);
  return make_running<StagedCheckpoint>(
      parameters, {.name = "offload", .seed = seed, .stream_count = 2}, std::move(config));
}

}  // namespace allocmark
