// The operators that transformers are written in, each with the allocations of its forward and of
// its backward. Arguments are taken by value: an operator drops them once its output exists, so
// moving one in is Python's temporary, copying one in is a variable that lives on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "workloads/model/tape.h"

namespace allocmark {

// Elementwise. Without autocast rules: the wider type wins.
[[nodiscard]] Var cast(Tape& tape, Var input, std::uint64_t width);  // the input itself if it fits
// Under autocast each becomes narrow, in this order.
void narrow(Tape& tape, std::initializer_list<Var*> inputs);
[[nodiscard]] Var add(Tape& tape, Var left, Var right);  // the smaller one is broadcast
[[nodiscard]] Var add_scalar(Tape& tape, Var input);
// Likewise. `is_row`: the smaller one is a row of weights that was computed, so that its gradient
// is a sum over rows, as a parameter's.
[[nodiscard]] Var multiply(Tape& tape, Var left, Var right, bool is_row = false);
[[nodiscard]] Var multiply_scalar(Tape& tape, Var input);  // or divide
[[nodiscard]] Var power(Tape& tape, Var input);            // by a constant exponent
[[nodiscard]] Var rsqrt(Tape& tape, Var input);
// Saves its input (relu-like, silu, fused gelu) or its result (tanh); one gradient tensor.
[[nodiscard]] Var activation_of_input(Tape& tape, Var input);
[[nodiscard]] Var activation_of_result(Tape& tape, Var input);
// Another shape of the same memory: gradients meet there before they go on.
[[nodiscard]] Var view(Tape& tape, Var input);
[[nodiscard]] Var clone(Tape& tape, Var input);  // in the order batch, token, head

[[nodiscard]] Var mean_of_rows(Tape& tape, Var input, std::uint64_t row_count);
// RMSNorm as transformers writes it, operator by operator in four bytes.
[[nodiscard]] Var rms_norm_written_out(Tape& tape, Var input, std::uint64_t rows,
                                       std::size_t weight);
[[nodiscard]] Var rotate_half(Tape& tape, const Var& input);
// The bias comes after the weight.
[[nodiscard]] Var layer_norm(Tape& tape, Var input, std::uint64_t rows, std::size_t weight);
[[nodiscard]] Var softmax(Tape& tape, Var input);
// A softmax that gives zeros where a row is all minus infinity: two masks come and go.
[[nodiscard]] Var safe_softmax(Tape& tape, Var input, std::uint64_t row_count);
[[nodiscard]] Var dropout(Tape& tape, Var input);
// `is_permuted`: the rows are read in another order, so the gradient comes in another order, too.
// `table_rows`: of the whole table, of which `weight` is a part; the gradient is a view of one of
// the whole. 0: `weight` is the table.
[[nodiscard]] Var embedding(Tape& tape, const Tensor& indexes, std::uint64_t index_count,
                            std::size_t weight, std::uint64_t hidden, bool is_permuted = false,
                            std::uint64_t table_rows = 0);

// Sines and cosines of so many numbers, `width` of each, with what they are made of.
struct Waves {
  Var frequencies, angles, waves;
};
[[nodiscard]] Waves waves_of(Tape& tape, std::uint64_t count, std::uint64_t width);

// The mean of the squared differences, with the squares and the scratch of their sum.
[[nodiscard]] Var mean_squared_error(Tape& tape, Var predicted, const Tensor& wanted);
// What reducing so many elements to one takes, of each of `rows`; `width`: bytes of what is
// reduced, in registers.
void take_reduction_scratch(Tape& tape, std::uint64_t count, std::uint64_t width,
                            std::uint64_t rows = 1);
// CUB's decoupled look-back: so many bytes for each tile.
void take_look_back(Tape& tape, std::uint64_t tile_count, std::uint64_t tile_bytes);
// What a running sum over one row of so many elements of eight bytes takes.
void take_running_sum_scratch(Tape& tape, std::uint64_t count);

// CUB's radix sort of keys with places of eight bytes, eight bits at a time. It takes keys and
// places once more where one pass is not enough, 1 KiB per tile, and bins and counters of each
// pass. Tiles are those of an H200.
struct RadixSort {
  std::uint64_t count = 0;
  std::uint64_t key_bytes = 8;
  std::uint64_t pass_count = 1;
  std::uint64_t tile = 1;  // elements
};
[[nodiscard]] std::uint64_t radix_sort_bytes(const RadixSort& sort);

// What torch.sort of so many elements of eight bytes takes besides its results and places.
void take_sort_scratch(Tape& tape, std::uint64_t count);

struct PutSizes {
  std::uint64_t index_count = 0;
  std::uint64_t row_count = 0;  // of what is added to: decides how many bits are sorted
  std::uint64_t dimension_count = 1;
};
// The scratch of an index_put_ that adds along so many dimensions: indexes are wrapped and joined,
// then sorted with their places.
void put_accumulated(Tape& tape, const PutSizes& sizes);

// torch.topk: its results, and the buffers of rows that several blocks share
// (ATen/native/cuda/TensorTopK.cu).
struct TopKSizes {
  std::uint64_t slices = 1;   // rows
  std::uint64_t columns = 1;  // numbers of four bytes in each
  std::uint64_t count = 1;    // of the largest in each
};

struct TopK {
  Tensor values, indexes;
};

[[nodiscard]] TopK top_k(Tape& tape, const TopKSizes& sizes);

// The mean of the hidden states of what is no padding, normalized: what an embedding service makes
// of an encoder's output.
struct PoolingSizes {
  std::uint64_t batch = 1;
  std::uint64_t length = 1;  // tokens of each text, padded
  std::uint64_t hidden = 1;
};

// The embeddings; `states` are let go.
[[nodiscard]] Var mean_pooling(Tape& tape, Var states, const PoolingSizes& sizes);

// How a frozen weight is kept (quantized.h).
enum class WeightBits : std::uint8_t { Whole, Nf4, Int8, Int4 };

inline constexpr std::size_t kNoBias = ~std::size_t{0};

struct LinearWeights {
  std::size_t weight = 0;
  std::size_t bias = kNoBias;
  bool conv1d = false;  // GPT-2's own layer: autocast casts its arguments in another order
  WeightBits bits = WeightBits::Whole;
  bool float8 = false;  // input and weight are cast for the product (float8_linear)
};
[[nodiscard]] Var linear(Tape& tape, Var input, std::uint64_t rows, const LinearWeights& weights);

// Products in float8 with a scale per tensor, found anew for every product, as programs write them
// with torch._scaled_mm. Forward and backward run in eight bits; what a product saves has eight
// bits, too. They are made of tiles of so many rows and columns.
inline constexpr std::uint64_t kFloat8Tile = 16;
// Of `rows` tokens with a weight that needs a gradient.
[[nodiscard]] Var float8_linear(Tape& tape, Var input, std::uint64_t rows, std::size_t weight);

// Of rows that are not contiguous: they are copied first, and the bias is added in place.
[[nodiscard]] Var linear_of_copy(Tape& tape, Var input, std::uint64_t rows,
                                 const LinearWeights& weights);

// The same without autocast or bias, of any weight.
[[nodiscard]] Var matrix_product(Tape& tape, Var input, Var weight, std::uint64_t rows);

struct AttentionSizes {
  std::uint64_t query_count = 0;  // elements of q for all heads
  std::uint64_t key_count = 0;    // elements of k for all heads
  std::uint64_t score_count = 0;  // elements of all score matrices
  // Only for unfused_attention: rows of scores, query heads per key head, and elements of the
  // causal mask that it makes itself (0: none).
  std::uint64_t row_count = 0;
  std::uint64_t repeats = 1;
  std::uint64_t causal_count = 0;
  bool viewable = false;  // one sequence or one token: heads apart are a view
};
[[nodiscard]] Var query_times_key(Tape& tape, Var query, Var key, const AttentionSizes& sizes);
// In the order batch, head, token.
[[nodiscard]] Var weights_times_value(Tape& tape, Var weights, Var value,
                                      const AttentionSizes& sizes);
// One head of keys is repeated without a copy (`is_one`).
[[nodiscard]] Var repeat_heads(Tape& tape, Var input, std::uint64_t repeats, bool is_one = false);
struct FusedAttentionShape {
  std::uint64_t query_count = 0;
  std::uint64_t key_count = 0;  // 0: as many as the queries make
  // Elements of v, and so of the result where heads are not grouped; 0: as keys and queries.
  std::uint64_t value_count = 0;
  std::uint64_t row_count = 0;   // batch x heads x tokens
  std::uint64_t query_rows = 1;  // tokens of a sequence
  std::uint64_t repeats = 1;     // query heads per key head
  bool one_query = false;        // per sequence
  bool one_key = false;          // likewise
  bool one_head = false;
  Tensor bias = {};                  // added to the scores
  std::int32_t bias_edge = kNoEdge;  // where its gradient goes
  std::uint64_t bias_repeats = 1;    // sequences that share it
  std::uint64_t bias_columns = 0;    // keys of each query, before it was made longer
};
// The workspace of the memory-efficient kernel's backward in four bytes: the queries' gradient in
// pieces of 64 rows, or of 128 where heads or their values are wider than 64, and of 64 columns,
// each with 16 bytes besides. `matrices`: sequences times heads. Source: PyTorch 2.11's
// kernel_backward.h, held to it for 15 widths.
[[nodiscard]] std::uint64_t efficient_workspace_bytes(std::uint64_t matrices, std::uint64_t rows,
                                                      std::uint64_t head_width,
                                                      std::uint64_t value_width);
// The memory-efficient kernel reads eight numbers of a bias at a time: one with other columns is
// copied into longer rows. In two bytes it runs where cuDNN does not: for a single key, and where
// the bias has a gradient.
[[nodiscard]] Var bias_of_whole_steps(Tape& tape, Var bias, std::uint64_t columns);
// Scaled dot product attention as cuDNN runs it in two bytes, and the memory-efficient or the flash
// kernel where it does not.
[[nodiscard]] Var fused_attention(Tape& tape, Var query, Var key, Var value,
                                  FusedAttentionShape shape);
// The same operator by operator, in four bytes, where no fused kernel takes the bias or the heads.
[[nodiscard]] Var unfused_attention(Tape& tape, Var query, Var key, Var value, Var bias,
                                    const AttentionSizes& sizes, bool has_dropout);
// View as heads and transposed; its backward copies a gradient that has the heads first.
// `viewable`: batched products can read it as it is. Where heads are apart already before they
// change places with tokens (`copies` is false), the gradient keeps its order.
[[nodiscard]] Var split_heads(Tape& tape, Var input, bool viewable, bool copies = true);
// The same of a single head, which is in place whatever comes first.
[[nodiscard]] Var one_head(Tape& tape, Var input);
// Views of a joint projection, eight at most; their gradients are joined again.
// `stacked`: the parts lie apart (unbind), so that their gradients are stacked, and then copied to
// where the projection had them.
[[nodiscard]] std::vector<Var> split_parts(Tape& tape, const Var& input, std::size_t count,
                                           bool stacked = false);
// A part as a view (x[..., a:b]): its gradient is put into zeros of the whole, which lie in the
// order `layout`. The whole itself where it has no more elements: its gradient stays as it is.
[[nodiscard]] Var slice(Tape& tape, const Var& whole, std::uint64_t count,
                        GradLayout layout = GradLayout::Tokens);
// Parts of a tensor as views (chunk, split): their gradients are joined once all are there.
[[nodiscard]] Var begin_parts(Tape& tape, const Var& input, GradLayout layout = GradLayout::Tokens);
[[nodiscard]] Var part_of(Tape& tape, const Var& whole, std::uint64_t count);
// torch.cat of what a KV cache holds and the new keys: `count` elements in all, of `width` bytes.
[[nodiscard]] Var concatenate(Tape& tape, Var fresh, std::uint64_t count, std::uint64_t width);
// log_softmax and nll_loss.
[[nodiscard]] Var cross_entropy(Tape& tape, Var logits, const Tensor& labels);

}  // namespace allocmark
