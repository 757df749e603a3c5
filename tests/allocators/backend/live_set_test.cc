// Goal: the table of live blocks never loses or invents one. Method: the same random insertions and
// removals on it and on std::map.
#include "allocators/backend/live_set.h"

#include <cstdint>
#include <map>

#include "base/random.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

void* address(std::uint64_t number) { return reinterpret_cast<void*>((number + 1) * 512); }

}  // namespace

TEST_CASE("a live set agrees with a map through growth and removals") {
  LiveSet set;
  std::map<void*, std::uint64_t> model;
  std::uint64_t model_bytes = 0;
  Random random(7);
  for (int step = 0; step < 60000; ++step) {
    // First mostly insertions, so that the table grows; then mostly removals.
    const bool insert = random.below(100) < (step < 30000 ? 70u : 30u);
    void* const pointer = address(random.below(20000));
    if (insert && model.count(pointer) == 0) {
      const std::uint64_t size_bytes = random.below(1000);
      set.reserve_one();
      set.insert({.pointer = pointer, .size_bytes = size_bytes});
      model.emplace(pointer, size_bytes);
      model_bytes += size_bytes;
    } else if (!insert) {
      const bool removed = set.erase(pointer);
      REQUIRE(removed == (model.count(pointer) == 1));
      if (removed) {
        model_bytes -= model.at(pointer);
        model.erase(pointer);
      }
    }
    REQUIRE(set.count() == model.size());
    REQUIRE(set.size_bytes_total() == model_bytes);
  }
  std::map<void*, std::uint64_t> found;
  set.for_each([&](const LiveBlock& block) { found.emplace(block.pointer, block.size_bytes); });
  CHECK(found == model);
}

TEST_CASE("removing what is not there changes nothing") {
  LiveSet set;
  CHECK(!set.erase(address(1)));
  set.reserve_one();
  set.insert({.pointer = address(1), .size_bytes = 5});
  CHECK(!set.erase(address(2)));
  CHECK(set.erase(address(1)));
  CHECK(!set.erase(address(1)));
  CHECK(set.count() == 0);
  CHECK(set.size_bytes_total() == 0);
}

}  // namespace allocmark
