// Goal: blocks of pinned memory share slabs as the driver's do, and calls cost what H200 hosts
// took. Method: blocks by hand; costs between and beyond the rows of the table, with literals.
#include "harness/simcuda/core/pinned_blocks.h"
#include "harness/simcuda/core/pinning_costs.h"
#include "tests/catch.h"

using namespace simcuda;

namespace {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

}  // namespace

TEST_CASE("short blocks share a slab, which goes with its last one") {
  PinnedBlocks blocks;
  CHECK(blocks.missing_bytes(1) == 2 * kMib);
  const std::uint64_t first = blocks.place(1, 1000 * kMib);
  CHECK(first == 1000 * kMib);
  CHECK(blocks.missing_bytes(kMib) == 0);
  const std::uint64_t second = blocks.place(kMib, 0);
  CHECK(second == 1000 * kMib + 512);
  CHECK(blocks.missing_bytes(kMib) == 2 * kMib);
  CHECK(blocks.remove(first).empty());
  const Range slab = blocks.remove(second);
  CHECK(slab.lo == 1000 * kMib);
  CHECK(slab.size_bytes() == 2 * kMib);
  CHECK(blocks.missing_bytes(1) == 2 * kMib);
}

TEST_CASE("a long block has whole pages of its own") {
  PinnedBlocks blocks;
  CHECK(blocks.missing_bytes(2 * kMib) == 2 * kMib);
  CHECK(blocks.missing_bytes(2 * kMib + 1) == 2 * kMib + 4096);
  const std::uint64_t block = blocks.place(2 * kMib + 1, 64 * kMib);
  CHECK(blocks.missing_bytes(512) == 2 * kMib);
  CHECK(blocks.remove(block).size_bytes() == 2 * kMib + 4096);
}

TEST_CASE("pinning takes what the middle of five hosts took, between sizes in proportion") {
  CHECK(pinning_ns(PinCall::Allocate, 32 * kMib) == 11'443'000);
  CHECK(pinning_ns(PinCall::Allocate, 48 * kMib) == 16'759'000);
  CHECK(pinning_ns(PinCall::Allocate, 2048 * kMib) == 2 * 1024 * (403'223'000 / 1024));
  CHECK(pinning_ns(PinCall::Free, 8 * kMib) == 736'000);
  CHECK(pinning_ns(PinCall::Unregister, 64 * kMib) == 1'018'000);
  // Up to a slab's size, a share of a slab.
  CHECK(pinning_ns(PinCall::Allocate, 2 * kMib) == 600'000);
  CHECK(pinning_ns(PinCall::Allocate, kMib / 2) == 150'000);
  // Below the first row a registration keeps what it takes at least.
  CHECK(pinning_ns(PinCall::RegisterTouched, 1) == 45'056);
  CHECK(pinning_ns(PinCall::RegisterTouched, kMib) == 102'000);
}

TEST_CASE("a chunk of a pool costs by the request that takes it") {
  CHECK(pinning_ns(PinCall::TakeChunk, 4096) == 4'741'000);
  CHECK(pinning_ns(PinCall::TakeChunk, 8 * kMib) == 4'910'000);
  CHECK(pinning_ns(PinCall::TakeChunk, 4096 * kMib) == 7'787'000);
  CHECK(pinning_ns(PinCall::ReturnChunk, 32 * kMib) == 1'057'000);
}
