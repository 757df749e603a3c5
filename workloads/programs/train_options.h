// What generator train is told to do, read from a workload's text. Every value is checked alone and
// against the others: what contradicts or cannot be divided is refused with key, value and rule.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/model/data_parallel.h"
#include "workloads/model/lengths.h"
#include "workloads/model/optimizer.h"
#include "workloads/model/pipeline.h"
#include "workloads/model/transformer.h"
#include "workloads/trace/parameters.h"

namespace allocmark {

// When gradients are dropped or set to zero.
enum class ZeroGrad : std::uint8_t {
  AfterStep,       // set_to_none=True right after the optimizer's step
  BeforeBackward,  // between forward and backward: gradients live through the next forward
  Zeros,           // set_to_none=False: gradients stay
  Never,           // forgotten: gradients stay and add up
};

// Where the optimizer works.
enum class Offload : std::uint8_t {
  None,
  States,      // on the host: gradients go there before the step, new parameters come back
  Gradients,   // and each gradient goes there as soon as it is complete
  Parameters,  // DeepSpeed's third stage: and parts of parameters, which come to be gathered
};

enum class SaveKind : std::uint8_t {
  Plain,     // torch.save of the state dicts: tensors are copied to the host one by one
  Cast,      // a copy in two bytes of every parameter first
  Gathered,  // sharded parameters and optimizer states are gathered one by one
};

enum class ResumeKind : std::uint8_t { None, Host, Device };

struct TrainConfig {
  TransformerSetup setup;
  LoraSettings lora;
  std::uint64_t step_count = 1;
  std::uint64_t accumulate = 1;  // micro batches per step
  OptimizerKind optimizer = OptimizerKind::AdamW;
  bool clips = false;
  Offload offload = Offload::None;
  std::uint64_t loss_chunks = 1;  // of tokens: head and loss, each checkpointed
  bool scales_loss = false;       // float16: a GradScaler around backward and step
  ZeroGrad zero_grad = ZeroGrad::AfterStep;
  bool checkpointed = false;            // blocks are run again in the backward
  bool reentrant = false;               // the blocks run without a graph first
  bool keeps_products = false;          // but not matrix products and attention
  std::uint64_t checkpoint_every = 1;   // only blocks 0, n, 2n, ...
  std::uint64_t checkpoint_blocks = 1;  // so many blocks in one segment
  bool keeps_cache = true;
  bool caches_in_evaluation = true;  // evaluation does not checkpoint, so it keeps a cache
  bool given_mask = false;
  bool padded = false;  // the mask hides tokens, and labels are tensors of their own
  bool packed = false;  // several texts in a sequence, told apart by positions; labels as above
  std::vector<std::uint64_t> sequences;      // lengths in turn
  std::vector<std::uint64_t> targets = {0};  // T5: the decoder's lengths in turn
  bool keeps_batch = true;  // until the next one is there, else only through the forward
  bool draws_lengths = false;
  LengthSettings lengths;
  DataParallelSettings data_parallel;
  bool distributed_optimizer = false;  // Megatron's
  std::uint64_t eval_every = 0;        // steps; 0: no evaluation
  std::uint64_t eval_batches = 1;
  std::uint64_t eval_batch = 1;    // sequences in each
  bool eval_casts_once = false;    // one autocast context around all batches of an evaluation
  bool eval_grad = false;          // no_grad is forgotten
  bool keeps_eval_losses = false;  // and losses are added up with their graphs
  bool keeps_losses = false;       // every training loss is kept in a list
  bool keeps_outputs = false;      // every step's logits are
  bool returns_outputs = true;     // the last stage keeps a step's logits and joins them
  std::uint64_t save_every = 0;    // steps; 0: never
  SaveKind save = SaveKind::Plain;
  ResumeKind resume = ResumeKind::None;
  std::uint64_t resume_at = 0;  // before this step
  bool marks_phases = false;

  [[nodiscard]] PipelineShape pipeline() const {
    return {.stages = setup.parallel.pipeline,
            .stage = setup.parallel.stage,
            .chunks = setup.parallel.chunks,
            .micro_batches = accumulate,
            .fills_first = is_megatron()};
  }
  [[nodiscard]] bool is_megatron() const {
    return setup.implementation == Implementation::Megatron;
  }
  // A rank with a part of the tokens would count these alone.
  [[nodiscard]] bool gives_positions() const {
    return setup.parallel.sequence && !is_megatron() && setup.parallel.pipeline == 1;
  }
  // torch.distributed.pipelining runs the stage.
  [[nodiscard]] bool is_scheduled() const { return setup.parallel.pipeline > 1 && !is_megatron(); }
};

// Reads every key of train but `events`.
[[nodiscard]] TrainConfig read_train_config(Parameters& parameters);

}  // namespace allocmark
