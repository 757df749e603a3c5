// The table of live blocks against std::map, over ids that collide, wrap around and repeat.
#include "workloads/trace/live_blocks.h"

#include <cstdint>
#include <map>

#include "base/random.h"
#include "tests/catch.h"

using namespace allocmark;

TEST_CASE("live blocks agree with a map under random inserts and erases") {
  LiveBlocks blocks;
  std::map<std::uint64_t, std::uint64_t> model;
  Random random(7);
  for (int step = 0; step < 200'000; ++step) {
    // Multiples of a large power of two share their home slots.
    const std::uint64_t id = random.below(3000) << (random.below(2) * 40);
    const bool is_live = model.contains(id);
    REQUIRE((blocks.find(id) != nullptr) == is_live);
    if (is_live) {
      REQUIRE(blocks.find(id)->size_bytes == model[id]);
      REQUIRE(blocks.erase(id));
      model.erase(id);
    } else {
      REQUIRE_FALSE(blocks.erase(id));
      blocks.insert({.id = id, .size_bytes = static_cast<std::uint64_t>(step), .birth = 0});
      model[id] = static_cast<std::uint64_t>(step);
    }
    REQUIRE(blocks.count() == model.size());
  }
}

TEST_CASE("live blocks are empty after clear") {
  LiveBlocks blocks;
  blocks.insert({.id = 5, .size_bytes = 1, .birth = 2});
  blocks.clear();
  CHECK(blocks.count() == 0);
  CHECK(blocks.find(5) == nullptr);
  CHECK(blocks.find(LiveBlocks::kNoId) == nullptr);
}
