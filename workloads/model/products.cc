// Matrix products and their gradients (functions.h).
#include <cstddef>
#include <utility>

#include "workloads/model/functions.h"
#include "workloads/model/module_scope.h"
#include "workloads/model/quantized.h"

namespace allocmark {
namespace {

// sizes: bytes of the input, of the weight and of the result; then m, n and k.
void linear_backward(Tape& tape, Node& node, Backprop& b) {
  b.last_parameter_first = true;
  // Viewing the gradient as rows copies it where tokens do not come first.
  if (b.gradient.layout != GradLayout::Tokens) {
    Grad rows;
    rows.tensor = tape.gradient(node.sizes[2]);
    b.gradient = std::move(rows);
  }
  enum Argument : std::size_t { kInput, kWeight };
  const auto gradient_of = [&](Argument argument) {
    if (node.edges[argument] == kNoEdge) return;
    b.out[argument].tensor = tape.gradient(node.sizes[argument]);
    b.out[argument].is_view = true;
    tape.use_cublas(false);
    tape.product(node.sizes[3], node.sizes[4], node.sizes[5]);
  };
  // The formulas run in alphabetical order: mat1, mat2, self for addmm, mat2, self for mm.
  const bool with_bias = node.edges[2] != kNoEdge;
  if (with_bias) gradient_of(kInput);
  gradient_of(kWeight);
  if (!with_bias) gradient_of(kInput);
  if (with_bias) {
    b.out[2] = b.gradient;
    b.reduced_rows[2] = node.sizes[3];
    b.reduced_columns[2] = node.sizes[4];
    b.reduced_bytes[2] = node.sizes[2] / node.sizes[3];
  }
}

// DeepSpeed's own function for its third stage. sizes as above.
void gathered_linear_backward(Tape& tape, Node& node, Backprop& b) {
  const auto gradient_of = [&](std::size_t argument) {
    if (node.edges[argument] == kNoEdge) return;
    Tensor rows;
    if (b.gradient.layout != GradLayout::Tokens) rows = tape.gradient(node.sizes[2]);
    b.out[argument].tensor = tape.gradient(node.sizes[argument]);
    tape.use_cublas(false);
    tape.product(node.sizes[3], node.sizes[4], node.sizes[5]);
  };
  gradient_of(0);
  gradient_of(1);
  if (node.edges[2] == kNoEdge) return;
  b.out[2].tensor = tape.summed_rows(node.sizes[3], node.sizes[4], node.sizes[2] / node.sizes[3]);
}

// The result of a product that cuBLAS computes, unless a checkpoint kept it.
Var by_cublas(Tape& tape, std::uint64_t count, std::uint64_t width, bool with_bias) {
  const bool is_kept = tape.has_product();
  Var out = tape.make_product(count, width);
  if (!is_kept) tape.use_cublas(with_bias);
  return out;
}

Var gathered_linear(Tape& tape, const Var& input, std::uint64_t rows,
                    const LinearWeights& weights) {
  Var bias;
  if (weights.bias != kNoBias) bias = tape.parameter(weights.bias);
  const Var weight = tape.parameter(weights.weight);
  const std::uint64_t inner = input.count / rows;
  const std::uint64_t columns = weight.count / inner;
  Node* node = tape.record(gathered_linear_backward, {&input, &weight, &bias},
                           {input.size_bytes(), weight.size_bytes(), rows * columns * input.width,
                            rows, columns, inner});
  Var out = by_cublas(tape, rows * columns, input.width, false);
  tape.product(rows, columns, inner);
  // Both, whatever is trained. Python's locals go first to last: slots are the other way round.
  tape.save(node, 1, input.tensor);
  tape.save(node, 0, weight.tensor);
  tape.attach(node, &out);
  return out;
}

// A bias that was added in place. sizes: rows, columns, bytes of the bias.
void bias_backward(Tape&, Node& node, Backprop& b) {
  b.out[0] = b.out[1] = b.gradient;
  b.reduced_rows[1] = node.sizes[0];
  b.reduced_columns[1] = node.sizes[1];
  b.reduced_bytes[1] = node.sizes[2];
}

}  // namespace

Var linear(Tape& tape, Var input, std::uint64_t rows, const LinearWeights& weights) {
  if (weights.bits != WeightBits::Whole) {
    const std::uint64_t count = tape.parameters()[weights.weight].count;
    const std::uint64_t columns = count / (input.count / rows);
    return quantized_linear(tape, std::move(input),
                            {.rows = rows,
                             .columns = columns,
                             .weight_count = count,
                             .bits = weights.bits,
                             .has_bias = weights.bias != kNoBias});
  }
  if (weights.float8) return float8_linear(tape, std::move(input), rows, weights.weight);
  const bool with_bias = weights.bias != kNoBias;
  input = tape.passed_on(std::move(input));
  const ModuleScope module(
      tape, {.parameters = {weights.weight, weights.bias}, .hears_end = input.edge != kNoEdge});
  if (tape.hears_modules() && !weights.conv1d) return gathered_linear(tape, input, rows, weights);
  Var original = input;  // the caller's argument outlives the call
  // Casts happen in the order in which the compiler evaluates arguments: from the last to the
  // first.
  Var bias;
  if (with_bias && !weights.conv1d) bias = tape.cast_parameter(weights.bias);
  const Var weight = tape.cast_parameter(weights.weight);
  narrow(tape, {&input});
  if (with_bias && weights.conv1d) bias = tape.cast_parameter(weights.bias);
  const std::uint64_t inner = input.count / rows;
  const std::uint64_t columns = weight.count / inner;
  Node* node = tape.record(linear_backward, {&input, &weight, &bias},
                           {input.size_bytes(), weight.size_bytes(), rows * columns * input.width,
                            rows, columns, inner});
  // addmm saves mat1 and mat2, mm self and mat2: the input is first only with a bias.
  if (weight.edge != kNoEdge) tape.save(node, with_bias ? 0 : 1, input.tensor);
  if (input.edge != kNoEdge) tape.save(node, with_bias ? 1 : 0, weight.tensor);
  Var out = by_cublas(tape, rows * columns, input.width, with_bias);
  tape.product(rows, columns, inner);
  tape.attach(node, &out);
  drop({&input, &original});
  return out;
}

Var linear_of_copy(Tape& tape, Var input, std::uint64_t rows, const LinearWeights& weights) {
  const Var bias = tape.cast_parameter(weights.bias);
  const Var weight = tape.cast_parameter(weights.weight);
  narrow(tape, {&input});
  Var product = matrix_product(tape, clone(tape, input), weight, rows);
  Node* node = tape.record(bias_backward, {&product, &bias}, {rows, bias.count, bias.size_bytes()});
  tape.attach(node, &product);
  return product;
}

Var matrix_product(Tape& tape, Var input, Var weight, std::uint64_t rows) {
  const std::uint64_t inner = input.count / rows;
  const std::uint64_t columns = weight.count / inner;
  Node* node = tape.record(linear_backward, {&input, &weight},
                           {input.size_bytes(), weight.size_bytes(), rows * columns * input.width,
                            rows, columns, inner});
  if (weight.edge != kNoEdge) tape.save(node, 1, input.tensor);
  if (input.edge != kNoEdge) tape.save(node, 0, weight.tensor);
  Var out = by_cublas(tape, rows * columns, input.width, false);
  tape.product(rows, columns, inner);
  tape.attach(node, &out);
  return out;
}

}  // namespace allocmark
