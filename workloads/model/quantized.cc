#include "workloads/model/quantized.h"

#include <utility>

#include "base/divided_up.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kBlockElements = 64;    // per scale
constexpr std::uint64_t kNestedElements = 256;  // scales per nested scale
constexpr std::uint64_t kGroupElements = 128;   // integers per scale

Tensor dequantized(Tape& tape, std::uint64_t count) {
  const Tensor scales = tape.scratch(divided_up(count, kBlockElements) * 4);
  return tape.scratch(count * 2);
}

// Integers in two bytes each, times their scales; four bits are taken out of their bytes first, and
// centred.
Tensor scaled_integers(Tape& tape, std::uint64_t count, WeightBits bits) {
  const auto values = [&](std::uint64_t width) { return tape.scratch(count * width); };
  Tensor whole;
  if (bits == WeightBits::Int4) {
    Tensor apart;
    {
      const Tensor low = tape.scratch(divided_up(count, 2));
      const Tensor high = tape.scratch(divided_up(count, 2));
      apart = values(1);
    }
    whole = values(2);
    apart.reset();
    Tensor centred = values(2);
    whole = std::move(centred);
  } else {
    whole = values(2);
  }
  return values(2);
}

Tensor made_whole(Tape& tape, const QuantizedShape& shape) {
  return shape.bits == WeightBits::Nf4 ? dequantized(tape, shape.weight_count)
                                       : scaled_integers(tape, shape.weight_count, shape.bits);
}

// sizes: bytes of the input, elements of the weight, multiply-adds.
void quantized_backward(Tape& tape, Node& node, Backprop& b) {
  const Tensor weight = dequantized(tape, node.sizes[1]);
  b.out[0].tensor = tape.gradient(node.sizes[0]);
  tape.product(node.sizes[2], 1, 1);
}

}  // namespace

void quantize_weight(TensorPool& pool, WeightBits bits, std::uint64_t count,
                     std::vector<Tensor>* kept) {
  const auto parameter = [&](std::uint64_t size_bytes) {
    return pool.make(size_bytes, TensorKind::Parameter);
  };
  if (bits != WeightBits::Nf4) {
    kept->push_back(parameter(bits == WeightBits::Int4 ? divided_up(count, 2) : count));
    kept->push_back(parameter(divided_up(count, kGroupElements) * 2));
    return;
  }
  const std::uint64_t scale_count = divided_up(count, kBlockElements);
  const Tensor wide = pool.make(count * 2, TensorKind::Workspace);
  const Tensor scales = pool.make(scale_count * 4, TensorKind::Workspace);
  const bool is_first = kept->empty();
  kept->push_back(parameter(divided_up(count, 2)));
  kept->push_back(parameter(64));  // the sixteen values, which are divided by the largest
  {
    Tensor sizes = pool.make(64, TensorKind::Workspace);
    const Tensor largest = pool.make(4, TensorKind::Workspace);
    sizes.reset();
  }
  kept->push_back(parameter(4));  // the scales' mean
  const Tensor centred = pool.make(scale_count * 4, TensorKind::Workspace);
  if (is_first) kept->push_back(parameter(1024));  // the 256 values of scales
  kept->push_back(parameter(divided_up(scale_count, kNestedElements) * 4));
  kept->push_back(parameter(scale_count));
  kept->push_back(parameter(1024));  // a copy of these values
}

Var quantized_linear(Tape& tape, Var input, const QuantizedShape& shape) {
  Node* node =
      tape.record(quantized_backward, {&input},
                  {input.size_bytes(), shape.weight_count, shape.rows * shape.weight_count});
  // bitsandbytes multiplies a single row by the packed weight: only its scales are made whole.
  const bool is_packed = node == nullptr && shape.rows == 1 && shape.bits == WeightBits::Nf4;
  const auto scales = [&] {
    return tape.scratch(divided_up(shape.weight_count, kBlockElements) * 4);
  };
  Tensor weight = is_packed ? scales() : made_whole(tape, shape);
  if (is_packed) weight = scales();  // their mean is added
  Var out = tape.result(node, shape.rows * shape.columns, input.width);
  if (!is_packed) tape.use_cublas(shape.has_bias);
  tape.product(shape.rows, shape.weight_count, 1);
  // The module still holds its input when the product is done with its weight.
  if (shape.bits != WeightBits::Nf4) weight.reset();
  input.drop();
  return out;
}

}  // namespace allocmark
