// The program behind generator train: forwards and backwards of micro batches in the order of the
// pipeline's schedule, the optimizer's step, evaluation, saving and loading. Piece by piece, so
// that a trace of any length needs the memory of one step. training.cc runs the passes,
// training_step.cc what lies between them; training_batch.cc makes batches.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/random.h"
#include "workloads/model/compiled_gpt2.h"
#include "workloads/model/grad_scaler.h"
#include "workloads/model/megatron_buffers.h"
#include "workloads/model/pipeline.h"
#include "workloads/model/sharded_parameters.h"
#include "workloads/model/zero_modules.h"
#include "workloads/programs/train_options.h"
#include "workloads/trace/coroutine_program.h"
#include "workloads/trace/event_batch.h"

namespace allocmark {

class Training {
 public:
  using Config = TrainConfig;
  Training(const TrainConfig& config, std::uint64_t seed, EventBatch* batch);

  Coroutine run();

 private:
  // A forward whose backward is still to come, or an evaluation whose graph is kept.
  struct Pass {
    Graph graph;
    Var output;  // where the backward begins
    // Without labels of their own the tokens are the labels.
    Tensor tokens, labels, given_mask, loss, scaled_loss, received;
    Tensor noise, times;  // DiT
    Tensor images;        // LLaVA
    // Context parallel: of whole sequences; and this rank's pieces of everything, until the
    // backward is done.
    Tensor shifted_labels, positions;
    std::vector<Tensor> pieces;
    std::vector<Tensor> arguments, new_arguments;  // of reentrant checkpoints, while a loss lives
    std::uint64_t micro_batch = 0;
    std::uint64_t chunk = 0;
    std::uint64_t length = 0, target = 0;
    bool in_flight = false;
  };

  void start();
  void wrap();
  void begin_pass(const PipelinePass& next);
  void find_pass(const PipelinePass& next);
  // `index`: of the batch, which decides its lengths.
  void begin_forward(std::uint64_t index);
  void make_batch();
  void make_noisy_batch(const Transformer::InputSizes& sizes);
  void make_split_batch(std::uint64_t piece_bytes);
  void split_batch(std::uint64_t piece_bytes);
  void join_batch();
  [[nodiscard]] static const Tensor& labels_of(const Pass& pass);
  static void release_batch(Pass* pass);
  [[nodiscard]] bool runs_compiled_gpt2() const {
    return config_.setup.compiled == Compiled::Whole &&
           config_.setup.model.family == ModelFamily::Gpt2;
  }
  void run_compiled_gpt2();
  void make_texts(Pass* pass, std::uint64_t micro_batches);
  void cut_batch();
  void make_stage_buffers();
  void end_schedule();
  void let_output_go();
  void keep_sent(Tensor* kept, Tensor sent);
  void keep_outputs();
  void receive();
  // The buffer for a pass's received hidden states, or for their gradient.
  [[nodiscard]] Tensor stage_buffer(bool is_gradient);
  void forward_layer();
  [[nodiscard]] bool begins_segment() const;
  void begin_segment();
  void end_segment(Var* output);
  void end_forward();
  void send();
  void begin_backward();
  [[nodiscard]] bool backward();
  void end_backward();
  void optimize();
  void step(const std::vector<OptimizedTensor>& tensors);
  // Whether an evaluation follows.
  [[nodiscard]] bool after_step();
  void release_gradients();
  void begin_evaluation();
  void begin_evaluation_batch();
  void end_evaluation_batch();
  void end_evaluation();
  void save();
  void resume();
  void end();

  [[nodiscard]] Tape& tape() { return model_->tape(); }
  [[nodiscard]] Pass& pass() { return passes_[active_]; }
  // That of the active pass; null where nobody has the same data.
  [[nodiscard]] DataParallel* replica() {
    return replicas_.empty() ? nullptr : &replicas_[replica_index()];
  }
  [[nodiscard]] std::size_t replica_index() const {
    return replicas_.size() > 1 ? passes_[active_].chunk : 0;
  }
  // Those of one of `count` modules.
  [[nodiscard]] ModelBuffers replica_buffers(std::size_t index, std::size_t count) const;
  void wrap_replicas();
  [[nodiscard]] bool pipelined() const { return config_.setup.parallel.pipeline > 1; }
  [[nodiscard]] bool is_first() const;  // of all stages
  [[nodiscard]] bool is_last() const;
  [[nodiscard]] std::uint64_t chunk_layer_count() const;
  [[nodiscard]] std::uint64_t hidden_bytes();
  void set_lengths(std::uint64_t batch);  // of the active pass
  [[nodiscard]] std::size_t free_pass();
  void activate(std::size_t index);
  [[nodiscard]] std::uint64_t next_length(std::uint64_t index);
  [[nodiscard]] std::vector<OptimizedTensor> optimized();
  [[nodiscard]] std::vector<OptimizedTensor> sizes_of(const std::vector<std::size_t>& parameters);
  void mark_phase(const char* label);

  TrainConfig config_;
  Random random_;
  EventBatch* batch_;
  std::unique_ptr<TensorPool> pool_;
  std::unique_ptr<Transformer> model_;
  KvCache cache_;
  Optimizer optimizer_;
  GradScaler scaler_;
  std::vector<DataParallel> replicas_;   // DistributedDataParallel: one for each chunk
  std::vector<std::size_t> replica_of_;  // by parameter
  std::unique_ptr<ShardedParameters> sharded_;
  std::unique_ptr<ZeroModules> modules_;
  std::unique_ptr<MegatronBuffers> buffers_;
  std::unique_ptr<CompiledGpt2> compiled_;
  std::vector<Pass> passes_;
  std::size_t active_ = 0;
  std::vector<Tensor> kept_losses_, kept_outputs_, step_losses_;
  std::vector<Tensor> kept_arguments_;  // of reentrant checkpoints, by the graphs of kept losses
  // torch.distributed.pipelining's: buffers and logits of every micro batch, what is cut into them.
  std::vector<Tensor> stage_buffers_, stage_outputs_;
  Pass whole_;
  Tensor sent_, sent_gradient_;
  std::size_t stage_input_ = 0;  // pipeline: the parameter that stands for a received tensor
  Var stream_;
  std::uint64_t step_ = 0;
  std::uint64_t pass_index_ = 0;
  std::uint64_t layer_ = 0;  // of this rank
  std::uint64_t layer_end_ = 0;
  bool evaluating_ = false;
  std::uint64_t eval_index_ = 0;
  std::size_t last_eval_pass_ = 0;  // 0: none
};

}  // namespace allocmark
