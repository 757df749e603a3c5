// A transformer as Megatron-LM's own layers run it: fused layer norms, softmax, gelu and
// bias-dropout-add, one byte per dropped-out element, gradients of weights that are added to
// buffers in four bytes by the matrix product itself, tensor and sequence parallel regions. GPT-2
// shapes give Megatron's GPT, Llama shapes its Llama; parameters and activations have two bytes per
// element. Sources: megatron/core/tensor_parallel/layers.py and cross_entropy.py,
// transformer/dot_product_attention.py and fusions/ (commit d98e8a64).
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/model/collectives.h"
#include "workloads/model/functions.h"
#include "workloads/model/setup.h"

namespace allocmark {

// Bytes of an element of parameters and activations.
inline constexpr std::uint64_t kMegatronElementBytes = 2;

class MegatronModel {
 public:
  MegatronModel(const TransformerSetup& setup, Tape* tape) : setup_(setup), tape_(*tape) {}

  void set_lengths(std::uint64_t batch, std::uint64_t sequence) {
    setup_.batch = batch;
    setup_.sequence = sequence;
  }
  void set_evaluating(bool evaluating) { setup_.evaluating = evaluating; }
  void make_parameters();
  // The first stage's input.
  [[nodiscard]] Var embed(const Tensor& tokens);
  [[nodiscard]] Var layer(std::size_t index, Var hidden);
  // The last stage: final norm, logits, loss over the shared vocabulary.
  [[nodiscard]] Var finish(Var hidden);
  [[nodiscard]] Var loss(Var hidden, const Tensor& labels);
  // Scores, softmax, dropout and mixed values; run again where only they are checkpointed.
  [[nodiscard]] Var attention_core(const Var& joint);

 private:
  struct LayerWeights {
    std::size_t first_norm = 0, joint = 0, output = 0, second_norm = 0, up = 0, down = 0;
  };
  struct Linear {
    std::size_t weight = 0;
    bool from_shared = false;  // column parallel: gathers tokens, or sums the input's gradient
    bool adds_bias = false;    // else the caller fuses it into what follows
  };

  [[nodiscard]] bool has_bias() const { return setup_.model.family == ModelFamily::Gpt2; }
  [[nodiscard]] std::uint64_t ranks() const { return setup_.parallel.tensor; }
  [[nodiscard]] std::size_t add_weight(std::uint64_t count);
  [[nodiscard]] std::size_t add_matrix(std::uint64_t count, std::uint64_t bias_count);
  [[nodiscard]] std::size_t add_norm();
  // Elements of the queries and of the keys on this rank.
  [[nodiscard]] std::uint64_t query_count() const {
    return setup_.token_count() * setup_.model.hidden / ranks();
  }
  [[nodiscard]] std::uint64_t key_count() const {
    return setup_.token_count() * setup_.model.kv_width() / ranks();
  }
  [[nodiscard]] std::uint64_t query_bytes() const { return query_count() * kMegatronElementBytes; }
  [[nodiscard]] std::uint64_t key_bytes() const { return key_count() * kMegatronElementBytes; }
  [[nodiscard]] Var make(std::uint64_t count) { return tape_.make(count, kMegatronElementBytes); }
  void use_buffer(std::uint64_t size_bytes);
  [[nodiscard]] Var norm(Var input, std::size_t weight);
  [[nodiscard]] Var linear(Var input, const Linear& weights);
  // A row parallel product: its parts are summed over the ranks.
  [[nodiscard]] Var summed(Var partial);
  [[nodiscard]] Var rotated(const Var& joint);  // Llama's
  [[nodiscard]] Var flash_core(const Var& joint);
  [[nodiscard]] Var eager_core(const Var& joint);
  [[nodiscard]] Var activation(Var input, std::size_t bias);
  [[nodiscard]] Var bias_dropout_add(Var input, std::size_t bias, Var residual);

  TransformerSetup setup_;
  Tape& tape_;
  std::size_t word_table_ = 0, position_table_ = 0, final_norm_ = 0, head_ = 0;
  std::vector<LayerWeights> layers_;
  Tensor buffer_;  // Megatron's global memory buffer: gathered inputs, and scores' unused addend
};

}  // namespace allocmark
