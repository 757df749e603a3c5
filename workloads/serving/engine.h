// What a serving engine allocates around one decoder model: weights with fused projections, the
// cache of keys and values, and the tensors of one forward pass over the tokens of many requests
// laid end to end, without padding. It follows the structure of vLLM's model files run eagerly;
// kernels last as long as a roofline says. Flows in: which sequences have how many tokens in a
// pass; flows out: events in the tensor pool's batch.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "workloads/model/kv_cache.h"
#include "workloads/model/shapes.h"
#include "workloads/model/tensors.h"
#include "workloads/trace/serving_card.h"

namespace allocmark {

struct EngineSetup {
  ModelShape model;
  std::uint64_t width = 2;  // bytes per element of weights, activations and cache
  KvMode kv_mode = KvMode::Paged;
  std::uint64_t ranks = 1;  // that share the words; `model` has this rank's heads and inner layers
  std::uint64_t slot_count = 64;
  std::uint64_t beams = 1;
  ServingCard card = {};
};

// A request's part in one pass.
struct PassPart {
  std::uint32_t slot = 0;
  std::uint64_t tokens = 1;   // of each sequence
  std::uint64_t width = 1;    // sequences: beams once the prompt is done
  std::uint64_t context = 0;  // tokens of each sequence after the pass
};

class Engine {
 public:
  Engine(TensorPool* pool, const EngineSetup& setup);

  void make_weights();
  // Paged: the pool of all blocks, a tensor per layer.
  void make_pool(std::uint64_t block_count, std::uint64_t block_tokens);
  // Preallocated: room for so many tokens in each sequence of the slot.
  void reserve(std::uint32_t slot, std::uint64_t tokens);
  // The slot's request is answered or evicted.
  void release(std::uint32_t slot);
  // Concatenated caches: the layer's keys and values are selected anew for the beams that live on,
  // as transformers' caches are; `part` says how many beams of how many tokens.
  void reorder(std::size_t layer, const PassPart& part);

  // The server stops: all that it holds goes.
  void clear();

  // A pass is begin, every layer in turn, and one of the ends.
  void begin(std::span<const PassPart> parts);
  void layer(std::size_t index, std::span<const PassPart> parts);
  // A whole pass as a graph of so many tokens, padding included: no memory is asked for.
  void replay(std::uint64_t graph_tokens, std::span<const PassPart> parts);
  // What ranks sum up goes to a tensor of its own.
  [[nodiscard]] Tensor summed(Tensor partial);
  // The last hidden states, of `rows` tokens, become logits in four bytes.
  [[nodiscard]] Tensor logits(std::uint64_t rows);
  // The hidden states of the last layer are where a graph leaves them.
  void finish_graph();
  // No logits are wanted: the pass was for the cache.
  void drop_hidden() { hidden_.reset(), residual_.reset(); }

  [[nodiscard]] std::uint64_t layer_count() const { return setup_.model.layer_count; }
  [[nodiscard]] const ModelShape& model() const { return setup_.model; }
  // Of keys and values of one token in all layers.
  [[nodiscard]] std::uint64_t cache_bytes_per_token() const;
  // Of the kernels since the last call, ns.
  [[nodiscard]] std::uint64_t take_duration_ns();

  [[nodiscard]] Tensor make(std::uint64_t size_bytes) {
    return pool_->make(size_bytes, TensorKind::Activation);
  }

 private:
  struct SlotCache {
    std::vector<std::array<Tensor, 2>> layers;
    std::uint64_t bytes_per_layer = 0;  // of one half
  };

  void make_weight(std::uint64_t count);
  [[nodiscard]] Tensor rows_of(std::uint64_t rows, std::uint64_t columns) {
    return make(rows * columns * setup_.width);
  }
  [[nodiscard]] Tensor attention(std::size_t index, std::span<const PassPart> parts);
  [[nodiscard]] Tensor attend(std::size_t index, std::span<const PassPart> parts);
  void finish_hidden();  // the last norm
  [[nodiscard]] Tensor gated_mlp();
  [[nodiscard]] Tensor experts_of();
  void llama_layer(std::size_t index, std::span<const PassPart> parts);
  void gpt2_layer(std::size_t index, std::span<const PassPart> parts);
  void emit_layer_kernel(std::span<const PassPart> parts, std::uint64_t launch_count);
  void emit_kernel(std::uint64_t flops, std::uint64_t bytes, std::uint64_t kernel_count);

  TensorPool* pool_;
  EngineSetup setup_;
  std::vector<Tensor> weights_, blocks_;
  std::vector<SlotCache> slots_;
  Tensor hidden_, residual_, workspace_;
  std::uint64_t tokens_ = 0;  // of this pass, all sequences
  std::uint64_t duration_ns_ = 0;
};

}  // namespace allocmark
