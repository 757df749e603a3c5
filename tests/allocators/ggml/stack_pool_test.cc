// Goal: the pool of virtual memory decides as llama.cpp's does. Method: cases worked out by hand
// from the rules of its source, and random stacks beside a sum of sizes.
#include "allocators/ggml/stack_pool.h"

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "tests/allocators/caching/fake_device.h"
#include "tests/catch.h"

namespace allocmark::ggml {
namespace {

using caching::FakeDevice;
using caching::FakeFailure;

}  // namespace

TEST_CASE("blocks of 128 B units lie on each other, memory comes in units of 2 MiB") {
  FakeDevice device(kGiB, kGiB);
  StackPool pool(device, FreeOrder::Strict);
  const std::uint64_t first = *pool.allocate(1);
  CHECK(pool.counters().mapped_bytes == 2 * kMiB);
  CHECK(pool.room_bytes() == 2 * kMiB - 128);
  // 128 B are missing.
  CHECK(pool.allocate(2 * kMiB) == first + 128);
  CHECK(pool.counters().mapped_bytes == 4 * kMiB);
  // 3 MiB and 128 B are missing.
  CHECK(pool.allocate(5 * kMiB - 1) == first + 128 + 2 * kMiB);
  CHECK(pool.counters().mapped_bytes == 8 * kMiB);
  CHECK(pool.counters().live_bytes == 7 * kMiB + 128);
  CHECK(pool.counters().map_count == 3);
  CHECK(device.used_bytes() == 8 * kMiB);
}

TEST_CASE("freed bytes serve the next request at the same place, and no memory goes back") {
  FakeDevice device(kGiB, kGiB);
  StackPool pool(device, FreeOrder::Strict);
  const std::uint64_t first = *pool.allocate(3 * kMiB);
  const std::uint64_t second = *pool.allocate(kMiB);
  REQUIRE(pool.deallocate(second));
  CHECK_FALSE(pool.deallocate(second));
  CHECK(pool.allocate(100) == second);
  REQUIRE((pool.deallocate(second) && pool.deallocate(first)));
  CHECK(pool.counters().live_bytes == 0);
  CHECK(pool.counters().mapped_bytes == 4 * kMiB);
  CHECK(pool.allocate(4 * kMiB) == first);
  CHECK(device.used_bytes() == 4 * kMiB);
  CHECK_FALSE(pool.deallocate(first + 128));
}

TEST_CASE("after a free that is not of the last block the next request is an error") {
  FakeDevice device(kGiB, kGiB);
  StackPool pool(device, FreeOrder::Strict);
  const std::uint64_t first = *pool.allocate(200);
  const std::uint64_t second = *pool.allocate(300);
  const std::uint64_t third = *pool.allocate(400);
  REQUIRE(pool.deallocate(first));
  try {
    (void)pool.allocate(1);
    FAIL("no error");
  } catch (const UsageError& error) {
    CHECK(error.text().got == "a free of 256 bytes below 2 blocks");
  }
  // What is all free is a stack again.
  REQUIRE((pool.deallocate(second) && pool.deallocate(third)));
  CHECK(pool.allocate(1) == first);
}

TEST_CASE("where any order is allowed, a block keeps its bytes until those on it are free") {
  FakeDevice device(kGiB, kGiB);
  StackPool pool(device, FreeOrder::Any);
  const std::uint64_t first = *pool.allocate(128);
  const std::uint64_t second = *pool.allocate(256);
  const std::uint64_t third = *pool.allocate(512);
  REQUIRE(pool.deallocate(second));
  CHECK_FALSE(pool.deallocate(second));
  CHECK(pool.counters().live_bytes == 640);
  CHECK(pool.counters().stack_bytes == 896);
  CHECK(pool.allocate(1) == third + 512);
  REQUIRE(pool.deallocate(third + 512));
  REQUIRE(pool.deallocate(third));
  CHECK(pool.counters().stack_bytes == 128);
  CHECK(pool.allocate(1) == first + 128);
}

TEST_CASE("the addresses end at 32 GiB, of which the device is not asked") {
  FakeDevice device(64 * kGiB, 64 * kGiB);
  StackPool pool(device, FreeOrder::Strict);
  REQUIRE(pool.allocate(20 * kGiB));
  const std::uint64_t call_count = device.call_count();
  CHECK_FALSE(pool.allocate(12 * kGiB + 1));
  CHECK(device.call_count() == call_count);
  CHECK(pool.allocate(12 * kGiB));
  CHECK(pool.room_bytes() == 0);
  CHECK_FALSE(pool.allocate(1));
}

TEST_CASE("a device without memory changes nothing, and a smaller request is served") {
  FakeDevice device(kGiB, 7 * kMiB);
  StackPool pool(device, FreeOrder::Strict);
  const std::uint64_t first = *pool.allocate(3 * kMiB);
  CHECK_FALSE(pool.allocate(4 * kMiB));
  CHECK(pool.counters().stack_bytes == 3 * kMiB);
  CHECK(pool.counters().mapped_bytes == 4 * kMiB);
  CHECK(pool.allocate(3 * kMiB) == first + 3 * kMiB);
}

TEST_CASE("whichever call of the device fails, nothing is lost") {
  for (std::uint64_t nth = 1; nth <= 10; ++nth) {
    CAPTURE(nth);
    FakeDevice device(kGiB, kGiB);
    {
      StackPool pool(device, FreeOrder::Strict);
      device.fail_call(nth);
      std::uint32_t failed_count = 0;
      for (int i = 0; i < 2; ++i) {
        try {
          (void)pool.allocate(3 * kMiB);
        } catch (const FakeFailure&) {
          ++failed_count;
        }
      }
      // create, reserve, map, release, access; then without reserve.
      CHECK(failed_count == (nth <= 9 ? 1 : 0));
      device.fail_call(0);
      REQUIRE(pool.allocate(kMiB));
    }
    CHECK(device.is_clean());
  }
}

TEST_CASE("random stacks lie where the sum of their sizes says") {
  std::mt19937_64 random(5);
  FakeDevice device(64 * kGiB, 64 * kGiB);
  StackPool pool(device, FreeOrder::Strict);
  const std::uint64_t base = *pool.allocate(1);
  REQUIRE(pool.deallocate(base));
  std::vector<std::uint64_t> tops{0};
  std::uint64_t mapped_units = 1;
  for (int i = 0; i < 200'000; ++i) {
    if (tops.size() > 1 && random() % 2 == 0) {
      tops.pop_back();
      REQUIRE(pool.deallocate(base + tops.back()));
      continue;
    }
    const std::uint64_t size_bytes = 1 + random() % (random() % 20 == 0 ? 50 * kMiB : 5000);
    const std::uint64_t top = tops.back() + (size_bytes / 128 + (size_bytes % 128 > 0)) * 128;
    REQUIRE(pool.allocate(size_bytes) == base + tops.back());
    tops.push_back(top);
    while (mapped_units * 2 * kMiB < top) ++mapped_units;
    REQUIRE(pool.counters().mapped_bytes == mapped_units * 2 * kMiB);
  }
  CHECK(device.used_bytes() == mapped_units * 2 * kMiB);
}

}  // namespace allocmark::ggml
