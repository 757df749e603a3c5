#include "workloads/programs/train_compile.h"

#include <string>

namespace allocmark {
namespace {

// What stands in the way, in words; empty: nothing.
std::string obstacle(const TrainConfig& config) {
  const TransformerSetup& setup = config.setup;
  if (setup.implementation != Implementation::Transformers) return "implementation=transformers";
  if (!setup.autocast || setup.is_half || setup.wide_bytes != 4) return "precision=bf16_autocast";
  if (!setup.fused_attention) return "attention=fused";
  if (config.keeps_cache) return "kv_cache=none";
  if (setup.batch == 1) return "a batch of at least 2";
  if (config.sequences.size() > 1 || config.draws_lengths) return "one length of seq";
  if (config.accumulate > 1) return "accumulate=1";
  if (config.checkpointed || setup.recomputes_attention) return "checkpoint=none";
  if (config.lora.rank > 0) return "lora=0";
  if (config.given_mask) return "attention_mask=none";
  if (setup.parallel.rank_count() > 1) return "one rank";
  if (config.eval_every > 0 || config.keeps_outputs) return "no evaluation and no kept outputs";
  if (config.loss_chunks > 1) return "loss_chunks=1";
  if (config.offload != Offload::None) return "offload=none";
  if (config.zero_grad != ZeroGrad::AfterStep) return "zero_grad=after_step";
  if (setup.kernels) return "kernels=0";
  return "";
}

}  // namespace

void read_compile(Parameters& parameters, TrainConfig* config) {
  if (config->setup.model.family != ModelFamily::Gpt2) return;
  config->compiled = parameters.choice("compile", {"none", "inductor"}) == 1;
  if (!config->compiled) return;
  const std::string wanted = obstacle(*config);
  if (!wanted.empty()) parameters.refuse_text("compile", "none, or " + wanted, "inductor");
}

}  // namespace allocmark
