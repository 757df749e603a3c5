#include "workloads/model/shapes.h"

#include <array>

namespace allocmark {
namespace {

using enum ModelFamily;

// What a family adds to the columns of a row.
constexpr ModelShape qwen2(ModelShape shape) {
  shape.qkv_bias = true;
  return shape;
}

constexpr ModelShape qwen3(ModelShape shape) {
  shape.head_size = 128;
  shape.head_norms = true;
  return shape;
}

// Each sixth block has no window.
constexpr ModelShape gemma3(std::uint64_t head_size, std::uint64_t window, ModelShape shape) {
  shape.head_size = head_size;
  shape.head_norms = shape.gemma = true;
  shape.window = window;
  shape.window_every = 6;
  return shape;
}

constexpr ModelShape phi(ModelShape shape, std::uint64_t rope_size = 0) {
  shape.joint_products = true;
  shape.rope_size = rope_size;
  return shape;
}

// Columns: layers, hidden, heads, kv heads, ffn, vocabulary, positions, tied head; then size of a
// head, experts and how many of them a token takes, image, patch.
constexpr auto kShapes = std::to_array<ModelShape>({
    {"gpt2-124m", Gpt2, 12, 768, 12, 12, 3072, 50257, 1024, true},
    {"gpt2-355m", Gpt2, 24, 1024, 16, 16, 4096, 50257, 1024, true},
    {"gpt2-774m", Gpt2, 36, 1280, 20, 20, 5120, 50257, 1024, true},
    {"gpt2-1.5b", Gpt2, 48, 1600, 25, 25, 6400, 50257, 1024, true},
    {"gpt3-175b", Gpt2, 96, 12288, 96, 96, 49152, 50257, 2048, true},
    {"bert-base", Bert, 12, 768, 12, 12, 3072, 30522, 512, true},
    {"bert-large", Bert, 24, 1024, 16, 16, 4096, 30522, 512, true},
    {"llama-2-7b", Llama, 32, 4096, 32, 32, 11008, 32000, 0, false},
    {"llama-2-13b", Llama, 40, 5120, 40, 40, 13824, 32000, 0, false},
    {"llama-2-70b", Llama, 80, 8192, 64, 8, 28672, 32000, 0, false},
    {"llama-3-8b", Llama, 32, 4096, 32, 8, 14336, 128256, 0, false},
    {"llama-3-70b", Llama, 80, 8192, 64, 8, 28672, 128256, 0, false},
    {"llama-3.2-1b", Llama, 16, 2048, 32, 8, 8192, 128256, 0, true},
    {"llama-3.2-3b", Llama, 28, 3072, 24, 8, 8192, 128256, 0, true},
    {"llama-3.1-405b", Llama, 126, 16384, 128, 8, 53248, 128256, 0, false},
    qwen2({"qwen2.5-0.5b", Llama, 24, 896, 14, 2, 4864, 151936, 0, true}),
    qwen2({"qwen2.5-1.5b", Llama, 28, 1536, 12, 2, 8960, 151936, 0, true}),
    qwen2({"qwen2.5-7b", Llama, 28, 3584, 28, 4, 18944, 152064, 0, false}),
    qwen2({"qwen2.5-32b", Llama, 64, 5120, 40, 8, 27648, 152064, 0, false}),
    qwen2({"qwen2.5-72b", Llama, 80, 8192, 64, 8, 29568, 152064, 0, false}),
    qwen3({"qwen3-0.6b", Llama, 28, 1024, 16, 8, 3072, 151936, 0, true}),
    qwen3({"qwen3-4b", Llama, 36, 2560, 32, 8, 9728, 151936, 0, true}),
    qwen3({"qwen3-8b", Llama, 36, 4096, 32, 8, 12288, 151936, 0, false}),
    qwen3({"qwen3-14b", Llama, 40, 5120, 40, 8, 17408, 151936, 0, false}),
    qwen3({"qwen3-32b", Llama, 64, 5120, 64, 8, 25600, 151936, 0, false}),
    qwen3({"qwen3-30b-a3b", Mixtral, 48, 2048, 32, 4, 768, 151936, 0, false, 0, 128, 8}),
    gemma3(256, 512, {"gemma-3-1b", Llama, 26, 1152, 4, 1, 6912, 262144, 0, true}),
    gemma3(256, 1024, {"gemma-3-4b", Llama, 34, 2560, 8, 4, 10240, 262208, 0, true}),
    gemma3(256, 1024, {"gemma-3-12b", Llama, 48, 3840, 16, 8, 15360, 262208, 0, true}),
    gemma3(128, 1024, {"gemma-3-27b", Llama, 62, 5376, 32, 16, 21504, 262208, 0, true}),
    phi({"phi-3-mini", Llama, 32, 3072, 32, 32, 8192, 32064, 0, false}),
    phi({"phi-4", Llama, 40, 5120, 40, 10, 17920, 100352, 0, false}),
    phi({"phi-4-mini", Llama, 32, 3072, 24, 8, 8192, 200064, 0, true}, 96),
    {"mixtral-8x7b", Mixtral, 32, 4096, 32, 8, 14336, 32000, 0, false, 0, 8, 2},
    {"mixtral-8x22b", Mixtral, 56, 6144, 48, 8, 16384, 32768, 0, false, 0, 8, 2},
    {.name = "deepseek-v3",
     .family = Mixtral,
     .layer_count = 61,
     .hidden = 7168,
     .head_count = 128,
     .kv_head_count = 128,
     .ffn = 2048,
     .vocabulary = 129280,
     .tied_head = false,
     .head_size = 192,
     .expert_count = 256,
     .experts_per_token = 8,
     .query_rank = 1536,
     .key_rank = 512,
     .rope_size = 64,
     .value_size = 128,
     .shared_ffn = 2048,
     .dense_count = 3,
     .dense_ffn = 18432},
    {"vit-base", Vit, 12, 768, 12, 12, 3072, 1000, 197, false, 0, 0, 0, 224, 16},
    {"vit-large", Vit, 24, 1024, 16, 16, 4096, 1000, 197, false, 0, 0, 0, 224, 16},
    {"vit-huge", Vit, 32, 1280, 16, 16, 5120, 1000, 257, false, 0, 0, 0, 224, 14},
    {"dit-s", Dit, 12, 384, 6, 6, 1536, 1000, 256, false, 0, 0, 0, 32, 2},
    {"dit-b", Dit, 12, 768, 12, 12, 3072, 1000, 256, false, 0, 0, 0, 32, 2},
    {"dit-l", Dit, 24, 1024, 16, 16, 4096, 1000, 256, false, 0, 0, 0, 32, 2},
    {"dit-xl", Dit, 28, 1152, 16, 16, 4608, 1000, 256, false, 0, 0, 0, 32, 2},
    {"t5-small", T5, 6, 512, 8, 8, 2048, 32128, 0, true, 64},
    {"t5-base", T5, 12, 768, 12, 12, 3072, 32128, 0, true, 64},
    {"t5-large", T5, 24, 1024, 16, 16, 4096, 32128, 0, true, 64},
    {"t5-3b", T5, 24, 1024, 32, 32, 16384, 32128, 0, true, 128},
    {"t5-11b", T5, 24, 1024, 128, 128, 65536, 32128, 0, true, 128},
});

}  // namespace

std::string_view ModelShape::kind() const {
  switch (family) {
    case Gpt2:
      return "gpt";
    case Bert:
      return "bert";
    case Mixtral:
      return is_latent() ? "deepseek" : "mixtral";
    case Vit:
      return "vit";
    case Dit:
      return "dit";
    case T5:
      return "t5";
    case Llama:
      break;
  }
  if (gemma) return "gemma";
  if (joint_products) return "phi";
  return has_qwen_parts() ? "qwen" : "llama";
}

std::span<const ModelShape> model_shapes() { return kShapes; }

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const ModelShape& shape : kShapes) names.emplace_back(shape.name);
  return names;
}

}  // namespace allocmark
