// Generator boundaries: requests on, just below and just above the sizes at which PyTorch's caching
// allocator changes its mind: rounding to 512 bytes, the small pool's end at 1 MiB, segments of 2
// and 20 MiB, exact segments from 10 MiB, what is left of a block that is split, and the two rules
// of max_split_size_mb. Each size is asked for in a fixed little pattern; the first round walks
// them in order, later ones in a random order, so that each meets what the others left.
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"
#include "workloads/trace/coroutine_program.h"

namespace allocmark {
namespace {

struct BoundariesConfig {
  std::uint64_t max_split_bytes = 0;  // the threshold that the config string under test sets
  std::uint64_t round_count = 0;
};

// PyTorch 2.11, c10/core/AllocatorConfig.h and c10/cuda/CUDACachingAllocator.cpp.
constexpr std::uint64_t kRoundingBytes = 512;
constexpr std::uint64_t kSmallBytesMax = kMiB;
constexpr std::uint64_t kSmallSegmentBytes = 2 * kMiB;
constexpr std::uint64_t kExactSegmentBytesMin = 10 * kMiB;
constexpr std::uint64_t kLargeSegmentBytes = 20 * kMiB;

enum class Pattern : std::uint8_t {
  Again,  // three at once; the middle one is freed and asked for again
  Split,  // a block is freed, all but `first_bytes` of it is asked for, then the rest
  Fit,    // a block is freed, and a smaller one asked for: may it take the block?
};

struct Case {
  Pattern pattern = Pattern::Again;
  std::uint64_t first_bytes = 0;
  std::uint64_t second_bytes = 0;
};

std::vector<Case> all_cases(std::uint64_t max_split_bytes) {
  constexpr std::array<std::int64_t, 5> kOffsets = {-512, -1, 0, 1, 512};
  constexpr auto kSegmentStep = static_cast<std::int64_t>(kSmallSegmentBytes);
  constexpr std::array<std::int64_t, 5> kLargeOffsets = {-kSegmentStep, -1, 0, 1, kSegmentStep};
  const auto moved = [](std::uint64_t size_bytes, std::int64_t offset) {
    return size_bytes + static_cast<std::uint64_t>(offset);
  };
  std::vector<Case> cases;
  for (const std::uint64_t size_bytes :
       {2 * kRoundingBytes, kSmallBytesMax, kSmallSegmentBytes, kExactSegmentBytesMin,
        kLargeSegmentBytes, max_split_bytes}) {
    for (const std::int64_t offset : kOffsets) {
      cases.push_back({Pattern::Again, moved(size_bytes, offset), 0});
    }
  }
  // A remainder is split off from 512 bytes on in the small pool, above 1 MiB in the large one.
  for (const std::int64_t offset : kOffsets) {
    cases.push_back({Pattern::Split, kSmallBytesMax, moved(2 * kRoundingBytes, offset)});
    cases.push_back({Pattern::Split, kLargeSegmentBytes, moved(kSmallBytesMax, offset)});
    cases.push_back({Pattern::Split, 2 * kLargeSegmentBytes, moved(kSmallBytesMax, offset)});
  }
  // A block of max_split_size or more is for requests of at least that size, and only where it is
  // less than 20 MiB larger.
  for (const std::int64_t offset : kLargeOffsets) {
    cases.push_back({Pattern::Fit, max_split_bytes, moved(max_split_bytes, offset) - kMiB});
    cases.push_back({Pattern::Fit, moved(max_split_bytes, offset), max_split_bytes / 2});
    cases.push_back(
        {Pattern::Fit, moved(max_split_bytes + kLargeSegmentBytes, offset), max_split_bytes});
  }
  return cases;
}

// At most 9 events. The guard keeps the block's segment in use, so that nothing but the block comes
// back.
void write_case(const Case& one, EventBatch* batch) {
  const auto allocate = [batch](std::uint64_t size_bytes) {
    return batch->allocate({.size_bytes = size_bytes});
  };
  if (one.pattern == Pattern::Again) {
    const std::uint64_t first = allocate(one.first_bytes);
    std::uint64_t middle = allocate(one.first_bytes);
    const std::uint64_t last = allocate(one.first_bytes);
    batch->free(middle);
    middle = allocate(one.first_bytes);
    batch->free(first);
    batch->free(middle);
    batch->free(last);
    return;
  }
  const std::uint64_t block = allocate(one.first_bytes);
  const std::uint64_t guard = allocate(one.first_bytes);
  batch->free(block);
  const std::uint64_t part = allocate(
      one.pattern == Pattern::Split ? one.first_bytes - one.second_bytes : one.second_bytes);
  if (one.pattern == Pattern::Split) batch->free(allocate(one.second_bytes));
  batch->free(part);
  batch->free(guard);
}

Coroutine write_boundaries(BoundariesConfig config, std::uint64_t seed, EventBatch* batch) {
  Random random(seed);
  std::vector<Case> cases = all_cases(config.max_split_bytes);
  for (std::uint64_t round = 0; round < config.round_count; ++round) {
    batch->mark("round", round);
    for (const Case& one : cases) {
      write_case(one, batch);
      co_await room_in(batch);
    }
    for (std::size_t i = cases.size() - 1; i > 0; --i) {
      std::swap(cases[i], cases[random.below(i + 1)]);
    }
  }
}

std::unique_ptr<EventSource> make_boundaries(Parameters& parameters, std::uint64_t seed) {
  parameters.refuse_variant();
  BoundariesConfig config;
  config.max_split_bytes =
      parameters.size_bytes("max_split_bytes", 128 * kMiB, {kLargeSegmentBytes, kTiB});
  config.round_count = parameters.number("rounds", 100, {1, UINT32_MAX});
  return make_coroutine<write_boundaries>(parameters, {.name = "boundaries", .seed = seed}, config);
}

}  // namespace

extern constinit const GeneratorEntry kBoundariesGenerator{
    "boundaries", "boundaries:max_split_bytes=128MiB,rounds=100",
    "sizes on and beside every threshold of PyTorch's rounding, splitting and max_split rules",
    make_boundaries};

}  // namespace allocmark
