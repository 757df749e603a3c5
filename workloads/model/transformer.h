// A transformer as transformers' modelling files write it: the forwards of each family, line by
// line, over the operators of functions.h. What lives how long follows from the Python variables
// that hold it. The same code serves training, inference and the recomputation of a checkpoint.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "workloads/model/functions.h"
#include "workloads/model/kv_cache.h"
#include "workloads/model/lora.h"
#include "workloads/model/megatron.h"
#include "workloads/model/setup.h"

namespace allocmark {

class Transformer {
 public:
  Transformer(const TransformerSetup& setup, const LoraSettings& lora, TensorPool* pool);

  // The tower of a model that sees images: on the tape of the model that it belongs to.
  Transformer(const TransformerSetup& setup, Tape* tape);

  [[nodiscard]] Tape& tape() { return tape_; }
  void set_lengths(std::uint64_t batch, std::uint64_t sequence, std::uint64_t context);
  // T5: tokens of each sequence in the decoder.
  void set_target(std::uint64_t target) { setup_.target = target; }
  // Makes all parameters; adapters are made narrow first and then cast, as peft does.
  void make_parameters();
  // Embeddings, masks, positions. `tokens`: the input ids.
  [[nodiscard]] Var embed(const Tensor& tokens);
  // What comes before block `index` and belongs to none: T5's decoder begins.
  [[nodiscard]] Var before_layer(std::size_t index, Var hidden);
  // What a later stage of a pipeline does instead, with hidden states it received.
  [[nodiscard]] Var enter(Var hidden);
  [[nodiscard]] Var layer(std::size_t index, Var hidden);
  // At the end of an earlier stage: local variables go.
  void leave() { drop_locals(); }
  // Runs a checkpointed segment again.
  [[nodiscard]] Var recompute(const SegmentInput& segment);
  // Final norm; what the model's forward still held goes. BERT has none.
  [[nodiscard]] Var finish(Var hidden);
  // Logits and loss; the logits go as soon as the loss is there. The labels are the tokens.
  [[nodiscard]] Var loss(Var hidden, const Tensor& tokens);
  // T5: the encoder has read the prompt; what the decoder attends to stays.
  void end_encoder(Var hidden);
  // T5: the decoder's next tokens, after `seen` that are cached.
  [[nodiscard]] Var embed_target(const Tensor& tokens, std::uint64_t count, std::uint64_t seen);
  void forget_encoder() { encoded_.drop(); }
  // Logits are wanted of so many of each sequence's last tokens.
  void set_answer_tokens(std::uint64_t count) { answer_tokens_ = count; }
  // The last tokens' logits, or BERT's pooled first token.
  [[nodiscard]] Var answer(Var hidden);
  // The tensors that a checkpointed segment of these blocks holds.
  void hold_inputs(const Var& hidden, std::uint64_t first_layer, std::uint64_t layer_count);
  // Those that are not hidden states, of blocks with a window (near) and without (whole).
  [[nodiscard]] std::vector<Tensor> shared_inputs(bool has_near, bool has_whole) const;
  // The mask of blocks that take it by position: a reentrant checkpoint saves it with its input.
  [[nodiscard]] Tensor placed_mask() const;
  // What an overwritten loss held goes. `keeps_graphs`: a list has that loss, too.
  void end_graph(bool keeps_graphs);
  // The evaluation's losses are gone.
  void drop_evaluated_graphs() { evaluated_inputs_.clear(); }
  // What a training step's batch holds: token ids or pixels, and labels of their own (0: the
  // tokens).
  struct InputSizes {
    std::uint64_t input_bytes = 0, label_bytes = 0;
  };
  [[nodiscard]] InputSizes input_sizes() const;
  // DiT: what comes with the noisy images. LLaVA: the images.
  struct Conditions {
    Tensor noise = {}, times = {}, labels = {}, images = {};
  };
  void set_conditions(const Conditions& conditions) { conditions_ = conditions; }
  [[nodiscard]] std::uint64_t image_bytes() const { return tower_->input_sizes().input_bytes; }
  void forget_conditions() { conditions_ = {}; }
  // The parameters of each block, its adapters among them.
  [[nodiscard]] std::vector<std::vector<std::size_t>> unit_parameters() const;
  // Where fully_shard makes the model: what it makes behind parameters, in order, and where the
  // buffers among them go.
  [[nodiscard]] const std::vector<LateTensor>& late_tensors() const { return late_; }
  [[nodiscard]] std::vector<Tensor>* late_buffers() { return &buffers_; }
  [[nodiscard]] ModelBuffers buffers() const {
    return {buffers_, setup_.model.family == ModelFamily::Bert ? 8 : parameter_bytes()};
  }
  // Between steps: no dropout.
  void set_evaluating(bool evaluating);
  // In the order of model.parameters(): all, and those that are trained.
  [[nodiscard]] std::vector<std::size_t> ordered_parameters();
  [[nodiscard]] std::vector<std::size_t> trained_parameters();
  // The caller passes an attention mask (of ones), and to models that generate positions too.
  void set_given_mask(bool given) { given_mask_ = given_positions_ = given; }
  // Training programs pass positions of each sequence, one row for all of them, or none.
  void set_given_positions(bool given, bool one_row) {
    given_positions_ = given;
    has_one_row_ = one_row;
  }
  // Those of the pieces of sequences that this rank has.
  void set_positions(const Tensor& positions) { positions_ = positions; }
  // Decides which experts tokens go to, together with the forward's number and the layer.
  void set_routing_seed(std::uint64_t seed) { routing_seed_ = seed; }
  // The batch is padded: with fused attention, masks of all pairs are made.
  void set_padded(bool padded) { padded_ = padded; }
  // Positions that the caller gives begin anew within a sequence: without a mask and a cache,
  // masks of all pairs keep its texts apart.
  void set_packed(bool packed) { packed_ = packed; }
  // Columns of the caller's mask where the cache is longer; 0: as many as there are keys.
  void set_mask_length(std::uint64_t length) { mask_length_ = length; }
  // Where keys and values are kept; null for nowhere.
  void set_cache(KvCache* cache) { cache_ = cache; }
  // Head and loss run over so many chunks of tokens, each checkpointed.
  void set_loss_chunks(std::uint64_t count) { loss_chunks_ = count; }
  // Where the logits of every forward are appended; null for nowhere. `keeps_last`: in place of the
  // last forward's.
  void set_kept_outputs(std::vector<Tensor>* kept, bool keeps_last = false) {
    kept_outputs_ = kept;
    keeps_last_output_ = keeps_last;
  }
  // The loss is no part of the model's forward, and of its autocast.
  void set_loss_apart(bool is_apart) { loss_apart_ = is_apart; }
  // FSDP 1 casts the model's buffers at its first forward, for good.
  void narrow_buffers();
  // By fully_shard(): a block's inputs pass through a function of its own, and weights may be
  // narrower than the model's buffers.
  void set_fully_sharded(bool gathers_narrow) {
    is_fully_sharded_ = true;
    casts_scale_ = setup_.model.gemma && gathers_narrow;
  }

