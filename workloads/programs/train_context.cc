// Context parallelism of generator train (train_keys.h).
#include "workloads/programs/train_keys.h"

#include <string>

namespace allocmark {
namespace {

// What stands in the way of a model, in words; empty: nothing.
std::string model_obstacle(const TrainConfig& config) {
  const ModelFamily family = config.setup.model.family;
  if (config.is_megatron()) return "where implementation=megatron";
  if (config.setup.model.is_latent()) return "for latent attention";
  if (config.setup.model.joint_products) return "for Phi models";
  if (family == ModelFamily::Bert || family == ModelFamily::T5 || config.setup.model.image > 0) {
    return "for " + std::string(config.setup.model.name) +
           ": PyTorch's ring of ranks takes causal attention without masks only";
  }
  if (config.setup.parallel.pipeline > 1) return "where pp is above 1";
  if (config.draws_lengths) return "where lengths are drawn: they cannot be shared evenly";
  return "";
}

// The same of other keys: what would have to be said instead.
std::string key_obstacle(const TrainConfig& config) {
  const TransformerSetup& setup = config.setup;
  const ModelShape& model = setup.model;
  if (!setup.fused_attention) return "attention=fused";
  if (config.padded) return "attention_mask=none or ones";
  if (model.family == ModelFamily::Gpt2 && !config.given_mask) {
    return "attention_mask=ones for GPT-2: without one transformers takes a piece for packed texts "
           "and makes a mask";
  }
  if (setup.narrow_bytes == 4 && model.kv_head_count != model.head_count) {
    return "precision in two bytes: no kernel for grouped heads in four";
  }
  if (config.keeps_products) return "checkpoint=none, full or selective";
  if (config.loss_chunks > 1) return "loss_chunks=1";
  if (setup.parallel.expert > 1) return "ep=1";
  return "";
}

}  // namespace

void read_context(Parameters& parameters, TrainConfig* config) {
  ParallelSetup& parallel = config->setup.parallel;
  parallel.context = parameters.number("cp", 1, {1, 1024});
  if (!parallel.splits_sequences()) return;
  const std::string hindered = model_obstacle(*config);
  parameters.refuse_if(!hindered.empty(), "cp", "1 " + hindered, parallel.context);
  parallel.gathers_keys = parameters.choice("rotate", {"allgather", "alltoall"}) == 0;
  // The memory-efficient kernel's row sums come in blocks of 32, of each of two pieces.
  const bool is_wide = config->setup.narrow_bytes == 4;
  const std::uint64_t unit = parallel.context * (is_wide ? 64 : 2) * parallel.token_share();
  for (const std::uint64_t length : config->sequences) {
    if (length % unit == 0) continue;
    std::string rule = "a multiple of " + std::to_string(unit) + " = 2 x cp";
    if (is_wide) rule += " x 32 where precision=fp32";
    if (parallel.sequence) rule += " x tp where sp=1";
    parameters.refuse("seq", rule, length);
  }
}

void check_context_sharding(Parameters& parameters, const TrainConfig& config, std::uint64_t zero,
                            std::uint64_t fsdp) {
  if (!config.setup.parallel.splits_sequences()) return;
  const char* const rule = " where cp is above 1: accelerate shares the model by fully_shard then";
  parameters.refuse_if(zero > 0, "zero", std::string("0") + rule, zero);
  parameters.refuse_if(fsdp != 2, "fsdp", std::string("2") + rule, fsdp);
}

void check_context(Parameters& parameters, const TrainConfig& config) {
  const std::uint64_t ranks = config.setup.parallel.context;
  if (ranks == 1) return;
  const std::string wanted = key_obstacle(config);
  parameters.refuse_if(!wanted.empty(), "cp", "1, or " + wanted, ranks);
}

}  // namespace allocmark
