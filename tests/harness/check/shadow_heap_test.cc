// Goal: the oracle finds every kind of planted fault and stays silent on good heaps.
#include "harness/core/check/shadow_heap.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

ShadowBlock block(std::uint64_t id, std::uint64_t address, std::uint64_t size_bytes,
                  std::uint32_t stream = 0) {
  return {.event_index = id * 10,
          .id = id,
          .address = address,
          .size_bytes = size_bytes,
          .stream = stream};
}

HeapRule rule_of(const std::optional<BrokenRule>& broken) {
  REQUIRE(broken);
  return broken->rule;
}

TEST_CASE("neighbours that touch do not overlap, and memory can be used again after its free") {
  ShadowHeap heap(512);
  REQUIRE_FALSE(heap.allocate(block(1, 0x1000, 512)));
  REQUIRE_FALSE(heap.allocate(block(2, 0x1200, 512)));
  REQUIRE_FALSE(heap.allocate(block(3, 0x0E00, 512)));
  heap.deallocate(block(1, 0x1000, 512));
  REQUIRE_FALSE(heap.allocate(block(4, 0x1000, 100)));
  REQUIRE(heap.live_count() == 3);
}

TEST_CASE("an overlap from below, above, inside and outside is found, with both blocks named") {
  ShadowHeap heap(1);
  REQUIRE_FALSE(heap.allocate(block(1, 1000, 100)));
  REQUIRE(rule_of(heap.allocate(block(2, 950, 51))) == HeapRule::NoOverlap);
  REQUIRE(rule_of(heap.allocate(block(2, 1099, 10))) == HeapRule::NoOverlap);
  REQUIRE(rule_of(heap.allocate(block(2, 1010, 10))) == HeapRule::NoOverlap);
  REQUIRE(rule_of(heap.allocate(block(2, 900, 1000))) == HeapRule::NoOverlap);
  const std::string text = heap.allocate(block(2, 1010, 10))->text();
  REQUIRE(text.find("block 1 (event 10") != std::string::npos);
  REQUIRE(text.find("block 2 (event 20") != std::string::npos);
}

TEST_CASE("one address handed out twice is an overlap") {
  ShadowHeap heap(512);
  REQUIRE_FALSE(heap.allocate(block(1, 0x4000, 64)));
  REQUIRE(rule_of(heap.allocate(block(2, 0x4000, 64))) == HeapRule::NoOverlap);
}

TEST_CASE("misaligned, null and endless blocks are found") {
  ShadowHeap heap(512);
  REQUIRE(rule_of(heap.allocate(block(1, 0x1100, 64))) == HeapRule::Aligned);
  REQUIRE(rule_of(heap.allocate(block(2, 0, 64))) == HeapRule::NotNull);
  REQUIRE(rule_of(heap.allocate(block(3, ~std::uint64_t{0} - 511, 4096))) == HeapRule::InRange);
}

TEST_CASE("blocks of size 0 may share an address or have none") {
  ShadowHeap heap(512);
  REQUIRE_FALSE(heap.allocate(block(1, 0, 0)));
  REQUIRE_FALSE(heap.allocate(block(2, 0x1000, 100)));
  REQUIRE_FALSE(heap.allocate(block(3, 0x1000, 0)));
  heap.deallocate(block(3, 0x1000, 0));
  REQUIRE(heap.live_count() == 1);
}

TEST_CASE("of many random blocks exactly those that overlap a live one are found") {
  // Method: a byte map of a small address space is the second opinion.
  Random random(11);
  ShadowHeap heap(1);
  std::vector<std::uint64_t> owner_by_byte(512, 0);
  std::vector<ShadowBlock> live;
  for (std::uint64_t id = 1; id < 20'000; ++id) {
    if (!live.empty() && random.below(2) == 0) {
      const std::size_t index = random.below(live.size());
      const ShadowBlock old_block = live[index];
      heap.deallocate(old_block);
      for (std::uint64_t i = 0; i < old_block.size_bytes; ++i) {
        owner_by_byte[old_block.address + i] = 0;
      }
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(index));
      continue;
    }
    const std::uint64_t size_bytes = random.between(1, 40);
    const ShadowBlock fresh = block(id, random.between(1, 511 - size_bytes), size_bytes);
    bool overlaps = false;
    for (std::uint64_t i = 0; i < size_bytes; ++i) {
      overlaps = overlaps || owner_by_byte[fresh.address + i] != 0;
    }
    REQUIRE(heap.allocate(fresh).has_value() == overlaps);
    if (overlaps) continue;
    live.push_back(fresh);
    for (std::uint64_t i = 0; i < size_bytes; ++i) owner_by_byte[fresh.address + i] = id;
  }
}

}  // namespace
}  // namespace allocmark
