// Rules about memory: where blocks lie, what they hold, how much they take.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>

#include "base/bytes.h"
#include "base/random.h"
#include "harness/tools/conformance/rule.h"

namespace allocmark::conformance::checks {
namespace {

constexpr std::uint64_t kSeed = 20261122;

// Requests and frees in turns, with sizes from 1 byte to 8 MiB or what is claimed: `look` sees
// every new block.
template <typename Look, typename Leave>
void churn(Scene& scene, int step_count, Look&& look, Leave&& leave) {
  Random random(kSeed);
  std::vector<Block> live;
  for (int i = 0; i < step_count; ++i) {
    if (live.size() > 40 || (!live.empty() && random.below(100) < 45)) {
      const std::size_t at = random.below(live.size());
      leave(live[at]);
      scene.give(live[at]);
      live[at] = live.back();
      live.pop_back();
      continue;
    }
    const std::uint64_t bits = 4 + random.below(scene.claims.size_bits);
    const std::uint64_t size_bytes = 1 + random.below(std::uint64_t{1} << bits);
    const std::vector<cudaStream_t>& streams = scene.claims.streams;
    live.push_back(scene.get(size_bytes, streams[static_cast<std::size_t>(i) % streams.size()]));
    look(live.back());
  }
  for (const Block& block : live) leave(block);
  scene.give_all(live);
}

void nothing(const Block& /*block*/) {}

}  // namespace

bool rises(std::span<const std::uint64_t> values) {
  return std::ranges::adjacent_find(values, std::ranges::greater_equal{}) == values.end();
}

std::string alignment(Scene& scene) {
  std::uint64_t lowest = 4096;
  churn(
      scene, 600,
      [&](const Block& block) {
        const auto address = reinterpret_cast<std::uintptr_t>(block.pointer);
        expect(address % scene.claims.alignment_bytes == 0,
               fmt::format("{} got 0x{:x}", text_of(block), address));
        lowest = std::min<std::uint64_t>(lowest, address & -address);
      },
      nothing);
  return fmt::format("multiples of {} in 600 steps", lowest);
}

std::string device_memory(Scene& scene) {
  std::uint64_t count = 0;
  churn(
      scene, 600,
      [&](const Block& block) {
        if (scene.bytes(block) == nullptr) scene.fill(block, 0xA5);
        ++count;
      },
      nothing);
  return fmt::format("{} blocks", count);
}

std::string overlap(Scene& scene) {
  LiveRanges live;
  std::uint64_t count = 0;
  churn(
      scene, 2000,
      [&](const Block& block) {
        live.add_apart(block);
        ++count;
      },
      [&](const Block& block) { live.remove(block); });
  return fmt::format("{} blocks", count);
}

std::string contents(Scene& scene) {
  std::uint64_t count = 0;
  const auto mark_of = [](const Block& block) {
    return static_cast<unsigned char>(1 + block.number % 251);
  };
  churn(
      scene, 600,
      [&](const Block& block) {
        scene.fill(block, mark_of(block));
        ++count;
      },
      [&](const Block& block) {
        const auto changed = scene.find_other(block, mark_of(block));
        expect(!changed, fmt::format("byte {} of {} was changed by somebody else",
                                     changed.value_or(0), text_of(block)));
      });
  return fmt::format("{} blocks, every byte", count);
}

std::string free_order(Scene& scene) {
  constexpr std::size_t kCount = 64;
  std::uint64_t first_bytes = 0;
  std::uint64_t last_bytes = 0;
  for (int order = 0; order < 6; ++order) {
    std::vector<Block> blocks;
    for (std::size_t i = 0; i < kCount; ++i) blocks.push_back(scene.get(4 * kMiB));
    last_bytes = scene.used_bytes();
    if (order == 0) first_bytes = last_bytes;
    if (order % 2 == 0) std::reverse(blocks.begin(), blocks.end());
    if (order >= 4) {
      std::stable_partition(blocks.begin(), blocks.end(),
                            [](const Block& block) { return block.number % 2 == 0; });
    }
    scene.give_all(blocks);
    scene.settle();
  }
  expect(last_bytes <= first_bytes + 4 * kMiB,
         fmt::format("64 blocks of 4 MiB took {} MiB the first time and {} MiB the sixth",
                     first_bytes / kMiB, last_bytes / kMiB));
  return "oldest first, newest first, every second first";
}

// Without trim in between, so that a cache is used.
std::string growth(Scene& scene) {
  std::vector<std::uint64_t> after;
  for (int repeat = 0; repeat < 8; ++repeat) {
    churn(scene, 400, nothing, nothing);
    (void)cudaDeviceSynchronize();
    after.push_back(scene.used_bytes());
  }
  expect(!rises(std::span(after).subspan(2)),
         fmt::format("the device had {} MiB in use after 2 repeats and {} MiB after 8",
                     after[1] / kMiB, after.back() / kMiB));
  return fmt::format("{} MiB kept after 8 repeats", after.back() / kMiB);
}

std::string trim(Scene& scene) {
  if (scene.plugin.trim == nullptr)
    throw NotApplicable{"no trim function is named (trim:FUNCTION)"};
  const std::uint64_t before_bytes = scene.used_bytes();
  churn(scene, 600, nothing, nothing);
  (void)cudaDeviceSynchronize();
  const std::uint64_t kept_bytes = scene.used_bytes() - before_bytes;
  scene.settle();
  const std::uint64_t left_bytes = scene.used_bytes() - std::min(scene.used_bytes(), before_bytes);
  expect(left_bytes <= scene.used_bytes_tolerance(),
         fmt::format("with nothing live, {} MiB of {} MiB stayed", left_bytes / kMiB,
                     kept_bytes / kMiB));
  return fmt::format("{} MiB went back", kept_bytes / kMiB);
}

std::string rounding(Scene& scene) {
  const std::uint64_t before_bytes = scene.used_bytes();
  std::vector<Block> blocks;
  std::uint64_t asked_bytes = 0;
  for (std::uint64_t i = 0; i < 64; ++i) {
    blocks.push_back(scene.get((20 + i) * kMiB));
    asked_bytes += (20 + i) * kMiB;
  }
  const std::uint64_t taken_bytes = scene.used_bytes() - before_bytes;
  const std::string seen = fmt::format("{} MiB asked for in 64 blocks took {} MiB",
                                       asked_bytes / kMiB, taken_bytes / kMiB);
  expect(taken_bytes <= asked_bytes + asked_bytes / 4, seen);
  scene.give_all(blocks);
  return seen;
}

}  // namespace allocmark::conformance::checks
