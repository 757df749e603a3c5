// See convolution_workspaces.h. Kernels of 3 x 3 want channels last: images, weights and results
// are copied, colours padded to 16 bytes. Some then sum in parts. Which ones do, and in how many
// parts, is cuDNN's choice: the thresholds are fitted to two recorded UNets and guesses elsewhere.
#include "workloads/model/convolution_workspaces.h"

#include <algorithm>

#include "base/divided_up.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kProcessors = 132;
constexpr std::uint64_t kTileSide = 128;
constexpr std::uint64_t kTileBytes = kTileSide * kTileSide * 4;
constexpr std::uint64_t kColours = 3;
constexpr std::uint64_t kChannelBytesMin = 16;  // of a pixel in a copy
constexpr std::uint64_t kAlignment = 16;
constexpr std::uint64_t kManyRows = 32768;
constexpr std::uint64_t kManyRowsBytes = 131;
constexpr std::uint64_t kPointwiseParts = 16;
constexpr std::uint64_t kPointwiseBytes = 400;
// Rows of four bytes whose kernels sum in parts.
constexpr std::uint64_t kTilesFew = 128;
constexpr std::uint64_t kTilesSome = 256;
constexpr std::uint64_t kTilesMany = 512;
constexpr std::uint64_t kDeep = 3456;  // in two bytes
// Weights' gradients in two bytes.
constexpr std::uint64_t kNarrowChannels = 64;
constexpr std::uint64_t kPartRows = 8192;
constexpr std::uint64_t kPartsMax = 13;

std::uint64_t tile_count(std::uint64_t rows, std::uint64_t columns) {
  return divided_up(rows, kTileSide) * divided_up(columns, kTileSide);
}

std::uint64_t padded(std::uint64_t channels, std::uint64_t width) {
  return std::max(channels, kChannelBytesMin / width);
}

std::uint64_t weight_count(const ConvolutionSizes& s) {
  return padded(s.channels_in, s.width) * padded(s.channels_out, s.width) * s.kernel * s.kernel;
}

std::uint64_t copies(const ConvolutionSizes& s) {
  const std::uint64_t count = s.pixels_in * padded(s.channels_in, s.width) +
                              s.pixels_out * padded(s.channels_out, s.width) + weight_count(s);
  return count * s.width + kAlignment;
}

std::uint64_t rest(std::uint64_t rows) { return rows >= kManyRows ? kManyRowsBytes : 0; }

}  // namespace

std::uint64_t forward_workspace(const ConvolutionSizes& s) {
  if (s.kernel == 1 || s.channels_in <= kColours) return 0;
  const std::uint64_t tiles = tile_count(s.pixels_out, s.channels_out);
  const std::uint64_t depth = s.channels_in * s.kernel * s.kernel;
  if (s.width < 4) {
    const std::uint64_t parts = tiles >= kTilesSome && depth >= kDeep ? tiles / 4 : 0;
    return copies(s) + rest(s.pixels_out) + parts * (kTileBytes + 4);
  }
  if (s.channels_out <= kColours) {  // nothing is padded
    return (s.pixels_in * s.channels_in + s.pixels_out * s.channels_out) * s.width +
           s.channels_in * s.channels_out * s.kernel * s.kernel * s.width + kAlignment;
  }
  if (tiles < kTilesFew || tiles > kTilesMany) return copies(s) + rest(s.pixels_out);
  const std::uint64_t parts_max = tiles > kTilesSome ? 96 : 112;
  const std::uint64_t parts = std::min(tiles * depth / 4608, parts_max);
  return copies(s) + kManyRowsBytes + parts * (kTileBytes + 4);
}

std::uint64_t input_gradient_workspace(const ConvolutionSizes& s) {
  if (s.kernel == 1) return s.width < 4 || s.channels_in < s.channels_out ? 0 : kPointwiseBytes;
  const std::uint64_t tiles = tile_count(s.pixels_in, s.channels_in);
  // Few tiles of deep sums: 45 parts for the 64 tiles that were recorded.
  const std::uint64_t parts = s.width == 4 && tiles < kTilesFew ? tiles * 45 / 64 : 0;
  return copies(s) + rest(s.pixels_in) + parts * (kTileBytes + 4);
}

std::uint64_t weight_gradient_workspace(const ConvolutionSizes& s) {
  const std::uint64_t weight_bytes = weight_count(s) * 4;
  if (s.kernel == 1) return kPointwiseParts * weight_count(s) * s.width;
  if (s.channels_in <= kColours && s.width == 4) return 0;
  const std::uint64_t tiles = tile_count(s.channels_out, s.channels_in * s.kernel * s.kernel);
  std::uint64_t parts = kProcessors / tiles;
  if (s.width == 4) {
    // Where not even two fit, half of the processors have a tile each.
    const std::uint64_t sums = parts < 2 ? kProcessors / 2 * kTileBytes : parts * weight_bytes;
    return copies(s) + kManyRowsBytes + sums;
  }
  const bool is_narrow = s.channels_in <= kNarrowChannels;
  const std::uint64_t rows = is_narrow ? kPartRows / 4 : kPartRows;
  parts = std::min({parts, s.pixels_out / rows, kPartsMax});
  if (parts < 2) return copies(s);
  // Channels in are summed by whole tiles.
  const std::uint64_t columns = divided_up(s.channels_in, kTileSide) * kTileSide;
  return copies(s) + kManyRowsBytes +
         parts * (is_narrow ? weight_bytes : weight_bytes / s.channels_in * columns);
}

}  // namespace allocmark
