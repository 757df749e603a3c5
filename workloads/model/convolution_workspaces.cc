// See convolution_workspaces.h. Which kernel cuDNN takes is its own heuristic, and here a decision
// tree over the shape. What a kernel needs can be named: images, result and weight copied with
// channels last, colours padded for tensor cores, and sums of the weight in parts of four bytes.
#include "workloads/model/convolution_workspaces.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <span>

#include "base/divided_up.h"

namespace allocmark {
// A namespace of its own, since names of trees are short.
namespace convolution_choices {
namespace {

enum class ConvolutionKind : std::uint8_t { Same, Half, Pointwise, First, Last, Patch };

// What a tree asks about a shape.
enum class ShapeFeature : std::uint8_t {
  Images,
  Side,
  PixelsIn,
  PixelsOut,
  ChannelsIn,
  ChannelsOut,
  Fewer,  // channels in or out
  More,
  Products,
  ElementsIn,
  ElementsOut,
  Weights,  // of one pixel of the kernel
  OddOut,   // channels out, modulo 64
  Kernel,
  Ratio  // 64 x channels in / channels out
};

// What is copied.
enum class Copied : std::uint8_t { Nothing, All, NoResult, NoWeight, Winograd };
// To how many channels: as many as there are, four, or sixteen bytes.
enum class Padding : std::uint8_t { Plain, Four, Padded };

// Of a tree: a question and where to go where the answer is above its limit, or what is taken.
struct ChoiceRow {
  bool asks = false;
  ShapeFeature feature{};
  Copied copied{};
  Padding padding{};
  std::int64_t number = 0;  // the limit; or how often the weight is summed apart, -1: by image
  std::uint64_t next = 0;   // the row, from 0; or what else is taken, in bytes
};

constexpr ChoiceRow ask(ShapeFeature feature, std::int64_t limit, std::uint64_t next) {
  return {.asks = true, .feature = feature, .number = limit, .next = next};
}

constexpr ChoiceRow take(Copied copied, Padding padding, std::int64_t parts, std::uint64_t rest) {
  return {.copied = copied, .padding = padding, .number = parts, .next = rest};
}

struct ChoiceTree {
  ConvolutionKind kind;
  ConvolutionType type;
  ConvolutionDirection direction;
  std::span<const ChoiceRow> rows;
};

// A shape of which all is known.
struct KnownConvolution {
  ConvolutionSizes sizes;
  std::array<std::uint64_t, 3> bytes{};  // by direction
};

using enum ConvolutionKind;
using enum ConvolutionType;
using enum ConvolutionDirection;
using enum ShapeFeature;
using enum Copied;
using enum Padding;
// kChoiceTrees and kKnownConvolutions.
#include "workloads/model/convolution_choices.inc"

ConvolutionKind kind_of(const ConvolutionSizes& s) {
  constexpr std::uint64_t kColoursMax = 4;
  if (s.kernel == s.step && s.kernel > 1) return Patch;
  if (s.kernel == 1) return Pointwise;
  if (s.step == 2) return Half;
  if (s.channels_in <= kColoursMax) return First;
  return s.channels_out <= kColoursMax ? Last : Same;
}

std::uint64_t pixels_in(const ConvolutionSizes& s) { return s.images * s.side_in * s.side_in; }
std::uint64_t pixels_out(const ConvolutionSizes& s) { return s.images * s.side_out * s.side_out; }

// By ShapeFeature.
std::array<std::uint64_t, 15> features_of(const ConvolutionSizes& s) {
  const std::uint64_t in = s.channels_in;
  const std::uint64_t out = s.channels_out;
  return {s.images,
          s.side_in,
          pixels_in(s),
          pixels_out(s),
          in,
          out,
          std::min(in, out),
          std::max(in, out),
          pixels_out(s) * in * out,
          pixels_in(s) * in,
          pixels_out(s) * out,
          in * out,
          out % 64,
          s.kernel,
          64 * in / out};
}

// F(3 x 3, 4 x 4): each tile of 4 x 4 pixels and each weight become 36 numbers.
std::uint64_t winograd_bytes(const ConvolutionSizes& s) {
  return 36 * 4 *
         (divided_up(pixels_out(s), 16) * (s.channels_in + s.channels_out) +
          s.channels_in * s.channels_out);
}

std::uint64_t taken_bytes(const ConvolutionSizes& s, const ChoiceRow& row) {
  constexpr std::uint64_t kAlignment = 16;
  const std::uint64_t width = s.type == Float32 ? 4 : 2;
  const std::uint64_t least = row.padding == Padded ? 16 / width : row.padding == Four ? 4 : 0;
  const std::uint64_t in = std::max(s.channels_in, least);
  const std::uint64_t out = std::max(s.channels_out, least);
  const std::uint64_t weights = in * out * s.kernel * s.kernel;
  const std::uint64_t parts = row.number < 0 ? s.images : static_cast<std::uint64_t>(row.number);
  const std::uint64_t others = parts * weights * 4 + row.next;
  if (row.copied == Nothing) return others;
  if (row.copied == Winograd) return winograd_bytes(s) + others;
  std::uint64_t copied = pixels_in(s) * in;
  if (row.copied != NoResult) copied += pixels_out(s) * out;
  if (row.copied != NoWeight) copied += weights;
  return copied * width + kAlignment + others;
}

}  // namespace
}  // namespace convolution_choices

std::uint64_t workspace_bytes(const ConvolutionSizes& sizes, ConvolutionDirection direction) {
  using namespace convolution_choices;
  const auto* const known = std::ranges::find(kKnownConvolutions, sizes, &KnownConvolution::sizes);
  if (known != std::end(kKnownConvolutions))
    return known->bytes[static_cast<std::size_t>(direction)];
  const auto* const tree = std::ranges::find_if(kChoiceTrees, [&](const ChoiceTree& one) {
    return one.kind == kind_of(sizes) && one.type == sizes.type && one.direction == direction;
  });
  if (tree == std::end(kChoiceTrees)) return 0;
  const auto features = features_of(sizes);
  std::size_t at = 0;
  while (tree->rows[at].asks) {
    const ChoiceRow& row = tree->rows[at];
    const std::uint64_t value = features[static_cast<std::size_t>(row.feature)];
    at = value <= static_cast<std::uint64_t>(row.number) ? at + 1 : row.next;
  }
  return taken_bytes(sizes, tree->rows[at]);
}

}  // namespace allocmark
