// The caching allocator's rules one by one, with sizes and places worked out by hand from PyTorch's
// behaviour.
#include "allocators/caching/allocator.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "allocators/caching/async_allocator.h"
#include "allocators/caching/config.h"
#include "allocators/caching/sizes.h"
#include "allocators/caching/snapshot.h"
#include "tests/allocators/caching/fake_device.h"
#include "tests/catch.h"

using namespace allocmark;
using namespace allocmark::caching;

namespace {

struct Setup {
  explicit Setup(std::string_view conf = "", std::uint64_t limit_bytes = 0,
                 std::uint64_t capacity_bytes = 4 * kGiB)
      : device(8 * kGiB, capacity_bytes),
        allocator(device, parse_strict(conf).settings, limit_bytes) {}

  std::uint64_t take(std::uint64_t size_bytes, Stream stream = 0) {
    const std::optional<std::uint64_t> address = allocator.allocate(size_bytes, stream);
    REQUIRE(address.has_value());
    return *address;
  }
  bool fails(std::uint64_t size_bytes) { return !allocator.allocate(size_bytes, 0).has_value(); }
  void give(std::uint64_t address) { REQUIRE(allocator.deallocate(address)); }
  std::uint64_t reserved() const { return allocator.heap().reserved_bytes(); }

  FakeDevice device;
  CachingAllocator allocator;
};

std::uint64_t round_with(std::uint64_t request, std::string_view conf) {
  return round_request(request, parse_strict(conf).settings);
}

}  // namespace

TEST_CASE("requests are rounded to 512 bytes, or to steps between powers of two") {
  CHECK(round_with(1, "") == 512);
  CHECK(round_with(512, "") == 512);
  CHECK(round_with(513, "") == 1024);
  CHECK(round_with(1200, "roundup_power2_divisions:4") == 1536);
  CHECK(round_with(2100, "roundup_power2_divisions:4") == 2560);
  CHECK(round_with(5 * kMiB + 1, "roundup_power2_divisions:4") == 6 * kMiB);
  CHECK(round_with(7 * kMiB, "roundup_power2_divisions:4") == 7 * kMiB);
  CHECK(round_with(7 * kMiB + 1, "roundup_power2_divisions:1") == 7 * kMiB + 512);
}

TEST_CASE("segments are 2 MiB, 20 MiB or the request's own size") {
  Setup setup;
  setup.take(1000);
  CHECK(setup.reserved() == 2 * kMiB);
  setup.take(3 * kMiB);
  CHECK(setup.reserved() == 22 * kMiB);
  setup.take(25 * kMiB);
  CHECK(setup.reserved() == 48 * kMiB);
  // The last megabyte of the third segment belongs to its block.
  CHECK(setup.allocator.counters().allocated_bytes.all().current() ==
        1024 + (3 + 26) * std::int64_t{kMiB});
}

TEST_CASE("expandable segments grow by pages and start in the free tail") {
  Setup setup("expandable_segments:True");
  setup.take(1000);
  const std::uint64_t first = setup.take(3 * kMiB);
  CHECK(setup.reserved() == 22 * kMiB);
  CHECK(setup.take(25 * kMiB) == first + 3 * kMiB);
  CHECK(setup.reserved() == 42 * kMiB);
  CHECK(setup.allocator.counters().segment.all().current() == 0);
  CHECK(setup.allocator.counters().num_device_alloc == 3);
}

TEST_CASE("a request beyond an expandable segment fails, also where the device has more memory") {
  // A device says 8 GiB, so a segment has 9 GiB of addresses; this one gives 64.
  Setup setup("expandable_segments:True", 0, 64 * kGiB);
  CHECK(setup.fails(2048 * kGiB));
  CHECK(setup.fails(10 * kGiB));
  setup.take(9 * kGiB);
}

TEST_CASE("the best fit is the smallest block that is large enough, then the lowest") {
  Setup setup;
  const std::uint64_t large = setup.take(12 * kMiB);
  const std::uint64_t low = setup.take(14 * kMiB);
  const std::uint64_t high = setup.take(14 * kMiB);
  for (const std::uint64_t address : {high, low, large}) setup.give(address);
  CHECK(setup.take(13 * kMiB + 512) == low);
  CHECK(setup.take(12 * kMiB) == large);
  CHECK(setup.take(12 * kMiB) == high);
}

