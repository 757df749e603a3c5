// Frozen weights in 4 or 8 bits, made whole for each product: NF4 as bitsandbytes keeps it, with
// scales per block of 64 elements that are quantised once more, and integers with a scale of two
// bytes per group of 128, as programs write it in PyTorch's own operators.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/model/functions.h"

namespace allocmark {

// Makes a weight of so many elements, and appends what stays to `kept`. NF4 weights come to the
// device in two bytes each and are quantised there; integers come as they were saved.
void quantize_weight(TensorPool& pool, WeightBits bits, std::uint64_t count,
                     std::vector<Tensor>* kept);

struct QuantizedShape {
  std::uint64_t rows = 0;     // tokens
  std::uint64_t columns = 0;  // of the result
  std::uint64_t weight_count = 0;
  WeightBits bits = WeightBits::Nf4;
  bool has_bias = false;
};
// Forward and backward (NF4 only) dequantise; nothing is saved, since the weight needs no gradient.
[[nodiscard]] Var quantized_linear(Tape& tape, Var input, const QuantizedShape& shape);

}  // namespace allocmark
