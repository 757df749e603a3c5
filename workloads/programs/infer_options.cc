// See infer_options.h.
#include "workloads/programs/infer_options.h"

#include <algorithm>
#include <string>

#include "workloads/programs/model_options.h"

namespace allocmark {
namespace {

// The keys of models that generate; `longest` bounds prompt and answer together.
void read_generation(Parameters& parameters, std::uint64_t longest, InferConfig* config) {
  const bool has_limit = config->setup.model.positions > 0;
  const std::uint64_t left = has_limit ? longest - config->lengths.context_max : longest;
  // The last new token is not read again, so it needs no position.
  config->answers = parameters.numbers("answers", {.preset = 0, .lowest = 1, .highest = left + 1});
  if (config->answers.front() > 0) {
    config->lengths.generated_max =
        *std::max_element(config->answers.begin(), config->answers.end()) - 1;
  } else {
    config->lengths.generated_max = parameters.number(
        "generated_max", {.preset = has_limit ? left : 2048, .lowest = 0, .highest = left});
  }
  config->kv_mode =
      static_cast<KvMode>(parameters.choice("kv", {"concat", "preallocated", "paged"}));
  config->beams = parameters.number("beams", {.preset = 1, .lowest = 1, .highest = 64});
  if (config->beams > 1 && config->kv_mode != KvMode::Concat) {
    parameters.refuse_value("beams", "1 without kv=concat, the cache that beams reorder",
                            config->beams);
  }
  if (config->setup.model.family == ModelFamily::T5) {
    if (config->beams > 1) parameters.refuse_value("beams", "1 for T5 models", config->beams);
    if (config->kv_mode != KvMode::Concat) {
      parameters.refuse_text("kv", "concat for T5 models",
                             config->kv_mode == KvMode::Paged ? "paged" : "preallocated");
    }
  }
  config->samples = read_switch(parameters, "sample", false);
  if (config->samples && config->beams > 1) {
    parameters.refuse_value("sample", "0 with beams above 1", 1);
  }
}

void read_lengths(Parameters& parameters, InferConfig* config) {
  const ModelShape& model = config->setup.model;
  LengthSettings& lengths = config->lengths;
  if (model.image > 0) {  // every image has as many patches
    config->sequences = {model.positions};
    lengths.context_max = model.positions;
    return;
  }
  lengths.source =
      static_cast<LengthSource>(parameters.choice("lengths", {"conv", "code", "lognormal"}));
  // Learned positions bound prompt and answer together; by default they share them evenly.
  const bool has_limit = model.positions > 0;
  const std::uint64_t longest = has_limit ? model.positions : 131'072;
  const std::uint64_t context_preset = !model.generates() ? longest
                                       : has_limit        ? longest / 2
                                                          : 16'384;
  lengths.context_max =
      parameters.number("context_max", {.preset = context_preset, .lowest = 1, .highest = longest});
  config->sequences =
      parameters.numbers("seq", {.preset = 0, .lowest = 1, .highest = lengths.context_max});
  if (model.generates()) read_generation(parameters, longest, config);
  lengths.longest_percent =
      parameters.number("longest_percent", {.preset = 0, .lowest = 0, .highest = 100});
  if (lengths.source != LengthSource::Lognormal) return;
  lengths.median = parameters.number("median", {.preset = 90, .lowest = 1, .highest = 100'000});
  lengths.sigma_percent =
      parameters.number("sigma_percent", {.preset = 70, .lowest = 0, .highest = 300});
}

void read_padding(Parameters& parameters, InferConfig* config) {
  const TransformerSetup& setup = config->setup;
  if (setup.model.family != ModelFamily::Vit && setup.model.family != ModelFamily::T5) {
    config->padded = read_switch(parameters, "padding", false);
  }
  if (setup.model.family == ModelFamily::Bert) {
    config->pools = read_switch(parameters, "embeddings", false);
  }
  if (setup.model.family != ModelFamily::Bert || config->pools) return;
  config->setup.predicts_words = parameters.choice("head", {"pooled", "words"}) == 1;
}

// LLaVA: each prompt has an image, which is seen once.
void read_prompt_images(Parameters& parameters, InferConfig* config) {
  TransformerSetup& setup = config->setup;
  if (!setup.model.has_llama_products()) return;
  const std::string name = read_vision_model(parameters, &setup);
  if (name.empty()) return;
  if (config->beams > 1 || config->padded || config->kv_mode != KvMode::Concat ||
      config->bits != WeightBits::Whole || setup.head_ranks > 1) {
    parameters.refuse_text("vision",
                           "none, or beams=1, padding=0, kv=concat, quantize=none and tp=1", name);
  }
  check_vision_lengths(parameters, setup, config->sequences);
}

}  // namespace

std::optional<TransformerSetup> read_draft(Parameters& parameters, const InferConfig& config) {
  std::vector<std::string> names = {"none"};
  for (const std::string& name : model_names()) names.push_back(name);
  const std::size_t choice = parameters.choice("draft", names);
  if (choice == 0) return std::nullopt;
  TransformerSetup draft = config.setup;
  draft.model = model_shapes()[choice - 1];
  const ModelFamily family = config.setup.model.family;
  if ((family != ModelFamily::Gpt2 && family != ModelFamily::Llama) ||
      draft.model.family != family) {
    parameters.refuse_value("draft", "a model of the same family, gpt2 or llama", names[choice]);
  }
  draft.model.vocabulary = config.setup.model.vocabulary;
  read_draft_shape(parameters, &draft.model);
  const bool one_by_one = config.batch_max == 1 && config.batches == std::vector<std::uint64_t>{0};
  if (config.beams > 1 || config.samples || config.answers.front() > 0 ||
      config.setup.head_ranks > 1 || config.bits != WeightBits::Whole ||
      config.kv_mode != KvMode::Concat || config.padded || config.setup.sees_images() ||
      !one_by_one) {
    parameters.refuse_value("draft",
                            "batch=1, beams=1, sample=0, kv=concat, padding=0, tp=1, vision=none, "
                            "quantize=none, no batches and no answers, as "
                            "transformers does",
                            names[choice]);
  }
  return draft;
}

InferConfig read_infer_config(Parameters& parameters) {
  InferConfig config;
  TransformerSetup& setup = config.setup;
  setup.model = read_model_shape(parameters);
  if (setup.model.family == ModelFamily::Dit) {
    parameters.refuse_value("model", "a model that encodes or generates; DiT is only trained",
                            setup.model.name);
  }
  refuse_trained_only(parameters, setup.model);
  setup.training = false;
  setup.autocast = false;
  const std::vector<std::string> weight_bits = {"none", "nf4", "int8", "int4"};
  if (setup.model.family == ModelFamily::Llama) {
    config.bits = static_cast<WeightBits>(parameters.choice("quantize", weight_bits));
  }
  setup.head_ranks = read_tensor_ranks(parameters, &setup.model);
  if (setup.head_ranks > 1 && setup.model.joint_products) {
    parameters.refuse_value("tp", "1 for " + std::string(setup.model.name), setup.head_ranks);
  }
  const bool fp32 = parameters.choice("precision", {"bf16", "fp32"}) == 1;
  setup.wide_bytes = setup.narrow_bytes = fp32 ? 4 : 2;
  if (config.bits != WeightBits::Whole && fp32) {
    parameters.refuse_text("quantize", "none where precision=fp32",
                           weight_bits[static_cast<std::size_t>(config.bits)]);
  }
  read_experts(parameters, 0, &setup);
  setup.fused_attention = parameters.choice("attention", {"fused", "eager"}) == 0;
  if (setup.model.family == ModelFamily::Vit) {
    const bool is_timm = parameters.choice("implementation", {"transformers", "timm"}) == 1;
    if (is_timm) setup.implementation = Implementation::Timm;
    if (is_timm && !setup.fused_attention) {
      parameters.refuse_text("attention", "fused where implementation=timm", "eager");
    }
  }
  setup.kernels = read_switch(parameters, "kernels", false);
  // All ranks do the same; a job names them.
  (void)parameters.number("rank", {.preset = 0, .lowest = 0, .highest = setup.head_ranks - 1});
  read_meetings(parameters, setup.head_ranks, &setup);
  config.request_count =
      parameters.number("requests", {.preset = 64, .lowest = 1, .highest = 1'000'000'000});
  config.batch_max = parameters.number("batch", {.preset = 8, .lowest = 1, .highest = 4096});
  config.batches = parameters.numbers("batches", {.preset = 0, .lowest = 1, .highest = 4096});
  config.full_batches = parameters.choice("arrival", {"full", "random"}) == 0;
  read_lengths(parameters, &config);
  read_padding(parameters, &config);
  read_prompt_images(parameters, &config);
  return config;
}

}  // namespace allocmark
