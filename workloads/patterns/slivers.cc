// Generator slivers: the case against best fit. Blocks are replaced by slightly smaller ones, which
// the hole of the old one fits best; what is left of the hole is just large enough for a pin that
// stays, and the rest of it is lost. At the end the bytes that were given up are asked for again in
// blocks of the first size.
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "workloads/patterns/octave_sizes.h"
#include "workloads/trace/coroutine_program.h"

namespace allocmark {
namespace {

struct SliversConfig {
  std::uint64_t size_bytes = 0;    // of the first blocks
  std::uint64_t count = 0;         // blocks
  std::uint64_t sliver_bytes = 0;  // by which each round's blocks are smaller
  std::uint64_t pin_bytes = 0;     // of what goes into the sliver
  std::uint64_t round_count = 0;
};

Coroutine write_slivers(SliversConfig config, std::uint64_t /*seed*/, EventBatch* batch) {
  std::vector<std::uint64_t> blocks;
  std::vector<std::uint64_t> pins;
  batch->mark("fill");
  for (std::uint64_t i = 0; i < config.count; ++i) {
    blocks.push_back(batch->allocate({.size_bytes = config.size_bytes}));
    co_await room_in(batch);
  }
  std::uint64_t size_bytes = config.size_bytes;
  for (std::uint64_t round = 0; round < config.round_count; ++round) {
    batch->mark("round", round);
    size_bytes -= config.sliver_bytes;
    for (std::uint64_t& block : blocks) {
      batch->free(block);
      block = batch->allocate({.size_bytes = size_bytes});
      pins.push_back(batch->allocate({.size_bytes = config.pin_bytes}));
      co_await room_in(batch);
    }
  }
  batch->mark("ask");
  const std::uint64_t given_up_bytes =
      config.count * config.round_count * (config.sliver_bytes - config.pin_bytes);
  for (std::uint64_t i = 0; i < given_up_bytes / config.size_bytes; ++i) {
    blocks.push_back(batch->allocate({.size_bytes = config.size_bytes}));
    co_await room_in(batch);
  }
  blocks.insert(blocks.end(), pins.begin(), pins.end());
  for (const std::uint64_t block : blocks) {
    batch->free(block);
    co_await room_in(batch);
  }
}

std::unique_ptr<EventSource> make_slivers(Parameters& parameters, std::uint64_t seed) {
  parameters.refuse_variant();
  SliversConfig config;
  config.size_bytes = parameters.size_bytes("size_bytes", 64 * kMiB, {2, kGeneratedSizeBytesMax});
  config.count = parameters.number("count", 64, {1, std::uint64_t{1} << 16});
  config.round_count = parameters.number("rounds", 8, {1, 128});
  config.sliver_bytes = parameters.size_bytes("sliver_bytes", 4 * kMiB, {1, config.size_bytes - 1});
  parameters.refuse_if(config.sliver_bytes > (config.size_bytes - 1) / config.round_count,
                       "sliver_bytes", "less than size_bytes / rounds", config.sliver_bytes);
  config.pin_bytes = parameters.size_bytes("pin_bytes", std::min(2 * kMiB, config.sliver_bytes),
                                           {0, config.sliver_bytes});
  require_live_bytes(parameters, "count", config.count, config.size_bytes);
  return make_coroutine<write_slivers>(parameters, {.name = "slivers", .seed = seed}, config);
}

}  // namespace

extern constinit const GeneratorEntry kSliversGenerator{
    "slivers", "slivers:size_bytes=64MiB,count=64,sliver_bytes=4MiB,rounds=8",
    "blocks replaced by slightly smaller ones, with pins in what is left: the case against best "
    "fit",
    make_slivers};

}  // namespace allocmark
