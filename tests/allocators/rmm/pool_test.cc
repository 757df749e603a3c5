// Goal: RMM's pool decides as its source does. Method: cases worked out by hand, on a device that
// exists only in numbers; among them two public reports, before and after rmm 2470.
#include "allocators/rmm/pool.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tests/allocators/rmm/site_on_device.h"
#include "tests/catch.h"

namespace allocmark::rmm {
namespace {

constexpr std::uint64_t kGiBytes = std::uint64_t{1} << 30;

struct PoolOnDevice : SiteOnDevice {
  PoolOnDevice(std::uint64_t capacity_bytes, const PoolOptions& options)
      : SiteOnDevice(capacity_bytes), pool(site, memory, options) {}

  Pool pool;
};

// How many of `count` equal requests are served while all live.
std::uint64_t served_of(Resource* pool, std::uint64_t count, std::uint64_t size_bytes) {
  std::uint64_t served = 0;
  for (std::uint64_t i = 0; i < count; ++i) served += pool->allocate(size_bytes, 0) ? 1 : 0;
  return served;
}

}  // namespace

TEST_CASE("a pool without a maximum doubles, and halves what the device refuses") {
  PoolOnDevice made(700 * kMiBytes, {.initial_bytes = 256 * kMiBytes});
  Pool& pool = made.pool;
  REQUIRE(pool.open());
  REQUIRE(pool.allocate(200 * kMiBytes, 0));
  REQUIRE(pool.allocate(100 * kMiBytes, 0));
  CHECK(made.counters.device_bytes == 512 * kMiBytes);
  // 512 and 256 are refused. Half of that is less than the request, which is asked for then.
  REQUIRE(pool.allocate(170 * kMiBytes, 0));
  CHECK(made.counters.device_bytes == (512 + 170) * kMiBytes);
  CHECK(made.counters.refusal_count == 2);
}

TEST_CASE("the smallest block that fits serves, and what is left of it joins its neighbours") {
  PoolOnDevice made(kGiBytes, {.initial_bytes = 10 * kMiBytes});
  Pool& pool = made.pool;
  REQUIRE(pool.open());
  std::vector<std::uint64_t> blocks;
  for (const std::uint64_t mib : {4, 1, 2, 1}) blocks.push_back(*pool.allocate(mib * kMiBytes, 0));
  pool.deallocate(blocks[0], 4 * kMiBytes, 0);
  pool.deallocate(blocks[2], 2 * kMiBytes, 0);
  CHECK(*pool.allocate(kMiBytes, 0) == blocks[2]);
  pool.deallocate(blocks[1], kMiBytes, 0);
  CHECK(pool.free_bytes_largest(0) == 5 * kMiBytes);
}

TEST_CASE("blocks of two pieces of the device's memory never join") {
  PoolOnDevice made(kGiBytes, {.initial_bytes = 2 * kMiBytes});
  Pool& pool = made.pool;
  REQUIRE(pool.open());
  const std::uint64_t first = *pool.allocate(2 * kMiBytes, 0);
  const std::uint64_t second = *pool.allocate(2 * kMiBytes, 0);
  REQUIRE(second == first + 2 * kMiBytes);
  for (const auto& [sooner, later] : {std::pair(first, second), std::pair(second, first)}) {
    pool.deallocate(sooner, 2 * kMiBytes, 0);
    pool.deallocate(later, 2 * kMiBytes, 0);
    CHECK(pool.free_bytes_largest(0) == 2 * kMiBytes);
    REQUIRE(*pool.allocate(2 * kMiBytes, 0) == first);
    REQUIRE(*pool.allocate(2 * kMiBytes, 0) == second);
  }
}

TEST_CASE("another stream's block is waited for, and lists join before the pool grows") {
  PoolOnDevice made(kGiBytes, {.initial_bytes = 4 * kMiBytes});
  Pool& pool = made.pool;
  REQUIRE(pool.open());
  const std::uint64_t left = *pool.allocate(2 * kMiBytes, kA);
  const std::uint64_t right = *pool.allocate(2 * kMiBytes, kB);
  CHECK(made.counters.stream_wait_count == 2);  // both for the default stream, which has the pool
  pool.deallocate(left, 2 * kMiBytes, kA);
  CHECK(*pool.allocate(2 * kMiBytes, kB) == left);
  pool.deallocate(left, 2 * kMiBytes, kA);
  pool.deallocate(right, 2 * kMiBytes, kB);
  // Half of it lies in either list.
  CHECK(*pool.allocate(4 * kMiBytes, kB) == left);
  CHECK(made.counters.device_bytes == 4 * kMiBytes);
}

TEST_CASE("rmm 1957: a request of the maximum is served since 26.10 alone") {
  for (const bool reclaims : {false, true}) {
    PoolOnDevice made(
        2 * kGiBytes,
        {.initial_bytes = 256 * kMiBytes, .bytes_max = kGiBytes, .reclaims = reclaims});
    Pool& pool = made.pool;
    REQUIRE(pool.open());
    CHECK(pool.allocate(kGiBytes, 0).has_value() == reclaims);
    CHECK(made.counters.device_bytes == (reclaims ? kGiBytes : 256 * kMiBytes));
    CHECK(made.counters.give_count == (reclaims ? 1 : 0));
  }
}

TEST_CASE("rmm 1664: of eight blocks that fill a pool five fit, and six since 26.10") {
  // It grows by 31.5 MiB for three blocks, by 15.8 for one and by 8 for one; 7.8 MiB are left.
  for (const bool reclaims : {false, true}) {
    PoolOnDevice made(
        kGiBytes, {.initial_bytes = 1'000'192, .bytes_max = 64 * kMiBytes, .reclaims = reclaims});
    Pool& pool = made.pool;
    REQUIRE(pool.open());
    CHECK(served_of(&pool, 8, 8 * kMiBytes) == (reclaims ? 6 : 5));
  }
}

TEST_CASE("what cannot fit below the maximum gives nothing back") {
  PoolOnDevice made(kGiBytes,
                    {.initial_bytes = 8 * kMiBytes, .bytes_max = 16 * kMiBytes, .reclaims = true});
  Pool& pool = made.pool;
  REQUIRE(pool.open());
  CHECK_FALSE(pool.allocate(17 * kMiBytes, 0));
  CHECK(made.counters.device_bytes == 8 * kMiBytes);
  REQUIRE(pool.allocate(4 * kMiBytes, 0));
  // The initial memory is in use, and does not go back for it.
  CHECK_FALSE(pool.allocate(9 * kMiBytes, 0));
  CHECK(made.counters.give_count == 0);
}

}  // namespace allocmark::rmm
