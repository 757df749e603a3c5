// Products in float8 with a scale per tensor, found anew for every product, as programs write them
// with torch._scaled_mm. Forward and backward run in eight bits; what a product saves has eight
// bits, too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "workloads/model/tape.h"

namespace allocmark {

// float8's products are made of tiles of so many rows and columns.
inline constexpr std::uint64_t kFloat8Tile = 16;

// Of `rows` tokens with a weight that needs a gradient.
[[nodiscard]] Var float8_linear(Tape& tape, Var input, std::uint64_t rows, std::size_t weight);

}  // namespace allocmark
