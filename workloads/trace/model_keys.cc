// See model_keys.h.
#include "workloads/trace/model_keys.h"

#include <algorithm>
#include <array>
#include <ranges>

namespace allocmark {
namespace {

// tests/workloads/trace/model_keys_test.cc holds it against the generators.
constexpr std::array kModelKeys = {
    ModelKey{"train", "compile", "gpt llama qwen"},
    ModelKey{"train", "ep expert_count experts experts_per_token", "mixtral deepseek"},
    ModelKey{"train", "query_rank key_rank value_size shared_ffn dense_layers dense_ffn",
             "deepseek"},
    ModelKey{"train", "rope_size", "phi deepseek"},
    ModelKey{"train", "classes image patch", "vit dit"},
    ModelKey{"train", "positions", "gpt bert"},
    ModelKey{"train", "kv_heads head_size tied", "llama qwen gemma phi mixtral deepseek"},
    ModelKey{"train", "lora_targets", "llama qwen gemma phi", "lora above 0"},
    ModelKey{"train", "lora", "gpt bert llama qwen gemma phi mixtral"},
    ModelKey{"train", "lora_dropout", "gpt bert llama qwen gemma phi mixtral", "lora above 0"},
    ModelKey{"train", "lora_trains quantize", "llama qwen gemma phi mixtral", "lora above 0"},
    ModelKey{"train", "products", "llama qwen gemma"},
    ModelKey{"train", "window window_every", "llama qwen gemma phi"},
    ModelKey{"train", "liger vision", "llama qwen"},
    ModelKey{"train", "loss_chunks", "gpt llama qwen gemma phi mixtral deepseek"},
    ModelKey{"train", "kv_cache", "gpt llama qwen gemma phi mixtral deepseek t5"},
    ModelKey{"train", "attention_mask lengths seq vocabulary",
             "gpt bert llama qwen gemma phi mixtral deepseek t5"},
    ModelKey{"train", "packed", "gpt llama qwen phi mixtral"},
    ModelKey{"train", "target", "t5"},
    ModelKey{"infer", "classes image patch", "vit"},
    ModelKey{"infer", "embeddings head", "bert"},
    ModelKey{"infer", "quantize", "llama qwen phi"},
    ModelKey{"infer", "vision", "llama qwen"},
    ModelKey{"infer", "kv_heads head_size tied", "llama qwen phi mixtral"},
    ModelKey{"infer", "rope_size", "phi"},
    ModelKey{"infer", "positions", "gpt bert"},
    ModelKey{"infer", "experts expert_count experts_per_token", "mixtral"},
    ModelKey{"infer", "generated_max beams kv answers sample draft",
             "gpt llama qwen phi mixtral t5"},
    ModelKey{"infer", "padding", "gpt bert llama qwen phi mixtral"},
    ModelKey{"infer", "context_max lengths seq vocabulary", "gpt bert llama qwen phi mixtral t5"},
    ModelKey{"serve", "attention", "bert"},
    ModelKey{"serve", "beams block_tokens chunk draft generated_max kv kv_memory tp",
             "gpt llama qwen phi mixtral"},
    ModelKey{"serve", "kv_heads head_size tied", "llama qwen phi mixtral"},
    ModelKey{"serve", "rope_size", "phi"},
    ModelKey{"serve", "positions", "gpt bert"},
    ModelKey{"serve", "expert_count experts_per_token", "mixtral"},
};

}  // namespace

std::vector<std::string_view> words_of(std::string_view text, char between) {
  std::vector<std::string_view> words;
  for (const auto word : std::views::split(text, between)) {
    words.emplace_back(word.begin(), word.end());
  }
  return words;
}

std::span<const ModelKey> model_keys() { return kModelKeys; }

const ModelKey* find_model_key(std::string_view generator, std::string_view key) {
  const auto* found = std::ranges::find_if(kModelKeys, [&](const ModelKey& row) {
    return row.generator == generator && std::ranges::count(words_of(row.keys), key) > 0;
  });
  return found == kModelKeys.end() ? nullptr : found;
}

bool is_for_model(const ModelKey& key, std::string_view kind) {
  return std::ranges::count(words_of(key.models), kind) > 0;
}

std::string models_of(const ModelKey& key) {
  std::string text;
  for (const char letter : key.models) text += letter == ' ' ? ", " : std::string(1, letter);
  return text;
}

}  // namespace allocmark
