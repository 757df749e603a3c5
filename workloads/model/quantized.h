// Frozen weights in 4 bits (NF4) as bitsandbytes keeps them, with scales per block of 64 elements
// that are quantised once more, and products that dequantise the whole weight first.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/model/tape.h"

namespace allocmark {

// Moves a weight of so many elements to the device in two bytes each and quantises it. Appends what
// stays to `kept`.
void quantize_weight(TensorPool& pool, std::uint64_t count, std::vector<Tensor>* kept);

struct QuantizedShape {
  std::uint64_t rows = 0;     // tokens
  std::uint64_t columns = 0;  // of the result
  std::uint64_t weight_count = 0;
};
// Forward and backward dequantise; nothing is saved, since the weight needs no gradient.
[[nodiscard]] Var quantized_linear(Tape& tape, Var input, const QuantizedShape& shape);

}  // namespace allocmark
