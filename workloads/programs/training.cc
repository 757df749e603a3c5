#include "workloads/programs/training.h"

#include <algorithm>
#include <utility>

namespace allocmark {

Training::Training(const TrainConfig& config, std::uint64_t seed, EventBatch* batch)
    : config_(config),
      random_(seed),
      batch_(batch),
      pool_(std::make_unique<TensorPool>(batch)),
      model_(std::make_unique<Transformer>(config.setup, config.lora, pool_.get())),
      cache_(KvMode::Concat, config.setup.own_layer_count()),
      optimizer_(config.optimizer, pool_.get()),
      scaler_(config.data_parallel.kind == DataParallelKind::Fsdp2),
      passes_(1) {
  if (config.keeps_cache) model_->set_cache(&cache_);
  model_->set_given_mask(config.given_mask);
  const bool are_own = config.setup.parallel.splits_sequences() || config.packed;
  model_->set_given_positions(are_own || config.gives_positions(), !are_own);
  model_->set_padded(config.padded);
  model_->set_packed(config.packed);
  model_->set_routing_seed(seed);
  keep_outputs();
  model_->set_loss_apart(config.is_scheduled());
  tape().set_keeps_products(config.keeps_products);
  model_->set_loss_chunks(config.loss_chunks);
  tape().set_hands_out_at_end(config.setup.compiled == Compiled::Whole);
}

Coroutine Training::run() {
  start();
  co_await room_in(batch_);
  bool evaluates = config_.step_count == 0;
  while (true) {
    if (evaluates) begin_evaluation();
    for (; evaluates && eval_index_ < config_.eval_batches; ++eval_index_) {
      begin_evaluation_batch();
      while (layer_ < layer_end_) {
        co_await room_in(batch_);
        forward_layer();
      }
      end_forward();
      co_await room_in(batch_);
    }
    if (evaluates) end_evaluation();
    if (step_ == config_.step_count) break;
    batch_->mark("step", step_);
    const std::uint64_t pass_count = pipeline_pass_count(config_.pipeline());
    for (pass_index_ = 0; pass_index_ < pass_count; ++pass_index_) {
      const PipelinePass next = pipeline_pass(config_.pipeline(), pass_index_);
      if (next.is_forward) {
        begin_pass(next);
        if (runs_compiled_gpt2()) break;
        while (layer_ < layer_end_) {
          co_await room_in(batch_);
          forward_layer();
        }
        end_forward();
      } else {
        find_pass(next);
        begin_backward();
        while (backward()) co_await room_in(batch_);
        end_backward();
      }
      co_await room_in(batch_);
    }
    end_schedule();
    optimize();
    evaluates = after_step();
    co_await room_in(batch_);
  }
  end();
}

void Training::mark_phase(const char* label) {
  if (config_.marks_phases) batch_->mark(label);
}

void Training::start() {
  batch_->mark("begin");
  model_->make_parameters();
  if (pipelined()) {
    stage_input_ = tape().add_parameter(
        {.data = {}, .count = 0, .width = config_.setup.wide_bytes, .trainable = true});
  }
  wrap();
  if (config_.step_count > 0 && config_.resume_at == 0) resume();
}

bool Training::is_first() const {
  return config_.setup.parallel.is_first() && (evaluating_ || passes_[active_].chunk == 0);
}

bool Training::is_last() const {
  const ParallelSetup& parallel = config_.setup.parallel;
  return parallel.is_last() && (evaluating_ || passes_[active_].chunk + 1 == parallel.chunks);
}

std::uint64_t Training::chunk_layer_count() const {
  return config_.setup.own_layer_count() / config_.setup.parallel.chunks;
}

std::uint64_t Training::hidden_bytes() {
  const TransformerSetup& setup = config_.setup;
  return setup.batch * pass().length / setup.parallel.token_share() * setup.model.hidden *
         setup.wide_bytes;
}

void Training::activate(std::size_t index) {
  if (index == active_) return;
  tape().swap_graph(&passes_[active_].graph);
  active_ = index;
  tape().swap_graph(&passes_[active_].graph);
}

void Training::set_lengths(std::uint64_t batch) {
  model_->set_lengths(batch, pass().length / config_.setup.parallel.context, 0);
  model_->set_target(pass().target);
}

std::size_t Training::free_pass() {
  for (std::size_t i = 0; i < passes_.size(); ++i) {
    if (!passes_[i].in_flight) return i;
  }
  passes_.emplace_back();
  return passes_.size() - 1;
}

std::uint64_t Training::next_length(std::uint64_t index) {
  if (config_.draws_lengths) return draw_lengths(config_.lengths, &random_).context;
  return config_.sequences[index % config_.sequences.size()];
}

// The pass whose backward is next.
void Training::find_pass(const PipelinePass& next) {
  for (std::size_t i = 0; i < passes_.size(); ++i) {
    const Pass& found = passes_[i];
    if (!found.in_flight || found.micro_batch != next.micro_batch || found.chunk != next.chunk) {
      continue;
    }
    activate(i);
    break;
  }
}

void Training::begin_pass(const PipelinePass& next) {
  activate(free_pass());
  pass().length = config_.sequences.front();
  pass().in_flight = true;
  pass().micro_batch = next.micro_batch;
  pass().chunk = next.chunk;
  mark_phase("forward");
  begin_forward(step_ * config_.accumulate + next.micro_batch);
  layer_ = next.chunk * chunk_layer_count();
  layer_end_ = layer_ + chunk_layer_count();
}

void Training::begin_forward(std::uint64_t index) {
  Pass& own = pass();
  own.length = next_length(index);
  own.target = config_.targets[index % config_.targets.size()];
  set_lengths(evaluating_ ? config_.eval_batch : config_.setup.batch);
  make_batch();
  if (runs_compiled_gpt2()) {
    run_compiled_gpt2();
    return;
  }
  if (DataParallel* const own_replica = replica()) {
    // A schedule runs every forward without reductions, and asks for the last backward's itself.
    const bool is_last = !pipelined() && own.micro_batch + 1 == config_.accumulate;
    own_replica->begin_forward(replica_buffers(replica_index(), replicas_.size()),
                               !evaluating_ || config_.eval_grad, is_last);
  }
  const DataParallelSettings& shared = config_.data_parallel;
  if (shared.kind == DataParallelKind::Fsdp1 && shared.gathers_narrow) model_->narrow_buffers();
  if (sharded_) sharded_->begin_forward();
  if (modules_) modules_->begin_forward();
  if (is_first()) {
    stream_ = model_->embed(own.tokens);
  } else {
    receive();
  }
  layer_ = 0;
  layer_end_ = config_.setup.own_layer_count();
}

bool Training::begins_segment() const {
  return config_.checkpointed && !evaluating_ && layer_ % config_.checkpoint_every == 0 &&
         layer_ % config_.checkpoint_blocks == 0;
}

// Blocks are checkpointed one by one, every n-th only, or n at a time.
void Training::begin_segment() {
  if (!begins_segment()) return;
  const std::uint64_t blocks = std::min(config_.checkpoint_blocks, layer_end_ - layer_);
  Var input = stream_;
  input.tensor.reset();
  SegmentInput segment{.first_layer = static_cast<std::uint32_t>(layer_),
                       .layer_count = static_cast<std::uint32_t>(blocks),
                       .inputs = {input, Var(), Var()}};
  if (config_.reentrant) {
    const Tensor mask = model_->placed_mask();
    tape().begin_reentrant(std::move(segment), stream_, mask);
    if (!pass().new_arguments.empty()) return;
    bool has_near = false, has_whole = false;  // of all blocks that are run again
    for (std::uint64_t i = 0; i < layer_end_; i += config_.checkpoint_every)
      (config_.setup.model.slides(i) ? has_near : has_whole) = true;
    pass().new_arguments = model_->shared_inputs(has_near, has_whole && !mask);
    return;
  }
  tape().begin_segment(std::move(segment));
  model_->hold_inputs(stream_, layer_, blocks);
}

void Training::end_segment(Var* output) {
  if (!config_.checkpointed) return;
  const bool at_end = (layer_ + 1) % config_.checkpoint_blocks == 0 || layer_ + 1 == layer_end_;
  if (!at_end && config_.checkpoint_every == 1) return;
  tape().end_reentrant(output);
  tape().end_segment();
}

void Training::forward_layer() {
  stream_ = model_->before_layer(layer_, std::move(stream_));
  if (sharded_) stream_ = sharded_->begin_layer(layer_, std::move(stream_));
  begin_segment();
  // The block's input goes when its name is bound to the output.
  Var output = model_->layer(layer_, stream_);
  end_segment(&output);
  if (sharded_) {
    const bool is_rerun = config_.reentrant && begins_segment();
    output = sharded_->end_layer(layer_, std::move(output), is_rerun);
  }
  stream_ = std::move(output);
  ++layer_;
}

void Training::end_forward() {
  Pass& own = pass();
  if (is_last()) {
    Var hidden = model_->finish(std::move(stream_));
    stream_ = Var();
    // Where the program calls the head itself, the model's other results went with its states.
    if (config_.loss_chunks > 1) cache_.end_batch();
    Var loss = model_->loss(std::move(hidden), labels_of(own));
    if (!evaluating_ || !config_.eval_casts_once) tape().end_autocast();
    cache_.end_batch();
    if (sharded_) loss = sharded_->end_model(std::move(loss));
    // A schedule scales gradients instead, in place.
    if (config_.accumulate > 1 && !evaluating_ && !config_.is_scheduled()) {
      loss = multiply_scalar(tape(), std::move(loss));
    }
    const bool keeps_graphs = config_.keeps_losses || config_.keeps_outputs;
    model_->end_graph(evaluating_ ? config_.keeps_eval_losses : keeps_graphs);
    if (keeps_graphs)
      kept_arguments_.insert(kept_arguments_.end(), own.arguments.begin(), own.arguments.end());
    own.arguments = std::exchange(own.new_arguments, {});
    if (!pipelined()) own.loss = loss.tensor;
    if (pipelined()) step_losses_.push_back(loss.tensor);
    if (config_.keeps_losses && !evaluating_) kept_losses_.push_back(loss.tensor);
    if (config_.scales_loss && !evaluating_) {
      // A temporary of the line that calls backward().
      loss = scaler_.scale(tape(), std::move(loss));
      own.scaled_loss = loss.tensor;
    }
    own.output = loss;
    own.output.tensor.reset();
    model_->forget_conditions();
    // context_parallel() holds its buffers until it is left.
    if (!config_.keeps_batch && own.pieces.empty()) release_batch(&own);
  } else {
    send();
  }
  if (sharded_) sharded_->end_forward();
  if (evaluating_) {
    join_batch();
    end_evaluation_batch();
  }
}

void Training::begin_backward() {
  Pass& own = pass();
  mark_phase("backward");
  set_lengths(config_.setup.batch);
  if (config_.zero_grad == ZeroGrad::BeforeBackward && own.micro_batch == 0) release_gradients();
  if (replica() != nullptr) {
    const bool is_last = replicas_.size() > 1
                             ? own.micro_batch + 1 == config_.accumulate
                             : pass_index_ + 1 == pipeline_pass_count(config_.pipeline());
    replica()->begin_backward(is_last);
  }
  if (modules_) modules_->begin_backward(own.micro_batch + 1 == config_.accumulate);
  Tensor gradient;
  if (is_last()) {
    gradient = tape().gradient(own.output.width);
  } else {
    gradient = stage_buffer(true);
    tape().communicate(hidden_bytes(), kGatherStream, {.sends = false, .is_gradient = true});
  }
  tape().begin_backward(own.output, std::move(gradient));
}

// Some nodes; false once all are done.
bool Training::backward() {
  return tape().backward(64, [this](const SegmentInput& segment) {
    Var output = model_->recompute(segment);
    if (sharded_ && config_.reentrant && segment.layer_count > 0)
      sharded_->begin_rerun_backward(segment.first_layer);
    return output;
  });
}

void Training::end_backward() {
  Pass& own = pass();
  if (replica() != nullptr) replica()->end_backward();
  if (sharded_) sharded_->end_backward();
  if (modules_) modules_->end_backward();
  tape().end_backward();
  join_batch();
  own.scaled_loss.reset();
  own.in_flight = false;
  if (pipelined()) {
    let_output_go();
    if (!is_first()) {
      Tensor& gradient = tape().parameters()[stage_input_].gradient;
      tape().communicate(gradient.size_bytes(), kGatherStream,
                         {.sends = true, .is_gradient = true});
      keep_sent(&sent_gradient_, std::move(gradient));
    }
    own.output.drop();
    own.new_arguments.clear();
    own.arguments.clear();
    drop({&own.received, &own.tokens, &own.labels});
  }
}

}  // namespace allocmark
