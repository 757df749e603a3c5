// Operators over images, channels first: convolutions, GroupNorm, joined channels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "workloads/model/convolution_workspaces.h"
#include "workloads/model/tape.h"

namespace allocmark {

struct ImageShape {
  std::uint64_t batch = 0;
  std::uint64_t channels = 0;
  std::uint64_t side = 0;
  [[nodiscard]] std::uint64_t pixels() const { return batch * side * side; }
  [[nodiscard]] std::uint64_t count() const { return pixels() * channels; }
};

struct Convolution {
  std::size_t weight = 0;  // the bias is the next one
  std::uint64_t channels = 0;
  std::uint64_t kernel = 3;
  std::uint64_t step = 1;
};

// Of elements of so many bytes.
[[nodiscard]] ConvolutionType convolution_type(const Tape& tape, std::uint64_t width);
// Conv2d with a bias, padded so that the side is divided by `step`.
[[nodiscard]] Var convolve(Tape& tape, Var input, const ImageShape& shape, const Convolution& what);
// GroupNorm; `weight`: its index, the bias is the next one. In four bytes under autocast.
[[nodiscard]] Var group_norm(Tape& tape, Var input, const ImageShape& shape,
                             std::uint64_t group_count, std::size_t weight);
// Channels of both, one after the other.
[[nodiscard]] Var join_channels(Tape& tape, Var left, Var right);
// The nearest pixel, to twice the side. In four bytes under autocast.
[[nodiscard]] Var grow_twice(Tape& tape, Var input);
// Pixels before channels, as a view: the gradient comes in another order.
[[nodiscard]] Var pixels_first(Tape& tape, Var input);

}  // namespace allocmark
