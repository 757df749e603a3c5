// Keys of generator train that change what a model is made of: whose layers, windows of attention,
// products in float8, Liger-Kernel's operators, a ViT that sees images; masks (train_keys.h).
#include "workloads/programs/train_keys.h"

#include "workloads/model/functions.h"
#include "workloads/programs/model_options.h"

namespace allocmark {

void read_implementation(Parameters& parameters, TransformerSetup* setup) {
  setup->implementation =
      parameters.pick<Implementation>("implementation", {"transformers", "megatron", "timm"});
  const ModelFamily family = setup->model.family;
  const bool is_llama = setup->model.is_plain_llama();
  const bool is_megatron = setup->implementation == Implementation::Megatron;
  parameters.refuse_if(is_megatron && setup->model.expert_count > 0, "implementation",
                       "transformers for models with experts: Megatron-LM's router and grouped "
                       "products are not generated. zero=1 is nearest; add 4 bytes for each "
                       "parameter on the rank, Megatron's gradients (FIDELITY.md)");
  parameters.refuse_if(is_megatron && family != ModelFamily::Gpt2 && !is_llama, "implementation",
                       "transformers for BERT, Qwen, Gemma, Phi, T5 and ViT models");
  parameters.refuse_if(setup->implementation == Implementation::Timm && family != ModelFamily::Vit,
                       "implementation", "transformers, or timm for ViT models");
}

// Blocks whose attention sees only the last tokens, and where there are others between them.
void read_windows(Parameters& parameters, TrainConfig* config) {
  ModelShape& model = config->setup.model;
  if (model.family != ModelFamily::Llama || config->is_megatron()) return;
  model.window = parameters.number("window", model.window, {0, 1 << 20});
  model.window_every = parameters.number("window_every", model.window_every, {0, 1024});
  if (model.window == 0) return;
  const ParallelSetup& parallel = config->setup.parallel;
  if (!parallel.splits_sequences() && parallel.pipeline == 1) return;
  parameters.refuse("window", "0 where cp or pp is above 1", model.window);
}

// Hand-written linear layers over torch._scaled_mm, without biases.
void read_products(Parameters& parameters, TrainConfig* config) {
  TransformerSetup& setup = config->setup;
  const ModelShape& model = setup.model;
  if (!model.has_llama_products() || config->is_megatron()) return;
  setup.float8 = parameters.choice("products", {"own", "fp8"}) == 1;
  if (!setup.float8) return;
  const auto refuse = [&](const char* wanted) { parameters.refuse("products", wanted); };
  if (model.qkv_bias) refuse("own for models whose products have biases");
  if (setup.autocast || setup.wide_bytes != 2) refuse("own where precision is not bf16");
  if (config->lora.rank > 0) refuse("own where lora is given");
  if (setup.parallel.tensor * setup.parallel.pipeline > 1) refuse("own where tp or pp is above 1");
  if (config->keeps_products) refuse("own where checkpoint=keep_products");
  const auto fits = [](std::uint64_t count) { return count % kFloat8Tile == 0; };
  bool all_fit = !config->draws_lengths && fits(model.hidden) && fits(model.ffn) &&
                 fits(model.kv_width()) && fits(model.attention_width());
  for (const std::uint64_t length : config->sequences) {
    all_fit = all_fit && fits(length / setup.parallel.context * setup.batch);
  }
  if (!all_fit) refuse("own, or batch x seq and the model's widths in multiples of 16");
}

// Liger-Kernel's operators, in place of transformers' own.
void read_liger(Parameters& parameters, TrainConfig* config) {
  TransformerSetup& setup = config->setup;
  const bool is_llama = setup.model.has_llama_products() && !setup.model.gemma;
  if (!is_llama || config->is_megatron()) return;
  setup.liger = parameters.pick<LigerParts>("liger", {"none", "blocks", "all"});
  if (setup.liger == LigerParts::None) return;
  const auto refuse = [&](const char* wanted) { parameters.refuse("liger", wanted); };
  if (setup.parallel.tensor * setup.parallel.context > 1) refuse("none where tp or cp is above 1");
  if (setup.float8) refuse("none where products=fp8");
  if (setup.model.head_norms) refuse("none for Qwen 3, whose norms of heads it fuses, too");
  if (setup.liger == LigerParts::All && setup.autocast) {
    refuse("none or blocks where precision has autocast");
  }
}

// LLaVA: a ViT whose patches stand in the text, one image for each sequence.
void read_vision(Parameters& parameters, TrainConfig* config) {
  TransformerSetup& setup = config->setup;
  const bool is_llama = setup.model.has_llama_products() && !setup.model.gemma;
  if (!is_llama || config->is_megatron()) return;
  if (!read_vision_model(parameters, &setup)) return;
  setup.vision_frozen = parameters.flag("vision_frozen", true);
  const auto refuse = [&](const char* wanted) { parameters.refuse("vision", wanted); };
  if (setup.parallel.rank_count() > 1) refuse("none where tp, pp, cp or dp is above 1");
  if (config->checkpointed || setup.recomputes_attention) refuse("none where checkpoint is given");
  if (config->lora.rank > 0) refuse("none where lora is given");
  check_vision_lengths(parameters, setup,
                       config->draws_lengths ? std::vector<std::uint64_t>{0} : config->sequences);
}

void read_mask(Parameters& parameters, TrainConfig* config) {
  if (config->is_megatron() || config->setup.model.image > 0) return;
  const std::size_t mask = parameters.choice("attention_mask", {"none", "ones", "padding"});
  config->given_mask = mask > 0;
  config->padded = mask == 2;
  parameters.refuse_if(config->given_mask && config->setup.parallel.pipeline > 1, "attention_mask",
                       "none where pp > 1");
}

// As transformers' DataCollatorWithFlattening packs them.
void read_packed(Parameters& parameters, TrainConfig* config) {
  const TransformerSetup& setup = config->setup;
  const ModelShape& model = setup.model;
  const bool is_plain_llama = model.is_llama_like() && !model.gemma && !model.is_latent();
  if (config->is_megatron() || (model.family != ModelFamily::Gpt2 && !is_plain_llama)) return;
  config->packed = parameters.flag("packed", false);
  if (!config->packed) return;
  const auto refuse = [&](const char* rule) { parameters.refuse("packed", rule, 1); };
  if (config->given_mask) refuse("0, or attention_mask=none: a given mask hides no other text");
  if (setup.parallel.pipeline > 1 || setup.parallel.splits_sequences()) {
    refuse("0 where pp or cp is above 1");
  }
  if (model.window > 0) refuse("0, or window=0");
  if (setup.sees_images()) refuse("0, or vision=none");
}

}  // namespace allocmark
