#include "workloads/model/images.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/divided_up.h"
#include "workloads/model/functions.h"

namespace allocmark {
namespace {

// The sum over all images' pixels of each channel. PyTorch's reduction (Reduce.cuh): the pixels of
// a channel are neighbours.
Tensor summed_pixels(Tape& tape, std::uint64_t pixels, std::uint64_t channels,
                     std::uint64_t size_bytes) {
  Tensor sum = tape.gradient(size_bytes);
  const std::uint64_t height = std::min<std::uint64_t>(std::bit_floor(channels), 16);
  const std::uint64_t width = 512 / height;
  const std::uint64_t per_thread = divided_up(pixels, width * height);
  const std::uint64_t target = 132 * 4;
  if (per_thread < 256 || channels > target) return sum;
  const std::uint64_t blocks =
      std::max(std::min(divided_up(target, channels), divided_up(per_thread, 16)),
               divided_up(per_thread, 256));
  if (blocks > 1) {
    const Tensor buffer = tape.scratch(4 * channels * blocks);
    const Tensor counters = tape.scratch(4 * channels);
  }
  return sum;
}

// sizes: bytes of the input, of the weight and of the result, those of both workspaces, pixels,
// channels.
void convolve_backward(Tape& tape, Node& node, Backprop& b) {
  // Each of the two makes the gradient contiguous for itself.
  const auto contiguous = [&] {
    return b.gradient.layout != GradLayout::Tokens ? tape.gradient(node.sizes[2]) : Tensor();
  };
  if (node.edges[0] != kNoEdge) {
    b.out[0].tensor = tape.gradient(node.sizes[0]);
    const Tensor gradient = contiguous();
    tape.take_scratch(node.sizes[3]);
  }
  {
    const Tensor gradient = contiguous();
    b.out[1].tensor = tape.gradient(node.sizes[1]);
    tape.take_scratch(node.sizes[4]);
  }
  b.out[2].tensor =
      summed_pixels(tape, node.sizes[5], node.sizes[6], node.sizes[2] / node.sizes[5]);
}

// sizes: elements of the input, bytes of an element, of the weight, images x channels, x groups.
void group_norm_backward(Tape& tape, Node& node, Backprop& b) {
  Tensor contiguous;
  if (b.gradient.layout != GradLayout::Tokens) {
    contiguous = tape.gradient(node.sizes[0] * node.sizes[1]);
  }
  b.out[0].tensor = tape.gradient(node.sizes[0] * node.sizes[1]);
  b.out[1].tensor = tape.gradient(node.sizes[2]);
  b.out[2].tensor = tape.gradient(node.sizes[2]);
  const auto sums = [&](std::size_t of) { return tape.scratch(node.sizes[of] * 4); };
  const Tensor scales = sums(3);
  const Tensor shifts = sums(3);
  Tensor second = sums(4);
  Tensor third = sums(4);
  const Tensor first = sums(3);
  drop({&third, &second});
}

// sizes: bytes of both.
void channels_backward(Tape&, Node& node, Backprop& b) {
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    b.out[i] = b.gradient;
    b.out[i].is_view = true;
    b.out[i].layout = GradLayout::Slice;
    b.out[i].slice_bytes = node.sizes[i];
  }
}

}  // namespace

ConvolutionType convolution_type(const Tape& tape, std::uint64_t width) {
  if (width == 4) return ConvolutionType::Float32;
  return tape.is_half() ? ConvolutionType::Float16 : ConvolutionType::Bfloat16;
}

Var convolve(Tape& tape, Var input, const ImageShape& shape, const Convolution& what) {
  const Var bias = tape.cast_parameter(what.weight + 1);
  const Var weight = tape.cast_parameter(what.weight);
  Var original = input;
  narrow(tape, {&input});
  const std::uint64_t pixels = shape.pixels() / (what.step * what.step);
  const ConvolutionSizes sizes{.type = convolution_type(tape, input.width),
                               .kernel = what.kernel,
                               .step = what.step,
                               .images = shape.batch,
                               .side_in = shape.side,
                               .side_out = shape.side / what.step,
                               .channels_in = shape.channels,
                               .channels_out = what.channels};
  Node* node =
      tape.record(convolve_backward, {&input, &weight, &bias},
                  {input.size_bytes(), weight.size_bytes(), pixels * what.channels * input.width,
                   workspace_bytes(sizes, ConvolutionDirection::Input),
                   workspace_bytes(sizes, ConvolutionDirection::Weight), pixels, what.channels});
  tape.save(node, 0, input.tensor);
  tape.save(node, 1, weight.tensor);
  Var out = tape.result(node, pixels * what.channels, input.width);
  tape.take_scratch(workspace_bytes(sizes, ConvolutionDirection::Forward));
  return out;
}

Var group_norm(Tape& tape, Var input, const ImageShape& shape, std::uint64_t group_count,
               std::size_t weight) {
  Var original = input;
  if (tape.autocast()) input = cast(tape, std::move(input), 4);
  const Var scale = tape.parameter(weight);
  const Var shift = tape.parameter(weight + 1);
  Node* node = tape.record(group_norm_backward, {&input, &scale, &shift},
                           {input.count, input.width, scale.size_bytes(),
                            shape.batch * shape.channels, shape.batch * group_count});
  tape.save(node, 0, input.tensor);
  Var out = tape.result(node, input.count, input.width);
  for (const std::size_t slot : {std::size_t{1}, std::size_t{2}}) {
    tape.save(node, slot, tape.make(shape.batch * group_count, input.width).tensor);
  }
  {
    const Var factors = tape.make(shape.batch * shape.channels, 4);
    const Var offsets = tape.make(shape.batch * shape.channels, 4);
  }
  return out;
}

Var join_channels(Tape& tape, Var left, Var right) {
  Node* node =
      tape.record(channels_backward, {&left, &right}, {left.size_bytes(), right.size_bytes()});
  return tape.result(node, left.count + right.count, left.width);
}

Var grow_twice(Tape& tape, Var input) {
  Var original = input;
  if (tape.autocast()) input = cast(tape, std::move(input), 4);
  Node* node = tape.record(new_gradients, {&input}, {input.size_bytes()});
  Var out = tape.result(node, input.count * 4, input.width);
  input.drop();
  return out;
}

Var pixels_first(Tape& tape, Var input) {
  Node* node = tape.record(
      [](Tape&, Node&, Backprop& b) {
        b.out[0] = b.gradient;
        b.out[0].layout = GradLayout::Transposed;
      },
      {&input});
  tape.attach(node, &input);
  return input;
}

}  // namespace allocmark
