#include "workloads/model/functions.h"

#include <algorithm>
#include <utility>

#include "workloads/model/module_scope.h"

namespace allocmark {
namespace {

// One gradient tensor of sizes[0] bytes, laid out as what came in.
void one_gradient(Tape& tape, Node& node, Backprop& b) {
  b.out[0].tensor = tape.gradient(node.sizes[0]);
  b.out[0].layout = b.gradient.layout;
}

// A result that lies in memory as `input` does.
Var result_like(Tape& tape, const Node* node, const Var& input, std::uint64_t count,
                std::uint64_t width) {
  Var out = tape.result(node, count, width);
  out.heads_first = input.heads_first;
  out.heads_viewable = input.heads_viewable;
  return out;
}

// An elementwise operator of one input. `saved`: 0 nothing, 1 the input, 2 the result.
Var elementwise(Tape& tape, Var input, BackwardFunction function, int saved) {
  Node* node = tape.record(function, {&input}, {input.size_bytes()});
  if (saved == 1) tape.save(node, 0, input.tensor);
  Var out = result_like(tape, node, input, input.count, input.width);
  if (saved == 2) tape.save(node, 0, out.tensor);
  input.drop();
  return out;
}

// Both gradients of a sum are the incoming one; broadcast or narrower inputs get a reduced copy.
void add_backward(Tape&, Node& node, Backprop& b) {
  for (std::size_t i = 0; i < 2; ++i) {
    if (node.edges[i] == kNoEdge) continue;
    b.out[i] = b.gradient;
    if (node.sizes[i] != node.sizes[2]) b.reduced_bytes[i] = node.sizes[i];
  }
}

// mul's formulas run in alphabetical order: other, then self.
void multiply_backward(Tape& tape, Node& node, Backprop& b) {
  for (const std::size_t i : {std::size_t{1}, std::size_t{0}}) {
    if (node.edges[i] == kNoEdge) continue;
    b.out[i].tensor = tape.gradient(node.sizes[2]);
    b.out[i].layout = b.gradient.layout;
    if (node.sizes[i] != node.sizes[2]) b.reduced_bytes[i] = node.sizes[i];
    // What was broadcast and is narrower than the product is summed before it is cast.
    const std::uint64_t summed_bytes = node.sizes[5 + i];
    if (summed_bytes == node.sizes[i] || summed_bytes == node.sizes[2]) continue;
    b.reduced_bytes[i] = summed_bytes;
    b.narrowed_bytes[i] = node.sizes[i];
  }
  // A weight's gradient is a sum over rows.
  const std::size_t smaller = node.sizes[0] < node.sizes[1] ? 0 : 1;
  b.reduced_rows[smaller] = node.sizes[3];
  b.reduced_columns[smaller] = node.sizes[4];
}

// Of a constant exponent, -1/2 too.
void power_backward(Tape& tape, Node& node, Backprop& b) {
  const Tensor powered = tape.gradient(node.sizes[0]);
  const Tensor scaled = tape.gradient(node.sizes[0]);
  one_gradient(tape, node, b);
}

void rotate_half_backward(Tape& tape, Node& node, Backprop& b) {
  // The negated half, then zeros with each half copied in; slices of a transposed tensor come back
  // in the order of its heads.
  Tensor negated = tape.gradient(node.sizes[0] / 2);
  b.out[0].tensor = tape.gradient(node.sizes[0]);
  negated.reset();
  b.out[1].tensor = tape.gradient(node.sizes[0]);
  b.out[0].layout = b.out[1].layout = GradLayout::Heads;
}

// sizes: bytes of the input, of the result.
void softmax_backward(Tape& tape, Node& node, Backprop& b) {
  one_gradient(tape, node, b);
  const Tensor product = tape.gradient(node.sizes[1]);
}

}  // namespace

Var cast(Tape& tape, Var input, std::uint64_t width) {
  if (input.width == width) return input;
  Var* const copy = tape.leaf_copy(input, width);
  if (copy != nullptr && copy->count > 0) return *copy;
  Node* node = tape.record(one_gradient, {&input}, {input.size_bytes()});
  Var out = result_like(tape, node, input, input.count, width);
  if (copy != nullptr) *copy = out;
  input.drop();
  return out;
}

void narrow(Tape& tape, std::initializer_list<Var*> inputs) {
  if (!tape.autocast()) return;
  for (Var* input : inputs) *input = cast(tape, std::move(*input), tape.narrow_bytes());
}

Var add(Tape& tape, Var left, Var right) {
  const std::uint64_t count = std::max(left.count, right.count);
  const std::uint64_t width = std::max(left.width, right.width);
  Node* node = tape.record(add_backward, {&left, &right},
                           {left.size_bytes(), right.size_bytes(), count * width});
  Var out = result_like(tape, node, left, count, width);
  drop({&left, &right});
  return out;
}

Var add_scalar(Tape& tape, Var input) { return elementwise(tape, std::move(input), pass_on, 0); }

Var multiply(Tape& tape, Var left, Var right, bool is_row) {
  const std::uint64_t count = std::max(left.count, right.count);
  const std::uint64_t width = std::max(left.width, right.width);
  // A weight is broadcast over rows: its gradient is a sum over them. A larger leaf is an input.
  const bool sums_rows = is_row || (left.edge < kNoEdge && left.count <= right.count) ||
                         (right.edge < kNoEdge && right.count <= left.count);
  const std::uint64_t columns = sums_rows ? std::min(left.count, right.count) : 0;
  Node* node = tape.record(
      multiply_backward, {&left, &right},
      {left.size_bytes(), right.size_bytes(), count * width, sums_rows ? count / columns : 0,
       columns, left.count * width, right.count * width});
  if (right.edge != kNoEdge) tape.save(node, 1, left.tensor);
  if (left.edge != kNoEdge) tape.save(node, 0, right.tensor);
  Var out = result_like(tape, node, left, count, width);
  drop({&left, &right});
  return out;
}

Var multiply_scalar(Tape& tape, Var input) {
  return elementwise(tape, std::move(input), one_gradient, 0);
}

Var power(Tape& tape, Var input) { return elementwise(tape, std::move(input), power_backward, 1); }

Var rsqrt(Tape& tape, Var input) { return elementwise(tape, std::move(input), power_backward, 2); }

Var activation_of_input(Tape& tape, Var input) {
  return elementwise(tape, std::move(input), one_gradient, 1);
}

Var activation_of_result(Tape& tape, Var input) {
  return elementwise(tape, std::move(input), one_gradient, 2);
}

Var view(Tape& tape, Var input) {
  Node* node = tape.record(pass_on, {&input});
  tape.attach(node, &input);
  return input;
}

Var clone(Tape& tape, Var input) {
  Var out = elementwise(tape, std::move(input), pass_on, 0);
  out.heads_first = out.heads_viewable = false;
  return out;
}

Var mean_of_rows(Tape& tape, Var input, std::uint64_t row_count) {
  Node* node = tape.record(one_gradient, {&input}, {input.size_bytes()});
  Var out = tape.result(node, row_count, input.width);
  input.drop();
  return out;
}

Var rotate_half(Tape& tape, const Var& input) {
  // Two slices, so two gradients of the whole.
  Node* node = tape.record(rotate_half_backward, {&input, &input}, {input.size_bytes()});
  const Var negated = tape.make(input.count / 2, input.width);
  return tape.result(node, input.count, input.width);
}

Var layer_norm(Tape& tape, Var input, std::uint64_t rows, std::size_t weight) {
  // Under autocast it runs in four bytes; the caller's argument outlives the call.
  const ModuleScope module(tape, {.parameters = {weight, weight + 1}});
  Var original = input;
  Var shift = tape.parameter(weight + 1);
  Var scale = tape.parameter(weight);
  const bool widens = tape.autocast() && scale.width < 4;
  if (tape.autocast()) {
    shift = cast(tape, std::move(shift), 4);
    scale = cast(tape, std::move(scale), 4);
    input = cast(tape, std::move(input), 4);
  }
  Node* node = tape.record(new_gradients, {&input, &scale, &shift},
                           {input.size_bytes(), scale.size_bytes(), scale.size_bytes()});
  tape.save(node, 0, input.tensor);
  if (widens) {
    tape.save(node, 3, scale.tensor);
    tape.save(node, 4, shift.tensor);
  } else {
    tape.save_parameter(node);
    tape.save_parameter(node);
  }
  Var out = tape.result(node, input.count, input.width);
  {
    Var mean = tape.make(rows, 4);
    Var deviation = tape.make(rows, 4);
    tape.save(node, 1, mean.tensor);
    tape.save(node, 2, deviation.tensor);
    drop({&mean, &deviation});
  }
  drop({&input, &scale, &shift, &original});
  return out;
}

Var softmax(Tape& tape, Var input) {
  Var original = input;
  // In four bytes under autocast; float16 is read as it is, bfloat16 cast before.
  const bool widens = tape.is_half() && input.width == 2;
  if (tape.autocast() && !widens) input = cast(tape, std::move(input), 4);
  const std::uint64_t width = widens ? 4 : input.width;
  Node* node = tape.record(softmax_backward, {&input}, {input.size_bytes(), input.count * width});
  Var out = result_like(tape, node, input, input.count, width);
  tape.save(node, 0, out.tensor);
  drop({&input, &original});
  return out;
}

Var safe_softmax(Tape& tape, Var input, std::uint64_t row_count) {
  Node* node = tape.record(softmax_backward, {&input}, {input.size_bytes(), input.size_bytes()});
  Var out = tape.result(node, input.count, input.width);
  {
    Var masked = tape.make(input.count, 1);
    Var masked_rows = tape.make(row_count, 1);
    { const Var zero = tape.make(1, input.width); }
    drop({&masked_rows, &masked});
  }
  tape.save(node, 0, out.tensor);
  input.drop();
  return out;
}

Var dropout(Tape& tape, Var input) {
  Node* node = tape.record(one_gradient, {&input}, {input.size_bytes()});
  Var mask = tape.make(input.count, 1);
  Var out = tape.result(node, input.count, input.width);
  tape.save(node, 0, mask.tensor);
  drop({&mask, &input});
  return out;
}

Var cross_entropy(Tape& tape, Var logits, const Tensor& labels) {
  // Autocast runs the softmax in the type of the logits, and the loss of it in four bytes.
  Var scores = elementwise(tape, std::move(logits), one_gradient, 2);
  if (tape.autocast()) scores = cast(tape, std::move(scores), 4);
  Node* node = tape.record(one_gradient, {&scores}, {scores.size_bytes()});
  tape.save(node, 0, scores.tensor);
  tape.save(node, 1, labels);
  Var loss = tape.result(node, 1, scores.width);
  const Var weight_sum = tape.make(1, scores.width);
  tape.save(node, 2, weight_sum.tensor);
  return loss;
}

Var slice(Tape& tape, const Var& whole, std::uint64_t count, GradLayout layout) {
  if (count == whole.count) return view(tape, whole);
  // In the backward zeros come where parts would be joined.
  Var part = begin_parts(tape, whole, layout);
  part.count = count;
  return part;
}

}  // namespace allocmark
