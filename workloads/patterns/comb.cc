// Generator comb: allocates `count` equal blocks, frees every other one, then asks for one big
// block that would fit into the freed bytes if only they were in one piece; then everything is
// freed. Repeated `rounds` times.
#include <cstdint>

#include "base/bytes.h"
#include "workloads/patterns/octave_sizes.h"
#include "workloads/trace/coroutine_program.h"

namespace allocmark {
namespace {

struct CombConfig {
  std::uint64_t size_bytes = 0;  // of each tooth
  std::uint64_t count = 0;       // teeth
  std::uint64_t ask_bytes = 0;   // the big block
  std::uint64_t rounds = 0;
};

// Ids count up within a round, so the first id and the index name a tooth.
Coroutine write_comb(CombConfig config, std::uint64_t /*seed*/, EventBatch* batch) {
  for (std::uint64_t round = 0; round < config.rounds; ++round) {
    batch->mark("round", round);
    std::uint64_t first_id = 0;
    for (std::uint64_t i = 0; i < config.count; ++i) {
      const std::uint64_t id = batch->allocate({.size_bytes = config.size_bytes});
      if (i == 0) first_id = id;
      co_await room_in(batch);
    }
    for (std::uint64_t i = 0; i < config.count; i += 2) {
      batch->free(first_id + i);
      co_await room_in(batch);
    }
    batch->free(batch->allocate({.size_bytes = config.ask_bytes}));
    for (std::uint64_t i = 1; i < config.count; i += 2) {
      co_await room_in(batch);
      batch->free(first_id + i);
    }
    co_await room_in(batch);
  }
}

std::unique_ptr<EventSource> make_comb(Parameters& parameters, std::uint64_t seed) {
  parameters.refuse_variant();
  CombConfig config;
  config.size_bytes = parameters.size_bytes("size_bytes", 2 * kMiB, {0, kGeneratedSizeBytesMax});
  config.count = parameters.number("count", 512, {1, UINT32_MAX});
  require_live_bytes(parameters, "count", config.count, config.size_bytes);
  config.ask_bytes = parameters.size_bytes("ask_bytes", 512 * kMiB, {0, kGeneratedSizeBytesMax});
  config.rounds = parameters.number("rounds", 1, {1, UINT32_MAX});
  return make_coroutine<write_comb>(parameters, {.name = "comb", .seed = seed}, config);
}

}  // namespace

extern constinit const GeneratorEntry kCombGenerator{
    "comb", "comb:size_bytes=2MiB,count=512,ask_bytes=512MiB",
    "allocates many blocks, frees every other one, asks for a big one: fragmentation at its "
    "purest",
    make_comb};

}  // namespace allocmark
