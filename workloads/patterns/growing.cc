// Generator growing: some buffers are replaced by larger ones again and again, the new one asked
// for before the old one goes, as a KV cache that is concatenated or a list that is doubled. Every
// freed block is too small for the next request.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "workloads/patterns/octave_sizes.h"
#include "workloads/trace/coroutine_program.h"

namespace allocmark {
namespace {

struct GrowingConfig {
  std::uint64_t size_bytes_min = 0;
  std::uint64_t size_bytes_max = 0;
  std::uint64_t step_bytes = 0;      // a buffer grows by so much,
  std::uint64_t growth_percent = 0;  // or by so much of its size where that is more
  std::uint64_t buffer_count = 0;
  std::uint64_t round_count = 0;
};

Coroutine write_growing(GrowingConfig config, std::uint64_t /*seed*/, EventBatch* batch) {
  std::vector<std::uint64_t> buffers(config.buffer_count);
  for (std::uint64_t round = 0; round < config.round_count; ++round) {
    batch->mark("round", round);
    std::uint64_t size_bytes = config.size_bytes_min;
    for (std::uint64_t& buffer : buffers) {
      buffer = batch->allocate({.size_bytes = size_bytes});
      co_await room_in(batch);
    }
    while (size_bytes < config.size_bytes_max) {
      const std::uint64_t grown_by =
          std::max(config.step_bytes, size_bytes / 100 * config.growth_percent);
      size_bytes = std::min(config.size_bytes_max, size_bytes + grown_by);
      for (std::uint64_t& buffer : buffers) {
        const std::uint64_t larger = batch->allocate({.size_bytes = size_bytes});
        batch->free(buffer);
        buffer = larger;
        co_await room_in(batch);
      }
    }
    for (const std::uint64_t buffer : buffers) {
      batch->free(buffer);
      co_await room_in(batch);
    }
  }
}

std::unique_ptr<EventSource> make_growing(Parameters& parameters, std::uint64_t seed) {
  parameters.refuse_variant();
  GrowingConfig config;
  config.size_bytes_min = parameters.size_bytes("size_min", kMiB, {1, kGeneratedSizeBytesMax});
  config.size_bytes_max =
      parameters.size_bytes("size_max", std::max(512 * kMiB, config.size_bytes_min),
                            {config.size_bytes_min, kGeneratedSizeBytesMax});
  config.step_bytes = parameters.size_bytes("step_bytes", kMiB, {1, kGeneratedSizeBytesMax});
  config.growth_percent = parameters.number("growth_percent", 0, {0, 1000});
  config.buffer_count = parameters.number("count", 8, {1, kGeneratedBlockCountMax});
  config.round_count = parameters.number("rounds", 2, {1, UINT32_MAX});
  require_live_bytes(parameters, "count", config.buffer_count + 1, config.size_bytes_max);
  return make_coroutine<write_growing>(parameters, {.name = "growing", .seed = seed}, config);
}

}  // namespace

extern constinit const GeneratorEntry kGrowingGenerator{
    "growing", "growing:size_min=1MiB,size_max=512MiB,step_bytes=1MiB,count=8,rounds=2",
    "buffers replaced by larger ones: every freed block is too small for the next request",
    make_growing};

}  // namespace allocmark