 private:
  void keep_output(const Tensor& logits);
  void let_bias_be_leaf(Var* bias);
  // Both matrices of an adapter; of a product without one both are 0.
  struct Adapter {
    std::size_t low = 0, high = 0;
  };
  struct LayerWeights {
    std::size_t query = 0, key = 0, value = 0, output = 0, gate = 0, up = 0, down = 0;
    std::size_t first_norm = 0, second_norm = 0;
    std::size_t query_norm = 0, key_norm = 0;  // Qwen 3: of every head
    std::size_t query_low = 0, key_low = 0;    // DeepSeek: to latent rows
    std::size_t shared_gate = 0, shared_up = 0, shared_down = 0;
    std::size_t attention_norm = 0, mlp_norm = 0;  // Gemma: of what a branch gives
    std::size_t modulation = 0;     // DiT: six rows of each image from its time and class
    std::size_t position_bias = 0;  // T5: the table of the first block
    std::size_t router = 0;         // Mixtral; `gate` is then gate and up of all experts
    Adapter query_adapter, key_adapter, value_adapter, output_adapter;
    Adapter gate_adapter, up_adapter, down_adapter;
  };
  struct Sizes {
    std::uint64_t rows = 0, queries = 0, grouped = 0, keys = 0, scores = 0, values = 0, mixed = 0;
  };

