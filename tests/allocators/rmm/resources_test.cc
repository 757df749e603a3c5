// Goal: RMM's other resources decide as its source does. Method: cases worked out by hand, on a
// device that exists only in numbers.
#include <cstdint>
#include <optional>
#include <vector>

#include "allocators/rmm/arena.h"
#include "allocators/rmm/fixed_size.h"
#include "allocators/rmm/pool.h"
#include "tests/allocators/rmm/site_on_device.h"
#include "tests/catch.h"

namespace allocmark::rmm {
TEST_CASE("a fixed size serves no larger request, the first freed block first, and grows whole") {
  SiteOnDevice made(10 * kMiBytes);
  FixedSize fixed(made.site, made.memory,
                  {.block_bytes = kMiBytes, .block_count = 4, .records_joins = false});
  REQUIRE(fixed.open());
  CHECK(made.counters.device_bytes == 4 * kMiBytes);
  CHECK_FALSE(fixed.allocate(kMiBytes + 1, 0));
  std::vector<std::uint64_t> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(*fixed.allocate(1, 0));
  CHECK(blocks[3] == blocks[0] + 3 * kMiBytes);
  fixed.deallocate(blocks[2], 1, 0);
  fixed.deallocate(blocks[0], 1, 0);
  CHECK(*fixed.allocate(1, 0) == blocks[2]);
  CHECK(*fixed.allocate(1, 0) == blocks[0]);
  REQUIRE(fixed.allocate(1, 0));
  CHECK(made.counters.device_bytes == 8 * kMiBytes);
  for (int i = 0; i < 3; ++i) REQUIRE(fixed.allocate(1, 0));
  // The device has 2 MiB left, which is no growth of 4.
  CHECK_FALSE(fixed.allocate(1, 0));
}

TEST_CASE("a bin serves up to its size, and above all of them the pool does") {
  SiteOnDevice made(64 * kMiBytes);
  Pool pool(made.site, made.memory, {.initial_bytes = 2 * kMiBytes});
  REQUIRE(pool.open());
  Binning bins(made.site, pool, {.least = 10, .most = 11}, false);
  REQUIRE(bins.open());
  // 128 blocks of each.
  CHECK(pool.free_bytes_largest(0) == 2 * kMiBytes - 128 * 3072);
  CHECK(bins.taken_bytes(1024) == 1024);
  CHECK(bins.taken_bytes(1025) == 2048);
  CHECK(bins.taken_bytes(2049) == 2304);
  const std::uint64_t small = *bins.allocate(1, 0);
  CHECK(*bins.allocate(1024, 0) == small + 1024);
  const std::uint64_t large = *bins.allocate(2049, 0);
  CHECK(large >= small + 128 * std::uint64_t{3072});
  bins.deallocate(large, 2049, 0);
  CHECK(*bins.allocate(2049, 0) == large);
}

TEST_CASE("an arena cuts superblocks of 1 MiB, and takes larger requests of what no stream has") {
  SiteOnDevice made(8 * kMiBytes);
  Arena arena(made.site, made.memory, 8 * kMiBytes);
  REQUIRE(arena.open());
  const std::uint64_t first = *arena.allocate(1000, kA);
  CHECK(*arena.allocate(1, kA) == first + 1024);
  CHECK(*arena.allocate(1, kB) == first + kMiBytes);
  const std::uint64_t large = *arena.allocate(3 * kMiBytes, kA);
  CHECK(large == first + 2 * kMiBytes);
  // 3 MiB are left, of which a superblock is cut.
  CHECK(*arena.allocate(kMiBytes, kA) == first + 5 * kMiBytes);
}

TEST_CASE("an arena's superblocks come back when a request fails, and the host waits once") {
  SiteOnDevice made(4 * kMiBytes);
  Arena arena(made.site, made.memory, 4 * kMiBytes);
  REQUIRE(arena.open());
  const std::uint64_t of_a = *arena.allocate(1000, kA);
  const std::uint64_t of_b = *arena.allocate(1000, kB);
  arena.deallocate(of_a, 1000, kA);
  CHECK(made.counters.device_wait_count == 0);
  // Without A's superblock 2 MiB are left, with it no more in one piece.
  CHECK_FALSE(arena.allocate(3 * kMiBytes, kA));
  CHECK(made.counters.device_wait_count == 1);
  arena.deallocate(of_b, 1000, kA);
  CHECK(*arena.allocate(4 * kMiBytes, kB) == of_a);
  CHECK(made.counters.device_wait_count == 1);
}

TEST_CASE("a block that another stream gives back returns to the arena that has it") {
  SiteOnDevice made(4 * kMiBytes);
  Arena arena(made.site, made.memory, 2 * kMiBytes);
  REQUIRE(arena.open());
  const std::uint64_t of_a = *arena.allocate(kMiBytes, kA);
  arena.deallocate(of_a, kMiBytes, kB);
  CHECK(*arena.allocate(kMiBytes, kB) == of_a + kMiBytes);
  CHECK(*arena.allocate(kMiBytes, kA) == of_a);
}

TEST_CASE("a pool's maximum counts what is left as a multiple of 256 bytes") {
  SiteOnDevice made(8 * kMiBytes);
  Pool pool(made.site, made.memory, {.initial_bytes = 256, .bytes_max = 256 * 4});
  REQUIRE(pool.open());
  REQUIRE(pool.allocate(256, 0));
  // Half of 768 is 384, which leaves 384 of 1024: it counts as 512.
  REQUIRE(pool.allocate(256, 0));
  CHECK(made.counters.device_bytes == 256 + 384);
  REQUIRE(pool.allocate(512, 0));
  CHECK(made.counters.device_bytes == 256 + 384 + 512);
  CHECK_FALSE(pool.allocate(256, 0));
}

}  // namespace allocmark::rmm
