#include "workloads/model/quantized.h"

#include <utility>

#include "base/divided_up.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kBlockElements = 64;    // per scale
constexpr std::uint64_t kNestedElements = 256;  // scales per nested scale

Tensor dequantized(Tape& tape, std::uint64_t count) {
  const Tensor scales = tape.allocate(divided_up(count, kBlockElements) * 4, TensorKind::Workspace);
  return tape.allocate(count * 2, TensorKind::Workspace);
}

// sizes: bytes of the input, elements of the weight, multiply-adds.
void quantized_backward(Tape& tape, Node& node, Backprop& b) {
  const Tensor weight = dequantized(tape, node.sizes[1]);
  b.out[0].tensor = tape.gradient(node.sizes[0]);
  tape.product(node.sizes[2], 1, 1);
}

}  // namespace

void quantize_weight(TensorPool& pool, std::uint64_t count, std::vector<Tensor>* kept) {
  const auto parameter = [&](std::uint64_t size_bytes) {
    return pool.make(size_bytes, TensorKind::Parameter);
  };
  const std::uint64_t scale_count = divided_up(count, kBlockElements);
  const Tensor wide = pool.make(count * 2, TensorKind::Workspace);
  const Tensor scales = pool.make(scale_count * 4, TensorKind::Workspace);
  const bool is_first = kept->empty();
  kept->push_back(parameter(divided_up(count, 2)));
  kept->push_back(parameter(64));  // the sixteen values
  kept->push_back(parameter(4));   // the scales' mean
  const Tensor centred = pool.make(scale_count * 4, TensorKind::Workspace);
  if (is_first) kept->push_back(parameter(1024));  // the 256 values of scales, for all weights
  kept->push_back(parameter(divided_up(scale_count, kNestedElements) * 4));
  kept->push_back(parameter(scale_count));
}

Var quantized_linear(Tape& tape, Var input, const QuantizedShape& shape) {
  Node* node = tape.record(quantized_backward, {&input});
  if (node != nullptr) {
    node->sizes = {input.size_bytes(), shape.weight_count, shape.rows * shape.weight_count};
  }
  // A single row is multiplied by the packed weight: only its scales are made whole.
  const bool is_packed = node == nullptr && shape.rows == 1;
  const Tensor weight =
      is_packed
          ? tape.allocate(divided_up(shape.weight_count, kBlockElements) * 4, TensorKind::Workspace)
          : dequantized(tape, shape.weight_count);
  Var out = tape.make(shape.rows * shape.columns, input.width);
  if (!is_packed) tape.use_cublas(false);
  tape.product(shape.rows, shape.weight_count, 1);
  tape.attach(node, &out);
  input.drop();
  return out;
}

}  // namespace allocmark
