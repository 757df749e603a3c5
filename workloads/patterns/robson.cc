// Generator robson: the sizes of Robson's worst case for allocators that cannot move blocks
// (J. M. Robson, "Worst case fragmentation of first fit and best fit storage allocation
// strategies", The Computer Journal 20, 1977). Memory is filled with blocks of one size, every
// other block is freed, and the next filling asks for twice the size, which fits into no hole that
// is left. It does not look at addresses, as Robson's adversary may, so it is a little kinder.
// First fit needs about live_bytes * (1 + d / 2) for d doublings.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "workloads/patterns/octave_sizes.h"
#include "workloads/trace/coroutine_program.h"

namespace allocmark {
namespace {

struct RobsonConfig {
  std::uint64_t live_bytes = 0;      // live after each filling, at most
  std::uint64_t size_bytes_min = 0;  // of the first filling
  std::uint64_t size_bytes_max = 0;  // the last size is not larger
  std::uint64_t round_count = 0;
};

struct SizedBlock {
  std::uint64_t id = 0;
  std::uint64_t size_bytes = 0;
};

Coroutine write_robson(RobsonConfig config, std::uint64_t /*seed*/, EventBatch* batch) {
  std::vector<SizedBlock> blocks;  // in the order of their requests
  for (std::uint64_t round = 0; round < config.round_count; ++round) {
    std::uint64_t live_bytes = 0;
    std::uint64_t filling = 0;
    for (std::uint64_t size_bytes = config.size_bytes_min; size_bytes <= config.size_bytes_max;
         size_bytes *= 2) {
      batch->mark("filling", filling++);
      while (live_bytes + size_bytes <= config.live_bytes) {
        blocks.push_back({batch->allocate({.size_bytes = size_bytes}), size_bytes});
        live_bytes += size_bytes;
        co_await room_in(batch);
      }
      std::size_t kept_count = 0;
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        if (i % 2 == 1) {
          blocks[kept_count++] = blocks[i];
          continue;
        }
        batch->free(blocks[i].id);
        live_bytes -= blocks[i].size_bytes;
        co_await room_in(batch);
      }
      blocks.resize(kept_count);
    }
    for (const SizedBlock& block : blocks) {
      batch->free(block.id);
      co_await room_in(batch);
    }
    blocks.clear();
  }
}

std::unique_ptr<EventSource> make_robson(Parameters& parameters, std::uint64_t seed) {
  parameters.refuse_variant();
  RobsonConfig config;
  config.live_bytes = parameters.size_bytes("live_bytes", 4 * kGiB, {1, kGeneratedSizeBytesMax});
  config.size_bytes_min = parameters.size_bytes("size_min", 2 * kMiB, {1, kGeneratedSizeBytesMax});
  config.size_bytes_max =
      parameters.size_bytes("size_max", std::max(512 * kMiB, config.size_bytes_min),
                            {config.size_bytes_min, kGeneratedSizeBytesMax});
  require_few_blocks(parameters, "live_bytes", config.live_bytes, config.size_bytes_min);
  config.round_count = parameters.number("rounds", 1, {1, UINT32_MAX});
  return make_coroutine<write_robson>(parameters, {.name = "robson", .seed = seed}, config);
}

}  // namespace

extern constinit const GeneratorEntry kRobsonGenerator{
    "robson", "robson:live_bytes=4GiB,size_min=2MiB,size_max=512MiB",
    "fills with one size, frees every other block, doubles the size: the worst case for first fit",
    make_robson};

}  // namespace allocmark
