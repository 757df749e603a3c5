#include "workloads/programs/model_options.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>

namespace allocmark {

namespace {

// DeepSeek-V3's latent attention, and blocks of two kinds.
void read_latent_shape(Parameters& parameters, ModelShape* model) {
  const auto number = [&](const char* key, std::uint64_t* value, std::uint64_t lowest) {
    *value = parameters.number(key, *value, {lowest, std::uint64_t{1} << 20});
  };
  number("query_rank", &model->query_rank, 0);
  number("key_rank", &model->key_rank, 1);
  number("rope_size", &model->rope_size, 2);
  number("value_size", &model->value_size, 1);
  number("shared_ffn", &model->shared_ffn, 0);
  number("dense_layers", &model->dense_count, 0);
  number("dense_ffn", &model->dense_ffn, 1);
  // Experts are chosen among groups, each known by its two best.
  constexpr std::uint64_t kRoutedGroups = 8;
  const std::uint64_t experts = model->expert_count;
  parameters.refuse_if(experts % kRoutedGroups != 0 || experts < 2 * kRoutedGroups, "expert_count",
                       "a multiple of 8, at least 16: eight groups of two experts or more",
                       experts);
  parameters.refuse_if(model->rope_size >= model->head_width(), "rope_size",
                       "less than head_size = " + std::to_string(model->head_width()),
                       model->rope_size);
  parameters.refuse_if(model->kv_head_count != model->head_count, "kv_heads",
                       "heads = " + std::to_string(model->head_count), model->kv_head_count);
}

// Phi: how many elements of a head turn.
void read_turning_part(Parameters& parameters, ModelShape* model) {
  model->rope_size = parameters.number("rope_size", model->rope_size, {0, 1 << 12});
  if (model->rope_size % 2 == 0 && model->rope_size <= model->head_width()) return;
  parameters.refuse("rope_size",
                    "0 or an even number up to head_size = " + std::to_string(model->head_width()),
                    model->rope_size);
}

}  // namespace

ModelShape read_model_shape(Parameters& parameters) {
  ModelShape model = model_shapes()[parameters.variant_index("model", model_names(), true)];
  parameters.set_model_kind(model.kind());
  const auto number = [&](const char* key, std::uint64_t preset, std::uint64_t highest) {
    return parameters.number(key, preset, {1, highest});
  };
  const std::uint64_t heads_preset = model.head_count;
  model.layer_count = number("layers", model.layer_count, 1024);
  model.hidden = number("hidden", model.hidden, 1 << 17);
  model.head_count = number("heads", model.head_count, 1024);
  model.ffn = number("ffn", model.ffn, 1 << 20);
  const bool has_images = model.image > 0;
  model.vocabulary = number(has_images ? "classes" : "vocabulary", model.vocabulary, 1 << 20);
  if (has_images) {
    model.image = number("image", model.image, 1 << 14);
    model.patch = number("patch", model.patch, 1 << 14);
    parameters.refuse_if(model.image % model.patch != 0, "patch",
                         "a divisor of image = " + std::to_string(model.image), model.patch);
    // ViT has a class token besides.
    model.positions = model.patch_count() + (model.family == ModelFamily::Vit ? 1 : 0);
  } else if (model.positions > 0) {
    model.positions = number("positions", model.positions, 1 << 20);
  }
  if (model.is_llama_like()) {
    const std::uint64_t preset =
        model.kv_head_count == heads_preset ? model.head_count : model.kv_head_count;
    model.kv_head_count = number("kv_heads", preset, 1024);
    model.head_size = parameters.number("head_size", model.head_size, {0, 1 << 12});
    model.tied_head = parameters.flag("tied", model.tied_head);
  } else {
    model.kv_head_count = model.head_count;
  }
  parameters.refuse_if(model.head_size == 0 && model.hidden % model.head_count != 0, "heads",
                       "a divisor of hidden = " + std::to_string(model.hidden), model.head_count);
  parameters.refuse_if(model.head_count % model.kv_head_count != 0, "kv_heads",
                       "a divisor of heads = " + std::to_string(model.head_count),
                       model.kv_head_count);
  if (model.expert_count > 0) {
    model.expert_count = number("expert_count", model.expert_count, 1024);
    model.experts_per_token = number("experts_per_token", model.experts_per_token, 1024);
    parameters.refuse_if(model.experts_per_token > model.expert_count, "experts_per_token",
                         "at most expert_count = " + std::to_string(model.expert_count),
                         model.experts_per_token);
  }
  if (model.is_latent()) read_latent_shape(parameters, &model);
  if (model.joint_products) read_turning_part(parameters, &model);
  return model;
}

void refuse_trained_only(Parameters& parameters, const ModelShape& model) {
  if (model.window == 0 && !model.is_latent()) return;
  parameters.refuse("model",
                    "a model without windows of attention and without latent keys: their "
                    "cache is smaller, and only 'train' has such blocks",
                    model.name);
}

void read_draft_shape(Parameters& parameters, ModelShape* draft) {
  const auto number = [&](const char* key, std::uint64_t preset, std::uint64_t highest) {
    return parameters.number(key, preset, {1, highest});
  };
  draft->layer_count = number("draft_layers", draft->layer_count, 1024);
  draft->hidden = number("draft_hidden", draft->hidden, 1 << 17);
  draft->head_count = number("draft_heads", draft->head_count, 1024);
  draft->ffn = number("draft_ffn", draft->ffn, 1 << 20);
  draft->kv_head_count = draft->is_llama_like()
                             ? number("draft_kv_heads", draft->kv_head_count, 1024)
                             : draft->head_count;
  parameters.refuse_if(draft->hidden % draft->head_count != 0, "draft_heads",
                       "a divisor of draft_hidden = " + std::to_string(draft->hidden),
                       draft->head_count);
  parameters.refuse_if(draft->head_count % draft->kv_head_count != 0, "draft_kv_heads",
                       "a divisor of draft_heads = " + std::to_string(draft->head_count),
                       draft->kv_head_count);
}

void read_experts(Parameters& parameters, std::uint64_t token_count, TransformerSetup* setup) {
  if (setup->model.expert_count == 0) return;
  constexpr std::uint64_t none = UINT64_MAX;
  setup->expert_loop = parameters.choice("experts", {"grouped", "loop"}) == 1;
  const std::uint64_t ranks = setup->parallel.expert;
  parameters.refuse_if(setup->expert_loop && ranks > 1, "ep", "1 where experts=loop", ranks);
  if (!setup->expert_loop) return;  // grouped products do not depend on who gets how much
  setup->routing_skew_percent = parameters.number("skew_percent", 50, {0, 100});
  if (token_count == 0) return;
  const std::uint64_t experts = setup->model.expert_count;
  std::vector<std::uint64_t> given =
      parameters.numbers("tokens_per_expert", none, {0, token_count});
  if (given.front() == none) return;
  for (std::size_t i = 0; i < given.size(); i += experts) {
    const std::size_t end = std::min<std::size_t>(given.size(), i + experts);
    const std::uint64_t sum =
        std::accumulate(given.begin() + static_cast<std::ptrdiff_t>(i),
                        given.begin() + static_cast<std::ptrdiff_t>(end), std::uint64_t{0});
    const std::uint64_t pairs = token_count * setup->model.experts_per_token;
    if (end - i == experts && sum == pairs) continue;
    parameters.refuse(
        "tokens_per_expert",
        "groups of expert_count = " + std::to_string(experts) +
            " numbers whose sum is batch x seq x experts_per_token = " + std::to_string(pairs),
        sum);
  }
  setup->tokens_per_expert = std::move(given);
}

std::uint64_t read_tensor_ranks(Parameters& parameters, ModelShape* model) {
  const std::uint64_t ranks = parameters.number("tp", 1, {1, 1024});
  if (ranks == 1) return 1;
  parameters.refuse_if(!model->is_llama_like(), "tp", "1 but for Llama, Qwen and Mixtral models",
                       ranks);
  const auto share = [&](const char* what, std::uint64_t* value) {
    parameters.refuse_if(*value % ranks != 0, "tp",
                         "a divisor of " + std::string(what) + " = " + std::to_string(*value),
                         ranks);
    *value /= ranks;
  };
  model->head_size = model->head_width();
  share("heads", &model->head_count);
  share("kv_heads", &model->kv_head_count);
  share("ffn", &model->ffn);
  return ranks;
}

void read_meetings(Parameters& parameters, std::uint64_t rank_count, TransformerSetup* setup) {
  setup->meetings = parameters.flag("collectives", false);
  if (!setup->meetings || rank_count > 1) return;
  parameters.refuse("collectives", "0 where there is one rank: it meets nobody", 1);
}

bool read_vision_model(Parameters& parameters, TransformerSetup* setup) {
  const std::vector<std::string> names = {"none", "vit-base", "vit-large", "vit-huge"};
  const std::size_t choice = parameters.choice("vision", names);
  for (const ModelShape& shape : model_shapes()) {
    if (shape.name == names[choice]) setup->vision = shape;
  }
  return choice > 0;
}

void check_vision_lengths(Parameters& parameters, const TransformerSetup& setup,
                          const std::vector<std::uint64_t>& lengths) {
  const std::uint64_t shortest = *std::min_element(lengths.begin(), lengths.end());
  const std::uint64_t patches = setup.vision.patch_count();
  if (shortest > patches) return;
  parameters.refuse("seq", "given lengths above the image's patches = " + std::to_string(patches),
                    shortest);
}

}  // namespace allocmark