  // Which experts tokens go to, and with which weight.
  struct Routing {
    Var logits = {}, shares = {};
    Tensor experts = {};
  };
  // One of T5's attentions.
  struct T5Attention {
    std::uint64_t queries = 0, keys = 0;  // of a sequence
    bool is_causal = false, is_cross = false;
    bool makes_bias = false;        // the first of its stack does, for all
    std::int64_t cache_index = -1;  // none
    Var* bias = nullptr;
    const Var* mask = nullptr;  // of padding; eager: also the causal one
  };

  // By their place: all, those before the query, or of these the ones within the window.
  enum class KeysSeen : std::uint8_t { All, Before, Near };

  // `rows`: of a matrix as PyTorch stores it.
  [[nodiscard]] std::size_t add_weight(std::uint64_t count, std::uint64_t rows = 0);
  void add_buffer(std::uint64_t size_bytes);
  void share(std::size_t parameter);
  // `rows`: of experts their number, since FSDP 2 shares them out whole. 0: as the family has it.
  [[nodiscard]] std::size_t add_matrix(std::uint64_t in, std::uint64_t out, std::uint64_t rows = 0);
  // The weight's index; its bias is the next one.
  [[nodiscard]] std::size_t add_weight_and_bias(std::uint64_t in, std::uint64_t out);
  [[nodiscard]] std::size_t add_norm();  // likewise, where its family has biases
  void end_layer_parameters(const LayerWeights& own, std::size_t first);
  [[nodiscard]] CollectiveGroup token_group() const;
  [[nodiscard]] Var norm_of_shared(Var hidden, std::size_t weight, std::uint64_t rows);
  [[nodiscard]] Var into_parallel(Var hidden);
  [[nodiscard]] Var into_product(Var input);
  [[nodiscard]] Var embed_words(const Tensor& tokens);
  [[nodiscard]] Var scaled_words(Var words);
  [[nodiscard]] Var out_of_parallel(Var partial);
  // The same at the end of attention and of the MLP, where ranks that infer sum in place.
  [[nodiscard]] Var out_of_layer(Var partial);
  [[nodiscard]] Var attend_core(const Var& query, Var key, Var value, Var* weights);
  [[nodiscard]] Var by_tokens(const Var& query, Var mixed);
  [[nodiscard]] Var attend_by_scores(const Var& query, Var key, Var value, Var* weights);
  [[nodiscard]] Var attend_in_ring(const Var& query, Var key, Var value);
  [[nodiscard]] LinearWeights with_bias(std::size_t weight) const;
  [[nodiscard]] LinearWeights projection(std::size_t weight) const;  // to query, key or value
  [[nodiscard]] std::uint64_t parameter_bytes() const {
    return setup_.parameter_bytes == 0 ? setup_.wide_bytes : setup_.parameter_bytes;
  }
  [[nodiscard]] Sizes sizes() const;
  [[nodiscard]] bool has_one_head() const {
    return setup_.model.head_count == setup_.parallel.tensor;
  }
  // With one sequence, token or head, heads and tokens change places without a copy.
  [[nodiscard]] bool viewable() const {
    return setup_.batch == 1 || setup_.sequence == 1 || has_one_head();
  }
  // Of keys and values, on this rank.
  [[nodiscard]] bool has_one_key_head() const {
    return setup_.model.kv_head_count == setup_.parallel.tensor;
  }
  void make_layer_parameters();
  void make_adapters();
  void add_adapter_behind(const LayerWeights& layer, std::size_t parameter,
                          std::vector<std::size_t>* unit) const;
  void make_trained_tables();  // copies beside adapters, which are trained whole
  void check_given_mask();
  void check_all(std::uint64_t count);
  [[nodiscard]] Var mask_numbers(Var mask);
  void make_bidirectional_mask();
  [[nodiscard]] Var make_padding_mask(std::uint64_t query_count, std::uint64_t key_count,
                                      KeysSeen seen);
  [[nodiscard]] Var make_given_mask(KeysSeen seen);
  [[nodiscard]] Var near_pairs();
  [[nodiscard]] Var masked_fused_attention(Var query, Var key, Var value,
                                           const FusedAttentionShape& shape);
  void let_checkpoints_begin(Var* words);
  void make_causal_masks();
  [[nodiscard]] Var detect_packing();
  [[nodiscard]] Var make_causal_mask(bool detects_packing);
  [[nodiscard]] Var make_packed_mask(Var packed);
  [[nodiscard]] Var make_mask(std::uint64_t queries, std::uint64_t keys);
  [[nodiscard]] Var make_window_mask();
  // Does a block with a window need a mask for it? Eager attention has one anyway.
  [[nodiscard]] bool hides_beyond_window() const {
    return !setup_.fused_attention || setup_.key_count() >= setup_.model.window;
  }
  [[nodiscard]] const Var& block_mask() const { return slides_ ? window_mask_ : mask_; }
  // Cosines and sines of all positions.
  [[nodiscard]] std::array<Var, 2> make_rotary(std::uint64_t width);
  void make_rotaries();
  [[nodiscard]] Var rms_norm(Var hidden, std::size_t weight);
  [[nodiscard]] Var head_norm(Var projected, std::size_t weight);
  [[nodiscard]] Var norm_of_rows(Var hidden, std::size_t weight, std::uint64_t rows);
  [[nodiscard]] Var offset_norm_of_rows(const Var& hidden, std::size_t weight, std::uint64_t rows);
  [[nodiscard]] Var adapted(const Var& input, const LinearWeights& weights, const Adapter& adapter);
  [[nodiscard]] Var product_of(Var input, const LinearWeights& weights, const Adapter& adapter);
  [[nodiscard]] Var heads(Var projected, bool copies = true);
  [[nodiscard]] Var normed_heads(Var projected, std::size_t norm);
  [[nodiscard]] Var rotated(const Var& input);
  [[nodiscard]] Var attend(const Var& query, Var key, Var value, Var* weights);
  [[nodiscard]] Var gpt2_attention(const LayerWeights& own, std::size_t index, const Var& input,
                                   Var* weights);
  [[nodiscard]] std::array<Var, 3> llama_heads(const LayerWeights& own, const Var& shared);
  [[nodiscard]] Var llama_attention(const LayerWeights& own, std::size_t index, const Var& input,
                                    Var* weights);
  [[nodiscard]] Var gelu_written_out(Var input);
  [[nodiscard]] Var gpt2_layer(const LayerWeights& own, std::size_t index, Var hidden);
  [[nodiscard]] Var bert_layer(const LayerWeights& own, Var hidden);
  [[nodiscard]] Var llama_layer(const LayerWeights& own, std::size_t index, Var hidden);
  [[nodiscard]] Var compiled_llama_layer(const LayerWeights& own, Var hidden);
  [[nodiscard]] Var compiled_attention(const LayerWeights& own, Var input);
  [[nodiscard]] Var compiled_embed(const Tensor& tokens);
  [[nodiscard]] bool adds_head_to_table() const { return head_ == word_table_ && !setup_.autocast; }
  void make_vit_parameters();
  [[nodiscard]] Var vit_patches(const Tensor& pixels);
  [[nodiscard]] Var vit_embed(const Tensor& pixels);
  [[nodiscard]] Var vit_layer(const LayerWeights& own, Var hidden);
  [[nodiscard]] Var vit_logits(const Var& hidden);
  [[nodiscard]] Var mixtral_mlp(const LayerWeights& own, std::size_t index, const Var& hidden);
  [[nodiscard]] Var interleaved_halves(Var input);
  [[nodiscard]] Var interleaved(Var input);
  [[nodiscard]] Var joined(const Var& left, const Var& right);
  [[nodiscard]] Var filled_keys(const Var& own, const Var& turned);
  [[nodiscard]] Var latent_queries(const LayerWeights& own, const Var& input);
  [[nodiscard]] Var latent_attention(const LayerWeights& own, std::size_t index, const Var& input,
                                     Var* weights);
  [[nodiscard]] std::array<Var, 2> rotary_parts(const Var& input);
  [[nodiscard]] Var partly_rotated(const std::array<Var, 2>& parts);
  [[nodiscard]] std::array<Var, 3> joint_heads(const Var& joint);
  [[nodiscard]] Var joint_mlp(const LayerWeights& own, const Var& hidden);
  [[nodiscard]] Routing grouped_route(const LayerWeights& own, const Var& hidden);
  [[nodiscard]] Var shared_expert(const LayerWeights& own, const Var& hidden);
  [[nodiscard]] Var chosen_shares(const Var& all, Tensor* experts);
  void divide_by_sum(Var* shares, bool has_epsilon);
  void make_latent_parameters(LayerWeights* own);
  void make_mlp_parameters(LayerWeights* own);
  [[nodiscard]] Routing own_routes(const Routing& all);
  [[nodiscard]] Routing mixtral_route(const LayerWeights& own, const Var& hidden);
  [[nodiscard]] Var mixtral_local(std::size_t weight);
  [[nodiscard]] Var mixtral_grouped(const Var& input, const Var& parameter, std::uint64_t columns,
                                    const Tensor& offsets);
  [[nodiscard]] Var mixtral_sorted_experts(const LayerWeights& own, const Var& hidden,
                                           const Routing& routing);
  [[nodiscard]] Var mixtral_copied_experts(const Var& hidden);
  [[nodiscard]] Var mixtral_looped_experts(const LayerWeights& own, const Var& hidden,
                                           const Routing& routing,
                                           const std::vector<std::uint64_t>& counts);
  [[nodiscard]] std::vector<std::uint64_t> mixtral_draw_counts(std::size_t layer) const;
  [[nodiscard]] Var mixtral_expert_linear(Var input, std::size_t weight, std::uint64_t rows);
  [[nodiscard]] Tensor mixtral_find_tokens(std::uint64_t count);
  void make_tower();
  void make_tower_parameters();
  [[nodiscard]] std::vector<std::size_t> trained_tower_parameters();
  [[nodiscard]] Var image_states();
  [[nodiscard]] Var project(Var states);
  [[nodiscard]] Var with_images(Var words);
  void make_dit_parameters();
  [[nodiscard]] Var dit_embed(const Tensor& images);
  [[nodiscard]] Var dit_time();
  [[nodiscard]] std::vector<Var> dit_modulation(std::size_t weight, std::uint64_t count);
  [[nodiscard]] Var dit_layer(const LayerWeights& own, Var values);
  [[nodiscard]] Var dit_loss(Var values);
  void make_t5_parameters();
  [[nodiscard]] Var t5_norm(Var hidden, std::size_t weight, std::uint64_t rows);
  [[nodiscard]] Var dropped(Var input);  // a module, which is there without dropout, too
  [[nodiscard]] Tensor t5_buckets(std::uint64_t pairs, bool is_decoder);
  [[nodiscard]] Var t5_position_bias(std::size_t table, std::uint64_t queries, std::uint64_t keys,
                                     bool is_decoder);
  [[nodiscard]] Var t5_masked_bias(const Var& bias, const Var& allowed, std::uint64_t count);
  [[nodiscard]] Var t5_padding_mask(std::uint64_t queries);
  [[nodiscard]] Var t5_causal_bias(const Var& bias, std::uint64_t queries, std::uint64_t keys);
  [[nodiscard]] Var t5_attend(Var query, Var key, Var value, const T5Attention& what, Var* weights);
  [[nodiscard]] Var t5_attention(const LayerWeights& own, const Var& input, const Var& source,
                                 T5Attention what, Var* kept);
  [[nodiscard]] Var t5_layer(const LayerWeights& own, std::size_t index, Var hidden);
  [[nodiscard]] Var t5_embed(const Tensor& tokens);
  [[nodiscard]] Var t5_finish(Var hidden, std::size_t norm, std::uint64_t rows);
  [[nodiscard]] Var t5_begin_decoder(Var hidden);
  [[nodiscard]] std::array<Var, 2> t5_keys_and_values(const LayerWeights& own, const Var& source,
                                                      const T5Attention& what);
  [[nodiscard]] Var t5_answer(Var hidden);
  [[nodiscard]] Var t5_loss(Var hidden, const Tensor& labels);
  void cache(std::size_t index, Var* key, Var* value);
  void drop_locals();
  [[nodiscard]] Var word_scores(const Var& hidden);
  [[nodiscard]] Var causal_loss(Var logits, const Tensor& labels);
  [[nodiscard]] Var chunked_loss(Var hidden);
  [[nodiscard]] Var fused_loss(Var hidden);
  [[nodiscard]] Var chunk_loss(const Var& hidden, const Tensor& labels);

