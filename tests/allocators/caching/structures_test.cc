// The two fast structures under the caching allocator, against the standard library's.
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "allocators/caching/pointer_map.h"
#include "allocators/caching/sorted_blocks.h"
#include "base/random.h"
#include "tests/catch.h"

using namespace allocmark;
using namespace allocmark::caching;

namespace {

// Size, order, address.
using Key = std::tuple<std::uint64_t, std::int64_t, std::uint64_t>;
Key key_of(const Block& block) { return {block.size_bytes, block.order, block.address}; }

// Every block in order, walked forwards and backwards.
void require_same(const SortedBlocks& sorted, const std::map<Key, Block*>& expected) {
  REQUIRE(sorted.size() == expected.size());
  auto at = sorted.begin();
  for (const auto& [key, block] : expected) {
    REQUIRE(sorted.at(at) == block);
    at = sorted.next(at);
  }
  REQUIRE(at == sorted.end());
  REQUIRE(sorted.at(at) == nullptr);
  for (auto entry = expected.rbegin(); entry != expected.rend(); ++entry) {
    at = sorted.previous(at);
    REQUIRE(sorted.at(at) == entry->second);
  }
  REQUIRE(at == sorted.begin());
}

}  // namespace

TEST_CASE("sorted blocks are a std::map in order, search and walk") {
  // With few sizes, hundreds of blocks share one; with many, chunks end far from where others
  // begin.
  const std::uint64_t size_count =
      GENERATE(std::uint64_t{50}, std::uint64_t{3}, std::uint64_t{100000});
  Random random(size_count);
  SortedBlocks sorted;
  std::map<Key, Block*> expected;
  std::vector<Block> blocks(3000);
  for (std::size_t i = 0; i < 40000; ++i) {
    // Grows to thousands of blocks, then shrinks to nothing: chunks split and join.
    Block& block = blocks[random.below(blocks.size())];
    const bool grows = i < 20000 ? random.below(4) != 0 : random.below(4) == 0;
    if (block.allocated && !grows) {
      sorted.erase(sorted.find(block.size_bytes, &block));
      expected.erase(key_of(block));
      block.allocated = false;
    } else if (!block.allocated && grows) {
      block.size_bytes = 512 * random.below(size_count);
      block.order = static_cast<std::int64_t>(random.below(3));
      block.address = static_cast<std::uint64_t>(&block - blocks.data()) * 512;
      block.allocated = true;
      sorted.insert(block.size_bytes, &block);
      expected.emplace(key_of(block), &block);
    }
    // A piece is cut off a free block, or a block that became free joins it.
    Block& other = blocks[random.below(blocks.size())];
    Block& next = random.below(2) == 0 ? other : blocks[random.below(blocks.size())];
    if (other.allocated && (&next == &other || !next.allocated)) {
      const auto position = sorted.find(other.size_bytes, &other);
      expected.erase(key_of(other));
      other.allocated = false;
      next.size_bytes = 512 * random.below(size_count);
      next.order = static_cast<std::int64_t>(random.below(3));
      next.address = static_cast<std::uint64_t>(&next - blocks.data()) * 512;
      next.allocated = true;
      sorted.replace(position, next.size_bytes, &next);
      expected.emplace(key_of(next), &next);
    }
    const std::uint64_t wanted = 512 * random.below(size_count + 2);
    const auto found = sorted.lower_bound(wanted);
    const auto expected_found = expected.lower_bound(Key{wanted, 0, 0});
    const bool none = expected_found == expected.end();
    REQUIRE((found == sorted.end()) == none);
    if (!none) REQUIRE(sorted.at(found) == expected_found->second);
    if (i % 997 == 0) require_same(sorted, expected);
  }
  require_same(sorted, expected);
}

TEST_CASE("a higher order comes later wherever its segment lies") {
  for (const std::uint64_t low : {std::uint64_t{0}, std::uint64_t{1} << 62}) {
    for (const std::uint64_t high : {std::uint64_t{512}, std::uint64_t{1} << 63}) {
      Block first, second;
      first.address = high, first.order = 1;
      second.address = low, second.order = std::int64_t{1} << 40;
      SortedBlocks sorted;
      sorted.insert(512, &second);
      sorted.insert(512, &first);
      CHECK(sorted.at(sorted.lower_bound(512)) == &first);
      CHECK(sorted.lower_bound(513) == sorted.end());
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
      map.remove(map.look_up(block.address));
      expected.erase(block.address);
    }
    REQUIRE(map.size() == expected.size());
  }
  std::set<Block*> seen;
  map.for_each([&](Block* block) { seen.insert(block); });
  CHECK(seen.size() == expected.size());
  CHECK(map.look_up(1).block == nullptr);
}
