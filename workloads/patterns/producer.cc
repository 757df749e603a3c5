// Generator producer: one stream makes buffers, others read them. Each buffer is recorded on its
// readers' streams, and the host lets go of it while they may still run: the memory comes back only
// when an allocator has seen that they are done.
#include <cstdint>
#include <deque>

#include "base/bytes.h"
#include "base/random.h"
#include "workloads/patterns/octave_sizes.h"
#include "workloads/trace/coroutine_program.h"
#include "workloads/trace/event_names.h"

namespace allocmark {
namespace {

struct ProducerConfig {
  OctaveSizes sizes;
  std::uint64_t item_count = 0;
  std::uint64_t depth = 0;           // buffers that the host holds
  std::uint32_t consumer_count = 1;  // streams 1 .. consumer_count read, stream 0 writes
  std::uint32_t fan_out = 1;         // readers of each buffer
  std::uint64_t kernel_ns = 0;       // of each kernel; 0: there are none
  bool busy = false;                 // readers run until the next sync
  std::uint64_t sync_every = 0;      // items between two syncs; 0: never
};

constexpr std::uint64_t kMarkEvery = 1000;  // items between two marks

Coroutine write_producer(ProducerConfig config, std::uint64_t seed, EventBatch* batch) {
  Random random(seed);
  std::deque<std::uint64_t> held;
  for (std::uint64_t item = 0; item < config.item_count; ++item) {
    if (item % kMarkEvery == 0) batch->mark("items", item / kMarkEvery);
    const std::uint64_t id = batch->allocate({.size_bytes = config.sizes.pick(random.next())});
    held.push_back(id);
    if (config.kernel_ns > 0) batch->kernel(config.kernel_ns, 0);
    for (std::uint32_t reader = 0; reader < config.fan_out; ++reader) {
      const auto stream = static_cast<std::uint32_t>((item + reader) % config.consumer_count + 1);
      if (config.busy) {
        batch->busy(stream);
      } else if (config.kernel_ns > 0) {
        batch->kernel(config.kernel_ns, stream);
      }
      batch->record(id, stream);
    }
    if (held.size() > config.depth) {
      batch->free(held.front());
      held.pop_front();
    }
    if (config.sync_every > 0 && (item + 1) % config.sync_every == 0) batch->sync();
    co_await room_in(batch);
  }
  batch->sync();
  for (const std::uint64_t id : held) {
    batch->free(id);
    co_await room_in(batch);
  }
}

std::unique_ptr<EventSource> make_producer(Parameters& parameters, std::uint64_t seed) {
  parameters.refuse_variant();
  ProducerConfig config;
  config.sizes = read_sizes(parameters, {.lowest_bytes = kMiB, .highest_bytes = 64 * kMiB});
  config.item_count = parameters.number("items", 10'000, {1, 1'000'000'000'000});
  config.depth = parameters.number("depth", 2, {0, kGeneratedBlockCountMax});
  require_live_bytes(parameters, "depth", config.depth + 1, config.sizes.size_bytes_max());
  config.consumer_count =
      static_cast<std::uint32_t>(parameters.number("consumers", 2, {1, kTraceStreamCountMax - 1}));
  config.fan_out =
      static_cast<std::uint32_t>(parameters.number("fan_out", 1, {1, config.consumer_count}));
  config.kernel_ns = parameters.number("kernel_ns", 100'000, {0, 1'000'000'000});
  config.busy = parameters.flag("busy", false);
  config.sync_every = parameters.number("sync_every", 0, {0, UINT32_MAX});
  parameters.refuse_if(config.busy && config.sync_every == 0, "sync_every",
                       "at least 1 with busy=1: only a sync ends busy readers", 0);
  return make_coroutine<write_producer>(
      parameters, {.name = "producer", .seed = seed, .stream_count = config.consumer_count + 1},
      config);
}

}  // namespace

extern constinit const GeneratorEntry kProducerGenerator{
    "producer", "producer:items=10000,consumers=2,depth=2,size_min=1MiB,size_max=64MiB",
    "buffers made on one stream, recorded on others and let go while they are still read",
    make_producer};

}  // namespace allocmark
