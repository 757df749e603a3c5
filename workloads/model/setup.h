// What a forward and backward depend on besides the model: lengths, types, kind of attention.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/model/shapes.h"

namespace allocmark {

struct TransformerSetup {
  ModelShape model;
  std::uint64_t batch = 8;         // sequences
  std::uint64_t sequence = 1024;   // tokens of each
  std::uint64_t wide_bytes = 4;    // element size of parameters, norms and the residual stream
  std::uint64_t narrow_bytes = 2;  // element size of matrix products
  bool autocast = true;            // weights and inputs are cast to narrow for each product
  bool fused_attention = false;    // no S x S matrices (scaled_dot_product_attention)
  bool kernels = false;            // emit kernel events
  bool training = true;            // false: no dropout
  std::uint64_t context = 0;       // keys that each token attends to; 0: `sequence`
  bool expert_loop = false;        // experts one after the other, else as grouped products
  std::uint64_t routing_skew_percent = 50;  // 0: all experts get as many tokens
  // Given routing: how many tokens each expert gets, for layers and forwards in turn.
  std::vector<std::uint64_t> tokens_per_expert = {};
  std::uint64_t target = 0;       // T5: tokens of each sequence in the decoder
  std::uint64_t target_seen = 0;  // T5: tokens that its cache holds before them

  [[nodiscard]] std::uint64_t target_context() const { return target_seen + target; }
  [[nodiscard]] std::uint64_t key_count() const { return context == 0 ? sequence : context; }
  [[nodiscard]] bool has_dropout() const {
    return training && !model.is_llama_like() && model.family != ModelFamily::Vit;
  }
  [[nodiscard]] std::uint64_t token_count() const { return batch * sequence; }
};

}  // namespace allocmark