  TransformerSetup setup_;
  LoraSettings lora_;
  std::optional<Tape> own_tape_;
  Tape& tape_;
  KvCache* cache_ = nullptr;
  bool given_mask_ = false;
  bool given_positions_ = false, has_one_row_ = false;
  bool padded_ = false;
  bool packed_ = false;
  std::uint64_t answer_tokens_ = 1;
  std::uint64_t loss_chunks_ = 1;
  std::uint64_t mask_length_ = 0;
  Tensor padded_mask_;
  std::uint64_t routing_seed_ = 0;
  std::uint64_t forward_index_ = 0;
  std::size_t block_ = 0;  // a Llama's, that runs
  bool slides_ = false;    // it has a window
  std::size_t word_table_ = 0, position_table_ = 0, type_table_ = 0, embedding_norm_ = 0;
  bool is_fully_sharded_ = false, casts_scale_ = false, has_narrow_buffers_ = false;
  std::size_t bias_leaf_ = 0;       // T5: of cross attention that is checkpointed
  Tensor zeros_, old_zeros_;        // that bias in this forward, and in the last one
  std::size_t input_leaf_ = 0;      // adapters: the embedding's output asks for a gradient itself
  std::size_t adapters_begin_ = 0;  // parameters from here on are adapters; 0: there are none
  std::size_t frozen_table_ = 0;    // of words, where a copy is trained
  std::size_t final_norm_ = 0, head_ = 0, head_bias_ = 0;
  std::size_t transform_ = 0, transform_norm_ = 0, encoder_norm_ = 0;
  std::size_t patch_weight_ = 0, class_token_ = 0, time_weight_ = 0;
  std::vector<LayerWeights> layers_;
  std::vector<LayerWeights> cross_layers_;  // T5's decoder: its second attention
  std::vector<ParameterRange> layer_parameters_;
  std::unique_ptr<MegatronModel> megatron_;
  std::vector<Tensor> buffers_;
  std::vector<LateTensor> late_;  // what is left to ShardedParameters
  std::vector<Tensor> quantized_;
  std::vector<Tensor>* kept_outputs_ = nullptr;
  bool keeps_last_output_ = false, loss_apart_ = false;
  // Local variables of the model's forward.
  Var words_, position_rows_, mask_, cosine_, sine_;
  Var window_mask_, window_cosine_, window_sine_;  // of blocks with a window
  std::array<Var, 2> position_bias_;               // T5's encoder's, decoder's
  Var encoder_mask_, cross_bias_, cross_mask_, encoded_;
  Tensor positions_, decoder_tokens_;
  Conditions conditions_;
  std::unique_ptr<Transformer> tower_;  // LLaVA: its ViT
  std::size_t projector_ = 0, first_own_ = 0;
  Var image_rows_;     // LLaVA: part of what the model returns
  Tensor image_mask_;  // LLaVA
  Var condition_;      // DiT: of all blocks
  Tensor predicted_;   // DiT
  // Adapters: embeddings' outputs that graphs hold, with their gradients; of the newest graph, of
  // training, of evaluation.
  Tensor new_graph_input_;
  std::vector<Tensor> graph_inputs_, evaluated_inputs_;
};

}  // namespace allocmark
