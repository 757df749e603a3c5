// Generator stairs: blocks that grow by one step each, freed from the newest to the oldest, flight
// after flight. No block fits where a smaller one of the last flight was.
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "workloads/patterns/octave_sizes.h"
#include "workloads/trace/coroutine_program.h"

namespace allocmark {
namespace {

struct StairsConfig {
  std::uint64_t step_bytes = 0;  // the n-th block of a flight has n steps
  std::uint64_t step_count = 0;
  std::uint64_t flight_count = 0;
};

Coroutine write_stairs(StairsConfig config, std::uint64_t /*seed*/, EventBatch* batch) {
  for (std::uint64_t flight = 0; flight < config.flight_count; ++flight) {
    batch->mark("flight", flight);
    std::vector<std::uint64_t> ids;
    for (std::uint64_t step = 1; step <= config.step_count; ++step) {
      ids.push_back(batch->allocate({.size_bytes = step * config.step_bytes}));
      co_await room_in(batch);
    }
    for (; !ids.empty(); ids.pop_back()) {
      batch->free(ids.back());
      co_await room_in(batch);
    }
  }
}

std::unique_ptr<EventSource> make_stairs(Parameters& parameters, std::uint64_t seed) {
  parameters.refuse_variant();
  StairsConfig config;
  config.step_bytes = parameters.size_bytes("step_bytes", kMiB, {1, kGiB});
  config.step_count = parameters.number("steps", 64, {1, 10'000});
  config.flight_count = parameters.number("flights", 10, {1, UINT32_MAX});
  return make_coroutine<write_stairs>(parameters, {.name = "stairs", .seed = seed}, config);
}

}  // namespace

extern constinit const GeneratorEntry kStairsGenerator{
    "stairs", "stairs:step_bytes=1MiB,steps=64,flights=10",
    "blocks that grow by one step each, freed newest first", make_stairs};

}  // namespace allocmark
