// See convolution_workspaces.h. Kernels of 3 x 3 want channels last: images, weights and results
// are copied, colours padded to 16 bytes. Some then sum in parts: tiles of four bytes an element,
// which a tree of additions joins, with a counter for each. Which ones do, and in how many parts,
// is cuDNN's choice: the rules are fitted to four recorded UNets, and are guesses elsewhere.
#include "workloads/model/convolution_workspaces.h"

#include <algorithm>

#include "base/divided_up.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kProcessors = 132;
constexpr std::uint64_t kWave = 120;  // tiles that run at once, forward
constexpr std::uint64_t kTileSide = 128;
constexpr std::uint64_t kTileBytes = kTileSide * kTileSide * 4;
constexpr std::uint64_t kHalfSide = kTileSide / 2;
constexpr std::uint64_t kTaps = 9;  // of a 3 x 3 kernel
constexpr std::uint64_t kColours = 3;
constexpr std::uint64_t kChannelBytesMin = 16;  // of a pixel in a copy
constexpr std::uint64_t kAlignment = 16;
constexpr std::uint64_t kPointwiseBytes = 400;
// From how many rows on a kernel could sum in parts, if it does not: it has a counter, too.
constexpr std::uint64_t kRowsNarrow = 32768;
constexpr std::uint64_t kRowsWide = 65536;
// Forward: elements that a part sums, at least. Wide: four bytes; narrow: two.
constexpr std::uint64_t kDepthWide = 288;
constexpr std::uint64_t kDepthNarrow = 1728;
constexpr std::uint64_t kDepthOfColumn = 2304;
// Gradients of images: sums no longer than this are halved.
constexpr std::uint64_t kDepthHalved = 1152;
// Gradients of weights: rows that a part sums, at least; below, wide ones are made as Winograd
// does.
constexpr std::uint64_t kPartRowsNarrow = 8192;
constexpr std::uint64_t kPartRowsWide = 1280;
constexpr std::uint64_t kPartsMaxNarrow = 13;
// In two bytes, with more channels nothing but a gradient of images is summed in parts.
constexpr std::uint64_t kChannelsMaxNarrow = 256;

// Two bytes or four.
bool is_narrow(const ConvolutionSizes& s) { return s.width < 4; }
bool is_strided(const ConvolutionSizes& s) { return s.pixels_in != s.pixels_out; }

std::uint64_t tile_count(std::uint64_t rows, std::uint64_t columns) {
  return divided_up(rows, kTileSide) * divided_up(columns, kTileSide);
}

std::uint64_t padded(std::uint64_t channels, std::uint64_t width) {
  return std::max(channels, kChannelBytesMin / width);
}

std::uint64_t images_bytes(const ConvolutionSizes& s) {
  return (s.pixels_in * padded(s.channels_in, s.width) +
          s.pixels_out * padded(s.channels_out, s.width)) *
             s.width +
         kAlignment;
}

std::uint64_t weight_count(const ConvolutionSizes& s) {
  return padded(s.channels_in, s.width) * padded(s.channels_out, s.width) * s.kernel * s.kernel;
}

std::uint64_t copies(const ConvolutionSizes& s) {
  return images_bytes(s) + weight_count(s) * s.width;
}

std::uint64_t counters(std::uint64_t count) { return 127 + 4 * count; }

std::uint64_t one_counter(const ConvolutionSizes& s, std::uint64_t rows) {
  return rows >= (is_narrow(s) ? kRowsNarrow : kRowsWide) ? counters(1) : 0;
}

std::uint64_t sums(std::uint64_t tiles, std::uint64_t tile_bytes, std::uint64_t parts) {
  if (parts < 2) return 0;
  std::uint64_t additions = 0;
  for (std::uint64_t left = parts; left > 1;) {
    left = divided_up(left, 2);
    additions += left;
  }
  return tiles * parts * tile_bytes + counters(8 + tiles * additions);
}

// The tiles of the last wave, where others went before, are summed in as many parts as fill it.
std::uint64_t last_wave(const ConvolutionSizes& s, std::uint64_t tiles, std::uint64_t wave,
                        std::uint64_t tile_bytes, std::uint64_t depth) {
  const std::uint64_t last = tiles % wave;
  if (tiles < wave || last == 0) return 0;
  std::uint64_t parts = std::min(wave / last, depth / (is_narrow(s) ? kDepthNarrow : kDepthWide));
  if (is_narrow(s)) parts = last < wave / 8 ? 0 : std::min<std::uint64_t>(parts, 2);
  // After several waves there is one counter more.
  return parts < 2 ? 0 : sums(last, tile_bytes, parts) + (tiles < 2 * wave ? 0 : 4);
}

// F(3 x 3, 4 x 4): each tile of 4 x 4 pixels and each weight become 36 numbers.
std::uint64_t winograd_bytes(const ConvolutionSizes& s) {
  return 36 * 4 *
         (divided_up(s.pixels_out, 16) * (s.channels_in + s.channels_out) +
          s.channels_in * s.channels_out);
}

