// What a stage of a pipeline does between passes: buffers, what it receives and sends, and the end
// of a schedule of torch.distributed.pipelining (training.h).
#include <utility>

#include "workloads/programs/training.h"

namespace allocmark {

void Training::keep_outputs() {
  const bool is_last_stage = config_.is_scheduled() && config_.setup.parallel.is_last();
  if (is_last_stage) {
    const bool is_variable = !config_.returns_outputs && config_.setup.parallel.chunks == 1;
    model_->set_kept_outputs(&stage_outputs_, is_variable);
  } else if (config_.keeps_outputs) {
    model_->set_kept_outputs(&kept_outputs_);
  }
}

// schedule.step() returns all micro batches' logits, joined, unless it is told not to. They are
// kept until the next step.
void Training::end_schedule() {
  if (!config_.is_scheduled()) return;
  drop({&sent_, &sent_gradient_});
  if (stage_outputs_.empty()) return;
  if (!config_.returns_outputs) {
    stage_outputs_.clear();
    return;
  }
  std::uint64_t size_bytes = 0;
  for (const Tensor& output : stage_outputs_) size_bytes += output.size_bytes();
  Tensor joined = tape().activation(size_bytes);
  if (config_.keeps_outputs) kept_outputs_.push_back(std::move(joined));
}

// With several chunks no variable has the last logits, only what waits for its backward.
void Training::let_output_go() {
  const bool is_kept = config_.returns_outputs || config_.setup.parallel.chunks == 1;
  if (!config_.is_scheduled() || is_kept || !is_last()) return;
  if (stage_outputs_.empty()) return;  // a loss in chunks makes none
  stage_outputs_.erase(stage_outputs_.begin());
}

// PyTorch's stages have a buffer for every micro batch from their first step on; Megatron-LM makes
// one whenever it receives.
void Training::make_stage_buffers() {
  if (!stage_buffers_.empty()) return;
  const std::uint64_t chunks = config_.setup.parallel.chunks;
  for (std::uint64_t chunk = 0; chunk < chunks; ++chunk) {
    // Neighbours send each other a number.
    const Tensor received = tape().allocate(4, TensorKind::Communication);
    const Tensor sent = tape().allocate(4, TensorKind::Communication);
  }
  stage_buffers_.resize(2 * chunks * config_.accumulate);
  for (const bool is_gradient : {false, true}) {
    for (std::uint64_t chunk = 0; chunk < chunks; ++chunk) {
      pass().chunk = chunk;
      if (is_gradient ? is_last() : is_first()) continue;
      for (std::uint64_t i = 0; i < config_.accumulate; ++i) {
        const std::uint64_t index = ((is_gradient ? chunks : 0) + chunk) * config_.accumulate + i;
        stage_buffers_[index] = tape().allocate(hidden_bytes(), TensorKind::Communication);
      }
    }
  }
  pass().chunk = 0;
}

Tensor Training::stage_buffer(bool is_gradient) {
  if (stage_buffers_.empty()) return tape().allocate(hidden_bytes(), TensorKind::Communication);
  const std::uint64_t chunks = config_.setup.parallel.chunks;
  const std::uint64_t chunk = (is_gradient ? chunks : 0) + pass().chunk;
  return stage_buffers_[chunk * config_.accumulate + pass().micro_batch];
}

// The variables of a schedule with one chunk have what was sent last.
void Training::keep_sent(Tensor* kept, Tensor sent) {
  if (config_.is_scheduled() && config_.setup.parallel.chunks == 1) *kept = std::move(sent);
}

void Training::receive() {
  Pass& own = pass();
  own.received = stage_buffer(false);
  tape().communicate(hidden_bytes(), kGatherStream, {.sends = false, .is_gradient = false});
  Var input = tape().parameter(stage_input_);
  input.tensor = own.received;
  input.count = hidden_bytes() / config_.setup.wide_bytes;
  stream_ = model_->enter(std::move(input));
}

void Training::send() {
  Pass& own = pass();
  model_->leave();
  tape().end_autocast();
  cache_.end_batch();
  tape().communicate(stream_.size_bytes(), kGatherStream, {.sends = true, .is_gradient = false});
  own.output = stream_;
  stream_ = Var();
  keep_sent(&sent_, own.output.tensor);
  if (!config_.is_megatron()) return;
  // The sent tensor is not needed any more: Megatron-LM puts one element in its place.
  Tensor element = tape().activation(config_.setup.wide_bytes);
  own.output.tensor = std::move(element);
}

}  // namespace allocmark
