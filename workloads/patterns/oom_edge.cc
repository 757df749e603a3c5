// Generator oom_edge: climbs until exactly `level_bytes` are live and then hovers there: blocks go
// at random and others take their place, filled up to the last byte each time. Run it with a
// capacity just above the level to see how near to the edge an allocator can live, and below it to
// see what it does when there is nothing left.
#include <cstdint>

#include "base/bytes.h"
#include "base/random.h"
#include "workloads/patterns/octave_sizes.h"
#include "workloads/patterns/sized_blocks.h"
#include "workloads/trace/coroutine_program.h"

namespace allocmark {
namespace {

struct OomEdgeConfig {
  std::uint64_t level_bytes = 0;
  std::uint64_t swing_percent = 0;  // of the level are freed and asked for again in each turn
  std::uint64_t over_bytes = 0;     // asked for at the level and given back, each turn; 0: nothing
  OctaveSizes sizes;
  std::uint64_t turn_count = 0;
};

Coroutine write_oom_edge(OomEdgeConfig config, std::uint64_t seed, EventBatch* batch) {
  Random random(seed);
  SizedBlocks blocks;
  const std::uint64_t low_bytes =
      config.level_bytes - config.level_bytes / 100 * config.swing_percent;
  for (std::uint64_t turn = 0; turn <= config.turn_count; ++turn) {
    batch->mark("turn", turn);
    while (blocks.live_bytes() < config.level_bytes) {
      blocks.allocate_towards(config.level_bytes, config.sizes, &random, batch);
      co_await room_in(batch);
    }
    if (config.over_bytes > 0) batch->free(batch->allocate({.size_bytes = config.over_bytes}));
    while (blocks.live_bytes() > (turn == config.turn_count ? 0 : low_bytes)) {
      blocks.free_one(FreeOrder::Random, &random, batch);
      co_await room_in(batch);
    }
  }
}

std::unique_ptr<EventSource> make_oom_edge(Parameters& parameters, std::uint64_t seed) {
  parameters.refuse_variant();
  OomEdgeConfig config;
  config.level_bytes = parameters.size_bytes("level_bytes", 8 * kGiB, {1, kGeneratedSizeBytesMax});
  config.swing_percent = parameters.number("swing_percent", 10, {1, 100});
  config.over_bytes = parameters.size_bytes("over_bytes", 0, {0, kGeneratedSizeBytesMax});
  config.sizes = read_sizes(parameters, {.lowest_bytes = 64 * kKiB, .highest_bytes = 512 * kMiB});
  require_few_blocks(parameters, "level_bytes", config.level_bytes, config.sizes.size_bytes_min());
  config.turn_count = parameters.number("turns", 100, {1, UINT32_MAX});
  return make_coroutine<write_oom_edge>(parameters, {.name = "oom_edge", .seed = seed}, config);
}

}  // namespace

extern constinit const GeneratorEntry kOomEdgeGenerator{
    "oom_edge", "oom_edge:level_bytes=8GiB,swing_percent=10,turns=100",
    "climbs to a level and hovers there to the last byte: how near to the edge one can live",
    make_oom_edge};

}  // namespace allocmark