// Each image's sum apart, unless copies are much smaller.
std::uint64_t pointwise_weight_gradient(const ConvolutionSizes& s) {
  const std::uint64_t sums_bytes = s.images * weight_count(s) * 4;
  return sums_bytes > 3 * images_bytes(s) ? images_bytes(s) : sums_bytes;
}

// Tiles of 128 x 128, or half of that on a side with no more than 64 channels. In four bytes those
// of 64 channels out are square.
std::uint64_t tiled_weight_gradient(const ConvolutionSizes& s) {
  const bool has_few = s.channels_out <= kHalfSide;
  const bool is_square = has_few && s.channels_out > kColours && !is_narrow(s);
  const std::uint64_t rows = has_few ? kHalfSide : kTileSide;
  const std::uint64_t columns = s.channels_in <= kHalfSide || is_square ? kHalfSide : kTileSide;
  const std::uint64_t tiles =
      kTaps * divided_up(s.channels_out, rows) * divided_up(s.channels_in, columns);
  std::uint64_t parts = kProcessors / tiles;
  if (is_narrow(s)) {
    if (parts == 0) return copies(s) + counters(1);
    const std::uint64_t rows_min =
        s.channels_in <= kHalfSide ? kPartRowsNarrow / 4 : kPartRowsNarrow;
    parts = std::min({parts, s.pixels_out / rows_min, kPartsMaxNarrow});
    if (s.channels_in > kChannelsMaxNarrow) parts = 0;
    return copies(s) + sums(tiles, rows * columns * 4, parts);
  }
  // Where not even two fit, half of the processors have a tile each.
  if (parts < 2) return copies(s) + kProcessors / 2 * kTileBytes + counters(8 + 2 * tiles);
  const bool is_whole = std::min(s.channels_in, s.channels_out) >= kTileSide;
  if (is_whole && !is_strided(s) && s.pixels_out / parts < kPartRowsWide) return winograd_bytes(s);
  return copies(s) + sums(tiles, rows * columns * 4, parts);
}

}  // namespace

// Tiles of 128 x 128, in two bytes of 64 x 256.
std::uint64_t forward_workspace(const ConvolutionSizes& s) {
  if (s.kernel == 1 || s.channels_in <= kColours) return 0;
  const std::uint64_t depth = s.channels_in * kTaps;
  const std::uint64_t least = s.channels_out > kColours ? one_counter(s, s.pixels_out) : 0;
  if (s.channels_out < kTileSide) return copies(s) + least;
  if (is_narrow(s)) {
    const std::uint64_t tiles =
        s.channels_out <= kChannelsMaxNarrow ? divided_up(s.pixels_out, kHalfSide) : 0;
    return copies(s) + std::max(last_wave(s, tiles, kWave, kTileBytes, depth), least);
  }
  const std::uint64_t tiles = tile_count(s.pixels_out, s.channels_out);
  // Recorded once: deep sums of one column of tiles, between half a wave and a whole one.
  const bool is_column = s.channels_out == kTileSide && tiles >= kWave / 2 && tiles < kWave;
  if (is_column && depth >= kDepthOfColumn) {
    return copies(s) + kWave * kTileBytes + counters(8 + kWave);
  }
  return copies(s) + std::max(last_wave(s, tiles, kWave, kTileBytes, depth), least);
}

// Tiles of 256 x 128.
std::uint64_t input_gradient_workspace(const ConvolutionSizes& s) {
  if (s.kernel == 1) return is_narrow(s) || s.channels_in < s.channels_out ? 0 : kPointwiseBytes;
  const std::uint64_t tiles = tile_count(divided_up(s.pixels_in, 2), s.channels_in);
  const std::uint64_t depth = s.channels_out * kTaps;
  const bool is_whole = s.channels_in % kTileSide == 0;
  std::uint64_t parts = 0;
  if (is_narrow(s)) {
    parts = last_wave(s, tiles, kProcessors, 2 * kTileBytes, depth);
  } else if (is_whole && depth <= kDepthHalved && tiles <= kProcessors / 2) {
    parts = sums(tiles, 2 * kTileBytes, 2);
  } else if (is_whole && depth > kDepthHalved && tiles <= kProcessors / 4) {
    // Recorded once: 45 parts, of half a tile each, for 32 tiles.
    parts = tiles * 45 / 32 * kTileBytes + counters(8 + tiles * 45 / 16);
  }
  return copies(s) + std::max(parts, is_strided(s) ? counters(1) : one_counter(s, s.pixels_in));
}

std::uint64_t weight_gradient_workspace(const ConvolutionSizes& s) {
  if (s.kernel == 1) return pointwise_weight_gradient(s);
  if (s.channels_in > kColours) return tiled_weight_gradient(s);
  if (!is_narrow(s)) return 0;
  // Two tiles of 64 x 64 for every 64 channels.
  const std::uint64_t parts = kProcessors / (2 * divided_up(s.channels_out, kHalfSide));
  return copies(s) + parts * weight_count(s) * 4;
}

}  // namespace allocmark
