// Published dimensions of transformer models: one table row each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace allocmark {

// What differs between the blocks of the families, as far as memory shows it.
enum class ModelFamily : std::uint8_t {
  Gpt2,     // learned positions, LayerNorm before, one qkv projection, gelu written out, dropout,
            // biases
  Bert,     // learned positions, separate q, k, v, fused gelu, dropout, biases
  Llama,    // rotary positions, RMSNorm before, grouped k and v, gated MLP, no dropout, no biases
  Mixtral,  // a Llama whose MLP is a choice of experts per token
  Vit,      // images cut into patches, LayerNorm before, fused gelu, biases, no dropout
  Dit,      // noisy latents in patches, norms shifted and scaled by time and class, gated branches
  T5,  // encoder and decoder, RMSNorm before, relative positions added to scores, relu, dropout
};

struct ModelShape {
  std::string_view name;
  ModelFamily family = ModelFamily::Gpt2;
  std::uint64_t layer_count = 0;
  std::uint64_t hidden = 0;  // width of the residual stream
  std::uint64_t head_count = 0;
  std::uint64_t kv_head_count = 0;  // = head_count without grouping
  std::uint64_t ffn = 0;            // width of the MLP's inner layer
  std::uint64_t vocabulary = 0;     // tokens; of ViT the classes
  std::uint64_t positions = 0;      // longest sequence with learned positions; 0 for rotary ones
  bool tied_head = true;            // the output projection shares the embedding's weight
  std::uint64_t head_size = 0;      // elements of a head where hidden does not decide it, else 0
  std::uint64_t expert_count = 0;   // MLPs to choose from, 0 for a single one
  std::uint64_t experts_per_token = 0;
  std::uint64_t image = 0;  // pixels of a square image's side, 0 for text
  std::uint64_t patch = 0;  // pixels of a square patch's side
  bool qkv_bias = false;    // Llama's kin: q, k and v have biases (Qwen 2)
  bool head_norms = false;  // Llama's kin: an RMSNorm of every head's query and key (Qwen 3)
  // Llama's kin: embeddings are scaled, branches have a norm before and after, norms are in four
  // bytes and their weight is an offset to one (Gemma 3).
  bool gemma = false;
  std::uint64_t window = 0;        // Llama's kin: tokens that a query sees, 0: all before it
  std::uint64_t window_every = 0;  // each so-manyth block has no window, 0: all have it
  // Llama's kin: one product to query, key and value, one to gate and up, and heads of which the
  // first rope_size elements turn (Phi 3).
  bool joint_products = false;

  [[nodiscard]] std::uint64_t head_width() const {
    return head_size > 0 ? head_size : hidden / head_count;
  }
  [[nodiscard]] std::uint64_t attention_width() const { return head_width() * head_count; }
  [[nodiscard]] std::uint64_t kv_width() const { return head_width() * kv_head_count; }
  [[nodiscard]] bool is_llama_like() const {
    return family == ModelFamily::Llama || family == ModelFamily::Mixtral;
  }
  // Mixtral's kin (DeepSeek-V3): queries, keys and values come from rows of so few elements; 0:
  // queries come from the residual stream, and without key_rank so do the others.
  std::uint64_t query_rank = 0, key_rank = 0;
  // Elements of a head that turn, 0: all; latent keys share theirs over all heads.
  std::uint64_t rope_size = 0;
  std::uint64_t value_size = 0;   // elements of a head's value
  std::uint64_t shared_ffn = 0;   // inner width of the MLP beside the experts, 0: none
  std::uint64_t dense_count = 0;  // first blocks with one MLP instead of experts
  std::uint64_t dense_ffn = 0;    // inner width of that

  // What keys are for (../trace/model_keys.cc): "gpt", "llama", "qwen", ...
  [[nodiscard]] std::string_view kind() const;
  [[nodiscard]] bool is_latent() const { return key_rank > 0; }
  // Elements of a head that have positions.
  [[nodiscard]] std::uint64_t rotary_width() const {
    return rope_size > 0 ? std::min(rope_size, head_width()) : head_width();
  }
  [[nodiscard]] bool has_experts(std::uint64_t index) const {
    return expert_count > 0 && index >= dense_count;
  }
  [[nodiscard]] std::uint64_t value_width() const {
    return is_latent() ? value_size * head_count : attention_width();
  }
  // Has block `index` a window?
  [[nodiscard]] bool slides(std::uint64_t index) const {
    return window > 0 && (window_every == 0 || (index + 1) % window_every != 0);
  }
  [[nodiscard]] bool has_qwen_parts() const { return qkv_bias || head_norms; }
  // Llama's kin whose products to query, key, value, gate and up are five.
  [[nodiscard]] bool has_llama_products() const {
    return family == ModelFamily::Llama && !joint_products;
  }
  [[nodiscard]] bool is_plain_llama() const { return has_llama_products() && !has_qwen_parts(); }
  // Are there token ids to go on with, one at a time?
  [[nodiscard]] bool generates() const { return family != ModelFamily::Bert && image == 0; }
  [[nodiscard]] std::uint64_t patch_count() const {
    return patch == 0 ? 0 : (image / patch) * (image / patch);
  }
  // Of an image, or of a diffusion model's latents.
  [[nodiscard]] std::uint64_t channels() const { return family == ModelFamily::Dit ? 4 : 3; }
  // Blocks that a forward runs through: T5's encoder and decoder have layer_count each.
  [[nodiscard]] std::uint64_t block_count() const {
    return family == ModelFamily::T5 ? 2 * layer_count : layer_count;
  }
};

[[nodiscard]] std::span<const ModelShape> model_shapes();
[[nodiscard]] std::vector<std::string> model_names();

}  // namespace allocmark
