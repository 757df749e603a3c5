// What Training does between passes: the optimizer's step, evaluation, saving, loading, the end.

#include "workloads/programs/training.h"

namespace allocmark {

std::vector<OptimizedTensor> Training::optimized() {
  const DataParallel* const own = replica();
  if (own != nullptr && own->shards_optimizer()) return own->partitions();
  std::vector<std::size_t> trained = model_->trained_parameters();
  if (sharded_) return sharded_->optimized(trained);
  if (modules_) return modules_->groups();
  if (own != nullptr && own->shares_states()) {
    trained = own->own_states(trained, config_.setup.parallel.data_rank);
  }
  return sizes_of(trained);
}

std::vector<OptimizedTensor> Training::sizes_of(const std::vector<std::size_t>& parameters) {
  std::vector<OptimizedTensor> tensors;
  for (const std::size_t index : parameters) {
    const Parameter& parameter = tape().parameters()[index];
    const bool cuts = parameter.cuts_gradient && !parameter.is_localized;
    const bool has_whole = parameter.rows > 0 && cuts;  // a table's gradient
    tensors.push_back(
        {.count = parameter.count,
         .width = parameter.width,
         .cuts_gradient = cuts,
         .gradient_count = has_whole ? parameter.count * config_.setup.parallel.tensor : 0,
         .is_distributed = parameter.is_distributed && !parameter.is_localized});
  }
  return tensors;
}

// Both graphs at once, in place of layers and nodes.
void Training::run_compiled_gpt2() {
  Pass& own = pass();
  if (!compiled_) {
    TransformerSetup setup = config_.setup;
    setup.sequence = own.length;
    compiled_ = std::make_unique<CompiledGpt2>(setup, &tape(), model_->trained_parameters());
  }
  compiled_->forward(&own.loss);
  if (config_.keeps_losses) kept_losses_.push_back(own.loss);
  mark_phase("backward");
  compiled_->backward();
  if (!config_.keeps_batch) own.tokens.reset();
  own.in_flight = false;
}

void Training::release_gradients() {
  // zero_grad(set_to_none=True) goes through the parameters in order.
  for (const std::size_t index : model_->trained_parameters()) {
    tape().parameters()[index].gradient.reset();
  }
  if (sharded_) sharded_->release_gradients();
}

void Training::optimize() {
  mark_phase("optimizer");
  if (buffers_) {
    buffers_->step();
  } else {
    const std::vector<OptimizedTensor> tensors = optimized();
    if (replica() != nullptr) replica()->begin_step();
    if (modules_) modules_->begin_step();
    const bool gives_scale = config_.scales_loss && config_.optimizer == OptimizerKind::AdamWFused;
    if (config_.scales_loss && (config_.clips || !gives_scale)) scaler_.unscale(tape());
    if (config_.clips && !config_.data_parallel.is_deepspeed()) {
      const bool is_whole = replica() != nullptr && replica()->shares_states();
      optimizer_.clip(is_whole ? sizes_of(model_->trained_parameters()) : tensors,
                      config_.data_parallel.kind == DataParallelKind::Fsdp2);
    }
    if (gives_scale) scaler_.give(tape(), config_.clips);
    if (config_.offload == Offload::None) step(tensors);
    if (config_.scales_loss) scaler_.update();
    if (replica() != nullptr) replica()->end_step();
    if (modules_) modules_->end_step();
    if (config_.zero_grad == ZeroGrad::AfterStep) release_gradients();
  }
  step_losses_.clear();
  ++step_;
}

void Training::step(const std::vector<OptimizedTensor>& tensors) {
  if (!modules_) {
    optimizer_.step(tensors);
    return;
  }
  for (std::size_t index = 0; index < tensors.size(); ++index) {
    modules_->begin_group(index);
    optimizer_.step_on(tensors[index], index);
    modules_->end_group();
  }
}

bool Training::after_step() {
  if (config_.save_every > 0 && step_ % config_.save_every == 0) save();
  if (config_.eval_every > 0 && step_ % config_.eval_every == 0) {
    batch_->mark("eval");
    return true;
  }
  if (config_.resume_at == step_) resume();
  return false;
}

void Training::begin_evaluation() {
  evaluating_ = true;
  eval_index_ = 0;
  model_->set_evaluating(true);
  model_->set_kept_outputs(nullptr);
  if (config_.caches_in_evaluation) model_->set_cache(&cache_);
  tape().set_grad_enabled(config_.eval_grad);
}

// One batch; its forward runs layer by layer as in training.
void Training::begin_evaluation_batch() {
  // The training's own pass is the first, and keeps its batch; a graph that is kept needs another.
  if (!pipelined()) {
    std::size_t next = 1;
    if (config_.keeps_eval_losses) {
      next = 1 + eval_index_;
    } else if (config_.eval_grad && last_eval_pass_ == 1) {
      next = 2;
    }
    if (passes_.size() <= next) passes_.resize(next + 1);
    activate(next);
  }
  if (config_.step_count == 0) batch_->mark("step", eval_index_);
  begin_forward(eval_index_);
}

void Training::end_evaluation_batch() {
  release_batch(&pass());
  if (!config_.eval_grad && !pipelined()) pass().loss.reset();
  // `loss` is bound to the new one, and with it goes the last graph.
  if (config_.eval_grad && !config_.keeps_eval_losses && last_eval_pass_ != 0) {
    const std::size_t newest = active_;
    activate(last_eval_pass_);
    tape().drop_graph();
    pass().loss.reset();
    activate(newest);
  }
  last_eval_pass_ = active_;
}

void Training::end_evaluation() {
  // A list goes from its last element to its first.
  for (std::size_t i = passes_.size(); config_.eval_grad && --i > 0;) {
    activate(i);
    pass().loss.reset();
    tape().drop_graph();
  }
  model_->drop_evaluated_graphs();
  tape().end_autocast();
  activate(0);
  last_eval_pass_ = 0;
  if (config_.resume_at == step_ && step_ > 0) resume();
  evaluating_ = false;
  model_->set_evaluating(false);
  model_->set_cache(config_.keeps_cache ? &cache_ : nullptr);
  keep_outputs();
  tape().set_grad_enabled(true);
}

// torch.save copies tensor by tensor to the host: no device memory, but the host waits. The state
// dict of FSDP 1 is whole on the device first.
void Training::save() {
  batch_->mark("save");
  std::vector<Tensor> state;
  if (config_.save == SaveKind::Cast) {
    for (const OptimizedTensor& tensor : sizes_of(model_->ordered_parameters())) {
      if (tensor.width == 2) continue;  // to() gives what it got
      state.push_back(pool_->make(tensor.count * 2, TensorKind::Workspace));
    }
  }
  if (config_.data_parallel.kind == DataParallelKind::Fsdp1 && config_.save == SaveKind::Plain) {
    const ModelShape& model = config_.setup.model;
    // Tied tensors have a name of their own: T5's table three, BERT's table and its bias one each.
    const bool is_t5 = model.family == ModelFamily::T5, is_bert = model.family == ModelFamily::Bert;
    const std::size_t table_names = !model.tied_head ? 0 : is_t5 ? 3 : 1;
    state = sharded_->whole_state(model_->ordered_parameters(), table_names, is_bert);
  }
  if (config_.save == SaveKind::Gathered) {
    modules_ ? modules_->gather_each() : sharded_->gather_all();
    // The optimizer's states one by one, each whole on the device before it goes to the host.
    for (const Tensor& moment : optimizer_.states()) {
      const Tensor whole = pool_->make(moment.size_bytes() * config_.data_parallel.ranks,
                                       TensorKind::Communication, kGatherStream);
      tape().communicate(whole.size_bytes(), kGatherStream, RankGroup::Data);
      batch_->sync();
    }
    return;
  }
  batch_->sync();
  for (Tensor& tensor : state) tensor.reset();
}

// A checkpoint that is loaded to the device is there beside the model; its optimizer states stay,
// but those of an optimizer on the host.
void Training::resume() {
  if (config_.resume == ResumeKind::None) return;
  batch_->mark("resume");
  const bool on_device = config_.resume == ResumeKind::Device;
  std::vector<Tensor> loaded;
  if (on_device) {
    const bool has_parts = config_.data_parallel.kind == DataParallelKind::Fsdp2;
    const std::vector<std::size_t> all = model_->ordered_parameters();
    // DTensors bring the numbers of their mesh's ranks: FSDP 2's own mesh comes twice.
    const ParallelSetup& parallel = config_.setup.parallel;
    const bool is_own_mesh =
        has_parts && parallel.context == 1 && parallel.replicas == 1 && parallel.part_count() == 1;
    std::size_t meshes_left = is_own_mesh ? 2 : 1;
    const std::uint64_t ranks =
        parallel.part_count() * (has_parts ? parallel.data * parallel.context : 1);
    for (const OptimizedTensor& tensor : has_parts ? sharded_->parts(all) : sizes_of(all)) {
      loaded.push_back(pool_->make(tensor.size_bytes(), TensorKind::Workspace));
      if (meshes_left == 0 || !tensor.is_distributed) continue;
      loaded.push_back(pool_->make(ranks * 4, TensorKind::Workspace));
      --meshes_left;
    }
  }
  std::vector<Tensor> states;
  if (config_.offload == Offload::None) states = optimizer_.load_states(optimized(), on_device);
  batch_->sync();
  for (Tensor& tensor : loaded) tensor.reset();
  for (Tensor& state : states) state.reset();
}

void Training::end() {
  optimizer_.clear();
  scaler_.clear();
  if (buffers_) buffers_->clear();
  if (sharded_) sharded_->clear();
  if (modules_) modules_->clear();
  for (DataParallel& one : replicas_) one.clear();
  kept_outputs_.clear();
  kept_losses_.clear();
  kept_arguments_.clear();
  stage_outputs_.clear();
  stage_buffers_.clear();
  release_batch(&whole_);
  model_.reset();
  for (Pass& own : passes_) {
    drop({&own.tokens, &own.labels, &own.given_mask});
    release_batch(&own);
    own.loss.reset();
    own.arguments.clear();
  }
  batch_->mark("end");
}

}  // namespace allocmark
