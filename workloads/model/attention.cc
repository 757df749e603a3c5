// The operators of attention (functions.h): batched products with their copies of heads, attention
// by operators, and what lies around them. One kernel's is in fused_attention.cc.
#include <algorithm>
#include <utility>

#include "base/divided_up.h"
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

// Scores for each element of the queries, as kernel events count them.
std::uint64_t scores_of_query(const AttentionSizes& sizes) {
  return sizes.score_count / std::max<std::uint64_t>(sizes.query_count, 1);
}

// What a batched product reads: itself, or a copy with the heads first.
Tensor heads_apart(Tape& tape, const Var& input, std::uint64_t count) {
  if (input.heads_first || input.heads_viewable) return input.tensor;
  return tape.make(count, input.width).tensor;
}

}  // namespace

Var query_times_key(Tape& tape, Var query, Var key, const AttentionSizes& sizes) {
  narrow(tape, {&key, &query});
  Node* node = tape.record(scores_backward, {&query, &key},
                           {sizes.query_count * query.width, sizes.key_count * query.width, 0,
                            sizes.query_count, 1, scores_of_query(sizes)});
  Tensor left = heads_apart(tape, query, sizes.query_count);
  Tensor right = heads_apart(tape, key, sizes.key_count);
  if (key.edge != kNoEdge) tape.save(node, 1, left);
  if (query.edge != kNoEdge) tape.save(node, 0, right);
  Var out = tape.result(node, sizes.score_count, query.width);
  tape.use_cublas(false);
  drop({&right, &left});
  drop({&query, &key});
  return out;
}

Var weights_times_value(Tape& tape, Var weights, Var value, const AttentionSizes& sizes) {
  narrow(tape, {&value, &weights});
  Node* node = tape.record(batched_product_backward, {&weights, &value},
                           {sizes.score_count * weights.width, sizes.key_count * weights.width, 0,
                            sizes.query_count, 1, scores_of_query(sizes)});
  Tensor right = heads_apart(tape, value, sizes.key_count);
  if (value.edge != kNoEdge) tape.save(node, 1, weights.tensor);
  if (weights.edge != kNoEdge) tape.save(node, 0, right);
  Var out = tape.result(node, sizes.query_count, weights.width);
  out.heads_first = true;
  Node* view = tape.record(seen_apart_backward, {&out}, {sizes.viewable ? 0 : out.size_bytes()});
  tape.attach(view, &out);
  right.reset();
  drop({&weights, &value});
  return out;
}

Var repeat_heads(Tape& tape, Var input, std::uint64_t repeats, bool is_one) {
  if (repeats == 1) return input;
  Node* node = tape.record(repeat_heads_backward, {&input}, {input.size_bytes()});
  Var out = is_one ? input : tape.make(input.count * repeats, input.width);
  out.count = input.count * repeats;
  out.heads_first = !is_one;
  tape.attach(node, &out);
  input.drop();
  return out;
}

// The bias is added in place, as a rule. Its gradient is the sum over the sequences that share it,
// then cast.
static void add_bias_backward(Tape& tape, Node& node, Backprop& b) {
  b.out[0] = b.gradient;
  if (node.edges[1] == kNoEdge) return;
  b.out[1] = b.gradient;
  if (node.sizes[0] != node.sizes[2]) b.out[1] = {.tensor = tape.gradient(node.sizes[0] * 4)};
  if (node.sizes[1] != 4) {
    Tensor narrow = tape.gradient(node.sizes[0] * node.sizes[1]);
    b.out[1].tensor = std::move(narrow);
  }
}

// The causal mask of attention's own: ones, the lower half of them, and numbers to be added.
static Var causal_numbers(Tape& tape, std::uint64_t count, std::uint64_t width) {
  Var ones = tape.make(count, 1);
  Var lower = tape.make(count, 1);
  ones.drop();
  Var zero = tape.make(1, width);
  Var lowest = tape.make(1, width);
  Var numbers = tape.make(count, width);
  drop({&lowest, &zero});
  return numbers;
}

