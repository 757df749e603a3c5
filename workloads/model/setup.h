// What a forward and backward depend on besides the model: lengths, types, kind of attention.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "workloads/model/shapes.h"
#include "workloads/trace/serving_card.h"

namespace allocmark {

enum class Implementation : std::uint8_t {
  Transformers,  // eager layers as transformers writes them
  Megatron,      // Megatron-LM's: fused kernels, gradients added to buffers in four bytes
  Timm,          // ViT as timm writes it: one projection to query, key and value
};

// Which operators of a Llama are Liger-Kernel's (liger.h).
enum class LigerParts : std::uint8_t {
  None,
  Blocks,  // RMSNorm, SwiGLU and the rotation
  All,     // head and loss, too
};

// What torch.compile makes into graphs of its own (inductor).
enum class Compiled : std::uint8_t {
  None,
  Whole,   // the model with its loss
  Layers,  // every layer alone
};

// The parts of a model that one rank holds. Ranks count as in Megatron-LM: those that share
// products or experts first, then those that share sequences, then data parallel ones, then stages
// of the pipeline.
struct ParallelSetup {
  std::uint64_t tensor = 1;  // ranks that share heads, inner layers and vocabulary
  bool sequence = false;     // tokens between the parallel regions are shared too
  std::uint64_t tensor_rank = 0;
  std::uint64_t expert = 1;  // ranks that share the experts of every block; `tensor` is 1 then
  std::uint64_t expert_rank = 0;
  std::uint64_t context = 1;  // ranks that share every sequence
  std::uint64_t context_rank = 0;
  bool gathers_keys = true;  // of all those ranks at once, else they are passed on
  std::uint64_t data = 1;    // ranks with other data
  std::uint64_t data_rank = 0;
  std::uint64_t replicas = 1;  // FSDP: groups of data ranks, each with the whole model in shards
  std::uint64_t pipeline = 1;  // stages
  std::uint64_t stage = 0;
  std::uint64_t chunks = 1;        // virtual stages on each rank
  std::uint64_t stage_layers = 0;  // blocks of this stage; 0: as many as the others have

  [[nodiscard]] bool is_first() const { return stage == 0; }
  [[nodiscard]] bool is_last() const { return stage + 1 == pipeline; }
  // Ranks that have other parts of the same layers, whose data and tokens are the same.
  [[nodiscard]] std::uint64_t part_count() const { return tensor * expert; }
  [[nodiscard]] std::uint64_t part() const { return tensor_rank + tensor * expert_rank; }
  [[nodiscard]] std::uint64_t rank_count() const {
    return part_count() * context * data * pipeline;
  }
  [[nodiscard]] bool splits_sequences() const { return context > 1; }
  // Ranks that share parameters: those of one replica that differ in data or tokens.
  [[nodiscard]] std::uint64_t shard_count() const { return data * context / replicas; }
  [[nodiscard]] std::uint64_t shard_rank() const {
    return (data_rank * context + context_rank) % shard_count();
  }
  [[nodiscard]] std::uint64_t replica() const { return data_rank / (data / replicas); }
  // By how much tokens between the parallel regions are shared.
  [[nodiscard]] std::uint64_t token_share() const { return sequence ? tensor : 1; }
};

// Whom a collective operation joins.
// Data: those that share parameters, where ranks do; Replicas: those with the same shards.
enum class RankGroup : std::uint8_t { Tensor, Context, Data, Replicas, Expert };

// What goes from a stage of the pipeline to the next one, or its gradient back.
struct StageLink {
  bool sends = false;  // else it receives
  bool is_gradient = false;
};

struct TransformerSetup {
  ModelShape model;
  Implementation implementation = Implementation::Transformers;
  ParallelSetup parallel;
  bool recomputes_attention = false;  // checkpoints the attention core of every block
  std::uint64_t batch = 8;            // sequences
  std::uint64_t sequence = 1024;      // tokens of each
  std::uint64_t wide_bytes = 4;       // element size of parameters, norms and the residual stream
  std::uint64_t narrow_bytes = 2;     // element size of matrix products
  bool is_half = false;               // narrow is float16, not bfloat16
  bool autocast = true;               // weights and inputs are cast to narrow for each product
  bool float8 = false;                // the blocks' products are in float8
  LigerParts liger = LigerParts::None;
  Compiled compiled = Compiled::None;
  bool fused_attention = false;  // no S x S matrices (scaled_dot_product_attention)
  ModelShape vision = {};        // LLaVA: the ViT that sees images; no layers: none
  bool frozen = false;           // no parameter is trained
  bool vision_frozen = true;     // none of the ViT's
  bool kernels = false;          // emit kernel events
  bool products_only = false;    // of matrix products alone, as an embedding server
  ServingCard card = {};         // that they run on
  bool meetings = false;         // emit marks where ranks wait for each other
  bool training = true;          // false: no dropout
  bool predicts_words = false;   // BERT, not training: scores of every token, not the pooler's
  std::uint64_t head_ranks = 1;  // inference: ranks that share the head's words, if it is not tied
  bool evaluating = false;       // a model that is trained, between steps: no dropout either
  std::uint64_t parameter_bytes = 0;  // element size of parameters as they are made; 0: wide_bytes
  std::uint64_t context = 0;          // keys that each token attends to; 0: `sequence`
  // Parameters are on no device until they are sharded: ShardedParameters makes what this rank
  // keeps.
  bool defers_parameters = false;
  bool defers_buffers = false;              // with fully_shard
  bool expert_loop = false;                 // experts one after the other, else as grouped products
  bool copies_experts = true;               // of tokens that are generated one by one
  std::uint64_t routing_skew_percent = 50;  // 0: all experts get as many tokens
  // Given routing: how many tokens each expert gets, for layers and forwards in turn.
  std::vector<std::uint64_t> tokens_per_expert = {};
  std::uint64_t target = 0;       // T5: tokens of each sequence in the decoder
  std::uint64_t target_seen = 0;  // T5: tokens that its cache holds before them

  [[nodiscard]] std::uint64_t own_expert_count() const {
    return model.expert_count / parallel.expert;
  }
  [[nodiscard]] bool sees_images() const { return vision.layer_count > 0; }
  [[nodiscard]] bool has_word_head() const { return training || predicts_words; }
  [[nodiscard]] std::uint64_t target_context() const { return target_seen + target; }
  [[nodiscard]] std::uint64_t key_count() const { return context == 0 ? sequence : context; }
  [[nodiscard]] bool has_dropout() const {
    return training && !evaluating && !model.is_llama_like() && model.image == 0;
  }
  // Ranks that share the table of words; of those that only answer, where it is the head, too.
  [[nodiscard]] std::uint64_t word_ranks() const {
    return std::max(parallel.tensor, model.tied_head ? head_ranks : 1);
  }
  [[nodiscard]] std::uint64_t token_count() const { return batch * sequence; }
  // Tokens that this rank has between the parallel regions.
  [[nodiscard]] std::uint64_t own_token_count() const {
    return token_count() / parallel.token_share();
  }
  // Blocks on this rank.
  [[nodiscard]] std::uint64_t own_layer_count() const {
    return parallel.stage_layers > 0 ? parallel.stage_layers
                                     : model.block_count() / parallel.pipeline;
  }
};

}  // namespace allocmark
