// DeepSeek-V3: attention whose queries, keys and values come from narrow latent rows (MLA), and
// blocks whose experts stand beside a MLP that all tokens share. As transformers writes them.
#include <algorithm>
#include <utility>

#include "workloads/model/transformer.h"

namespace allocmark {
namespace {

// Experts are chosen among the best half of so many groups.
constexpr std::uint64_t kExpertGroups = 8;

// The halves' gradients are put into zeros, one after the other, and added in place.
void interleaved_halves_backward(Tape& tape, Node& node, Backprop& b) {
  b.out[0].tensor = tape.gradient(node.sizes[0]);
  node.saved[0].reset();
  const Tensor second = tape.gradient(node.sizes[0]);
  node.saved[1].reset();
}

// sizes: bytes of a half in the product's type, and in the input's. The gradients wait at the
// halves.
void interleaved_backward(Tape& tape, Node& node, Backprop& b) {
  const auto gradient_of_half = [&] {
    Tensor product = tape.gradient(node.sizes[0]);
    return node.sizes[0] == node.sizes[1] ? product : tape.gradient(node.sizes[1]);
  };
  Tensor first = gradient_of_half();
  Tensor second = gradient_of_half();
  {
    Tensor negative = tape.gradient(node.sizes[0]);
    const Tensor added = gradient_of_half();
    negative.reset();
  }
  const Tensor added = gradient_of_half();
  b.gradient.tensor.reset();
  Node& halves = tape.node(node.edges[0]);
  halves.saved[0] = std::move(second);
  halves.saved[1] = std::move(first);
}

constexpr std::uint64_t kNoCopy = UINT64_MAX;

// Both parts' gradients are parts of the whole one, or narrower copies of them. sizes: bytes of
// copies, or kNoCopy.
void joined_query_backward(Tape& tape, Node& node, Backprop& b) {
  for (std::size_t i = 0; i < 2; ++i) {
    if (node.edges[i] == kNoEdge) continue;
    b.out[i] = b.gradient;
    if (node.sizes[i] != kNoCopy) b.out[i].tensor = tape.gradient(node.sizes[i]);
  }
}

// Two copies into a new tensor: each takes a copy of the whole gradient and its part of that. The
// rotated part is the sum over heads, in its own type. sizes: bytes of the whole, of the parts for
// all heads, of the rotated part, and of that for all heads in its own type.
void filled_backward(Tape& tape, Node& node, Backprop& b) {
  Tensor first = tape.gradient(node.sizes[0]);
  Tensor turned = tape.gradient(node.sizes[2]);
  { const Tensor again = tape.gradient(node.sizes[2]); }
  if (node.sizes[4] != node.sizes[2]) turned = tape.gradient(node.sizes[4]);
  b.gradient.tensor.reset();
  Tensor second = tape.gradient(node.sizes[0]);
  b.out[0] = {.tensor = tape.gradient(node.sizes[1]), .layout = GradLayout::Heads};
  drop({&second, &first});
  b.out[1].tensor = tape.gradient(node.sizes[3]);
}

}  // namespace

// Pairs of neighbouring elements, as two views.
Var Transformer::interleaved_halves(Var input) {
  Node* halves = tape_.record(interleaved_halves_backward, {&input}, {input.size_bytes()});
  tape_.attach(halves, &input);
  return input;
}

// They turn.
Var Transformer::interleaved(Var input) {
  const std::uint64_t half = input.count / 2;
  const std::uint64_t width = std::max(input.width, cosine_.width);
  Node* node = tape_.record(interleaved_backward, {&input}, {half * width, half * input.width});
  tape_.save(node, 0, cosine_.tensor);
  tape_.save(node, 1, sine_.tensor);
  const auto turned = [&] {
    Var straight = tape_.make(half, width);
    Var across = tape_.make(half, width);
    Var sum = tape_.make(half, width);
    drop({&straight, &across});
    return sum;
  };
  const Var first = turned();
  const Var second = turned();
  Var out = tape_.result(node, input.count, width);
  out.heads_first = true;
  return out;
}

Var Transformer::joined(const Var& left, const Var& right) {
  const std::uint64_t width = std::max(left.width, right.width);
  Node* node = tape_.record(joined_query_backward, {&left, &right},
                            {left.width == width ? kNoCopy : left.size_bytes(),
                             right.width == width ? kNoCopy : right.size_bytes()});
  Var out = tape_.result(node, left.count + right.count, width);
  out.heads_first = true;
  return out;
}

// Keys of all heads: what each has of its own, and the rotated part that they share.
Var Transformer::filled_keys(const Var& own, const Var& turned) {
  const std::uint64_t heads = setup_.model.head_count;
  const std::uint64_t count = own.count + turned.count * heads;
  Node* node = tape_.record(filled_backward, {&own, &turned},
                            {count * own.width, own.size_bytes(), turned.count * heads * own.width,
                             turned.size_bytes(), turned.count * heads * turned.width});
  Var out = tape_.result(node, count, own.width);
  out.heads_first = true;
  return out;
}

Var Transformer::latent_queries(const LayerWeights& own, const Var& input) {
  const std::uint64_t rows = setup_.token_count();
  if (setup_.model.query_rank == 0) return linear(tape_, input, rows, with_bias(own.query));
  Var low = linear(tape_, input, rows, with_bias(own.query_low));
  low = norm_of_rows(low, own.query_norm, rows);
  return linear(tape_, std::move(low), rows, with_bias(own.query));
}

Var Transformer::latent_attention(const LayerWeights& own, std::size_t index, const Var& input,
                                  Var* weights) {
  const ModelShape& model = setup_.model;
  const std::uint64_t rows = setup_.token_count();
  const std::uint64_t heads = model.head_count;
  const std::uint64_t plain = model.head_width() - model.rope_size;
  Var query = begin_parts(tape_, split_heads(tape_, latent_queries(own, input), viewable()),
                          GradLayout::Heads);
  Var query_plain = part_of(tape_, query, rows * heads * plain);
  Var query_turned = part_of(tape_, query, rows * heads * model.rope_size);
  Var latent = begin_parts(tape_, linear(tape_, input, rows, with_bias(own.key_low)));
  Var low = part_of(tape_, latent, rows * model.key_rank);
  Var key_turned = part_of(tape_, latent, rows * model.rope_size);
  low = norm_of_rows(low, own.key_norm, rows);
  query_turned = interleaved_halves(std::move(query_turned));
  key_turned = interleaved_halves(std::move(key_turned));
  query_turned = interleaved(std::move(query_turned));
  key_turned = interleaved(std::move(key_turned));
  if (cache_ != nullptr) {
    const std::uint64_t tokens = setup_.batch * setup_.key_count();
    low = cache_->append(tape_, index, 0, low, tokens * model.key_rank, low.width, setup_.sequence);
    key_turned = cache_->append(tape_, index, 1, key_turned, tokens * model.rope_size,
                                key_turned.width, setup_.sequence);
  }
  Var joint_query = joined(query_plain, query_turned);
  const std::uint64_t width = plain + model.value_size;
  Var both = linear(tape_, low, rows, with_bias(own.value));
  both = begin_parts(tape_, split_heads(tape_, std::move(both), viewable()), GradLayout::Heads);
  Var key_plain = part_of(tape_, both, both.count / width * plain);
  Var value = part_of(tape_, both, both.count / width * model.value_size);
  both.drop();
  Var key = filled_keys(key_plain, key_turned);
  key_plain.drop();
  Var mixed = attend(joint_query, key, value, weights);
  Var out = linear(tape_, std::move(mixed), rows, with_bias(own.output));
  drop({&query_plain, &query, &query_turned, &latent, &low, &key_turned});
  return out;
}

// Scores in four bytes, their sigmoids, the best groups of experts by their two best, and the best
// experts of those. Only the chosen sigmoids have gradients that go on.
Transformer::Routing Transformer::grouped_route(const LayerWeights& own, const Var& hidden) {
  const ModelShape& model = setup_.model;
  const std::uint64_t rows = setup_.token_count();
  const std::uint64_t chosen = rows * model.experts_per_token;
  const std::uint64_t scores = rows * model.expert_count;
  const std::uint64_t groups = rows * kExpertGroups;
  Routing out;
  if (tape_.autocast()) {
    out.logits = linear(tape_, cast(tape_, hidden, 4), rows, {.weight = own.router});
  } else {
    Var exact = cast(tape_, hidden, 4);
    Var weight = cast(tape_, tape_.parameter(own.router), 4);
    out.logits = matrix_product(tape_, std::move(exact), std::move(weight), rows);
  }
  const Var shares = activation_of_result(tape_, out.logits);
  // Variables that live to the end, and what their graphs keep.
  Var biased = tape_.make(scores, 4);
  Var places, best, kept, is_hidden;
  {
    const Var values = tape_.make(groups * 2, 4);
    places = tape_.make(groups * 2, 8);
    best = tape_.make(groups, 4);
  }
  if (!tape_.grad_enabled()) places.drop();
  {
    const Var values = tape_.make(rows * kExpertGroups / 2, 4);
    kept = tape_.make(rows * kExpertGroups / 2, 8);
  }
  Var mask = tape_.make(groups, 4);
  Var allowed = tape_.make(scores, 4);
  {
    const Var is_allowed = tape_.make(scores, 1);
    is_hidden = tape_.make(scores, 1);
  }
  biased = tape_.make(scores, 4);
  if (!tape_.grad_enabled()) is_hidden.drop();
  {
    const Var values = tape_.make(chosen, 4);
    out.experts = tape_.make(chosen, 8).tensor;
  }
  out.shares = chosen_shares(shares, &out.experts);
  divide_by_sum(&out.shares, true);
  out.shares = multiply_scalar(tape_, std::move(out.shares));
  drop({&is_hidden, &biased, &places, &best, &kept, &mask, &allowed});
  return out;
}

// What all tokens go through besides.
Var Transformer::shared_expert(const LayerWeights& own, const Var& hidden) {
  const std::uint64_t rows = setup_.token_count();
  Var gate = linear(tape_, hidden, rows, with_bias(own.shared_gate));
  gate = activation_of_input(tape_, std::move(gate));
  Var up = linear(tape_, hidden, rows, with_bias(own.shared_up));
  return linear(tape_, multiply(tape_, std::move(gate), std::move(up)), rows,
                with_bias(own.shared_down));
}

}  // namespace allocmark
