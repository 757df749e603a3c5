#include "allocators/packing/packing.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "allocators/packing/exact_packing.h"
#include "allocators/packing/first_fit.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

using Random = std::mt19937_64;

std::uint64_t up_to(Random& random, std::uint64_t most) { return random() % (most + 1); }

std::vector<BlockLife> random_blocks(Random& random, std::size_t count, std::uint64_t time_end) {
  std::vector<BlockLife> blocks;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t begin = up_to(random, time_end - 1);
    const std::uint64_t end = begin + 1 + up_to(random, time_end - begin - 1);
    blocks.push_back({begin, end, 1 + up_to(random, 8)});
  }
  return blocks;
}

// Where first fit puts each block of the order: every one before it is looked at, again and again.
std::vector<std::uint64_t> first_fit_by_hand(const std::vector<BlockLife>& blocks,
                                             const std::vector<std::uint32_t>& order) {
  std::vector<std::uint64_t> offsets(blocks.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    const BlockLife& block = blocks[order[k]];
    if (block.size_bytes == 0) continue;
    std::uint64_t at = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t j = 0; j < k; ++j) {
        const BlockLife& other = blocks[order[j]];
        const std::uint64_t other_at = offsets[order[j]];
        const bool meets = other.begin < block.end && block.begin < other.end &&
                           at < other_at + other.size_bytes && other_at < at + block.size_bytes;
        if (!meets) continue;
        at = other_at + other.size_bytes;
        moved = true;
      }
    }
    offsets[order[k]] = at;
  }
  return offsets;
}

std::uint64_t height_of(const std::vector<BlockLife>& blocks,
                        const std::vector<std::uint64_t>& offsets) {
  std::uint64_t height = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i)
    height = std::max(height, offsets[i] + blocks[i].size_bytes);
  return height;
}

// The least height of all orders, by a placement of its own: a best packing, put down block by
// block from the lowest on, is that of some order.
std::uint64_t least_height(const std::vector<BlockLife>& blocks) {
  std::vector<std::uint32_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0U);
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  do {
    least = std::min(least, height_of(blocks, first_fit_by_hand(blocks, order)));
  } while (std::ranges::next_permutation(order).found);
  return least;
}

// A rectangle of time and memory that is cut into blocks without a rest: its height is the least.
std::vector<BlockLife> cut_rectangle(Random& random, std::uint64_t width, std::uint64_t height,
                                     std::size_t count) {
  std::vector<BlockLife> blocks{{0, width, height}};
  while (blocks.size() < count) {
    const std::size_t which = up_to(random, blocks.size() - 1);
    BlockLife& block = blocks[which];
    BlockLife rest = block;
    if (up_to(random, 1) == 0 && block.size_bytes > 1) {
      block.size_bytes = 1 + up_to(random, block.size_bytes - 2);
      rest.size_bytes -= block.size_bytes;
    } else if (block.end - block.begin > 1) {
      block.end = block.begin + 1 + up_to(random, block.end - block.begin - 2);
      rest.begin = block.end;
    } else {
      continue;
    }
    blocks.push_back(rest);
  }
  return blocks;
}

}  // namespace