Var unfused_attention(Tape& tape, Var query, Var key, Var value, Var bias,
                      const AttentionSizes& sizes, bool has_dropout) {
  const bool autocast = tape.autocast();
  narrow(tape, {&bias, &value, &key, &query});
  tape.set_autocast(false);
  const std::uint64_t width = query.width;
  Var exact_query = cast(tape, query, 4);
  Var exact_key = cast(tape, key, 4);
  Var exact_value = cast(tape, value, 4);
  Var scaled_query = multiply_scalar(tape, exact_query);
  if (sizes.causal_count > 0) bias = causal_numbers(tape, sizes.causal_count, 4);
  Var expanded_key = repeat_heads(tape, exact_key, sizes.repeats);
  Var expanded_value = repeat_heads(tape, exact_value, sizes.repeats);
  Var scaled_key = multiply_scalar(tape, expanded_key);
  Var scores = query_times_key(tape, scaled_query, std::move(scaled_key), sizes);
  if (bias.count > 0) {
    Node* node =
        tape.record(add_bias_backward, {&scores, &bias}, {bias.count, bias.width, scores.count});
    if (tape.is_watched()) scores.tensor = tape.activation(scores.size_bytes());
    tape.attach(node, &scores);
  }
  Var weights = safe_softmax(tape, std::move(scores), sizes.row_count);
  if (has_dropout) weights = dropout(tape, std::move(weights));
  // The weights are a result too, that nobody asks for.
  Var given;
  if (width != 4) given = tape.make(weights.count, width);
  Var out = weights_times_value(tape, weights, expanded_value, sizes);
  out = cast(tape, std::move(out), width);
  if (width == 4) {
    // The weights are returned themselves, and go last.
    drop({&expanded_key, &expanded_value, &scaled_query, &bias, &weights});
  } else {
    drop({&weights, &expanded_value, &expanded_key});
  }
  drop({&scaled_query, &exact_value, &exact_key, &exact_query, &given});
  bias.drop();
  tape.set_autocast(autocast);
  return out;
}

Var one_head(Tape& tape, Var input) {
  Node* node = tape.record(
      [](Tape&, Node&, Backprop& b) {
        b.out[0] = {.tensor = b.gradient.tensor, .is_view = true, .layout = GradLayout::Tokens};
      },
      {&input});
  tape.attach(node, &input);
  input.heads_viewable = true;
  return input;
}

Var split_heads(Tape& tape, Var input, bool viewable, bool copies) {
  Node* node = tape.record(
      [](Tape& t, Node& n, Backprop& b) {
        if (b.gradient.layout == GradLayout::Heads && n.sizes[2] == 1) {
          b.out[0].tensor = t.gradient(n.sizes[0]);
        } else {
          b.out[0] = b.gradient;
          b.out[0].is_view = true;
        }
        const bool keeps_order = n.sizes[2] == 0 && b.gradient.layout == GradLayout::Heads;
        if (n.sizes[1] == 1 && !keeps_order) b.out[0].layout = GradLayout::Tokens;
      },
      {&input}, {input.size_bytes(), viewable ? 1u : 0u, copies ? 1u : 0u});
  tape.attach(node, &input);
  input.heads_viewable = viewable;
  return input;
}

std::vector<Var> split_parts(Tape& tape, const Var& input, std::size_t count, bool stacked) {
  std::vector<Var> parts(count, input);
  Node* whole = tape.record(
      [](Tape& t, Node& n, Backprop& b) {
        Tensor stack;
        if (n.sizes[1] == 1) {
          stack = t.gradient(n.sizes[0]);
          for (Tensor& part : n.saved) part.reset();
        }
        b.out[0].tensor = t.gradient(n.sizes[0]);
      },
      {&input}, {input.size_bytes(), stacked ? 1u : 0u});
  Var joint = input;
  tape.attach(whole, &joint);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    // A part's gradient waits at the whole until all can be joined.
    Node* node = tape.record(
        [](Tape& t, Node& n, Backprop& b) {
          t.node(n.edges[0]).saved[n.sizes[0]] = std::move(b.gradient.tensor);
        },
        {&joint}, {i});
    parts[i].count = input.count / count;
    tape.attach(node, &parts[i]);
  }
  return parts;
}

Var begin_parts(Tape& tape, const Var& input, GradLayout layout) {
  Node* node = tape.record(
      [](Tape& t, Node& n, Backprop& b) {
        b.out[0] = {.tensor = t.gradient(n.sizes[0]),
                    .layout = static_cast<GradLayout>(n.sizes[1])};
      },
      {&input}, {input.size_bytes(), static_cast<std::uint64_t>(layout)});
  Var whole = input;
  tape.attach(node, &whole);
  return whole;
}

Var part_of(Tape& tape, const Var& whole, std::uint64_t count) {
  Node* node = tape.record(
      [](Tape& t, Node& n, Backprop& b) {
        t.node(n.edges[0]).parts.push_back(std::move(b.gradient.tensor));
      },
      {&whole});
  Var part = whole;
  part.count = count;
  tape.attach(node, &part);
  return part;
}

Var concatenate(Tape& tape, Var fresh, std::uint64_t count, std::uint64_t width) {
  Node* node = tape.record(
      [](Tape& t, Node& n, Backprop& b) {
        if (n.sizes[0] > 0) {
          b.out[0] = {.tensor = t.gradient(n.sizes[0]), .layout = b.gradient.layout};
          return;
        }
        b.out[0] = b.gradient;
        b.out[0].is_view = true;
      },
      {&fresh}, {width == fresh.width ? 0 : fresh.size_bytes()});
  Var out{.tensor = tape.allocate(count * width, TensorKind::KvCache),
          .count = count,
          .width = width,
          .heads_first = true};
  tape.attach(node, &out);
  fresh.drop();
  return out;
}

}  // namespace allocmark
