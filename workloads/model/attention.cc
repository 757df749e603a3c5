// The operators of attention (functions.h): batched products with their copies of heads, fused
// attention, and what lies around them.
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
// output, whether there is one head.
void efficient_attention_backward(Tape& tape, Node& node, Backprop& b) {
  for (std::size_t i = 0; i < 3; ++i) b.out[i].tensor = tape.gradient(node.sizes[i < 2 ? i : 4]);
  Tensor product = tape.gradient(node.sizes[5]);
  Tensor delta = tape.gradient(node.sizes[2] * 4);
  if (node.sizes[6] == 0) {  // is laid out by heads; one head's lies so
    const Tensor by_tokens = std::move(delta);
    delta = tape.gradient(node.sizes[2] * 4);
  }
  product.reset();
  const Tensor workspace = tape.scratch(node.sizes[3]);
  delta.reset();
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

std::uint64_t efficient_workspace_bytes(std::uint64_t matrices, std::uint64_t rows,
                                        std::uint64_t head_width, std::uint64_t value_width) {
  const std::uint64_t piece_rows = std::max(head_width, value_width) > 64 ? 128 : 64;
  const std::uint64_t pieces = divided_up(rows, piece_rows) * divided_up(head_width, 64);
  return matrices * pieces * (piece_rows * 64 * 4 + 16);
}

Var bias_of_whole_steps(Tape& tape, Var bias, std::uint64_t columns) {
  constexpr std::uint64_t kStep = 8;
  const bool is_cudnns = bias.width < 4 && columns > 1;
  if (is_cudnns || columns % kStep == 0) return bias;
  Var out = tape.make(bias.count / columns * rounded_up(columns, kStep), bias.width);
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

// What scaled dot product attention takes in four bytes, which cuDNN does not run.
static Var efficient_attention(Tape& tape, Var query, Var key, Var value,
                               const FusedAttentionShape& shape, std::uint64_t out_count) {
  const std::uint64_t heads = shape.row_count / shape.query_rows;
  const std::uint64_t workspace_bytes = efficient_workspace_bytes(
      heads, shape.query_rows, shape.query_count / shape.row_count, out_count / shape.row_count);
  Node* node = tape.record(efficient_attention_backward, {&query, &key, &value},
                           {shape.query_count * query.width, shape.key_count * query.width,
                            shape.row_count, workspace_bytes, shape.value_count * query.width,
                            out_count * query.width, shape.one_head ? 1u : 0u});
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
  // cuDNN takes no single key; the flash kernel takes no bias.
  const bool leaves_cudnn = shape.one_key && !tape.grad_enabled();
  if (leaves_cudnn && query.width < 4 && !shape.bias) {
    drop({&query, &key});
    return flash_attention(tape, shape, out_count, value.width);
  }
  if (query.width == 4 || leaves_cudnn) {
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
