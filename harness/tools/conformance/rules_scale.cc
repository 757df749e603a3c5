// Rules about many blocks and many requests, and about the sizes at which allocators change their
// ways: what shows after seconds of a program, not in its first thousand requests.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"
#include "harness/tools/conformance/rule.h"

namespace allocmark::conformance::checks {
namespace {

// Around powers of two, multiples of small units, and MiB.
std::vector<std::uint64_t> boundary_sizes() {
  std::vector<std::uint64_t> sizes;
  const auto add_around = [&](std::uint64_t middle) {
    for (const int offset : {-1, 0, 1}) {
      sizes.push_back(middle + static_cast<std::uint64_t>(static_cast<std::int64_t>(offset)));
    }
  };
  for (std::uint64_t bits = 4; bits <= 25; ++bits) add_around(std::uint64_t{1} << bits);
  for (std::uint64_t units = 1; units <= 24; ++units) add_around(units * 512);
  for (const std::uint64_t mib : {1, 2, 10, 20, 32}) {
    for (const std::uint64_t more : {2, 128, 255, 256, 257, 511, 512, 513}) {
      sizes.push_back(mib * kMiB + more);
    }
  }
  return sizes;
}

// Where a size no longer fits into 31 or 32 bits: one at a time, since the device holds few.
void look_at_wide_sizes(Scene& scene) {
  for (const std::uint64_t more : {std::uint64_t{512}, std::uint64_t{1}, std::uint64_t{0}}) {
    for (int bits = 31; bits <= 34; ++bits) {
      const Block block = scene.get((std::uint64_t{1} << bits) + more);
      (void)scene.bytes(block);
      scene.give(block);
      scene.settle();
    }
  }
}

}  // namespace

std::string sizes(Scene& scene) {
  const std::vector<std::uint64_t> all = boundary_sizes();
  std::vector<Block> blocks;
  LiveRanges live;
  // Three in a row, since what is too small lies below its neighbour.
  for (const std::uint64_t size_bytes : all) {
    for (int i = 0; i < 3; ++i) {
      blocks.push_back(scene.get(size_bytes));
      live.add_apart(blocks.back());
      (void)scene.bytes(blocks.back());
    }
    if (blocks.size() < 60) continue;
    for (const Block& block : blocks) live.remove(block);
    scene.give_all(blocks);
  }
  scene.give_all(blocks);
  look_at_wide_sizes(scene);
  return fmt::format(
      "{} sizes around powers of two, multiples of 512, and MiB, from {} bytes, and 12 to 16 GiB",
      all.size(), *std::ranges::min_element(all));
}

std::string many_live(Scene& scene) {
  constexpr std::size_t kLiveCount = 80'000;
  std::vector<Block> blocks;
  LiveRanges live;
  for (std::size_t i = 0; i < kLiveCount; ++i) {
    blocks.push_back(scene.try_get(1 + i % 512));
    if (blocks.back().pointer == nullptr) {
      throw Broken{
          fmt::format("{} got NULL while {} blocks lived and {} MiB of the device were in use",
                      text_of(blocks.back()), i, scene.used_bytes() / kMiB)};
    }
    live.add_apart(blocks.back());
  }
  scene.give_all(blocks);
  return fmt::format("{} blocks live at once", kLiveCount);
}

std::string many_requests(Scene& scene) {
  constexpr int kRequestCount = 1'100'000;
  // A slow one makes fewer, but so many at least.
  constexpr int kRequestCountMin = 120'000;
  constexpr std::clock_t kCpuMax = 5 * CLOCKS_PER_SEC;
  Random random(20261126);
  std::vector<Block> blocks;
  LiveRanges live;
  const std::clock_t begin = std::clock();
  int count = 0;
  for (; count < kRequestCount; ++count) {
    const bool looks = count >= kRequestCountMin && count % 1000 == 0;
    if (looks && std::clock() - begin > kCpuMax) break;
    while (blocks.size() > 60 || (!blocks.empty() && random.below(100) < 50)) {
      Block& block = blocks.at(random.below(blocks.size()));
      live.remove(block);
      scene.give(block);
      block = blocks.back();
      blocks.pop_back();
    }
    const std::uint64_t size_bytes = std::uint64_t{512} << random.below(13);
    blocks.push_back(scene.get(size_bytes));
    live.add_apart(blocks.back());
  }
  scene.give_all(blocks);
  return fmt::format("{} requests", count);
}

std::string trim_live(Scene& scene) {
  if (scene.plugin.trim == nullptr)
    throw NotApplicable{"no trim function is named (trim:FUNCTION)"};
  constexpr int kTrimCount = 10;
  std::vector<Block> kept;
  LiveRanges live;
  const auto take = [&](std::uint64_t size_bytes) {
    const Block block = scene.get(size_bytes);
    live.add_apart(block);
    return block;
  };
  for (int i = 0; i < kTrimCount; ++i) {
    kept.push_back(take(2 * kMiB));
    std::vector<Block> passing;
    for (std::uint64_t size = 1; size <= 120; ++size) {
      passing.push_back(take(size % 12 * 256 * kKiB + 512));
    }
    for (const Block& block : passing) live.remove(block);
    scene.give_all(passing);
    scene.settle();
  }
  scene.give_all(kept);
  return fmt::format("{} trims beside live blocks", kTrimCount);
}

}  // namespace allocmark::conformance::checks
