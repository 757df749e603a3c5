// The two fast structures under the caching allocator, against the standard library's.
#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "allocators/caching/pointer_map.h"
#include "allocators/caching/sorted_blocks.h"
#include "base/random.h"
#include "tests/catch.h"

using namespace allocmark;
using namespace allocmark::caching;

namespace {

// Every block in order, walked forwards and backwards.
void require_same(const SortedBlocks& sorted, const std::map<SortedBlocks::Key, Block*>& expected) {
  REQUIRE(sorted.size() == expected.size());
  auto at = sorted.begin();
  for (const auto& [key, block] : expected) {
    REQUIRE(sorted.at(at) == block);
    at = sorted.next(at);
  }
  REQUIRE(at == sorted.end());
  for (auto entry = expected.rbegin(); entry != expected.rend(); ++entry) {
    at = sorted.previous(at);
    REQUIRE(sorted.at(at) == entry->second);
  }
  REQUIRE(at == sorted.begin());
}

}  // namespace

TEST_CASE("sorted blocks are a std::map in order, search and walk") {
  Random random(1);
  SortedBlocks sorted;
  std::map<SortedBlocks::Key, Block*> expected;
  std::vector<Block> blocks(3000);
  for (std::size_t i = 0; i < 40000; ++i) {
    // Grows to thousands of blocks, then shrinks to nothing: chunks split and join.
    Block& block = blocks[random.below(blocks.size())];
    const bool grows = i < 20000 ? random.below(4) != 0 : random.below(4) == 0;
    const SortedBlocks::Key held = SortedBlocks::key(block);
    if (block.allocated && !grows) {
      sorted.erase(held);
      expected.erase(held);
      block.allocated = false;
    } else if (!block.allocated && grows) {
      block.size_bytes = 512 * random.below(50);
      block.order = static_cast<std::int64_t>(random.below(3));
      block.address = static_cast<std::uint64_t>(&block - blocks.data()) * 512;
      block.allocated = true;
      sorted.insert(SortedBlocks::key(block), &block);
      expected.emplace(SortedBlocks::key(block), &block);
    }
    const SortedBlocks::Key wanted =
        SortedBlocks::key(512 * random.below(52), static_cast<std::int64_t>(random.below(3)),
                          512 * random.below(3000));
    const auto found = sorted.lower_bound(wanted);
    const auto expected_found = expected.lower_bound(wanted);
    const bool none = expected_found == expected.end();
    REQUIRE((found == sorted.end()) == none);
    if (!none) REQUIRE(sorted.at(found) == expected_found->second);
    if (i % 997 == 0) require_same(sorted, expected);
  }
  require_same(sorted, expected);
}

TEST_CASE("a higher order comes later wherever its segment lies") {
  for (const std::uint64_t low :
       {std::uint64_t{0}, std::uint64_t{1} << 46, std::uint64_t{1} << 62}) {
    for (const std::uint64_t high :
         {std::uint64_t{512}, std::uint64_t{1} << 47, std::uint64_t{1} << 63}) {
      CHECK(SortedBlocks::key(512, SortedBlocks::order_at(1, high), high) <
            SortedBlocks::key(512, SortedBlocks::order_at(2, low), low));
      CHECK(SortedBlocks::key(512, SortedBlocks::order_at(2, high), high) >=
            SortedBlocks::first_of(512));
    }
  }
}

TEST_CASE("the pointer map is a std::unordered_map, also where homes collide") {
  Random random(2);
  PointerMap map;
  std::unordered_map<std::uint64_t, Block*> expected;
  std::vector<Block> blocks(4000);
  for (std::size_t i = 0; i < blocks.size(); ++i)
    blocks[i].address = 0x7f0000000000 + i * (i % 3 == 0 ? 512 : 2097152);
  for (std::size_t i = 0; i < 100000; ++i) {
    Block& block = blocks[random.below(blocks.size())];
    Block* const held = expected.contains(block.address) ? expected.at(block.address) : nullptr;
    REQUIRE(map.find(block.address) == held);
    if (held == nullptr) {
      map.insert(&block);
      expected.emplace(block.address, &block);
    } else {
      REQUIRE(map.remove(block.address) == held);
      expected.erase(block.address);
    }
    REQUIRE(map.size() == expected.size());
  }
  std::set<Block*> seen;
  map.for_each([&](Block* block) { seen.insert(block); });
  CHECK(seen.size() == expected.size());
  CHECK(map.remove(1) == nullptr);
}
