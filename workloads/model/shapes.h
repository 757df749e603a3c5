// Published dimensions of transformer models: one table row each.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace allocmark {

// What differs between the blocks of the families, as far as memory shows it.
enum class ModelFamily : std::uint8_t {
  Gpt2,   // learned positions, LayerNorm before, one qkv projection, gelu written out, dropout,
          // biases
  Bert,   // learned positions, separate q, k, v, fused gelu, dropout, biases
  Llama,  // rotary positions, RMSNorm before, grouped k and v, gated MLP, no dropout, no biases
};

struct ModelShape {
  std::string_view name;
  ModelFamily family = ModelFamily::Gpt2;
  std::uint64_t layer_count = 0;
  std::uint64_t hidden = 0;  // width of the residual stream
  std::uint64_t head_count = 0;
  std::uint64_t kv_head_count = 0;  // = head_count without grouping
  std::uint64_t ffn = 0;            // width of the MLP's inner layer
  std::uint64_t vocabulary = 0;
  std::uint64_t positions = 0;  // longest sequence with learned positions; 0 for rotary ones
  bool tied_head = true;        // the output projection shares the embedding's weight

  [[nodiscard]] std::uint64_t head_width() const { return hidden / head_count; }
  [[nodiscard]] std::uint64_t kv_width() const { return head_width() * kv_head_count; }
};

[[nodiscard]] std::span<const ModelShape> model_shapes();
[[nodiscard]] std::vector<std::string> model_names();

// Element counts of every parameter tensor, in the order in which the model creates them.
[[nodiscard]] std::vector<std::uint64_t> parameter_element_counts(const ModelShape& model);

}  // namespace allocmark
