// See convolution_workspaces.h. Which kernel cuDNN takes is its own heuristic, and here a decision
// tree over the shape. What a kernel needs can be named: images, result and weight copied with
// channels last, colours padded for tensor cores, and sums of the weight in parts of four bytes.
#include "workloads/model/convolution_workspaces.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <map>

#include "base/divided_up.h"

namespace allocmark {
namespace {

enum class Kind : std::uint8_t { Same, Half, Pointwise, First, Last, Patch };

// What a tree asks. The names in convolution_choices.inc are these, in any order.
enum class Feature : std::uint8_t {
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

// What is copied, and to how many channels: as many as there are, four, or sixteen bytes.
enum class Base : std::uint8_t {
  None,
  NonePadded,
  Winograd,
  AllPlain,
  AllPadded,
  AllFour,
  NoResultPlain,
  NoResultPadded,
  NoResultFour,
  NoWeightPlain,
  NoWeightPadded,
  NoWeightFour
};

enum class Step : std::uint8_t { Tree, If, Take };

// Of a tree: what it is for; a question, its limit, and where to go above it; or an answer.
struct Row {
  Step step = Step::Tree;
  std::uint8_t what = 0;  // a kind, a feature or a base
  ConvolutionType type{};
  ConvolutionDirection direction{};
  std::int64_t number = 0;  // the limit; or how often the weight is summed apart, -1: by image
  std::uint64_t next = 0;   // the row of the tree from 0; or what else is taken, in bytes
};

// A shape of which all is known.
struct Known {
  ConvolutionSizes sizes;
  std::array<std::uint64_t, 3> bytes{};  // by direction
};

#define KNOWN(type, kernel, step, images, side, in, out, forward, input, weight)
#define TREE(kind, type, direction)                                             \
  Row{Step::Tree, static_cast<std::uint8_t>(Kind::kind), ConvolutionType::type, \
      ConvolutionDirection::direction},
#define IF(feature, limit, next) \
  Row{Step::If, static_cast<std::uint8_t>(Feature::feature), {}, {}, limit, next},
#define TAKE(base, parts, rest) \
  Row{Step::Take, static_cast<std::uint8_t>(Base::base), {}, {}, parts, rest},
constexpr Row kRows[] = {
#include "workloads/model/convolution_choices.inc"
};
#undef KNOWN
#undef TREE
#undef IF
#undef TAKE
#define KNOWN(type, kernel, step, images, side, in, out, forward, input, weight)       \
  Known{{ConvolutionType::type, kernel, step, images, side, (side) / (step), in, out}, \
        {forward, input, weight}},
#define TREE(kind, type, direction)
#define IF(feature, limit, next)
#define TAKE(base, parts, rest)
constexpr Known kKnown[] = {
#include "workloads/model/convolution_choices.inc"
};
#undef KNOWN
#undef TREE
#undef IF
#undef TAKE

// The row behind the head of that tree; null where there is none.
const Row* first_row(Kind kind, ConvolutionType type, ConvolutionDirection direction) {
  using Key = std::array<std::uint8_t, 3>;
  const auto key_of = [](std::uint8_t what, ConvolutionType of, ConvolutionDirection to) {
    return Key{what, static_cast<std::uint8_t>(of), static_cast<std::uint8_t>(to)};
  };
  static const std::map<Key, const Row*> trees = [&] {
    std::map<Key, const Row*> found;
    for (const Row& row : kRows) {
      if (row.step == Step::Tree) found[key_of(row.what, row.type, row.direction)] = &row + 1;
    }
    return found;
  }();
  const auto tree = trees.find(key_of(static_cast<std::uint8_t>(kind), type, direction));
  return tree == trees.end() ? nullptr : tree->second;
}

Kind kind_of(const ConvolutionSizes& s) {
  constexpr std::uint64_t kColoursMax = 4;
  if (s.kernel == s.step && s.kernel > 1) return Kind::Patch;
  if (s.kernel == 1) return Kind::Pointwise;
  if (s.step == 2) return Kind::Half;
  if (s.channels_in <= kColoursMax) return Kind::First;
  return s.channels_out <= kColoursMax ? Kind::Last : Kind::Same;
}

std::uint64_t pixels_in(const ConvolutionSizes& s) { return s.images * s.side_in * s.side_in; }
std::uint64_t pixels_out(const ConvolutionSizes& s) { return s.images * s.side_out * s.side_out; }

std::uint64_t value_of(const ConvolutionSizes& s, Feature feature) {
  switch (feature) {
    case Feature::Images:
      return s.images;
    case Feature::Side:
      return s.side_in;
    case Feature::PixelsIn:
      return pixels_in(s);
    case Feature::PixelsOut:
      return pixels_out(s);
    case Feature::ChannelsIn:
      return s.channels_in;
    case Feature::ChannelsOut:
      return s.channels_out;
    case Feature::Fewer:
      return std::min(s.channels_in, s.channels_out);
    case Feature::More:
      return std::max(s.channels_in, s.channels_out);
    case Feature::Products:
      return pixels_out(s) * s.channels_in * s.channels_out;
    case Feature::ElementsIn:
      return pixels_in(s) * s.channels_in;
    case Feature::ElementsOut:
      return pixels_out(s) * s.channels_out;
    case Feature::Weights:
      return s.channels_in * s.channels_out;
    case Feature::OddOut:
      return s.channels_out % 64;
    case Feature::Kernel:
      return s.kernel;
    case Feature::Ratio:
      return 64 * s.channels_in / s.channels_out;
  }
  return 0;
}

// F(3 x 3, 4 x 4): each tile of 4 x 4 pixels and each weight become 36 numbers.
std::uint64_t winograd_bytes(const ConvolutionSizes& s) {
  return 36 * 4 *
         (divided_up(pixels_out(s), 16) * (s.channels_in + s.channels_out) +
          s.channels_in * s.channels_out);
}

std::uint64_t taken_bytes(const ConvolutionSizes& s, Base base, std::int64_t parts) {
  constexpr std::uint64_t kAlignment = 16;
  const std::uint64_t width = s.type == ConvolutionType::Float32 ? 4 : 2;
  const bool is_padded = base == Base::NonePadded || base == Base::AllPadded ||
                         base == Base::NoResultPadded || base == Base::NoWeightPadded;
  const bool has_four =
      base == Base::AllFour || base == Base::NoResultFour || base == Base::NoWeightFour;
  const std::uint64_t least = is_padded ? 16 / width : has_four ? 4 : 0;
  const std::uint64_t in = std::max(s.channels_in, least);
  const std::uint64_t out = std::max(s.channels_out, least);
  const std::uint64_t weights = in * out * s.kernel * s.kernel;
  const std::uint64_t sums =
      (parts < 0 ? s.images : static_cast<std::uint64_t>(parts)) * weights * 4;
  if (base == Base::Winograd) return winograd_bytes(s) + sums;
  if (base == Base::None || base == Base::NonePadded) return sums;
  std::uint64_t copied = pixels_in(s) * in;
  if (base < Base::NoResultPlain || base > Base::NoResultFour) copied += pixels_out(s) * out;
  if (base < Base::NoWeightPlain) copied += weights;
  return copied * width + kAlignment + sums;
}

}  // namespace

std::uint64_t workspace_bytes(const ConvolutionSizes& sizes, ConvolutionDirection direction) {
  const auto* const known = std::ranges::find(kKnown, sizes, &Known::sizes);
  if (known != std::end(kKnown)) return known->bytes[static_cast<std::size_t>(direction)];
  const Row* const first = first_row(kind_of(sizes), sizes.type, direction);
  if (first == nullptr) return 0;
  const Row* row = first;
  while (row->step == Step::If) {
    const bool is_below =
        value_of(sizes, static_cast<Feature>(row->what)) <= static_cast<std::uint64_t>(row->number);
    row = is_below ? row + 1 : first + row->next;
  }
  return taken_bytes(sizes, static_cast<Base>(row->what), row->number) + row->next;
}

}  // namespace allocmark
