// Generator sawtooth: live bytes climb from a floor to a peak and fall back again, tooth after
// tooth, with blocks of random sizes that are freed in the order of a key. What the peak left in a
// cache is more than the valley needs, and never quite fits the next climb.
#include <cstdint>

#include "base/bytes.h"
#include "base/random.h"
#include "workloads/patterns/octave_sizes.h"
#include "workloads/patterns/sized_blocks.h"
#include "workloads/trace/coroutine_program.h"

namespace allocmark {
namespace {

struct SawtoothConfig {
  std::uint64_t peak_bytes = 0;   // live at the tip of each tooth, exactly
  std::uint64_t floor_bytes = 0;  // live in each valley, at most
  OctaveSizes sizes;
  FreeOrder order = FreeOrder::Newest;
  std::uint64_t tooth_count = 0;
  bool syncs = false;    // the host waits for the device in each valley
  bool empties = false;  // and the program empties the cache
};

Coroutine write_sawtooth(SawtoothConfig config, std::uint64_t seed, EventBatch* batch) {
  Random random(seed);
  SizedBlocks blocks;
  for (std::uint64_t tooth = 0; tooth < config.tooth_count; ++tooth) {
    batch->mark("tooth", tooth);
    while (blocks.live_bytes() < config.peak_bytes) {
      blocks.allocate_towards(config.peak_bytes, config.sizes, &random, batch);
      co_await room_in(batch);
    }
    const bool last = tooth + 1 == config.tooth_count;
    while (blocks.live_bytes() > (last ? 0 : config.floor_bytes)) {
      blocks.free_one(config.order, &random, batch);
      co_await room_in(batch);
    }
    if (config.syncs) batch->sync();
    if (config.empties) batch->trim();
  }
}

std::unique_ptr<EventSource> make_sawtooth(Parameters& parameters, std::uint64_t seed) {
  parameters.refuse_variant();
  SawtoothConfig config;
  config.peak_bytes = parameters.size_bytes("peak_bytes", 4 * kGiB, {1, kGeneratedSizeBytesMax});
  config.floor_bytes =
      parameters.size_bytes("floor_bytes", config.peak_bytes / 8, {0, config.peak_bytes});
  config.sizes = read_sizes(parameters, {.lowest_bytes = 64 * kKiB, .highest_bytes = 256 * kMiB});
  require_few_blocks(parameters, "peak_bytes", config.peak_bytes, config.sizes.size_bytes_min());
  config.order = parameters.pick<FreeOrder>("order", {"newest", "oldest", "random"});
  config.tooth_count = parameters.number("teeth", 20, {1, UINT32_MAX});
  config.syncs = parameters.flag("sync", false);
  config.empties = parameters.flag("empty_cache", false);
  return make_coroutine<write_sawtooth>(parameters, {.name = "sawtooth", .seed = seed}, config);
}

}  // namespace

extern constinit const GeneratorEntry kSawtoothGenerator{
    "sawtooth", "sawtooth:peak_bytes=4GiB,floor_bytes=512MiB,order=random,teeth=20",
    "live bytes climb to a peak and fall back, again and again: what a cache keeps of the peak",
    make_sawtooth};

}  // namespace allocmark
