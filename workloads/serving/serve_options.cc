#include "workloads/serving/serve_options.h"

#include <algorithm>
#include <string>
#include <vector>

namespace allocmark {
namespace {

constexpr std::uint64_t kLongestWithoutLimit = 131'072;

LengthBounds bounds_of(const ModelShape& model) {
  // Learned positions bound prompt and answer together; by default they share them evenly.
  if (model.positions == 0) return {kLongestWithoutLimit, 8'192, 1'024, true};
  return {model.positions, model.positions / 2, model.positions - model.positions / 2, true};
}

// A draft model by its name; its other dimensions are its own.
ModelShape read_draft(Parameters& parameters, const ModelShape& target) {
  std::vector<std::string> names = {"none"};
  for (const std::string& name : model_names()) names.push_back(name);
  const std::size_t choice = parameters.choice("draft", names);
  if (choice == 0) return {};
  ModelShape draft = model_shapes()[choice - 1];
  parameters.refuse_if(draft.family == ModelFamily::Bert, "draft",
                       "a model that generates, gpt2 or llama");
  parameters.refuse_if(draft.family != target.family, "draft",
                       "a model of the same family, which has the same words");
  // Both speak the same words.
  draft.vocabulary = target.vocabulary;
  return draft;
}

void read_limits(Parameters& parameters, ServeConfig* config) {
  SchedulerLimits& limits = config->limits;
  limits.running_max = parameters.number("batch", 64, {1, 4096});
  limits.token_budget = parameters.number("batch_tokens", 2048, {1, 1 << 20});
  limits.chunk_tokens = parameters.number("chunk", 512, {0, 1 << 20});
  limits.beams = parameters.number("beams", 1, {1, 64});
  const std::uint64_t longest = config->lengths.context_max + config->lengths.generated_max;
  parameters.refuse_if(limits.chunk_tokens == 0 && longest > limits.token_budget, "batch_tokens",
                       "with chunk=0 at least context_max + generated_max = " +
                           std::to_string(longest) + ", as prompts are not cut",
                       limits.token_budget);
}

void read_drafting(Parameters& parameters, ServeConfig* config) {
  const ModelShape draft = read_draft(parameters, config->target.model);
  if (draft.layer_count == 0) return;
  parameters.refuse_if(config->target.ranks > 1, "draft", "none where tp is above 1");
  config->draft = config->target;
  config->draft->model = draft;
  config->limits.draft_tokens = parameters.number("draft_tokens", 4, {1, 64});
  config->accept_percent = parameters.number("accept_percent", 70, {0, 100});
  parameters.refuse_if(config->limits.beams > 1, "beams",
                       "1 with a draft model: guesses are checked for one sequence",
                       config->limits.beams);
}

void read_cache(Parameters& parameters, ServeConfig* config) {
  SchedulerLimits& limits = config->limits;
  KvMode& mode = config->target.kv_mode;
  mode =
      static_cast<KvMode>((parameters.choice("kv", {"paged", "concat", "preallocated"}) + 2) % 3);
  const std::uint64_t memory_bytes =
      parameters.size_bytes("kv_memory", std::uint64_t{16} << 30, {1, 1ull << 50});
  limits.block_tokens = 1;
  if (mode == KvMode::Paged) {
    limits.block_tokens = parameters.number("block_tokens", 16, {1, 65'536});
  }
  const std::uint64_t longest =
      config->lengths.context_max + config->lengths.generated_max + limits.draft_tokens;
  if (mode == KvMode::Preallocated) limits.reserved_tokens = longest;
  const Engine sizes(
      nullptr, {.model = config->target.model, .width = config->target.width, .slot_count = 0});
  limits.block_count = memory_bytes / (sizes.cache_bytes_per_token() * limits.block_tokens);
  const Scheduler rule(limits);
  const std::uint64_t wanted = rule.blocks_for({.prompt = config->lengths.context_max}, longest);
  parameters.refuse_if(
      wanted > limits.block_count, "kv_memory",
      "room for one request of context_max + generated_max = " + std::to_string(longest) +
          " tokens, " +
          std::to_string(wanted * limits.block_tokens * sizes.cache_bytes_per_token()) + " bytes",
      std::to_string(memory_bytes) + " bytes");
}

// Graphs of decode steps, as servers capture them: without beams, draft models or growing caches,
// whose tensors are others at each step.
void read_graphs(Parameters& parameters, ServeConfig* config) {
  GraphSettings& graphs = config->graphs;
  const std::size_t choice = parameters.choice("graphs", {"none", "shared", "own"});
  if (choice == 0) return;
  const auto refuse = [&](const char* wanted) { parameters.refuse("graphs", wanted); };
  if (config->target.kv_mode != KvMode::Paged) refuse("none, or kv=paged");
  if (config->limits.beams > 1) refuse("none, or beams=1");
  if (config->draft) refuse("none, or draft=none");
  graphs.pools = choice == 1 ? GraphPools::Shared : GraphPools::Own;
  graphs.smallest_first = parameters.choice("graph_order", {"descending", "ascending"}) == 1;
  graphs.batch_max =
      parameters.number("graph_max", std::min<std::uint64_t>(2 * config->limits.running_max, 512),
                        {1, std::min<std::uint64_t>(config->limits.token_budget, 4096)});
}

}  // namespace

ArrivalSettings read_arrivals(Parameters& parameters) {
  ArrivalSettings arrivals;
  arrivals.source =
      parameters.pick<ArrivalSource>("arrivals", {"poisson", "gamma", "code", "conv"});
  const std::uint64_t own = own_rate_per_minute(arrivals.source);
  arrivals.per_minute = parameters.number("per_minute", own > 0 ? own : 120, {1, 60'000'000});
  if (arrivals.source == ArrivalSource::Gamma) {
    arrivals.cv_percent = parameters.number("cv_percent", 300, {20, 1000});
  }
  return arrivals;
}

ServingCard read_serving_card(Parameters& parameters) {
  const ServingCard preset;
  return {.tflops = parameters.number("tflops", preset.tflops, {2, 1'000'000}),
          .gb_per_second = parameters.number("bandwidth", preset.gb_per_second, {2, 1'000'000})};
}

LengthSettings read_lengths(Parameters& parameters, const LengthBounds& bounds) {
  LengthSettings lengths;
  lengths.source = parameters.pick<LengthSource>("lengths", {"conv", "code", "lognormal"});
  lengths.longest_percent = parameters.number("longest_percent", 0, {0, 100});
  if (lengths.source == LengthSource::Lognormal) {
    lengths.median = parameters.number("median", 90, {1, 100'000});
    lengths.sigma_percent = parameters.number("sigma_percent", 70, {0, 300});
  }
  const std::uint64_t context_highest = bounds.generates ? bounds.longest - 1 : bounds.longest;
  lengths.context_max =
      parameters.number("context_max", bounds.context_preset, {1, context_highest});
  if (!bounds.generates) return lengths;
  const std::uint64_t left = bounds.longest - lengths.context_max;
  lengths.generated_max =
      parameters.number("generated_max", std::min(bounds.generated_preset, left), {1, left});
  return lengths;
}

ServeConfig read_serve_config(Parameters& parameters, const ModelShape& model,
                              std::uint64_t ranks) {
  ServeConfig config;
  config.target.ranks = ranks;
  config.target.model = model;
  config.target.width = parameters.choice("precision", {"bf16", "fp32"}) == 1 ? 4 : 2;
  config.request_count = parameters.number("requests", 256, {1, 1'000'000'000});
  config.target.card = read_serving_card(parameters);
  config.arrivals = read_arrivals(parameters);
  config.lengths = read_lengths(parameters, bounds_of(model));
  read_limits(parameters, &config);
  read_drafting(parameters, &config);
  const std::uint64_t step_tokens = config.limits.beams * (1 + config.limits.draft_tokens);
  parameters.refuse_if(
      step_tokens > config.limits.token_budget, "batch_tokens",
      "at least the tokens of one request in one step, " + std::to_string(step_tokens),
      config.limits.token_budget);
  read_cache(parameters, &config);
  read_graphs(parameters, &config);
  config.target.slot_count = config.limits.running_max;
  config.target.beams = config.limits.beams;
  if (config.draft) {
    config.draft->kv_mode = config.target.kv_mode;
    config.draft->slot_count = config.limits.running_max;
  }
  return config;
}

}  // namespace allocmark