TEST_CASE("a block of another stream is never reused") {
  Setup setup;
  const std::uint64_t first = setup.take(kMiB, 1);
  setup.give(first);
  CHECK(setup.take(kMiB, 2) != first);
  CHECK(setup.take(kMiB, 1) == first);
}

TEST_CASE("oversize blocks serve only oversize requests, and only those that are close") {
  Setup setup("max_split_size_mb:32");
  const std::uint64_t block = setup.take(60 * kMiB);
  setup.give(block);
  CHECK(setup.take(12 * kMiB) != block);
  CHECK(setup.take(40 * kMiB) != block);
  CHECK(setup.take(40 * kMiB + 512) == block);
  CHECK(setup.allocator.counters().oversize_allocations.current() == 2);
  CHECK(setup.allocator.counters().oversize_segments.current() == 2);
}

TEST_CASE("a freed block merges with both neighbours and the counters see the net") {
  Setup setup;
  const std::uint64_t a = setup.take(3 * kMiB);
  const std::uint64_t b = setup.take(3 * kMiB);
  const std::uint64_t c = setup.take(3 * kMiB);
  setup.give(a);
  setup.give(c);
  const Counters& counters = setup.allocator.counters();
  CHECK(counters.inactive_split.all().current() == 2);
  setup.give(b);
  CHECK(counters.inactive_split.all().current() == 0);
  CHECK(counters.inactive_split_bytes.all().current() == 0);
  CHECK(setup.take(20 * kMiB) == a);
}

TEST_CASE("a block used on another stream comes back when that stream has passed") {
  Setup setup;
  const std::uint64_t block = setup.take(kMiB);
  REQUIRE(setup.allocator.record_stream(block, 1));
  setup.device.start_busy(1);
  setup.give(block);
  CHECK(setup.allocator.counters().active.all().current() == 1);
  CHECK(setup.take(kMiB) != block);
  setup.device.end_busy();
  CHECK(setup.take(kMiB) == block);
}

TEST_CASE(
    "a request that fails although waiting freed enough succeeds when repeated (PyTorch issue "
    "189504)") {
  Setup setup("", 40 * kMiB);
  const std::uint64_t held = setup.take(20 * kMiB);
  const std::uint64_t waiting = setup.take(3 * kMiB);
  setup.take(3 * kMiB);
  REQUIRE(setup.allocator.record_stream(waiting, 1));
  setup.device.start_busy(1);
  setup.give(waiting);
  CHECK(setup.fails(15 * kMiB));
  CHECK(setup.take(14 * kMiB) != held);
}

TEST_CASE("a limit counts whole segments, and the failure tells what is known") {
  Setup setup("", 30 * kMiB);
  setup.take(3 * kMiB);
  CHECK(setup.fails(18 * kMiB));
  const Counters& counters = setup.allocator.counters();
  CHECK(counters.num_ooms == 1);
  CHECK(counters.num_alloc_retries == 1);
  CHECK(counters.num_sync_all_streams == 1);
  CHECK(out_of_memory_message(*setup.allocator.last_failure())
            .starts_with("CUDA out of memory. Tried to allocate 18.00 MiB. GPU 0 has a total "
                         "capacity of 8.00 GiB of which 3.98 GiB is "
                         "free. 30.00 MiB allowed; Of the allocated memory 3.00 MiB is allocated "
                         "by PyTorch, and 17.00 MiB is reserved"));
}

TEST_CASE("garbage collection gives back the segments that have been free longest") {
  Setup setup("garbage_collection_threshold:0.5", 100 * kMiB);
  const std::uint64_t old = setup.take(20 * kMiB);
  const std::uint64_t recent = setup.take(24 * kMiB);
  setup.give(old);
  for (int i = 0; i < 10; ++i) setup.give(setup.take(kMiB + 512));
  setup.give(recent);
  setup.take(26 * kMiB);
  // 44 + 20 MiB were cached; the threshold of 50 MiB lets the recent one stay.
  CHECK(setup.allocator.counters().num_alloc_retries == 0);
  CHECK(setup.allocator.counters().num_device_free == 0);
  setup.take(34 * kMiB);
  CHECK(setup.allocator.counters().num_device_free > 0);
}

