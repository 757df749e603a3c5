// Mixtral: Transformer's forward functions of a layer with experts. A router chooses some experts
// for each token; their MLPs run as grouped matrix products over tokens sorted by expert, as
// transformers does on GPUs, or one after the other, where the tokens of each expert decide sizes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/random.h"
#include "workloads/model/module_scope.h"
#include "workloads/model/transformer.h"

namespace allocmark {
namespace {

// Gradients of values that were divided by their sum in place, the sum's first. sizes: bytes of the
// values, of the sums, of the values in the sums' type.
void share_backward(Tape& tape, Node& node, Backprop& b) {
  const std::uint64_t wide_bytes = node.sizes[2];
  {
    const Tensor quotient = tape.gradient(wide_bytes);
    const Tensor second = tape.gradient(wide_bytes);
    const Tensor negative = tape.gradient(node.sizes[0]);
    b.out[1].tensor = tape.gradient(wide_bytes);
  }
  b.out[0].tensor = tape.gradient(wide_bytes);
  if (wide_bytes != node.sizes[0]) b.reduced_bytes[0] = node.sizes[0];
  if (node.sizes[1] < wide_bytes) b.reduced_bytes[1] = node.sizes[1];
}

// Rows were added where their tokens are: each takes its gradient back. sizes: bytes of the rows.
void token_rows_backward(Tape& tape, Node& node, Backprop& b) {
  b.out[0] = b.gradient;
  b.out[1].tensor = tape.gradient(node.sizes[0]);
}

// As rows, of two indexes at once; what comes out is a view.
void gather_pairs_backward(Tape& tape, Node& node, Backprop& b) {
  b.out[0].tensor = tape.gradient(node.sizes[0]);
  b.out[0].is_view = true;
  put_accumulated(tape,
                  {.index_count = node.sizes[1], .row_count = node.sizes[2], .dimension_count = 2});
}

// Rows that were chosen by index: zeros, into which equal indexes' gradients are added in the order
// of a sort. sizes: bytes of the input, indexes.
void gather_backward(Tape& tape, Node& node, Backprop& b) {
  b.out[0].tensor = tape.gradient(node.sizes[0]);
  put_accumulated(tape, {.index_count = node.sizes[1], .row_count = node.sizes[2]});
}

// CUTLASS's problem descriptions, 36 bytes per expert and three pointers, which begin at every
// second one, and its workspace, 512 per processor.
void take_grouped_scratch(Tape& tape, std::uint64_t expert_count) {
  const Tensor problems = tape.scratch(36 * expert_count + 24 * ((expert_count + 1) / 2 * 2));
  tape.take_scratch(132 * 512);
}

// Both gradients of a grouped product are grouped products; the weight's has all experts.
void grouped_backward(Tape& tape, Node& node, Backprop& b) {
  for (const std::size_t i : {std::size_t{1}, std::size_t{0}}) {
    if (node.edges[i] == kNoEdge) continue;
    b.out[i].tensor = tape.gradient(node.sizes[i]);
    if (node.sizes[2] > 0) take_grouped_scratch(tape, node.sizes[2]);
  }
}

// Rows of `input` by index, `count` elements in all.
Var gather(Tape& tape, Var input, const Tensor& index, std::uint64_t index_count,
           std::uint64_t count) {
  const std::uint64_t row_count = index_count == 0 ? 0 : input.count / (count / index_count);
  Node* node = tape.record(gather_backward, {&input}, {input.size_bytes(), index_count, row_count});
  tape.save(node, 0, index);
  return tape.result(node, count, input.width);
}

// Zeros where no expert of this rank is meant: in place, or a copy.
Var masked(Tape& tape, Var input, const Tensor& mask, bool in_place) {
  Node* node = tape.record(new_gradients, {&input}, {input.size_bytes()});
  Var out = in_place ? input : tape.make(input.count, input.width);
  tape.save(node, 0, mask);
  tape.attach(node, &out);
  return out;
}

}  // namespace

// A rank's own experts are the local part of a parameter. Its gradient waits for all nodes that
// follow before it is added to the parameter's.
Var Transformer::mixtral_local(std::size_t weight) {
  const Var parameter = tape_.parameter_view(weight);
  return setup_.parallel.expert > 1 ? view(tape_, parameter) : parameter;
}

Var Transformer::mixtral_grouped(const Var& input, const Var& parameter, std::uint64_t columns,
                                 const Tensor& offsets) {
  const ModelShape& model = setup_.model;
  const std::uint64_t rows = setup_.token_count() * model.experts_per_token;
  Var rows_in = cast(tape_, input, parameter.width);
  const std::uint64_t grouped_count = parameter.width < 4 ? setup_.own_expert_count() : 0;
  Node* node = tape_.record(grouped_backward, {&rows_in, &parameter},
                            {rows_in.size_bytes(), parameter.size_bytes(), grouped_count});
  tape_.save(node, 0, offsets);
  if (parameter.edge != kNoEdge) tape_.save(node, 1, rows_in.tensor);
  tape_.save(node, 3, parameter.tensor);
  Var out = tape_.result(node, rows * columns, parameter.width);
  if (grouped_count > 0) {
    take_grouped_scratch(tape_, grouped_count);
  } else {
    // In four bytes experts run one by one, through cuBLAS.
    tape_.use_cublas(false);
  }
  tape_.product(rows, columns, parameter.count / columns / setup_.own_expert_count());
  return out;
}

// Logits, probabilities, the best of them and their shares.
Transformer::Routing Transformer::mixtral_route(const LayerWeights& own, const Var& hidden) {
  const ModelShape& model = setup_.model;
  const std::uint64_t rows = setup_.token_count();
  Routing out;
  out.logits = linear(tape_, view(tape_, hidden), rows, {.weight = own.router});
  Var probabilities = softmax(tape_, cast(tape_, out.logits, 4));
  out.shares = chosen_shares(probabilities, &out.experts);
  divide_by_sum(&out.shares, false);
  // Qwen 3's go on in the type of the logits.
  if (model.head_norms) out.shares = cast(tape_, std::move(out.shares), out.logits.width);
  return out;
}

// Those of the chosen experts, which topk finds with them where they are not known.
Var Transformer::chosen_shares(const Var& all, Tensor* experts) {
  const std::uint64_t chosen = setup_.token_count() * setup_.model.experts_per_token;
  // Back come zeros with the chosen values' gradients put where they came from.
  Node* node = tape_.record(new_gradients, {&all}, {all.size_bytes()});
  Var shares = tape_.result(node, chosen, all.width);
  if (!*experts) *experts = tape_.make(chosen, 8).tensor;
  tape_.save(node, 0, *experts);
  return shares;
}

void Transformer::divide_by_sum(Var* shares, bool has_epsilon) {
  const std::uint64_t rows = setup_.token_count();
  const bool is_wide = tape_.autocast() && shares->width < 4;  // autocast sums in four bytes
  Node* summed =
      tape_.record(is_wide ? new_gradients : pass_on_view, {shares}, {shares->size_bytes()});
  Var sum = tape_.result(summed, rows, is_wide ? 4 : shares->width);
  if (has_epsilon) sum = add_scalar(tape_, std::move(sum));
  // Dividing in place keeps a copy of what was divided.
  Node* divided = tape_.record(share_backward, {shares, &sum},
                               {shares->size_bytes(), sum.size_bytes(), shares->count * sum.width});
  if (divided != nullptr) {
    tape_.save(divided, 0, sum.tensor);
    tape_.save(divided, 1, tape_.make(shares->count, shares->width).tensor);
    tape_.attach(divided, shares);
  }
}

// A rank with some of the experts: the shares of others are zero, and its own are known by their
// places among them.
Transformer::Routing Transformer::own_routes(const Routing& all) {
  const std::uint64_t pairs = setup_.token_count() * setup_.model.experts_per_token;
  const auto make_mask = [&] { return tape_.make(pairs, 1); };
  const auto make_places = [&] { return tape_.make(pairs, 8).tensor; };
  Routing out{.logits = all.logits, .shares = {}, .experts = {}};
  Tensor mask;
  {
    const Tensor owners = make_places();
    mask = make_mask().tensor;
  }
  out.shares = masked(tape_, all.shares, mask, false);
  out.experts = make_places();
  if (setup_.own_expert_count() > 1) {
    out.experts = make_places();
  } else {
    Var above = make_mask();
    const Tensor first = make_places();
    above.drop();
    const Var below = make_mask();
    out.experts = make_places();
  }
  const Var is_other = make_mask();
  out.experts = make_places();
  return out;
}

Var Transformer::mixtral_mlp(const LayerWeights& own, std::size_t index, const Var& hidden) {
  const bool is_latent = setup_.model.is_latent();
  OwnParameters all;
  if (!is_latent) all = {own.router, own.gate, own.down};
  const ModuleScope block(tape_, {.parameters = all, .is_leaf = true});
  Var rows = view(tape_, hidden);
  Routing routing = is_latent ? grouped_route(own, rows) : mixtral_route(own, rows);
  if (setup_.parallel.expert > 1) routing = own_routes(routing);
  if (is_latent) rows = view(tape_, hidden);  // the router has one of its own
  // One token after others: a prompt of one token is none.
  const std::uint64_t context = mask_length_ > 0 ? mask_length_ : setup_.key_count();
  const bool continues = setup_.sequence == 1 && context > 1;
  Var out;
  if (setup_.expert_loop) {
    out = mixtral_looped_experts(own, rows, routing, mixtral_draw_counts(index));
  } else if (!setup_.training && setup_.copies_experts && continues) {
    out = mixtral_copied_experts(rows);
  } else {
    out = mixtral_sorted_experts(own, rows, routing);
  }
  if (setup_.model.shared_ffn > 0) {
    Var shared = shared_expert(own, hidden);
    Var sum = add(tape_, out, shared);
    shared.drop();
    out = std::move(sum);
  }
  routing.logits.drop();
  routing.shares.drop();
  routing.experts.reset();
  return out;
}

// While tokens are generated one by one, each of them gets copies of its experts' weights for a
// batched product. Without gradients.
Var Transformer::mixtral_copied_experts(const Var& hidden) {
  const ModelShape& model = setup_.model;
  const std::uint64_t pairs = setup_.token_count() * model.experts_per_token;
  const std::uint64_t width = setup_.wide_bytes;
  Var rows = tape_.make(pairs * model.hidden, width);
  Var ids = tape_.make(pairs, 8);
  Var weights = tape_.make(pairs * 2 * model.ffn * model.hidden, width);
  Var inner = tape_.make(pairs * 2 * model.ffn, width);
  Var activated = tape_.make(pairs * model.ffn, width);
  Var product = tape_.make(pairs * model.ffn, width);
  activated.drop();
  inner = std::move(product);
  weights = tape_.make(pairs * model.ffn * model.hidden, width);
  inner = tape_.make(pairs * model.hidden, width);
  Var weighted = tape_.make(inner.count, 4);
  Var sum = tape_.make(hidden.count, 4);
  Var out = cast(tape_, sum, hidden.width);
  drop({&rows, &ids, &weights, &inner, &weighted, &sum});
  return out;
}

// How many tokens each expert gets. Weights of 1 at no skew, else of random squares around 1: a
// random router's tokens have much in common, and so have their experts. An expert takes a token
// once.
std::vector<std::uint64_t> Transformer::mixtral_draw_counts(std::size_t layer) const {
  const ModelShape& model = setup_.model;
  const std::uint64_t rows = setup_.token_count();
  if (const std::vector<std::uint64_t>& given = setup_.tokens_per_expert; !given.empty()) {
    const std::size_t group_count = given.size() / model.expert_count;
    const std::size_t group = ((forward_index_ - 1) * model.layer_count + layer) % group_count;
    const auto first = given.begin() + static_cast<std::ptrdiff_t>(group * model.expert_count);
    return {first, first + static_cast<std::ptrdiff_t>(model.expert_count)};
  }
  Random random(routing_seed_ + forward_index_ * 1024 + layer);
  std::vector<std::uint64_t> weights;
  std::uint64_t weight_sum = 0;
  for (std::uint64_t i = 0; i < model.expert_count; ++i) {
    const std::uint64_t uniform = random.below(1024);
    const std::uint64_t square = 3 * uniform * uniform >> 10;  // 1024 on average
    weights.push_back((100 - setup_.routing_skew_percent) * 1024 +
                      setup_.routing_skew_percent * square + 1);
    weight_sum += weights.back();
  }
  std::uint64_t left = rows * model.experts_per_token;
  std::vector<std::uint64_t> counts;
  for (const std::uint64_t weight : weights) {
    counts.push_back(std::min(rows, rows * model.experts_per_token * weight / weight_sum));
    left -= counts.back();
  }
  for (std::uint64_t& count : counts) {
    const std::uint64_t more = std::min(left, rows - count);
    count += more;
    left -= more;
  }
  return counts;
}

// One expert's slice of a parameter that holds all of them, as the weight of a linear layer.
Var Transformer::mixtral_expert_linear(Var input, std::size_t weight, std::uint64_t rows) {
  const Var all = tape_.parameter_view(weight);
  Var own = slice(tape_, all, all.count / setup_.model.expert_count);
  if (setup_.autocast) {
    own = cast(tape_, std::move(own), setup_.narrow_bytes);
    input = cast(tape_, std::move(input), setup_.narrow_bytes);
  }
  return matrix_product(tape_, std::move(input), std::move(own), rows);
}

// Which tokens an expert has: places and tokens in one tensor.
Tensor Transformer::mixtral_find_tokens(std::uint64_t count) {
  const std::uint64_t pairs = setup_.token_count() * setup_.model.experts_per_token;
  tape_.take_scratch(1);
  const Var mask = tape_.make(pairs, 8);
  const Var found = tape_.make(1, 4);
  tape_.take_scratch(1);
  Tensor places = tape_.activation(count * 16);
  tape_.take_scratch(1023);
  return places;
}

Var Transformer::mixtral_looped_experts(const LayerWeights& own, const Var& hidden,
                                        const Routing& routing,
                                        const std::vector<std::uint64_t>& counts) {
  const ModuleScope module(tape_, {.parameters = {own.gate, own.down}});
  const ModelShape& model = setup_.model;
  const std::uint64_t pairs = setup_.token_count() * model.experts_per_token;
  Var out = tape_.make(hidden.count, hidden.width);
  Var choices = tape_.make(pairs * model.expert_count, 8);  // one-hot
  Var hit = tape_.make(model.expert_count, 8);
  {
    Var is_hit = tape_.make(model.expert_count, 1);
    hit.drop();
    const Var found = tape_.make(1, 4);
    tape_.take_scratch(1);
    hit = tape_.make(model.expert_count, 8);
    tape_.take_scratch(1023);
  }
  Tensor places;
  Var rows, joint, inner;
  for (const std::uint64_t count : counts) {
    if (count == 0) continue;
    places = mixtral_find_tokens(count);
    rows = gather(tape_, hidden, places, count, count * model.hidden);
    std::vector<Var> parts = split_parts(tape_, mixtral_expert_linear(rows, own.gate, count), 2);
    joint = parts[0];
    inner = multiply(tape_, activation_of_input(tape_, parts[0]), parts[1]);
    inner = mixtral_expert_linear(std::move(inner), own.down, count);
    Node* chosen = tape_.record(gather_pairs_backward, {&routing.shares},
                                {routing.shares.size_bytes(), count, routing.shares.count});
    tape_.save(chosen, 0, places);
    Var shares = tape_.result(chosen, count, 4);
    inner = multiply(tape_, std::move(inner), std::move(shares));
    const Var narrow = cast(tape_, inner, out.width);
    Node* added = tape_.record(token_rows_backward, {&out, &narrow}, {narrow.size_bytes()});
    tape_.save(added, 0, places);
    tape_.save(added, 1, narrow.tensor);
    tape_.attach(added, &out);
  }
  drop({&choices, &hit});
  places.reset();
  drop({&rows, &joint, &inner});
  return out;
}

Var Transformer::mixtral_sorted_experts(const LayerWeights& own, const Var& hidden,
                                        const Routing& routing) {
  const ModuleScope module(tape_, {.parameters = {own.gate, own.down}});
  const ModelShape& model = setup_.model;
  const std::uint64_t rows = setup_.token_count();
  const std::uint64_t pairs = rows * model.experts_per_token;
  const Var gate_weight = mixtral_local(own.gate);
  const Var down_weight = mixtral_local(own.down);
  Var sorted = tape_.make(pairs, 8);
  Var order = tape_.make(pairs, 8);
  {
    const Var places = tape_.make(pairs, 8);
    take_sort_scratch(tape_, pairs);
  }
  Var tokens = tape_.make(pairs, 8);
  Var selected = gather(tape_, hidden, tokens.tensor, pairs, pairs * model.hidden);
  tokens.drop();
  Var shares = gather(tape_, routing.shares, order.tensor, pairs, pairs);
  Var narrow = tape_.make(pairs, 4);
  Var counts = tape_.make(setup_.own_expert_count(), 4);
  // A histogram of one column looks for the ends of its range.
  for (int end = 0; end < 2 && setup_.own_expert_count() == 1; ++end) {
    const Var found = tape_.make(1, 4);
    take_reduction_scratch(tape_, pairs, 4);
  }
  Var offsets = tape_.make(setup_.own_expert_count(), 4);
  tape_.take_scratch(1023);
  Var mask = tape_.make(pairs, 1);
  selected = masked(tape_, std::move(selected), mask.tensor, true);
  Var projected = mixtral_grouped(selected, gate_weight, 2 * model.ffn, offsets.tensor);
  projected = masked(tape_, projected, mask.tensor, false);
  {
    std::vector<Var> parts = split_parts(tape_, projected, 2);
    Var gate = activation_of_input(tape_, std::move(parts[0]));
    projected = multiply(tape_, std::move(gate), std::move(parts[1]));
  }
  projected = mixtral_grouped(projected, down_weight, model.hidden, offsets.tensor);
  projected = masked(tape_, projected, mask.tensor, false);
  Var weighted = multiply(tape_, projected, shares);
  Var inverse = tape_.make(pairs, 8);
  { const Var range = tape_.make(pairs, 8); }
  weighted = gather(tape_, weighted, inverse.tensor, pairs, weighted.count);
  // The sum over a token's experts is of a view, so each of several gets a copy of the gradient.
  Node* node = tape_.record(model.experts_per_token > 1 ? new_gradients : pass_on_view, {&weighted},
                            {weighted.size_bytes()});
  Var out = tape_.result(node, rows * model.hidden, weighted.width);
  Var narrow_out = cast(tape_, out, hidden.width);
  // Each rank has its experts' shares of every token: summed in place.
  if (setup_.parallel.expert > 1) tape_.communicate(narrow_out.size_bytes(), 0, RankGroup::Expert);
  drop({&sorted, &order, &selected, &shares, &narrow, &counts, &offsets, &mask, &projected,
        &weighted, &inverse, &out});
  return narrow_out;
}

}  // namespace allocmark
