// The operators of attention (functions.h): batched products with their copies of heads, fused
// attention, and what lies around them.
#include <algorithm>
#include <utility>

#include "workloads/model/functions.h"

namespace allocmark {
namespace {

// Both gradients of a batched product: mat2's first.
void batched_product_backward(Tape& tape, Node& node, Backprop& b) {
  for (const std::size_t i : {std::size_t{1}, std::size_t{0}}) {
    if (node.edges[i] == kNoEdge) continue;
    b.out[i] = {
        .tensor = tape.gradient(node.sizes[i]), .is_view = true, .layout = GradLayout::Heads};
    tape.product(node.sizes[3], node.sizes[4], node.sizes[5]);
  }
}

void scores_backward(Tape& tape, Node& node, Backprop& b) {
  batched_product_backward(tape, node, b);
  b.out[1].layout = GradLayout::Transposed;  // of the transposed keys
}

// The product's result was seen as heads apart: a gradient with tokens first is copied for that,
// before a checkpoint has to recompute what the product saved.
void seen_apart_backward(Tape& tape, Node& node, Backprop& b) {
  if (b.gradient.layout == GradLayout::Tokens && node.sizes[0] != 0) {
    b.out[0].tensor = tape.gradient(node.sizes[0]);
  } else {
    b.out[0] = std::move(b.gradient);
  }
}

void repeat_heads_backward(Tape& tape, Node& node, Backprop& b) {
  b.out[0] = {.tensor = tape.gradient(node.sizes[0]), .is_view = true, .layout = GradLayout::Heads};
}

// cuDNN's: gradients, then a workspace with the queries' gradient in four bytes, a row sum, and for
// grouped keys both of their gradients per query head. sizes: bytes of q, of k, rows, width of q,
// whether q and k have the heads first.
void fused_attention_backward(Tape& tape, Node& node, Backprop& b) {
  const std::uint64_t width = node.sizes[3];
  for (std::size_t i = 0; i < 3; ++i) {
    b.out[i].tensor = tape.gradient(node.sizes[i == 0 ? 0 : 1]);
    const bool heads_first = node.sizes[i == 0 ? 4 : 5] == 1;
    b.out[i].layout = heads_first ? GradLayout::Heads : GradLayout::Tokens;
  }
  const bool grouped = node.sizes[0] != node.sizes[1];
  const Tensor workspace = tape.allocate(
      node.sizes[0] / width * 4 + node.sizes[2] * 4 + 256 + (grouped ? 2 * node.sizes[0] : 0),
      TensorKind::Workspace);
}

void set_product(Node* node, std::uint64_t m, std::uint64_t n, std::uint64_t k) {
  if (node == nullptr) return;
  node->sizes[3] = m;
  node->sizes[4] = n;
  node->sizes[5] = k;
}

// What a batched product reads: itself, or a copy with the heads first.
Tensor heads_apart(Tape& tape, const Var& input, std::uint64_t count) {
  if (input.heads_first) return input.tensor;
  return tape.make(count, input.width).tensor;
}

}  // namespace

Var query_times_key(Tape& tape, Var query, Var key, const AttentionSizes& sizes) {
  if (tape.autocast()) {
    key = cast(tape, std::move(key), tape.narrow_bytes());
    query = cast(tape, std::move(query), tape.narrow_bytes());
  }
  Node* node = tape.record(scores_backward, {&query, &key});
  if (node != nullptr) {
    node->sizes[0] = sizes.query_count * query.width;
    node->sizes[1] = sizes.key_count * query.width;
  }
  set_product(node, sizes.query_count, 1,
              sizes.score_count / std::max<std::uint64_t>(sizes.query_count, 1));
  Tensor left = heads_apart(tape, query, sizes.query_count);
  Tensor right = heads_apart(tape, key, sizes.key_count);
  if (key.edge != kNoEdge) tape.save(node, 1, left);
  if (query.edge != kNoEdge) tape.save(node, 0, right);
  Var out = tape.make(sizes.score_count, query.width);
  tape.use_cublas(false);
  tape.attach(node, &out);
  right.reset();
  left.reset();
  query.drop();
  key.drop();
  return out;
}

Var weights_times_value(Tape& tape, Var weights, Var value, const AttentionSizes& sizes) {
  if (tape.autocast()) {
    value = cast(tape, std::move(value), tape.narrow_bytes());
    weights = cast(tape, std::move(weights), tape.narrow_bytes());
  }
  Node* node = tape.record(batched_product_backward, {&weights, &value});
  if (node != nullptr) {
    node->sizes[0] = sizes.score_count * weights.width;
    node->sizes[1] = sizes.key_count * weights.width;
  }
  set_product(node, sizes.query_count, 1,
              sizes.score_count / std::max<std::uint64_t>(sizes.query_count, 1));
  Tensor right = heads_apart(tape, value, sizes.key_count);
  if (value.edge != kNoEdge) tape.save(node, 1, weights.tensor);
  if (weights.edge != kNoEdge) tape.save(node, 0, right);
  Var out = tape.make(sizes.query_count, weights.width);
  out.heads_first = true;
  tape.attach(node, &out);
  Node* view = tape.record(seen_apart_backward, {&out});
  if (view != nullptr) view->sizes[0] = sizes.viewable ? 0 : out.size_bytes();
  tape.attach(view, &out);
  right.reset();
  weights.drop();
  value.drop();
  return out;
}

Var repeat_heads(Tape& tape, Var input, std::uint64_t repeats) {
  if (repeats == 1) return input;
  Node* node = tape.record(repeat_heads_backward, {&input});
  if (node != nullptr) node->sizes[0] = input.size_bytes();
  Var out = tape.make(input.count * repeats, input.width);
  out.heads_first = true;
  tape.attach(node, &out);
  input.drop();
  return out;
}

Var fused_attention(Tape& tape, Var query, Var key, Var value, const FusedAttentionShape& shape) {
  if (tape.autocast()) {
    value = cast(tape, std::move(value), tape.narrow_bytes());
    key = cast(tape, std::move(key), tape.narrow_bytes());
    query = cast(tape, std::move(query), tape.narrow_bytes());
  }
  Node* node = tape.record(fused_attention_backward, {&query, &key, &value});
  if (node != nullptr) {
    node->sizes = {shape.query_count * query.width,
                   shape.query_count / shape.repeats * query.width,
                   shape.row_count,
                   query.width,
                   query.heads_first ? 1u : 0u,
                   key.heads_first ? 1u : 0u};
  }
  tape.save(node, 0, key.tensor);
  tape.save(node, 1, query.tensor);
  tape.save(node, 2, value.tensor);
  const bool is_kept = tape.has_product();
  Var seed = tape.make_product(1, 8);
  Var offset = tape.make_product(1, 8);
  Var out = tape.make_product(shape.query_count, query.width);
  // The row sums are for the backward; one query per sequence needs no workspace.
  Var sums;
  if (node != nullptr) sums = tape.make_product(shape.row_count, 4);
  if (!shape.one_query && !is_kept) static_cast<void>(tape.make(256, 1));
  tape.save(node, 3, sums.tensor);
  tape.save(node, 4, out.tensor);
  tape.save(node, 5, offset.tensor);
  tape.save(node, 6, seed.tensor);
  tape.attach(node, &out);
  sums.drop();
  seed.drop();
  offset.drop();
  query.drop();
  key.drop();
  return out;
}

Var split_heads(Tape& tape, Var input, bool viewable) {
  Node* node = tape.record(
      [](Tape& t, Node& n, Backprop& b) {
        if (b.gradient.layout == GradLayout::Heads) {
          b.out[0].tensor = t.gradient(n.sizes[0]);
        } else {
          b.out[0] = b.gradient;
          b.out[0].is_view = true;
        }
        if (n.sizes[1] == 1) b.out[0].layout = GradLayout::Tokens;
      },
      {&input});
  if (node != nullptr) node->sizes = {input.size_bytes(), viewable ? 1u : 0u};
  tape.attach(node, &input);
  input.heads_first = viewable;
  return input;
}

std::array<Var, 3> split_three(Tape& tape, const Var& input) {
  std::array<Var, 3> parts = {input, input, input};
  Node* whole = tape.record(
      [](Tape& t, Node& n, Backprop& b) { b.out[0].tensor = t.gradient(n.sizes[0]); }, {&input});
  if (whole != nullptr) whole->sizes[0] = input.size_bytes();
  Var joint = input;
  tape.attach(whole, &joint);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    // A part's gradient waits at the whole until all three can be joined.
    Node* node = tape.record(
        [](Tape& t, Node& n, Backprop& b) {
          t.node(n.edges[0]).saved[n.sizes[0]] = std::move(b.gradient.tensor);
        },
        {&joint});
    if (node != nullptr) node->sizes[0] = i;
    parts[i].count = input.count / 3;
    tape.attach(node, &parts[i]);
  }
  return parts;
}

Var concatenate(Tape& tape, Var fresh, std::uint64_t count) {
  Node* node = tape.record(
      [](Tape&, Node&, Backprop& b) {
        b.out[0] = b.gradient;
        b.out[0].is_view = true;
      },
      {&fresh});
  Var out;
  out.count = count;
  out.width = fresh.width;
  out.heads_first = true;
  out.tensor = tape.allocate(out.size_bytes(), TensorKind::KvCache);
  tape.attach(node, &out);
  fresh.drop();
  return out;
}

}  // namespace allocmark