TEST_CASE("empty_cache gives whole segments and whole pages back, and nothing that is in use") {
  Setup native;
  const std::uint64_t kept = native.take(3 * kMiB);
  native.give(native.take(30 * kMiB));
  native.allocator.empty_cache();
  CHECK(native.reserved() == 20 * kMiB);
  native.give(kept);
  native.allocator.empty_cache();
  CHECK(native.reserved() == 0);

  Setup expandable("expandable_segments:True");
  expandable.take(3 * kMiB);
  expandable.give(expandable.take(60 * kMiB));
  CHECK(expandable.reserved() == 80 * kMiB);
  expandable.allocator.empty_cache();
  CHECK(expandable.reserved() == 20 * kMiB);
}

TEST_CASE("lowering max_split_size never tears a segment apart, and the case is counted") {
  Setup setup("", 0, 100 * kMiB);
  const std::uint64_t first = setup.take(40 * kMiB);
  setup.give(first);
  setup.take(3 * kMiB);
  setup.take(50 * kMiB);
  Settings lowered = setup.allocator.settings();
  lowered.max_split_size_bytes = 30 * kMiB;
  setup.allocator.change_settings(lowered);
  CHECK(setup.fails(60 * kMiB));
  CHECK(setup.allocator.heap().split_release_count == 1);
}

TEST_CASE("an address that is not held is told apart") {
  Setup setup;
  const std::uint64_t block = setup.take(1);
  CHECK_FALSE(setup.allocator.deallocate(block + 512));
  CHECK_FALSE(setup.allocator.record_stream(block + 512, 1));
  setup.give(block);
  CHECK_FALSE(setup.allocator.deallocate(block));
}

TEST_CASE("there are 122 counters and that of rejections, sorted") {
  Setup setup;
  setup.give(setup.take(5 * kMiB));
  setup.take(kMiB);
  const auto flat = flatten(setup.allocator.counters());
  CHECK(flat.size() == 123);
  CHECK(std::ranges::is_sorted(flat));
  std::map<std::string, std::int64_t> before(flat.begin(), flat.end());
  CHECK(before["allocated_bytes.all.peak"] == 5 * std::int64_t{kMiB});
  CHECK(before["max_split_size"] == -1);
  CHECK(before["allocation.large_pool.freed"] == 1);
}

TEST_CASE("a snapshot shows segments and blocks in PyTorch's words") {
  Setup setup;
  const std::uint64_t block = setup.take(3 * kMiB - 7);
  const std::vector<SegmentInfo> segments = take_snapshot(setup.allocator);
  REQUIRE(segments.size() == 1);
  const SegmentInfo& segment = segments.front();
  CHECK(segment.address == block);
  CHECK(segment.total_bytes == 20 * kMiB);
  CHECK(segment.allocated_bytes == 3 * kMiB);
  CHECK(segment.active_bytes == 3 * kMiB);
  CHECK(segment.requested_bytes == 3 * kMiB - 7);
  CHECK(segment.kind == PoolKind::Large);
  CHECK_FALSE(segment.expandable);
  REQUIRE(segment.blocks.size() == 2);
  CHECK(to_string(segment.blocks[0].state) == "active_allocated");
  CHECK(segment.blocks[0].requested_bytes == 3 * kMiB - 7);
  CHECK(segment.blocks[1].address == block + 3 * kMiB);
  CHECK(segment.blocks[1].size_bytes == 17 * kMiB);
  CHECK(to_string(segment.blocks[1].state) == "inactive");
}

TEST_CASE("sizes in messages are PyTorch's") {
  CHECK(format_size(1024) == "1024 bytes");
  CHECK(format_size(1536) == "1.50 KiB");
  CHECK(format_size(kMiB) == "1024.00 KiB");
  CHECK(format_size(20 * kMiB) == "20.00 MiB");
  CHECK(format_size(kTiB) == "1024.00 GiB");
}

TEST_CASE("the driver's pool gets requests unrounded and under the limit") {
  FakeDevice device(8 * kGiB, 4 * kGiB);
  {
    AsyncAllocator allocator(device, 1000);
    const std::optional<std::uint64_t> first = allocator.allocate(700, 1);
    REQUIRE(first.has_value());
    CHECK(device.used_bytes() == 700);
    CHECK_FALSE(allocator.allocate(301, 1).has_value());
    CHECK(out_of_memory_message(*allocator.last_failure())
              .find("Requested               : 301 bytes") != std::string::npos);
    CHECK(allocator.allocate(300, 1).has_value());
    REQUIRE(allocator.record_stream(*first, 2));
    CHECK(allocator.deallocate(*first));
    CHECK_FALSE(allocator.deallocate(*first));
  }
  CHECK(device.is_clean());
}
