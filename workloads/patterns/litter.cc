// Generator litter: fills memory with blocks of random sizes and frees most of them at random, so
// that what follows meets a heap with a history instead of a fresh one, which flatters every
// allocator. What is kept stays live to the trace's end: "litter:... then WORKLOAD" runs a
// workload in the litter.
#include <cstdint>

#include "base/bytes.h"
#include "base/random.h"
#include "workloads/patterns/octave_sizes.h"
#include "workloads/patterns/sized_blocks.h"
#include "workloads/trace/coroutine_program.h"

namespace allocmark {
namespace {

struct LitterConfig {
  std::uint64_t fill_bytes = 0;    // live after each filling, exactly
  std::uint64_t keep_percent = 0;  // of these bytes are left, at most
  OctaveSizes sizes;
  std::uint64_t round_count = 0;  // fillings: what is kept of each has other neighbours
};

Coroutine write_litter(LitterConfig config, std::uint64_t seed, EventBatch* batch) {
  Random random(seed);
  SizedBlocks blocks;
  const std::uint64_t kept_bytes = config.fill_bytes / 100 * config.keep_percent;
  for (std::uint64_t round = 0; round < config.round_count; ++round) {
    batch->mark("litter", round);
    while (blocks.live_bytes() < config.fill_bytes) {
      blocks.allocate_towards(config.fill_bytes, config.sizes, &random, batch);
      co_await room_in(batch);
    }
    while (blocks.live_bytes() > kept_bytes) {
      blocks.free_one(FreeOrder::Random, &random, batch);
      co_await room_in(batch);
    }
  }
}

std::unique_ptr<EventSource> make_litter(Parameters& parameters, std::uint64_t seed) {
  parameters.refuse_variant();
  LitterConfig config;
  config.fill_bytes = parameters.size_bytes("fill_bytes", 4 * kGiB, {1, kGeneratedSizeBytesMax});
  config.keep_percent = parameters.number("keep_percent", 5, {0, 99});
  config.sizes = read_sizes(parameters, {.lowest_bytes = 4 * kKiB, .highest_bytes = 16 * kMiB});
  require_few_blocks(parameters, "fill_bytes", config.fill_bytes, config.sizes.size_bytes_min());
  config.round_count = parameters.number("rounds", 3, {1, UINT32_MAX});
  return make_coroutine<write_litter>(parameters, {.name = "litter", .seed = seed}, config);
}

}  // namespace

extern constinit const GeneratorEntry kLitterGenerator{
    "litter", "litter:fill_bytes=4GiB,keep_percent=5,rounds=3",
    "fills memory and frees most of it at random: a heap with a history, to put before a workload",
    make_litter};

}  // namespace allocmark
