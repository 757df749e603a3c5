// See infer_options.h.
#include "workloads/programs/infer_options.h"

#include <algorithm>
#include <string>

#include "workloads/programs/model_options.h"

namespace allocmark {
namespace {

// Of prompts; 0 where they are drawn.
std::uint64_t longest_given(const InferConfig& config) {
  return *std::max_element(config.sequences.begin(), config.sequences.end());
}

// The keys of models that generate; `longest` bounds prompt and answer together.
void read_generation(Parameters& parameters, std::uint64_t longest, InferConfig* config) {
  const bool has_limit = config->setup.model.positions > 0;
  const std::uint64_t left = has_limit ? longest - config->lengths.context_max : longest;
  const std::uint64_t given = longest_given(*config);
  // The last new token is not read again, so it needs no position.
  config->answers =
      parameters.numbers("answers", 0, {1, (has_limit && given > 0 ? longest - given : left) + 1});
  if (config->answers.front() > 0) {
    config->lengths.generated_max =
        *std::max_element(config->answers.begin(), config->answers.end()) - 1;
  } else {
    config->lengths.generated_max =
        parameters.number("generated_max", has_limit ? left : 2048, {0, left});
  }
  config->kv_mode = parameters.pick<KvMode>("kv", {"concat", "preallocated", "paged"});
  config->beams = parameters.number("beams", 1, {1, 64});
  config->setup.copies_experts = config->beams == 1;  // so does generate()
  parameters.refuse_if(config->beams > 1 && config->kv_mode != KvMode::Concat, "beams",
                       "1 without kv=concat, the cache that beams reorder", config->beams);
  if (config->setup.model.family == ModelFamily::T5) {
    parameters.refuse_if(config->beams > 1, "beams", "1 for T5 models", config->beams);
    parameters.refuse_if(config->kv_mode != KvMode::Concat, "kv", "concat for T5 models");
  }
  config->samples = parameters.flag("sample", false);
  parameters.refuse_if(config->samples && config->beams > 1, "sample", "0 with beams above 1", 1);
}

void read_lengths(Parameters& parameters, InferConfig* config) {
  const ModelShape& model = config->setup.model;
  LengthSettings& lengths = config->lengths;
  if (model.image > 0) {  // every image has as many patches
    config->sequences = {model.positions};
    lengths.context_max = model.positions;
    return;
  }
  lengths.source = parameters.pick<LengthSource>("lengths", {"conv", "code", "lognormal"});
  // Learned positions bound prompt and answer together; by default they share them evenly.
  const bool has_limit = model.positions > 0;
  const std::uint64_t longest = has_limit ? model.positions : 131'072;
  const std::uint64_t context_preset = !model.generates() ? longest
                                       : has_limit        ? longest / 2
                                                          : 16'384;
  config->sequences = parameters.numbers("seq", 0, {1, longest});
  const std::uint64_t given = longest_given(*config);
  lengths.context_max =
      parameters.number("context_max", std::max(context_preset, given), {1, longest});
  parameters.refuse_if(given > lengths.context_max, "seq",
                       "at most context_max = " + std::to_string(lengths.context_max), given);
  if (model.generates()) read_generation(parameters, longest, config);
  lengths.longest_percent = parameters.number("longest_percent", 0, {0, 100});
  if (lengths.source != LengthSource::Lognormal) return;
  lengths.median = parameters.number("median", 90, {1, 100'000});
  lengths.sigma_percent = parameters.number("sigma_percent", 70, {0, 300});
}

void read_padding(Parameters& parameters, InferConfig* config) {
  const TransformerSetup& setup = config->setup;
  if (setup.model.family != ModelFamily::Vit && setup.model.family != ModelFamily::T5) {
    config->padded = parameters.flag("padding", false);
  }
  if (setup.model.family == ModelFamily::Bert) {
    config->pools = parameters.flag("embeddings", false);
  }
  if (setup.model.family != ModelFamily::Bert || config->pools) return;
  config->setup.predicts_words = parameters.choice("head", {"pooled", "words"}) == 1;
}

// LLaVA: each prompt has an image, which is seen once.
void read_prompt_images(Parameters& parameters, InferConfig* config) {
  TransformerSetup& setup = config->setup;
  if (!setup.model.has_llama_products()) return;
  if (!read_vision_model(parameters, &setup)) return;
  parameters.refuse_if(config->beams > 1 || config->padded || config->kv_mode != KvMode::Concat ||
                           config->bits != WeightBits::Whole || setup.head_ranks > 1,
                       "vision", "none, or beams=1, padding=0, kv=concat, quantize=none and tp=1");
  check_vision_lengths(parameters, setup, config->sequences);
}

// A draft model by its name, with dimensions of its own; nothing where the key is not given.
std::optional<DraftConfig> read_draft(Parameters& parameters, const InferConfig& config) {
  std::vector<std::string> names = {"none"};
  for (const std::string& name : model_names()) names.push_back(name);
  const std::size_t choice = parameters.choice("draft", names);
  if (choice == 0) return std::nullopt;
  DraftConfig own{.setup = config.setup};
  TransformerSetup& draft = own.setup;
  draft.model = model_shapes()[choice - 1];
  const ModelFamily family = config.setup.model.family;
  parameters.refuse_if(
      (family != ModelFamily::Gpt2 && family != ModelFamily::Llama) || draft.model.family != family,
      "draft", "a model of the same family, gpt2 or llama");
  draft.model.vocabulary = config.setup.model.vocabulary;
  read_draft_shape(parameters, &draft.model);
  const bool one_by_one = config.batch_max == 1 && config.batches == std::vector<std::uint64_t>{0};
  parameters.refuse_if(config.beams > 1 || config.samples || config.setup.head_ranks > 1 ||
                           config.bits != WeightBits::Whole || config.kv_mode != KvMode::Concat ||
                           config.padded || config.setup.sees_images() || !one_by_one,
                       "draft",
                       "batch=1, beams=1, sample=0, kv=concat, padding=0, tp=1, vision=none, "
                       "quantize=none and no batches, as transformers does");
  own.tokens = parameters.number("draft_tokens", 5, {1, 64});
  own.accept_percent = parameters.number("accept_percent", 70, {0, 100});
  return own;
}

}  // namespace

InferConfig read_infer_config(Parameters& parameters) {
  InferConfig config;
  TransformerSetup& setup = config.setup;
  setup.model = read_model_shape(parameters);
  parameters.refuse_if(setup.model.family == ModelFamily::Dit, "model",
                       "a model that encodes or generates; DiT is only trained", setup.model.name);
  refuse_trained_only(parameters, setup.model);
  setup.training = false;
  setup.autocast = false;
  if (setup.model.family == ModelFamily::Llama) {
    config.bits = parameters.pick<WeightBits>("quantize", {"none", "nf4", "int8", "int4"});
  }
  setup.head_ranks = read_tensor_ranks(parameters, &setup.model);
  parameters.refuse_if(setup.head_ranks > 1 && setup.model.joint_products, "tp",
                       "1 for " + std::string(setup.model.name), setup.head_ranks);
  const bool fp32 = parameters.choice("precision", {"bf16", "fp32"}) == 1;
  setup.wide_bytes = setup.narrow_bytes = fp32 ? 4 : 2;
  parameters.refuse_if(config.bits != WeightBits::Whole && fp32, "quantize",
                       "none where precision=fp32");
  read_experts(parameters, 0, &setup);
  setup.fused_attention = parameters.choice("attention", {"fused", "eager"}) == 0;
  if (setup.model.family == ModelFamily::Vit) {
    const bool is_timm = parameters.choice("implementation", {"transformers", "timm"}) == 1;
    if (is_timm) setup.implementation = Implementation::Timm;
    parameters.refuse_if(is_timm && !setup.fused_attention, "attention",
                         "fused where implementation=timm");
  }
  setup.kernels = parameters.flag("kernels", false);
  // All ranks do the same; a job names them.
  (void)parameters.number("rank", 0, {0, setup.head_ranks - 1});
  read_meetings(parameters, setup.head_ranks, &setup);
  config.request_count = parameters.number("requests", 64, {1, 1'000'000'000});
  config.batch_max = parameters.number("batch", 8, {1, 4096});
  config.batches = parameters.numbers("batches", 0, {1, 4096});
  config.full_batches = parameters.choice("arrival", {"full", "random"}) == 0;
  read_lengths(parameters, &config);
  read_padding(parameters, &config);
  read_prompt_images(parameters, &config);
  if (setup.model.generates()) config.draft = read_draft(parameters, config);
  return config;
}

}  // namespace allocmark
