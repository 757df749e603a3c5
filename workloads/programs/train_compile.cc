// Key of generator train: torch.compile (train_keys.h).
#include "workloads/programs/train_keys.h"

#include <string>
#include <vector>

namespace allocmark {
namespace {

// What stands in the way, in words; empty: nothing.
std::string obstacle_of_all(const TrainConfig& config) {
  const TransformerSetup& setup = config.setup;
  if (setup.implementation != Implementation::Transformers) return "implementation=transformers";
  if (!setup.fused_attention) return "attention=fused";
  if (config.keeps_cache) return "kv_cache=none";
  if (config.sequences.size() > 1 || config.draws_lengths) return "one length of seq";
  if (config.lora.rank > 0) return "lora=0";
  if (config.given_mask) return "attention_mask=none";
  if (config.packed) return "packed=0";
  if (config.eval_every > 0 || config.keeps_outputs) return "no evaluation and no kept outputs";
  if (setup.kernels) return "kernels=0";
  return "";
}

std::string obstacle_of_gpt2(const TrainConfig& config) {
  const TransformerSetup& setup = config.setup;
  if (!setup.autocast || setup.is_half || setup.wide_bytes != 4) return "precision=bf16_autocast";
  if (setup.batch == 1) return "a batch of at least 2";
  if (config.accumulate > 1) return "accumulate=1";
  if (config.checkpointed || setup.recomputes_attention) return "checkpoint=none";
  if (config.offload != Offload::None) return "offload=none";
  if (config.zero_grad != ZeroGrad::AfterStep) return "zero_grad=after_step";
  return "";
}

std::string obstacle_of_llama(const TrainConfig& config) {
  const TransformerSetup& setup = config.setup;
  if (setup.narrow_bytes != 2 || setup.is_half || (!setup.autocast && setup.wide_bytes != 2)) {
    return "precision=bf16 or bf16_autocast";
  }
  if (setup.liger != LigerParts::None) return "liger=none";
  if (setup.float8) return "products=own";
  if (setup.model.window > 0) return "window=0";
  if (setup.sees_images()) return "vision=none";
  if (setup.parallel.tensor * setup.parallel.context * setup.parallel.pipeline > 1) {
    return "no tp, cp or pp";
  }
  if (setup.recomputes_attention || config.keeps_products) return "checkpoint=none or full";
  return "";
}

// One graph of the model and its loss.
std::string obstacle_of_whole(const TrainConfig& config) {
  const TransformerSetup& setup = config.setup;
  if (setup.parallel.rank_count() > 1) return "one rank";
  if (config.loss_chunks > 1) return "loss_chunks=1";
  if (config.reentrant) return "reentrant=0";
  return "";
}

}  // namespace

void read_compile(Parameters& parameters, TrainConfig* config) {
  TransformerSetup& setup = config->setup;
  const bool is_gpt2 = setup.model.family == ModelFamily::Gpt2;
  const bool is_llama = setup.model.has_llama_products() && !setup.model.gemma &&
                        !setup.model.is_latent() && setup.model.expert_count == 0;
  if (!is_gpt2 && !is_llama) return;
  std::vector<std::string> names = {"none", "inductor"};
  if (is_llama) names.push_back("inductor_layers");
  setup.compiled = parameters.pick<Compiled>("compile", names);
  if (setup.compiled == Compiled::None) return;
  std::string wanted = obstacle_of_all(*config);
  if (wanted.empty()) wanted = is_gpt2 ? obstacle_of_gpt2(*config) : obstacle_of_llama(*config);
  if (wanted.empty() && setup.compiled == Compiled::Whole) wanted = obstacle_of_whole(*config);
  parameters.refuse_if(!wanted.empty(), "compile", "none, or " + wanted);
}

}  // namespace allocmark
