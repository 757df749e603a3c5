// See model_config.h.
#include "workloads/model_config/model_config.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/input_file.h"
#include "base/json_text.h"
#include "base/nearest.h"
#include "workloads/model_config/config_fields.h"
#include "workloads/model_config/deepspeed_config.h"
#include "workloads/model_config/model_config_notes.h"

namespace allocmark {
namespace {

// A key of a generator and the fields that may say it, the first that is there.
struct MappedKey {
  std::string_view key;
  std::array<std::string_view, 2> fields;
  std::uint64_t preset = 0;  // of the model's class, where the config need not say it; 0: it must
};

constexpr MappedKey kRotaryKeys[] = {
    {"layers", {"num_hidden_layers"}},  {"hidden", {"hidden_size"}},
    {"heads", {"num_attention_heads"}}, {"kv_heads", {"num_key_value_heads"}},
    {"ffn", {"intermediate_size"}},     {"vocabulary", {"vocab_size"}},
};
constexpr MappedKey kExpertKeys[] = {
    {"layers", {"num_hidden_layers"}},
    {"hidden", {"hidden_size"}},
    {"heads", {"num_attention_heads"}},
    {"kv_heads", {"num_key_value_heads"}},
    {"ffn", {"moe_intermediate_size", "intermediate_size"}},
    {"vocabulary", {"vocab_size"}},
    {"expert_count", {"num_local_experts", "num_experts"}},
    {"experts_per_token", {"num_experts_per_tok"}},
};
constexpr MappedKey kGpt2Keys[] = {
    {"layers", {"n_layer"}}, {"hidden", {"n_embd"}},         {"heads", {"n_head"}},
    {"ffn", {"n_inner"}},    {"vocabulary", {"vocab_size"}}, {"positions", {"n_positions"}},
};
constexpr MappedKey kBertKeys[] = {
    {"layers", {"num_hidden_layers"}},  {"hidden", {"hidden_size"}},
    {"heads", {"num_attention_heads"}}, {"ffn", {"intermediate_size"}},
    {"vocabulary", {"vocab_size"}},     {"positions", {"max_position_embeddings"}},
};
constexpr MappedKey kVitKeys[] = {
    {"layers", {"num_hidden_layers"}},  {"hidden", {"hidden_size"}},
    {"heads", {"num_attention_heads"}}, {"ffn", {"intermediate_size"}},
    {"image", {"image_size"}},          {"patch", {"patch_size"}},
};

// Configs of models that see images name few of their text's fields.
constexpr MappedKey kGemmaKeys[] = {
    {"layers", {"num_hidden_layers"}, 26}, {"hidden", {"hidden_size"}, 2304},
    {"heads", {"num_attention_heads"}, 8}, {"kv_heads", {"num_key_value_heads"}, 4},
    {"ffn", {"intermediate_size"}, 9216},  {"vocabulary", {"vocab_size"}, 262208},
    {"head_size", {"head_dim"}, 256},
};

// Latent attention; what is not one field is added apart.
constexpr MappedKey kLatentKeys[] = {
    {"layers", {"num_hidden_layers"}},
    {"hidden", {"hidden_size"}},
    {"heads", {"num_attention_heads"}},
    {"kv_heads", {"num_attention_heads"}},
    {"ffn", {"moe_intermediate_size"}},
    {"vocabulary", {"vocab_size"}},
    {"expert_count", {"n_routed_experts", "num_local_experts"}},
    {"experts_per_token", {"num_experts_per_tok"}},
    {"key_rank", {"kv_lora_rank"}},
    {"rope_size", {"qk_rope_head_dim"}},
    {"value_size", {"v_head_dim"}},
    {"dense_layers", {"first_k_dense_replace"}},
    {"dense_ffn", {"intermediate_size"}},
};

// A model_type, the row of shapes.cc whose structure it has, and its keys.
struct KnownType {
  std::string_view type;
  std::string_view base;
  std::span<const MappedKey> keys;
  bool is_rotary = true;  // has `tied` and `head_size`
  bool is_tied = false;   // where the config does not say it
  // What the class presets for windows of attention.
  std::uint64_t window = 0, window_every = 0;
};
constexpr KnownType kKnownTypes[] = {
    {"llama", "llama-3-8b", kRotaryKeys},
    {"mistral", "llama-3-8b", kRotaryKeys, true, false, 4096},
    {"deepseek_v3", "deepseek-v3", kLatentKeys},
    {"gemma3_text", "gemma-3-1b", kGemmaKeys, true, true, 4096, 6},
    {"qwen2", "qwen2.5-7b", kRotaryKeys},
    {"qwen3", "qwen3-8b", kRotaryKeys},
    {"phi3", "phi-3-mini", kRotaryKeys},
    {"mixtral", "mixtral-8x7b", kExpertKeys},
    {"qwen3_moe", "qwen3-30b-a3b", kExpertKeys},
    {"gpt2", "gpt2-124m", kGpt2Keys, false},
    {"bert", "bert-base", kBertKeys, false},
    {"vit", "vit-base", kVitKeys, false},
};

// What a family has that no generator does.
constexpr std::pair<std::string_view, std::string_view> kMissing[] = {
    {"gemma", "a gelu-gated MLP and embeddings that are multiplied by a constant"},
    {"gemma2", "four norms a block, scores that are capped, and layers that alternate windows"},
    {"phi", "attention and MLP side by side in a block, and LayerNorms with biases"},
    {"deepseek_v2", "a router by softmax over latent attention; deepseek_v3 is near"},
    {"gpt_oss", "attention sinks and experts with biases"},
    {"gpt_neox", "attention and MLP side by side in a block"},
    {"falcon", "attention and MLP side by side in a block"},
    {"opt", "a MLP of two matrices with relu behind learned positions"},
    {"bloom", "positions that are added to scores (ALiBi)"},
    {"roberta", "positions that are counted on the device; model_type bert is near"},
    {"qwen2_moe", "experts that all tokens share"},
    {"t5", "T5 by its config; 'train:t5-base' and its sisters are"},
    {"xlnet", "two streams of attention"},
};

[[noreturn]] void refuse(const std::string& where, std::string what, std::string wanted,
                         std::string got, std::string next) {
  throw UsageError({.what = std::move(what),
                    .where = where,
                    .wanted = std::move(wanted),
                    .got = std::move(got),
                    .next = std::move(next)});
}

[[noreturn]] void refuse_type(const std::string& where, const std::string& type) {
  std::vector<std::string> known;
  for (const KnownType& one : kKnownTypes) known.emplace_back(one.type);
  for (const auto& [name, missing] : kMissing) {
    if (type != name) continue;
    refuse(where, fmt::format("no generator has the blocks of '{}': missing are {}", type, missing),
           fmt::format("model_type {}", fmt::join(known, ", ")), type,
           "record one step of it, or without a GPU: scripts/record/record_without_gpu.py");
  }
  refuse(where, fmt::format("no generator has the blocks of '{}'", type),
         fmt::format("model_type {}", fmt::join(known, ", ")), type,
         suggest(type, known, "scripts/record/record_without_gpu.py"));
}

// Fields that are read beside those of the keys. What is there as something else than its kind was
// a slip, and the class's preset in its place would be another model.
constexpr std::string_view kMoreNumbers[] = {
    "head_dim",         "n_inner",           "q_lora_rank",           "qk_nope_head_dim",
    "n_shared_experts", "max_window_layers", "sliding_window_pattern"};
constexpr std::string_view kSwitches[] = {"tie_word_embeddings", "use_sliding_window",
                                          "attention_bias", "mlp_bias"};

void check_kind(const Json& config, std::string_view field, bool is_number,
                const std::string& where) {
  const auto found = config.find(field);
  if (found == config.end() || found->is_null()) return;
  if (is_number ? found->is_number_unsigned() : found->is_boolean()) return;
  refuse(where, fmt::format("'{}' cannot be used", field),
         is_number ? "a whole number from 0 on, or null" : "true, false or null",
         json_text(*found).substr(0, 60),
         "correct it, or download config.json from the model's page");
}

void check_kinds(const Json& config, const KnownType& known, const std::string& where) {
  for (const MappedKey& mapped : known.keys) {
    for (const std::string_view field : mapped.fields)
      if (!field.empty()) check_kind(config, field, true, where);
  }
  for (const std::string_view field : kMoreNumbers) check_kind(config, field, true, where);
  for (const std::string_view field : kSwitches) check_kind(config, field, false, where);
}

void add_key(std::string_view key, std::uint64_t value, ModelConfig* model) {
  model->head += fmt::format(",{}={}", key, value);
}

void add_mapped(const Json& config, const MappedKey& mapped, const std::string& where,
                ModelConfig* model) {
  for (const std::string_view field : mapped.fields) {
    if (field.empty()) continue;
    if (const std::optional<std::uint64_t> value = number_of(config, field)) {
      return add_key(mapped.key, *value, model);
    }
  }
  // What the model's class presets.
  if (mapped.preset > 0) return add_key(mapped.key, mapped.preset, model);
  const std::string_view first = mapped.fields.front();
  if (first == "num_key_value_heads") {
    return add_key(mapped.key, number_of(config, "num_attention_heads").value_or(1), model);
  }
  if (first == "n_inner") {
    return add_key(mapped.key, 4 * number_of(config, "n_embd").value_or(1), model);
  }
  refuse(where, fmt::format("'{}' is missing", first), "the whole config.json of a model", "none",
         "download it from the model's page");
}

// Phi: the part of a head that turns, which older configs say beside the frequencies.
void add_turning_part(const Json& config, std::uint64_t head_size, const std::string& where,
                      ModelConfig* model) {
  constexpr std::string_view name = "partial_rotary_factor";
  const auto inner = config.find("rope_parameters");
  const bool is_inside = inner != config.end() && inner->is_object() && inner->contains(name);
  const Json& holder = is_inside ? *inner : config;
  const auto part = holder.find(name);
  if (part == holder.end() || part->is_null() || *part == 1.0) return;
  if (!part->is_number() || !(part->get<double>() > 0 && part->get<double>() < 1)) {
    refuse(where, fmt::format("'{}' cannot be used", name), "a number above 0, at most 1",
           json_text(*part).substr(0, 60), "correct it, or download it from the model's page");
  }
  add_key("rope_size",
          static_cast<std::uint64_t>(static_cast<double>(head_size) * part->get<double>()), model);
}

void add_rotary(const Json& config, const KnownType& known, const std::string& where,
                ModelConfig* model) {
  const bool is_tied =
      known.is_tied ? !is_off(config, "tie_word_embeddings") : is_on(config, "tie_word_embeddings");
  add_key("tied", is_tied ? 1 : 0, model);
  const auto number = [&](const char* field) { return number_of(config, field).value_or(0); };
  if (known.keys.data() == kLatentKeys) {
    add_key("head_size", number("qk_nope_head_dim") + number("qk_rope_head_dim"), model);
    add_key("query_rank", number("q_lora_rank"), model);
    return add_key("shared_ffn", number("moe_intermediate_size") * number("n_shared_experts"),
                   model);
  }
  if (known.keys.data() == kGemmaKeys) return;  // its heads are among its keys
  const std::uint64_t hidden = number_of(config, "hidden_size").value_or(0);
  const std::uint64_t heads =
      std::max<std::uint64_t>(number_of(config, "num_attention_heads").value_or(1), 1);
  const std::uint64_t given = number_of(config, "head_dim").value_or(hidden / heads);
  add_key("head_size", given, model);
  if (model->model_type == "phi3") add_turning_part(config, given, where, model);
}

// Every how manieth block sees all tokens, 0: none; nothing where that is no rule.
std::optional<std::uint64_t> window_period(const Json& config, const KnownType& known,
                                           std::uint64_t layers) {
  const auto types = config.find("layer_types");
  if (types == config.end() || !types->is_array()) {
    // Qwen's first blocks have none.
    const std::uint64_t whole = number_of(config, "max_window_layers").value_or(0);
    if (whole > 0) return whole >= layers ? std::optional<std::uint64_t>(1) : std::nullopt;
    return number_of(config, "sliding_window_pattern").value_or(known.window_every);
  }
  const auto is_whole = [&](std::size_t index) { return types->at(index) == "full_attention"; };
  std::size_t period = 0;
  while (period < types->size() && !is_whole(period)) ++period;
  if (period == types->size()) return 0;
  ++period;
  for (std::size_t i = 0; i < types->size(); ++i) {
    if (is_whole(i) != ((i + 1) % period == 0)) return std::nullopt;
  }
  return period;
}

void add_windows(const Json& config, const KnownType& known, ModelConfig* model) {
  const bool has_field = config.contains("sliding_window");
  const bool is_asked =
      model->model_type.starts_with("qwen") ? is_on(config, "use_sliding_window") : true;
  const std::uint64_t window =
      has_field ? number_of(config, "sliding_window").value_or(0) : known.window;
  const bool is_preset = known.window_every > 0;  // also the generator's
  if (!is_preset && (window == 0 || !is_asked)) return;
  const std::optional<std::uint64_t> period =
      window_period(config, known, number_of(config, "num_hidden_layers").value_or(0));
  const bool has_experts = known.keys.data() == kExpertKeys;
  if (period && !has_experts) {
    const bool has_none = *period == 1 || window == 0;
    if (has_none && !is_preset) return;
    add_key("window", has_none ? 0 : window, model);
    if (!has_none) add_key("window_every", *period, model);
    return;
  }
  if (period == std::optional<std::uint64_t>(1)) return;
  model->notes.push_back(
      fmt::format("sliding_window={} is left out: with seq above that a mask takes batch x seq x "
                  "seq bytes, and its numbers twice that in a block",
                  window));
}

Json parse_config(std::string_view text, const std::string& where) {
  const JsonSource source{.where = where,
                          .what = "no config of a Hugging Face model",
                          .wanted = "a JSON object with 'model_type'",
                          .next = "download config.json from the model's page"};
  Json config = parse_json(text, source);
  const bool is_model = config.is_object() && config.contains("model_type");
  if (!is_model || !config["model_type"].is_string()) refuse_json(source, "no 'model_type'");
  return config;
}

}  // namespace

ModelConfig read_model_config(std::string_view json, const std::string& where) {
  const Json whole = parse_config(json, where);
  ModelConfig model{.model_type = whole["model_type"].get<std::string>()};
  // What sees images has a text's config inside.
  const bool has_text = model.model_type == "gemma3" && whole.contains("text_config");
  const Json& config = has_text ? whole["text_config"] : whole;
  if (has_text) model.model_type = "gemma3_text";
  const auto* const known = std::ranges::find(kKnownTypes, model.model_type, &KnownType::type);
  if (known == std::end(kKnownTypes)) refuse_type(where, model.model_type);
  check_kinds(config, *known, where);
  model.head = known->base;
  for (const MappedKey& mapped : known->keys) add_mapped(config, mapped, where, &model);
  if (!known->is_rotary) return model;
  add_rotary(config, *known, where, &model);
  add_windows(config, *known, &model);
  note_left_out(config, &model);
  if (has_text) note_vision(whole, number_of(config, "hidden_size").value_or(2304), &model);
  return model;
}

namespace {

// The words of `keys` whose keys the text does not give itself, each behind a comma.
std::string words_not_given(const std::string& keys, const std::string& given) {
  std::string out;
  for (std::size_t at = 0; at < keys.size();) {
    const std::size_t next = std::min(keys.find(',', at), keys.size());
    const std::string word = keys.substr(at, next - at);
    const std::string key = word.substr(0, word.find('=') + 1);
    if (given.find("," + key) == std::string::npos) out += "," + word;
    at = next + 1;
  }
  return out;
}

// Only training has windows.
void leave_windows_out(ModelConfig* model) {
  const std::size_t begin = model->head.find(",window=");
  if (begin == std::string::npos) return;
  const std::string words = model->head.substr(begin + 1);
  model->head.erase(begin);
  model->notes.push_back(words.substr(0, words.find(',')) +
                         " is left out: a cache of keys and values holds all tokens");
}

DescribedWorkload with_model_config(const std::string& workload) {
  const std::size_t colon = workload.find(':');
  const std::size_t end = std::min(workload.find(',', colon), workload.size());
  const std::string path = workload.substr(colon + 1, end - colon - 1);
  if (!path.ends_with(".json")) return {.text = workload};
  ModelConfig model = read_model_config(read_file(path), path);
  if (!workload.starts_with("train:")) leave_windows_out(&model);
  const std::size_t comma = model.head.find(',');  // every model has keys
  const std::string rest = workload.substr(end);
  return {.text = workload.substr(0, colon + 1) + model.head.substr(0, comma) +
                  words_not_given(model.head.substr(comma + 1), rest) + rest,
          .notes = std::move(model.notes)};
}

// "deepspeed=PATH" of `train`.
void insert_deepspeed_config(DescribedWorkload* described) {
  constexpr std::string_view kKey = ",deepspeed=";
  const std::size_t begin = described->text.find(kKey);
  if (begin == std::string::npos || !described->text.starts_with("train:")) return;
  const std::size_t end = std::min(described->text.find(',', begin + 1), described->text.size());
  const std::string path = described->text.substr(begin + kKey.size(), end - begin - kKey.size());
  if (path.empty() || described->text.find(kKey, end) != std::string::npos) {
    refuse(described->text, "'deepspeed' names one file", "deepspeed=PATH", path, "give one path");
  }
  const DescribedWorkload config = read_deepspeed_config(read_file(path), path);
  described->text.erase(begin, end - begin);
  described->text += words_not_given(config.text, described->text);
  described->notes.insert(described->notes.end(), config.notes.begin(), config.notes.end());
  if (described->text.find(",dp=") == std::string::npos) {
    described->notes.push_back(path +
                               " does not say how many GPUs there are: this is one. Give dp=N");
  }
}

}  // namespace

DescribedWorkload with_configs(const std::string& workload) {
  if (workload.find(':') == std::string::npos || workload.starts_with("file:")) {
    return {.text = workload};
  }
  DescribedWorkload described = with_model_config(workload);
  insert_deepspeed_config(&described);
  return described;
}

}  // namespace allocmark
