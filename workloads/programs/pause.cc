// Generator pause: what a program does between two jobs in one process; to be put between other
// workloads. It waits for the device, gives cached memory back where it is told to, and keeps some
// blocks of what the job before had, as a program does that forgot a reference.
#include <cstdint>
#include <memory>
#include <string>

#include "base/random.h"
#include "workloads/trace/coroutine_program.h"

namespace allocmark {
namespace {

struct PauseConfig {
  bool trims = true;
  std::uint64_t leftover_count = 0;  // blocks that are taken here and never given back
  std::uint64_t size_min = 512, size_max = std::uint64_t{16} << 20;
};

Coroutine write_pause(PauseConfig config, std::uint64_t seed, EventBatch* batch) {
  Random random(seed);
  batch->mark("pause");
  // They lie where the job before had its blocks: in the cache, before it is given back.
  for (std::uint64_t i = 0; i < config.leftover_count; ++i) {
    const std::uint64_t size_bytes = random.between(config.size_min, config.size_max);
    static_cast<void>(batch->allocate({.size_bytes = size_bytes}));
    co_await room_in(batch);
  }
  batch->sync();
  if (config.trims) batch->trim();
}

std::unique_ptr<EventSource> make_pause(Parameters& parameters, std::uint64_t seed) {
  parameters.refuse_variant();
  PauseConfig config;
  config.trims = parameters.flag("empty_cache", true);
  config.leftover_count = parameters.number("leftovers", 0, {0, 1'000'000});
  if (config.leftover_count > 0) {
    const std::uint64_t highest = std::uint64_t{1} << 40;
    config.size_min = parameters.size_bytes("size_min", 512, {1, highest});
    config.size_max = parameters.size_bytes("size_max", config.size_max, {1, highest});
  }
  parameters.refuse_if(config.size_max < config.size_min, "size_max",
                       "at least size_min = " + std::to_string(config.size_min), config.size_max);
  return make_coroutine<write_pause>(parameters, {.name = "pause", .seed = seed}, config);
}

}  // namespace

extern constinit const GeneratorEntry kPauseGenerator{
    "pause", "pause:empty_cache=1,leftovers=2000",
    "between two jobs in one process: waits, gives cached memory back, leaves blocks behind",
    make_pause};

}  // namespace allocmark
