// A Llama's layers under torch.compile, of the parts that inductor makes (compiled_parts.h).
#include <utility>

#include "workloads/model/compiled_parts.h"
#include "workloads/model/transformer.h"

namespace allocmark {

// Tracing sees no mask that can be left out: a graph of the whole model makes one for all pairs.
Var Transformer::compiled_embed(const Tensor& tokens) {
  words_ =
      compiled_embedding(tape_, tokens, setup_.token_count(), word_table_, adds_head_to_table());
  const std::uint64_t width = setup_.autocast ? setup_.narrow_bytes : setup_.wide_bytes;
  mask_ = tape_.make(setup_.token_count() * setup_.key_count(), width);
  return words_;
}

Var Transformer::compiled_attention(const LayerWeights& own, Var input) {
  const ModelShape& model = setup_.model;
  const std::uint64_t rows = setup_.token_count();
  Var query = linear(tape_, input, rows, projection(own.query));
  Var key = linear(tape_, input, rows, projection(own.key));
  Var value = linear(tape_, input, rows, projection(own.value));
  input.drop();
  const Sizes counts = sizes();
  const std::uint64_t repeats = model.head_count / model.kv_head_count;
  // With a mask heads are repeated first.
  const bool is_repeated = mask_.count != 0 && repeats > 1;
  const std::uint64_t key_count = is_repeated ? counts.queries : counts.grouped;
  const auto norm_of = [&](std::size_t norm) { return model.head_norms ? norm : kNoNorm; };
  query = compiled_heads(
      tape_, std::move(query),
      {.count = counts.queries, .rows = rows * model.head_count, .norm = norm_of(own.query_norm)});
  key = compiled_heads(
      tape_, std::move(key),
      {.count = key_count, .rows = rows * model.kv_head_count, .norm = norm_of(own.key_norm)});
  if (is_repeated) value = compiled_heads(tape_, std::move(value), {.count = key_count});
  return fused_attention(tape_, std::move(query), std::move(key), std::move(value),
                         {.query_count = counts.queries,
                          .key_count = key_count,
                          .row_count = rows * model.head_count,
                          .query_rows = setup_.sequence,
                          .repeats = is_repeated ? 1 : repeats,
                          .bias = mask_.tensor});
}

Var Transformer::compiled_llama_layer(const LayerWeights& own, Var hidden) {
  const std::uint64_t rows = setup_.token_count();
  Var mixed = compiled_attention(own, compiled_norm(tape_, hidden, rows, own.first_norm));
  Var branch = linear(tape_, std::move(mixed), rows, with_bias(own.output));
  hidden = compiled_add(tape_, std::move(hidden), std::move(branch));
  Var normed = compiled_norm(tape_, hidden, rows, own.second_norm);
  Var gate = linear(tape_, normed, rows, with_bias(own.gate));
  Var up = linear(tape_, std::move(normed), rows, with_bias(own.up));
  Var product = compiled_swiglu(tape_, std::move(gate), std::move(up));
  branch = linear(tape_, std::move(product), rows, with_bias(own.down));
  return compiled_add(tape_, std::move(hidden), std::move(branch));
}

}  // namespace allocmark
