// Products in float8 (functions.h).
#include "workloads/model/functions.h"

namespace allocmark {
namespace {

struct Narrowed {
  Tensor scale, values;  // the values go first
};

// The largest magnitude decides the scale; values are divided by it, cut and cast.
Narrowed narrowed(Tape& tape, std::uint64_t count, std::uint64_t width) {
  const auto values_of = [&](std::uint64_t bytes) { return tape.activation(count * bytes); };
  Narrowed out;
  Tensor largest;
  {
    const Tensor magnitudes = values_of(width);
    largest = tape.activation(width);
    take_reduction_scratch(tape, count, width);
  }
  Tensor exact = tape.activation(4);
  largest.reset();
  out.scale = tape.activation(4);
  exact.reset();
  Tensor scaled = values_of(width);
  const Tensor cut = values_of(width);
  scaled.reset();
  out.values = values_of(1);
  return out;
}

// sizes: elements of the input, of the weight, of the result, bytes of an element, rows.
void float8_backward(Tape& tape, Node& node, Backprop& b) {
  const std::uint64_t input = node.sizes[0], weight = node.sizes[1], result = node.sizes[2];
  const std::uint64_t width = node.sizes[3], rows = node.sizes[4];
  // Viewing the gradient as rows copies it where tokens do not come first.
  if (b.gradient.layout != GradLayout::Tokens) {
    b.gradient = {.tensor = tape.gradient(result * width)};
  }
  const Narrowed gradient = narrowed(tape, result, width);
  // The second factor of a product is copied, so that its columns lie one after the other.
  {
    const Tensor copy = tape.scratch(weight);
    b.out[0] = {.tensor = tape.gradient(input * width), .is_view = true};
    tape.use_cublas(true);
    tape.product(rows, weight, 1);
  }
  Tensor first = tape.scratch(result);
  const Tensor second = tape.scratch(input);
  b.out[1].tensor = tape.gradient(weight * width);
  first.reset();
  tape.product(rows, weight, 1);
}

}  // namespace

Var float8_linear(Tape& tape, Var input, std::uint64_t rows, std::size_t index) {
  const Var weight = tape.parameter(index);
  const std::uint64_t columns = weight.count / (input.count / rows);
  Node* node = tape.record(float8_backward, {&input, &weight},
                           {input.count, weight.count, rows * columns, input.width, rows});
  Narrowed narrow_input = narrowed(tape, input.count, input.width);
  Narrowed narrow_weight = narrowed(tape, weight.count, weight.width);
  Var out = tape.result(node, rows * columns, input.width);
  tape.use_cublas(true);
  tape.product(rows, weight.count, 1);
  tape.save(node, 0, narrow_input.values);
  tape.save(node, 1, narrow_input.scale);
  tape.save(node, 2, narrow_weight.values);
  tape.save(node, 3, narrow_weight.scale);
  input.drop();
  return out;
}

}  // namespace allocmark
