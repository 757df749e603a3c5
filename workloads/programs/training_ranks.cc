// What wraps a model where ranks share its data (training.h): DistributedDataParallel, shards,
// buffers.
#include <algorithm>
#include <memory>

#include "workloads/programs/training.h"

namespace allocmark {

// Data parallel wrappers come after the model.
void Training::wrap() {
  const DataParallelSettings& settings = config_.data_parallel;
  if (config_.is_megatron()) {
    buffers_ = std::make_unique<MegatronBuffers>(config_.setup.parallel,
                                                 config_.distributed_optimizer, &tape());
    buffers_->wrap();
    tape().set_on_parameter([this](std::size_t index) { buffers_->on_gradient(index); });
  } else if (settings.kind == DataParallelKind::Zero3) {
    modules_ = std::make_unique<ZeroModules>(settings, &tape());
    modules_->wrap(model_->ordered_parameters());
    tape().set_on_module([this](const Module& module, bool is_forward, bool begins) {
      begins ? modules_->enter(module, is_forward) : modules_->leave(module, is_forward);
    });
    tape().set_on_parameter([this](std::size_t index) { modules_->on_gradient(index); });
  } else if (settings.kind > DataParallelKind::Zero3) {
    sharded_ = std::make_unique<ShardedParameters>(settings, settings.rank, &tape());
    sharded_->wrap(model_->unit_parameters(), model_->late_tensors(), model_->late_buffers());
    if (settings.kind == DataParallelKind::Fsdp1) tape().set_sum_stream(2);
    if (settings.kind == DataParallelKind::Fsdp2) {
      model_->set_fully_sharded(settings.gathers_narrow);
    }
    tape().set_on_hook([this](std::uint64_t code) { sharded_->on_hook(code); });
    tape().set_on_parameter([this](std::size_t) { sharded_->on_gradient(); });
  } else if (settings.kind != DataParallelKind::None) {
    wrap_replicas();
  } else if (config_.offload == Offload::Gradients) {
    tape().set_on_parameter(
        [this](std::size_t index) { tape().parameters()[index].gradient.reset(); });
  }
}

ModelBuffers Training::replica_buffers(std::size_t index, std::size_t count) const {
  ModelBuffers buffers = model_->buffers();
  const std::size_t own_count = buffers.tensors.size() / count;
  buffers.tensors = buffers.tensors.subspan(index * own_count, own_count);
  return buffers;
}

// A chunk of a pipeline's stage is a module of its own: blocks, with the table before the first and
// the head behind the last.
void Training::wrap_replicas() {
  const DataParallelSettings& settings = config_.data_parallel;
  const bool wraps_chunks = settings.kind == DataParallelKind::Ddp;
  const std::size_t chunks = wraps_chunks ? config_.setup.parallel.chunks : 1;
  const std::vector<std::vector<std::size_t>> layers = model_->unit_parameters();
  replica_of_.assign(tape().parameters().size(), chunks - 1);
  std::fill_n(replica_of_.begin(), layers.front().front(), 0);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    for (const std::size_t parameter : layers[i])
      replica_of_[parameter] = i * chunks / layers.size();
  }
  const auto own = [this](std::vector<std::size_t> parameters) {
    std::erase_if(parameters, [this](std::size_t parameter) {
      return replica_of_[parameter] != replicas_.size() - 1;
    });
    return parameters;
  };
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    replicas_.emplace_back(settings, &tape());
    replicas_.back().wrap(own(model_->ordered_parameters()), own(model_->trained_parameters()),
                          replica_buffers(chunk, chunks));
  }
  tape().set_on_parameter([this](std::size_t index) {
    if (tape().parameters()[index].count > 0) replicas_[replica_of_[index]].on_gradient(index);
  });
}

}  // namespace allocmark
