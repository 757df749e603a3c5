// See model_keys.h.
#include "workloads/trace/model_keys.h"

#include <algorithm>
#include <array>

namespace allocmark {
namespace {

// tests/workloads/model_keys_test.cc holds it against the generators.
constexpr std::array kModelKeys = {
    ModelKey{"train", "compile", "gpt2 llama qwen"},
    ModelKey{"train", "ep", "mixtral qwen3-30b deepseek"},
    ModelKey{"train", "expert_count", "mixtral qwen3-30b deepseek"},
    ModelKey{"train", "experts", "mixtral qwen3-30b deepseek"},
    ModelKey{"train", "experts_per_token", "mixtral qwen3-30b deepseek"},
    ModelKey{"train", "query_rank", "deepseek"},
    ModelKey{"train", "key_rank", "deepseek"},
    ModelKey{"train", "rope_size", "phi deepseek"},
    ModelKey{"train", "value_size", "deepseek"},
    ModelKey{"train", "shared_ffn", "deepseek"},
    ModelKey{"train", "dense_layers", "deepseek"},
    ModelKey{"train", "dense_ffn", "deepseek"},
    ModelKey{"train", "classes", "vit dit"},
    ModelKey{"train", "image", "vit dit"},
    ModelKey{"train", "patch", "vit dit"},
    ModelKey{"train", "positions", "gpt bert"},
    ModelKey{"train", "kv_heads", "llama qwen gemma phi mixtral deepseek"},
    ModelKey{"train", "head_size", "llama qwen gemma phi mixtral deepseek"},
    ModelKey{"train", "tied", "llama qwen gemma phi mixtral deepseek"},
    ModelKey{"train", "lora_targets", "llama qwen gemma phi", "lora above 0"},
    ModelKey{"train", "lora", "gpt bert llama qwen gemma phi mixtral"},
    ModelKey{"train", "lora_dropout", "gpt bert llama qwen gemma phi mixtral", "lora above 0"},
    ModelKey{"train", "lora_trains", "llama qwen gemma phi mixtral", "lora above 0"},
    ModelKey{"train", "quantize", "llama qwen gemma phi mixtral", "lora above 0"},
    ModelKey{"train", "products", "llama qwen gemma"},
    ModelKey{"train", "window", "llama qwen gemma phi"},
    ModelKey{"train", "window_every", "llama qwen gemma phi"},
    ModelKey{"train", "liger", "llama qwen"},
    ModelKey{"train", "vision", "llama qwen"},
    ModelKey{"train", "loss_chunks", "gpt llama qwen gemma phi mixtral deepseek"},
    ModelKey{"train", "kv_cache", "gpt llama qwen gemma phi mixtral deepseek t5"},
    ModelKey{"train", "attention_mask", "gpt bert llama qwen gemma phi mixtral deepseek t5"},
    ModelKey{"train", "packed", "gpt llama qwen phi mixtral"},
    ModelKey{"train", "lengths", "gpt bert llama qwen gemma phi mixtral deepseek t5"},
    ModelKey{"train", "seq", "gpt bert llama qwen gemma phi mixtral deepseek t5"},
    ModelKey{"train", "vocabulary", "gpt bert llama qwen gemma phi mixtral deepseek t5"},
    ModelKey{"train", "target", "t5"},
    ModelKey{"infer", "classes", "vit"},
    ModelKey{"infer", "image", "vit"},
    ModelKey{"infer", "patch", "vit"},
    ModelKey{"infer", "embeddings", "bert"},
    ModelKey{"infer", "head", "bert"},
    ModelKey{"infer", "quantize", "llama qwen phi"},
    ModelKey{"infer", "vision", "llama qwen"},
    ModelKey{"infer", "kv_heads", "llama qwen phi mixtral"},
    ModelKey{"infer", "head_size", "llama qwen phi mixtral"},
    ModelKey{"infer", "rope_size", "phi"},
    ModelKey{"infer", "tied", "llama qwen phi mixtral"},
    ModelKey{"infer", "positions", "gpt bert"},
    ModelKey{"infer", "experts", "mixtral qwen3-30b"},
    ModelKey{"infer", "expert_count", "mixtral qwen3-30b"},
    ModelKey{"infer", "experts_per_token", "mixtral qwen3-30b"},
    ModelKey{"infer", "generated_max", "gpt llama qwen phi mixtral t5"},
    ModelKey{"infer", "beams", "gpt llama qwen phi mixtral t5"},
    ModelKey{"infer", "kv", "gpt llama qwen phi mixtral t5"},
    ModelKey{"infer", "answers", "gpt llama qwen phi mixtral t5"},
    ModelKey{"infer", "sample", "gpt llama qwen phi mixtral t5"},
    ModelKey{"infer", "draft", "gpt llama qwen phi mixtral t5"},
    ModelKey{"infer", "padding", "gpt bert llama qwen phi mixtral"},
    ModelKey{"infer", "context_max", "gpt bert llama qwen phi mixtral t5"},
    ModelKey{"infer", "lengths", "gpt bert llama qwen phi mixtral t5"},
    ModelKey{"infer", "seq", "gpt bert llama qwen phi mixtral t5"},
    ModelKey{"infer", "vocabulary", "gpt bert llama qwen phi mixtral t5"},
    ModelKey{"serve", "attention", "bert"},
    ModelKey{"serve", "beams", "gpt llama qwen phi mixtral"},
    ModelKey{"serve", "block_tokens", "gpt llama qwen phi mixtral"},
    ModelKey{"serve", "chunk", "gpt llama qwen phi mixtral"},
    ModelKey{"serve", "draft", "gpt llama qwen phi mixtral"},
    ModelKey{"serve", "generated_max", "gpt llama qwen phi mixtral"},
    ModelKey{"serve", "kv", "gpt llama qwen phi mixtral"},
    ModelKey{"serve", "kv_memory", "gpt llama qwen phi mixtral"},
    ModelKey{"serve", "tp", "gpt llama qwen phi mixtral"},
    ModelKey{"serve", "kv_heads", "llama qwen phi mixtral"},
    ModelKey{"serve", "head_size", "llama qwen phi mixtral"},
    ModelKey{"serve", "rope_size", "phi"},
    ModelKey{"serve", "tied", "llama qwen phi mixtral"},
    ModelKey{"serve", "positions", "gpt bert"},
    ModelKey{"serve", "expert_count", "mixtral qwen3-30b"},
    ModelKey{"serve", "experts_per_token", "mixtral qwen3-30b"},
};

}  // namespace

std::span<const ModelKey> model_keys() { return kModelKeys; }

const ModelKey* find_model_key(std::string_view generator, std::string_view key) {
  const auto* found = std::ranges::find_if(kModelKeys, [&](const ModelKey& row) {
    return row.generator == generator && row.key == key;
  });
  return found == kModelKeys.end() ? nullptr : found;
}

bool is_for_model(const ModelKey& key, std::string_view model) {
  std::string_view rest = key.models;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    if (model.starts_with(rest.substr(0, end))) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

std::string models_of(const ModelKey& key) {
  std::string text;
  for (const char letter : key.models) text += letter == ' ' ? ", " : std::string(1, letter);
  return text;
}

}  // namespace allocmark
