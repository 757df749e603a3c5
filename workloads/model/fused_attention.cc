// Scaled dot product attention by one kernel (functions.h): cuDNN's, the memory-efficient one, the
// flash kernel.
#include <algorithm>
#include <utility>

#include "base/divided_up.h"
#include "workloads/model/functions.h"

namespace allocmark {
namespace {

// cuDNN's: gradients, then a workspace. sizes: bytes of q, of k, of the workspace, whether v, q and
// k have the heads first, bytes of v.
void fused_attention_backward(Tape& tape, Node& node, Backprop& b) {
  for (std::size_t i = 0; i < 3; ++i) {
    b.out[i].tensor = tape.gradient(node.sizes[i < 2 ? i : 6]);
    const bool heads_first = node.sizes[i == 2 ? 3 : 4 + i] == 1;
    b.out[i].layout = heads_first ? GradLayout::Heads : GradLayout::Tokens;
  }
  const Tensor workspace = tape.scratch(node.sizes[2]);
}

// The memory-efficient kernel's: gradients, always with tokens first, the row sums of gradient
// times output, then a workspace. sizes: bytes of q, of k, rows, workspace, bytes of v, of the
// product (0: the kernel has it), whether there is one head, bytes of the bias's gradient, and of
// its sum over the sequences that share the bias (0: there is one).
void efficient_attention_backward(Tape& tape, Node& node, Backprop& b) {
  for (std::size_t i = 0; i < 3; ++i) b.out[i].tensor = tape.gradient(node.sizes[i < 2 ? i : 4]);
  if (node.edges[3] != kNoEdge) {
    b.out[3].tensor = tape.gradient(node.sizes[7]);
    b.reduced_bytes[3] = node.sizes[8];
  }
  Tensor product;
  if (node.sizes[5] > 0) product = tape.gradient(node.sizes[5]);
  Tensor delta = tape.gradient(node.sizes[2] * 4);
  if (node.sizes[5] > 0 && node.sizes[6] == 0) {  // is laid out by heads; one head's lies so
    const Tensor by_tokens = std::move(delta);
    delta = tape.gradient(node.sizes[2] * 4);
  }
  product.reset();
  const Tensor workspace = tape.scratch(node.sizes[3]);
  delta.reset();
}

// Rows that were made longer and cut again: zeros with the gradient in them, and what is left of
// these. sizes: bytes of the longer rows, of the input.
void lengthened_backward(Tape& tape, Node& node, Backprop& b) {
  const Tensor longer = tape.gradient(node.sizes[0]);
  b.out[0].tensor = tape.gradient(node.sizes[1]);
}

}  // namespace

std::uint64_t efficient_workspace_bytes(std::uint64_t matrices, std::uint64_t rows,
                                        std::uint64_t head_width, std::uint64_t value_width) {
  const std::uint64_t piece_rows = std::max(head_width, value_width) > 64 ? 128 : 64;
  const std::uint64_t pieces = divided_up(rows, piece_rows) * divided_up(head_width, 64);
  return matrices * pieces * (piece_rows * 64 * 4 + 16);
}

Var bias_of_whole_steps(Tape& tape, Var bias, std::uint64_t columns) {
  constexpr std::uint64_t kStep = 8;
  const bool is_cudnns = bias.width < 4 && columns > 1 && bias.edge == kNoEdge;
  if (is_cudnns || columns % kStep == 0) return bias;
  const std::uint64_t count = bias.count / columns * rounded_up(columns, kStep);
  Node* node = tape.record(lengthened_backward, {&bias}, {count * bias.width, bias.size_bytes()});
  Var out = tape.result(node, count, bias.width);
  bias.drop();
  return out;
}

static void save_inputs(Tape& tape, Node* node, const Var& query, const Var& key, const Var& value,
                        const FusedAttentionShape& shape) {
  if (shape.bias) tape.save(node, 0, shape.bias);
  tape.save(node, 1, key.tensor);
  tape.save(node, 2, query.tensor);
  tape.save(node, 3, value.tensor);
}

// What scaled dot product attention takes where cuDNN does not run it.
static Var efficient_attention(Tape& tape, Var query, Var key, Var value,
                               const FusedAttentionShape& shape, std::uint64_t out_count) {
  const std::uint64_t heads = shape.row_count / shape.query_rows;
  const std::uint64_t workspace_bytes = efficient_workspace_bytes(
      heads, shape.query_rows, shape.query_count / shape.row_count, out_count / shape.row_count);
  Var bias;
  bias.edge = shape.bias_edge;
  // The backward writes a bias's gradient by sixteen numbers.
  constexpr std::uint64_t kStep = 16;
  const std::uint64_t bias_bytes =
      shape.row_count * rounded_up(shape.bias_columns, kStep) * query.width;
  const std::uint64_t shared_bytes = shape.bias_repeats > 1 ? shape.row_count / shape.bias_repeats *
                                                                  shape.bias_columns * query.width
                                                            : 0;
  // Where narrow, the kernel computes what the backward else does before it.
  const std::uint64_t product_bytes = query.width == 4 ? out_count * query.width : 0;
  Node* node = tape.record(efficient_attention_backward, {&query, &key, &value, &bias},
                           {shape.query_count * query.width, shape.key_count * query.width,
                            shape.row_count, workspace_bytes, shape.value_count * query.width,
                            product_bytes, shape.one_head ? 1u : 0u, bias_bytes, shared_bytes});
  save_inputs(tape, node, query, key, value, shape);
  Var out = tape.make_product(out_count, query.width);
  Var sums;
  if (node != nullptr) sums = tape.make_product(heads * ((shape.query_rows + 31) / 32 * 32), 4);
  tape.save(node, 4, sums.tensor);
  tape.save(node, 5, out.tensor);
  tape.attach(node, &out);
  return out;
}

// The flash kernel, without gradients: the result, row sums, the state of the random numbers.
static Var flash_attention(Tape& tape, const FusedAttentionShape& shape, std::uint64_t out_count,
                           std::uint64_t width) {
  Var out = tape.make_product(out_count, width);
  const Var sums = tape.make_product(shape.row_count, 4);
  const Var seed = tape.make_product(2, 8);
  const Var offset = tape.make_product(1, 8);
  return out;
}

Var fused_attention(Tape& tape, Var query, Var key, Var value, FusedAttentionShape shape) {
  narrow(tape, {&value, &key, &query});
  const std::uint64_t out_count = shape.value_count > 0 ? shape.value_count : shape.query_count;
  if (shape.key_count == 0) shape.key_count = shape.query_count / shape.repeats;
  if (shape.value_count == 0) shape.value_count = shape.key_count;
  // cuDNN takes two bytes, no single key and no bias with a gradient; the flash kernel takes two
  // bytes and no bias.
  const bool is_single = shape.one_key && !tape.grad_enabled();
  const bool is_wide = query.width == 4;
  if (is_single && !is_wide && !shape.bias) {
    drop({&query, &key});
    return flash_attention(tape, shape, out_count, value.width);
  }
  if (is_single || is_wide || shape.bias_edge != kNoEdge) {
    return efficient_attention(tape, std::move(query), std::move(key), std::move(value), shape,
                               out_count);
  }
  // The workspace: the queries' gradient in four bytes, a row sum, and for grouped keys both of
  // their gradients per query head.
  const std::uint64_t query_bytes = shape.query_count * query.width;
  const std::uint64_t workspace_bytes =
      shape.query_count * 4 + shape.row_count * 4 + 256 + (shape.repeats > 1 ? 2 * query_bytes : 0);
  Node* node = tape.record(
      fused_attention_backward, {&query, &key, &value},
      {query_bytes, shape.key_count * query.width, workspace_bytes, value.heads_first ? 1u : 0u,
       query.heads_first ? 1u : 0u, key.heads_first ? 1u : 0u, shape.value_count * query.width});
  save_inputs(tape, node, query, key, value, shape);
  const bool is_kept = tape.has_product();
  Var seed = tape.make_product(1, 8);
  Var offset = tape.make_product(1, 8);
  Var out = tape.make_product(out_count, query.width);
  // The row sums are for the backward; one query per sequence needs no workspace.
  Var sums;
  if (node != nullptr) sums = tape.make_product(shape.row_count, 4);
  if (!shape.one_query && !is_kept) static_cast<void>(tape.make(256, 1));
  tape.save(node, 4, sums.tensor);
  tape.save(node, 5, out.tensor);
  tape.save(node, 6, offset.tensor);
  tape.save(node, 7, seed.tensor);
  tape.attach(node, &out);
  drop({&sums, &seed, &offset, &query, &key});
  return out;
}

}  // namespace allocmark