TEST_CASE("packings of few blocks are the lowest of all orders") {
  Random random(1);
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const std::vector<BlockLife> blocks = random_blocks(random, 3 + up_to(random, 4), 6);
    const std::uint64_t least = least_height(blocks);
    const BlockPacking packing = pack_blocks(blocks, {});
    CHECK(packing.height_bytes == least);
    CHECK(packing.is_best);
    CHECK(packing.bound_bytes <= least);
    CHECK(fault_of(blocks, packing).empty());
    CHECK(search_packing(blocks, least, 100'000).answer == PackAnswer::Found);
    CHECK(search_packing(blocks, least - 1, 100'000).answer == PackAnswer::None);
  }
}

// Found by trying: with fewer blocks the bound could always be met.
TEST_CASE("a bound that no packing meets is not claimed to be met") {
  const std::vector<BlockLife> blocks = {{5, 7, 1}, {7, 8, 3}, {4, 6, 1}, {2, 3, 3},
                                         {4, 7, 1}, {4, 6, 1}, {2, 5, 3}, {6, 8, 3}};
  const BlockPacking packing = pack_blocks(blocks, {});
  CHECK(packing.bound_bytes == 6);
  CHECK(packing.height_bytes == least_height(blocks));
  CHECK(packing.height_bytes == 7);
  CHECK(packing.is_best);
  CHECK(search_packing(blocks, 6, 100'000).answer == PackAnswer::None);
}

TEST_CASE("a rectangle that was cut is put together again") {
  Random random(2);
  for (int round = 0; round < 20; ++round) {
    CAPTURE(round);
    const std::vector<BlockLife> blocks = cut_rectangle(random, 1000, 100'000, 60);
    const BlockPacking packing = pack_blocks(blocks, {});
    CHECK(packing.bound_bytes == 100'000);
    CHECK(packing.height_bytes == 100'000);
    CHECK(packing.is_best);
    CHECK(fault_of(blocks, packing).empty());
  }
}

TEST_CASE("many blocks are packed by first fits alone, and a packing says so") {
  Random random(3);
  const std::vector<BlockLife> blocks = random_blocks(random, 5000, 4000);
  const BlockPacking packing = pack_blocks(blocks, {.comparisons = 70'000'000});
  CHECK(fault_of(blocks, packing).empty());
  CHECK(packing.height_bytes >= packing.bound_bytes);
  CHECK(packing.height_bytes <= packing.bound_bytes + packing.bound_bytes / 20);
  CHECK(packing.found_by.starts_with("first fit"));
  const BlockPacking again = pack_blocks(blocks, {.comparisons = 70'000'000});
  CHECK(again.offsets == packing.offsets);
}

TEST_CASE("a search without nodes knows nothing") {
  Random random(4);
  const std::vector<BlockLife> blocks = cut_rectangle(random, 1000, 100'000, 60);
  const ExactPacking answer = search_packing(blocks, 100'000, 3);
  CHECK(answer.answer == PackAnswer::Unknown);
  CHECK(answer.nodes_used == 3);
}

TEST_CASE("a node of many blocks counts for several") {
  const std::vector<BlockLife> few(400, {.begin = 0, .end = 1, .size_bytes = 1});
  const std::vector<BlockLife> many(1600, {.begin = 0, .end = 1, .size_bytes = 1});
  CHECK(search_packing(few, few.size(), 100'000).nodes_used <= 2 * few.size());
  const ExactPacking found = search_packing(many, many.size(), 100'000);
  CHECK(found.answer == PackAnswer::Found);
  CHECK(found.nodes_used > 8 * many.size());
}

TEST_CASE("faults of packings are found") {
  const std::vector<BlockLife> blocks = {{0, 4, 10}, {2, 6, 10}, {4, 8, 10}, {1, 2, 0}};
  const BlockPacking good{.offsets = {0, 10, 0, 5}, .height_bytes = 20};
  CHECK(fault_of(blocks, good).empty());
  BlockPacking shares = good;
  shares.offsets[1] = 9;
  CHECK(fault_of(blocks, shares) == "blocks 0 and 1 share bytes");
  BlockPacking same = good;
  same.offsets[1] = 0;
  CHECK_FALSE(fault_of(blocks, same).empty());
  BlockPacking late = good;
  late.offsets[2] = 15;
  late.height_bytes = 25;
  CHECK(fault_of(blocks, late) == "blocks 1 and 2 share bytes");
  BlockPacking high = good;
  high.height_bytes = 19;
  CHECK(fault_of(blocks, high) == "block 1 ends above the height");
  BlockPacking few = good;
  few.offsets.pop_back();
  CHECK(fault_of(blocks, few) == "3 offsets for 4 blocks");
}

TEST_CASE("a first fit gives up above its limit") {
  const std::vector<BlockLife> blocks = {{0, 4, 10}, {0, 4, 10}};
  const std::vector<std::uint32_t> order = {0, 1};
  FirstFit first_fit(blocks);
  CHECK(first_fit.pack(order).height_bytes == 20);
  CHECK(first_fit.pack(order, 20).offsets.size() == 2);
  CHECK(first_fit.pack(order, 19).offsets.empty());
}

// One FirstFit for several orders, some given up: none may leave anything behind.
TEST_CASE("first fit puts each block where a search by hand puts it") {
  Random random(8);
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    // Few times: many blocks begin or end at one. Many: lives that share none.
    const std::uint64_t time_end = 2 + up_to(random, round % 2 == 0 ? 12 : 300);
    std::vector<BlockLife> blocks = random_blocks(random, 1 + up_to(random, 40), time_end);
    for (BlockLife& block : blocks) {
      if (up_to(random, 19) == 0) block.size_bytes = 0;
      if (up_to(random, 3) == 0) block.size_bytes *= 100;
    }
    std::vector<std::uint32_t> order(blocks.size());
    std::iota(order.begin(), order.end(), 0U);
    FirstFit first_fit(blocks);
    for (int repeat = 0; repeat < 3; ++repeat) {
      std::ranges::shuffle(order, random);
      const std::vector<std::uint64_t> offsets = first_fit_by_hand(blocks, order);
      const std::uint64_t height = height_of(blocks, offsets);
      const BlockPacking packing = first_fit.pack(order);
      REQUIRE(packing.offsets == offsets);
      REQUIRE(packing.height_bytes == height);
      if (height == 0) continue;
      REQUIRE(first_fit.pack(order, height).offsets == offsets);
      REQUIRE(first_fit.pack(order, height - 1).offsets.empty());
    }
  }
}

TEST_CASE("a quick packing tries more orders only where there is room for their comparisons") {
  Random random(7);
  std::size_t better_count = 0;
  for (int i = 0; i < 200; ++i) {
    const std::vector<BlockLife> blocks = random_blocks(random, 12, 20);
    const BlockPacking one = pack_quickly(blocks, 0);
    const BlockPacking all = pack_quickly(blocks, 1'000'000);
    CHECK(fault_of(blocks, one).empty());
    CHECK(one.found_by == "first fit by size");
    CHECK(fault_of(blocks, all).empty());
    CHECK(all.height_bytes <= one.height_bytes);
    CHECK(all.is_best == (all.height_bytes == peak_bytes(blocks)));
    better_count += all.height_bytes < one.height_bytes ? 1 : 0;
  }
  CHECK(better_count > 10);
}

}  // namespace allocmark
