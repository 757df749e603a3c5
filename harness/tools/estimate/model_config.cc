// See model_config.h.
#include "harness/tools/estimate/model_config.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/error.h"
#include "base/input_file.h"
#include "base/json_text.h"
#include "base/nearest.h"

namespace allocmark {
namespace {

using Json = nlohmann::json;

// A key of a generator and the fields that may say it, the first that is there.
struct MappedKey {
  std::string_view key;
  std::array<std::string_view, 2> fields;
  bool is_needed = true;
};

constexpr MappedKey kRotaryKeys[] = {
    {"layers", {"num_hidden_layers"}},  {"hidden", {"hidden_size"}},
    {"heads", {"num_attention_heads"}}, {"kv_heads", {"num_key_value_heads"}, false},
    {"ffn", {"intermediate_size"}},     {"vocabulary", {"vocab_size"}},
};
constexpr MappedKey kExpertKeys[] = {
    {"layers", {"num_hidden_layers"}},
    {"hidden", {"hidden_size"}},
    {"heads", {"num_attention_heads"}},
    {"kv_heads", {"num_key_value_heads"}, false},
    {"ffn", {"moe_intermediate_size", "intermediate_size"}},
    {"vocabulary", {"vocab_size"}},
    {"expert_count", {"num_local_experts", "num_experts"}},
    {"experts_per_token", {"num_experts_per_tok"}},
};
constexpr MappedKey kGpt2Keys[] = {
    {"layers", {"n_layer"}},     {"hidden", {"n_embd"}},         {"heads", {"n_head"}},
    {"ffn", {"n_inner"}, false}, {"vocabulary", {"vocab_size"}}, {"positions", {"n_positions"}},
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

// A model_type, the row of shapes.cc whose structure it has, and its keys.
struct KnownType {
  std::string_view type;
  std::string_view base;
  std::span<const MappedKey> keys;
  bool is_rotary = true;  // has `tied` and `head_size`
};
constexpr KnownType kKnownTypes[] = {
    {"llama", "llama-3-8b", kRotaryKeys},        {"mistral", "llama-3-8b", kRotaryKeys},
    {"qwen2", "qwen2.5-7b", kRotaryKeys},        {"qwen3", "qwen3-8b", kRotaryKeys},
    {"phi3", "llama-3-8b", kRotaryKeys},         {"mixtral", "mixtral-8x7b", kExpertKeys},
    {"qwen3_moe", "qwen3-30b-a3b", kExpertKeys}, {"gpt2", "gpt2-124m", kGpt2Keys, false},
    {"bert", "bert-base", kBertKeys, false},     {"vit", "vit-base", kVitKeys, false},
};

// What a family has that no generator does.
constexpr std::pair<std::string_view, std::string_view> kMissing[] = {
    {"gemma", "a gelu-gated MLP and embeddings that are multiplied by a constant"},
    {"gemma2", "four norms a block, scores that are capped, and layers that alternate windows"},
    {"gemma3",
     "four norms a block, norms of heads, and layers that alternate windows; a qwen3 of its "
     "numbers reserves 3 % less (6 blocks of the 1B, 8 x 512 tokens)"},
    {"gemma3_text",
     "four norms a block, norms of heads, and layers that alternate windows; a qwen3 of its "
     "numbers reserves 3 % less (6 blocks of the 1B, 8 x 512 tokens)"},
    {"phi", "attention and MLP side by side in a block, and LayerNorms with biases"},
    {"deepseek_v2", "latent attention (MLA) and experts that all tokens share"},
    {"deepseek_v3", "latent attention (MLA) and experts that all tokens share"},
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

std::optional<std::uint64_t> number_of(const Json& config, std::string_view field) {
  const auto found = config.find(field);
  if (found == config.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<std::uint64_t>();
}

bool is_on(const Json& config, const char* field) {
  const auto found = config.find(field);
  return found != config.end() && *found == true;
}
bool is_off(const Json& config, const char* field) {
  const auto found = config.find(field);
  return found != config.end() && *found == false;
}

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

void add_rotary(const Json& config, ModelConfig* model) {
  add_key("tied", is_on(config, "tie_word_embeddings") ? 1 : 0, model);
  const std::uint64_t hidden = number_of(config, "hidden_size").value_or(0);
  const std::uint64_t heads =
      std::max<std::uint64_t>(number_of(config, "num_attention_heads").value_or(1), 1);
  const std::uint64_t given = number_of(config, "head_dim").value_or(hidden / heads);
  add_key("head_size", given, model);
}

// What a config says and no key can, with what that changes.
class LeftOut {
 public:
  LeftOut(const Json& config, ModelConfig* model)
      : config_(config),
        type_(model->model_type),
        notes_(&model->notes),
        layers_(number_of(config, "num_hidden_layers").value_or(0)),
        hidden_(number_of(config, "hidden_size").value_or(0)),
        heads_(std::max<std::uint64_t>(number_of(config, "num_attention_heads").value_or(1), 1)),
        kv_heads_(number_of(config, "num_key_value_heads").value_or(heads_)),
        head_size_(number_of(config, "head_dim").value_or(hidden_ / heads_)),
        ffn_(number_of(config, "intermediate_size").value_or(0)) {}

  void add_all() const {
    add_biases();
    add_window();
    add_dropout();
    add_dense_layers();
    add_quantization();
    if (type_ == "phi3") {
      add("phi3 is taken as a llama with as many parameters. Joint products to query, key and "
          "value, "
          "and to gate and up, held 0.6 to 3 % more live in backward, and 0.2 to 0.6 % reserved");
    }
  }

 private:
  void add(std::string note) const { notes_->push_back(std::move(note)); }
  void add_parameters(std::string_view key, std::uint64_t count) const {
    add(fmt::format("{} is left out: {} parameters more, {:.2f} MiB in two bytes", key, count,
                    static_cast<double>(2 * count) / static_cast<double>(kMiB)));
  }

  void add_biases() const {
    const std::uint64_t attention = (heads_ + 2 * kv_heads_) * head_size_ + hidden_;
    if (is_on(config_, "attention_bias") && type_ != "qwen2") {
      add_parameters("attention_bias", layers_ * attention);
    }
    if (is_on(config_, "mlp_bias")) add_parameters("mlp_bias", layers_ * (2 * ffn_ + hidden_));
  }

  void add_window() const {
    const std::optional<std::uint64_t> window = number_of(config_, "sliding_window");
    if (!window || is_off(config_, "use_sliding_window")) return;
    add(
        fmt::format("sliding_window={} is left out: with seq above that a mask takes batch x seq x "
                    "seq bytes, and its numbers twice that in a block",
                    *window));
  }

  void add_dropout() const {
    const auto found = config_.find("attention_dropout");
    if (found == config_.end() || !found->is_number() || *found == 0.0) return;
    add(fmt::format(
        "attention_dropout={} is left out: nothing with attention=fused; with eager each "
        "block keeps a mask and scores, batch x {} x seq x seq x 3 bytes",
        found->get<double>(), heads_));
  }

  // Blocks of a mixture that have one MLP instead of experts.
  void add_dense_layers() const {
    const std::optional<std::uint64_t> experts = number_of(config_, "num_experts");
    if (!experts) return;
    std::uint64_t count = 0;
    const auto only = config_.find("mlp_only_layers");
    const std::uint64_t step =
        std::max<std::uint64_t>(number_of(config_, "decoder_sparse_step").value_or(1), 1);
    for (std::uint64_t layer = 0; layer < layers_; ++layer) {
      const bool is_named = only != config_.end() && only->is_array() &&
                            std::ranges::find(*only, Json(layer)) != only->end();
      if (is_named || (layer + 1) % step != 0) ++count;
    }
    if (count == 0) return;
    const std::uint64_t inner = number_of(config_, "moe_intermediate_size").value_or(0);
    const std::uint64_t taken = count * hidden_ * (3 * inner + 1) * *experts;
    const std::uint64_t dense = count * hidden_ * 3 * ffn_;
    add(
        fmt::format("{} blocks without experts are taken for blocks with them: {} parameters where "
                    "the model has {}",
                    count, taken, dense));
  }

  void add_quantization() const {
    const auto found = config_.find("quantization_config");
    if (found == config_.end() || !found->is_object()) return;
    const std::string method = found->value("quant_method", "?");
    const std::optional<std::uint64_t> given = number_of(*found, "bits");
    const std::uint64_t bits = given.value_or(method == "fp8" ? 8 : 0);
    const std::uint64_t attention = 2 * hidden_ * (heads_ + kv_heads_) * head_size_;
    const std::uint64_t weights = layers_ * (attention + 3 * hidden_ * ffn_);
    const bool is_counted = bits > 0 && bits < 16 && !number_of(config_, "num_experts") &&
                            !number_of(config_, "num_local_experts");
    add(fmt::format("quantization_config ({}) is left out: weights are taken whole{}", method,
                    is_counted ? fmt::format(", {:.2f} GiB more in two bytes than in {} bits",
                                             static_cast<double>(weights * (16 - bits) / 8) /
                                                 static_cast<double>(kGiB),
                                             bits)
                               : ""));
  }

  const Json& config_;
  const std::string& type_;
  std::vector<std::string>* notes_;
  std::uint64_t layers_, hidden_, heads_, kv_heads_, head_size_, ffn_;
};

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
  const Json config = parse_config(json, where);
  ModelConfig model{.model_type = config["model_type"].get<std::string>()};
  const auto* const known = std::ranges::find(kKnownTypes, model.model_type, &KnownType::type);
  if (known == std::end(kKnownTypes)) refuse_type(where, model.model_type);
  model.head = known->base;
  for (const MappedKey& mapped : known->keys) add_mapped(config, mapped, where, &model);
  if (known->is_rotary) add_rotary(config, &model);
  if (known->is_rotary) LeftOut(config, &model).add_all();
  return model;
}

std::string with_model_config(const std::string& workload, std::vector<std::string>* notes) {
  const std::size_t colon = workload.find(':');
  if (colon == std::string::npos || workload.starts_with("file:")) return workload;
  const std::size_t end = std::min(workload.find(',', colon), workload.size());
  const std::string path = workload.substr(colon + 1, end - colon - 1);
  if (!path.ends_with(".json")) return workload;
  const ModelConfig model = read_model_config(read_file(path), path);
  notes->insert(notes->end(), model.notes.begin(), model.notes.end());
  // A key that the text gives itself wins.
  std::string head;
  const std::string rest = workload.substr(end);
  for (std::size_t at = 0; at < model.head.size();) {
    const std::size_t next = std::min(model.head.find(',', at), model.head.size());
    const std::string word = model.head.substr(at, next - at);
    const std::string key = word.substr(0, word.find('=') + 1);
    if (at == 0 || rest.find("," + key) == std::string::npos) head += (at == 0 ? "" : ",") + word;
    at = next + 1;
  }
  return workload.substr(0, colon + 1) + head + rest;
}

}  // namespace allocmark
