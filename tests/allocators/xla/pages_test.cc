// Goal: blocks are made, used again and given back as XLA's allocator does it. Method: cases worked
// out by hand from the rules of its source, on a device that exists only in numbers.
#include "allocators/xla/pages.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "tests/allocators/caching/fake_device.h"
#include "tests/catch.h"

namespace allocmark::xla {
namespace {

using caching::FakeDevice;
using caching::FakeFailure;

constexpr std::uint64_t kMiBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kGiBytes = std::uint64_t{1} << 30;
constexpr caching::Stream kStream = 7;
constexpr caching::Stream kOther = 8;

std::uint64_t taken(Pages* pages, std::uint64_t size_bytes, caching::Stream stream = kStream) {
  const std::optional<std::uint64_t> address = pages->allocate(size_bytes, stream);
  REQUIRE(address);
  return *address;
}

}  // namespace

TEST_CASE("one byte takes a page of 2 MiB") {
  FakeDevice device(kGiBytes, kGiBytes);
  Pages pages(device, kGiBytes);
  (void)taken(&pages, 1);
  (void)taken(&pages, 2 * kMiBytes + 1);
  CHECK(pages.counters().held_bytes == 6 * kMiBytes);
  CHECK(device.used_bytes() == 6 * kMiBytes);
}

TEST_CASE("the oldest freed block of the same page count serves at once, another one never") {
  FakeDevice device(kGiBytes, kGiBytes);
  Pages pages(device, kGiBytes);
  const std::uint64_t first = taken(&pages, 3 * kMiBytes);
  const std::uint64_t second = taken(&pages, 4 * kMiBytes);
  device.start_busy(kStream);
  REQUIRE(pages.deallocate(second, {kStream}));
  REQUIRE(pages.deallocate(first, {kStream}));
  CHECK(taken(&pages, 6 * kMiBytes) != second);
  CHECK(taken(&pages, 4 * kMiBytes) == second);
  CHECK(taken(&pages, 4 * kMiBytes) == first);
  CHECK(pages.counters().reuse_count == 2);
  CHECK(pages.counters().create_count == 3);
}

TEST_CASE("freed blocks stay until a request finds no budget, then all that are done go back") {
  FakeDevice device(kGiBytes, kGiBytes);
  Pages pages(device, 16 * kMiBytes);
  const std::uint64_t busy = taken(&pages, 2 * kMiBytes, kOther);
  const std::uint64_t first = taken(&pages, 4 * kMiBytes);
  const std::uint64_t second = taken(&pages, 6 * kMiBytes);
  device.start_busy(kOther);
  REQUIRE(pages.deallocate(busy, {kOther}));
  REQUIRE(pages.deallocate(first, {kStream}));
  REQUIRE(pages.deallocate(second, {kStream}));
  CHECK(pages.counters().held_bytes == 12 * kMiBytes);
  (void)taken(&pages, 8 * kMiBytes);
  CHECK(pages.counters().held_bytes == 10 * kMiBytes);
  CHECK(pages.counters().release_count == 2);
  CHECK(pages.counters().reclaim_count == 1);
  CHECK(pages.counters().wait_count == 0);
}

TEST_CASE(
    "blocks that the device uses are waited for, the oldest first, for 1.1 times the request") {
  FakeDevice device(kGiBytes, kGiBytes);
  Pages pages(device, 60 * kMiBytes);
  std::vector<std::uint64_t> blocks;
  for (const std::uint64_t mib : {10, 10, 2, 36}) blocks.push_back(taken(&pages, mib * kMiBytes));
  device.start_busy(kStream);
  for (const std::size_t at : {0, 1, 2}) REQUIRE(pages.deallocate(blocks[at], {kStream}));
  // 1.1 times 20 MiB are 22: the first two blocks are 20, so the third goes as well.
  (void)taken(&pages, 20 * kMiBytes);
  CHECK(pages.counters().release_count == 3);
  CHECK(pages.counters().wait_count == 1);
  CHECK(pages.counters().held_bytes == 56 * kMiBytes);
}

TEST_CASE("what the budget and the device do not give is refused, and nothing is lost") {
  FakeDevice device(kGiBytes, 8 * kMiBytes);
  Pages pages(device, kGiBytes);
  const std::uint64_t held = taken(&pages, 4 * kMiBytes);
  CHECK_FALSE(pages.allocate(6 * kMiBytes, kStream));
  CHECK_FALSE(pages.allocate(2 * kGiBytes, kStream));
  CHECK(pages.counters().held_bytes == 4 * kMiBytes);
  CHECK(pages.deallocate(held, {kStream}));
  CHECK_FALSE(pages.deallocate(held, {kStream}));
  (void)taken(&pages, 6 * kMiBytes);
}

TEST_CASE("a call that fails leaks nothing, whichever it is") {
  // From the thirteenth on memory goes back, where only a lost context fails.
  for (std::uint64_t nth = 1; nth <= 12; ++nth) {
    FakeDevice device(kGiBytes, 8 * kMiBytes);
    {
      Pages pages(device, kGiBytes);
      device.fail_call(nth);
      const auto round = [&] {
        const std::uint64_t block = taken(&pages, 4 * kMiBytes);
        (void)pages.deallocate(block, {kStream, kOther});
        const std::uint64_t again = taken(&pages, 4 * kMiBytes, kOther);
        (void)pages.deallocate(again, {kOther});
        (void)pages.deallocate(taken(&pages, 6 * kMiBytes), {kStream});
      };
      try {
        round();
      } catch (const FakeFailure&) {
      }
      device.fail_call(0);
      pages.clear();
    }
    CHECK(device.is_clean());
  }
}

}  // namespace allocmark::xla
