// Private pools rule by rule, with sizes and places worked out by hand from PyTorch's behaviour.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "allocators/caching/allocator.h"
#include "allocators/caching/config.h"
#include "allocators/caching/snapshot.h"
#include "base/error.h"
#include "tests/allocators/caching/fake_device.h"
#include "tests/catch.h"

using namespace allocmark;
using namespace allocmark::caching;

namespace {

struct PoolSetup {
  explicit PoolSetup(std::string_view release = "2.15", std::string_view conf = "",
                     std::uint64_t capacity_bytes = 4 * kGiB)
      : device(8 * kGiB, capacity_bytes),
        allocator(device, parse_strict(conf, *find_rules(release)).settings) {}

  std::uint64_t take(std::uint64_t size_bytes, Stream stream = 0) {
    const std::optional<std::uint64_t> address = allocator.allocate(size_bytes, stream);
    REQUIRE(address.has_value());
    return *address;
  }
  // A request routed to that pool, which is made if it is not there, and keeps no use of it.
  std::uint64_t take_in(std::uint64_t pool, std::uint64_t size_bytes) {
    allocator.begin_pool(pool, std::nullopt);
    const std::uint64_t address = take(size_bytes);
    allocator.end_pool(pool);
    allocator.release_pool(pool);
    return address;
  }
  void give(std::uint64_t address) { REQUIRE(allocator.deallocate(address)); }
  [[nodiscard]] std::uint64_t reserved() const { return allocator.heap().reserved_bytes(); }
  [[nodiscard]] std::uint64_t reserved_of(std::uint64_t pool) const {
    std::uint64_t bytes = 0;
    for (const SegmentInfo& segment : take_snapshot(allocator))
      bytes += segment.pool == pool ? segment.total_bytes : 0;
    return bytes;
  }

  FakeDevice device;
  CachingAllocator allocator;
};

}  // namespace

TEST_CASE("memory of a private pool serves its own requests only") {
  PoolSetup setup;
  setup.allocator.use_pool(1);
  const std::uint64_t inside = setup.take_in(1, 3 * kMiB);
  setup.give(inside);
  CHECK(setup.reserved_of(1) == 20 * kMiB);
  CHECK(setup.take(3 * kMiB) != inside);
  CHECK(setup.reserved_of(0) == 20 * kMiB);
  CHECK(setup.take_in(1, 3 * kMiB) == inside);
  CHECK(setup.take_in(2, 3 * kMiB) != inside);
  CHECK(setup.reserved() == 60 * kMiB);
}

TEST_CASE("a pool is routed to by stream or by every stream, the last one begun first") {
  PoolSetup setup;
  setup.allocator.begin_pool(1, std::nullopt);
  setup.allocator.begin_pool(2, Stream{7});
  setup.take(kMiB, 7);
  setup.take(kMiB, 0);
  CHECK(setup.reserved_of(2) == 2 * kMiB);
  CHECK(setup.reserved_of(1) == 2 * kMiB);
  // Not only the innermost can end.
  setup.allocator.end_pool(1);
  setup.take(kMiB, 0);
  CHECK(setup.reserved_of(0) == 2 * kMiB);
  setup.take(kMiB, 7);
  CHECK(setup.reserved_of(2) == 2 * kMiB);
}

TEST_CASE("a pool's cache goes back when nobody uses it, and not before") {
  PoolSetup setup;
  setup.allocator.use_pool(1);
  setup.give(setup.take_in(1, 30 * kMiB));
  setup.allocator.empty_cache();
  CHECK(setup.reserved_of(1) == 30 * kMiB);
  setup.allocator.release_pool(1);
  CHECK(setup.reserved_of(1) == 30 * kMiB);
  setup.allocator.empty_cache();
  CHECK(setup.reserved() == 0);
  CHECK(setup.allocator.heap().private_pools.empty());
}

TEST_CASE("a pool alone is emptied, with a wait for its own blocks") {
  PoolSetup setup;
  setup.give(setup.take(30 * kMiB));
  setup.allocator.use_pool(1);
  const std::uint64_t block = setup.take_in(1, 30 * kMiB);
  setup.device.start_busy(5);
  REQUIRE(setup.allocator.record_stream(block, 5));
  setup.give(block);
  setup.allocator.empty_pool(1);
  CHECK(setup.reserved_of(1) == 30 * kMiB);
  setup.allocator.release_pool(1);
  CHECK(setup.allocator.counters().num_sync_all_streams == 0);
  setup.allocator.empty_pool(1);
  CHECK(setup.allocator.counters().num_sync_all_streams == 1);
  CHECK(setup.reserved() == 30 * kMiB);
}

TEST_CASE("a released pool keeps what is live, and is forgotten with its last block") {
  PoolSetup setup;
  const std::uint64_t block = setup.take_in(1, 30 * kMiB);
  setup.allocator.empty_cache();
  CHECK(setup.reserved_of(1) == 30 * kMiB);
  setup.give(block);
  setup.allocator.empty_cache();
  CHECK(setup.reserved() == 0);
}

TEST_CASE("a pool on call lends cached blocks before anything is given back") {
  for (const std::string_view conf : {"", "expandable_segments:True"}) {
    PoolSetup setup("2.15", conf, conf.empty() ? 75 * kMiB : 90 * kMiB);
    setup.allocator.use_pool(1);
    setup.allocator.use_pool_on_oom(1, true);
    const std::uint64_t lent = setup.take_in(1, 30 * kMiB);
    setup.give(lent);
    setup.give(setup.take(40 * kMiB));
    // The common pool's own block fits, and is asked first.
    CHECK(setup.take(25 * kMiB) != lent);
    const std::optional<std::uint64_t> served = setup.allocator.allocate(28 * kMiB, 0);
    // Blocks of expandable segments are lent to nobody.
    CHECK(served.has_value() == conf.empty());
    if (!served) continue;
    CHECK(*served == lent);
    CHECK(setup.allocator.counters().num_device_free == 0);
    setup.give(*served);
    setup.allocator.use_pool_on_oom(1, false);
    CHECK_FALSE(setup.allocator.allocate(28 * kMiB, 0).has_value());
  }
}

TEST_CASE("a pool that does not split hands out whole segments") {
  PoolSetup setup;
  setup.allocator.use_pool(1);
  setup.allocator.never_split_pool(1);
  setup.take_in(1, 5 * kMiB);
  setup.take_in(1, 5 * kMiB);
  CHECK(setup.reserved_of(1) == 40 * kMiB);
  setup.take(5 * kMiB);
  setup.take(5 * kMiB);
  CHECK(setup.reserved_of(0) == 20 * kMiB);
}

TEST_CASE("up to 2.12 a pool that is routed to keeps blocks of other streams and every cache") {
  for (const bool captures : {true, false}) {
    PoolSetup setup(captures ? "2.11" : "2.13");
    const std::uint64_t block = setup.take(30 * kMiB);
    REQUIRE(setup.allocator.record_stream(block, 5));
    setup.allocator.begin_pool(1, Stream{9});
    setup.give(block);
    const auto active = [&] { return setup.allocator.counters().active.all().current(); };
    setup.give(setup.take(512));
    CHECK(active() == (captures ? 1 : 0));
    setup.allocator.empty_cache();
    CHECK(setup.reserved_of(0) == (captures ? 32 * kMiB : 0));
    setup.allocator.end_pool(1);
    setup.give(setup.take(512));
    CHECK(active() == 0);
  }
}

TEST_CASE("since 2.13 a capture keeps blocks of other streams and every cache until it ends") {
  PoolSetup setup("2.13", "", 100 * kMiB);
  const std::uint64_t block = setup.take(30 * kMiB);
  const std::uint64_t cached = setup.take(40 * kMiB);
  REQUIRE(setup.allocator.record_stream(block, 5));
  setup.give(cached);
  setup.allocator.begin_pool(1, Stream{9});
  setup.allocator.begin_capture(9);
  setup.give(block);
  const auto active = [&] { return setup.allocator.counters().active.all().current(); };
  setup.give(setup.take(512, 9));
  CHECK(active() == 1);
  setup.allocator.empty_cache();
  CHECK(setup.reserved_of(0) == 70 * kMiB);
  // The cache would make room for it.
  CHECK_FALSE(setup.allocator.allocate(30 * kMiB, 9).has_value());
  CHECK(setup.allocator.counters().num_alloc_retries == 0);
  setup.allocator.end_capture(9);
  CHECK(setup.allocator.allocate(30 * kMiB, 9).has_value());
  CHECK(setup.allocator.counters().num_alloc_retries == 1);
  CHECK(setup.reserved_of(0) == 0);
}

TEST_CASE("since 2.13 a request of a stream that is not captured is served as ever") {
  PoolSetup setup("2.15", "", 100 * kMiB);
  setup.give(setup.take(60 * kMiB));
  setup.allocator.begin_pool(1, Stream{9});
  setup.allocator.begin_capture(9);
  CHECK(setup.allocator.allocate(70 * kMiB, 0).has_value());
  setup.allocator.empty_cache();
  CHECK(setup.reserved() == 70 * kMiB);
  setup.allocator.end_capture(9);
  setup.allocator.end_pool(1);
}

TEST_CASE("up to 2.12 a capture without routing changes nothing") {
  PoolSetup setup("2.12");
  setup.give(setup.take(30 * kMiB));
  setup.allocator.begin_capture(9);
  setup.allocator.empty_cache();
  CHECK(setup.reserved() == 0);
  setup.allocator.end_capture(9);
}

TEST_CASE("uses that came while a pool was routed to end with that") {
  PoolSetup setup("2.11");
  setup.device.start_busy(5);
  setup.device.start_busy(6);
  const std::uint64_t before = setup.take(30 * kMiB);
  const std::uint64_t within = setup.take(30 * kMiB);
  REQUIRE(setup.allocator.record_stream(before, 5));
  setup.allocator.begin_pool(1, Stream{9});
  REQUIRE(setup.allocator.record_stream(before, 6));
  REQUIRE(setup.allocator.record_stream(within, 6));
  setup.give(before);
  setup.give(within);
  setup.allocator.end_pool(1);
  setup.give(setup.take(512));
  // One waits for the stream that used it before, the other for none.
  CHECK(setup.allocator.counters().active.all().current() == 1);
  setup.device.end_busy();
  setup.give(setup.take(512));
  CHECK(setup.allocator.counters().active.all().current() == 0);
}

TEST_CASE("what waited is freed at the pool's end in 2.12, where frees are reused") {
  for (const bool frees : {true, false}) {
    PoolSetup setup(frees ? "2.12" : "2.11", "graph_capture_record_stream_reuse:True");
    setup.allocator.begin_pool(1, std::nullopt);
    const std::uint64_t block = setup.take(30 * kMiB);
    REQUIRE(setup.allocator.record_stream(block, 5));
    setup.give(block);
    CHECK(setup.allocator.counters().active.all().current() == 1);
    setup.allocator.end_pool(1);
    CHECK(setup.allocator.counters().active.all().current() == (frees ? 0 : 1));
  }
}

TEST_CASE("in 2.12 asking a pool on call ends what waited for its end") {
  PoolSetup setup("2.12", "graph_capture_record_stream_reuse:True", 60 * kMiB);
  setup.allocator.begin_pool(1, std::nullopt);
  const std::uint64_t block = setup.take(30 * kMiB);
  REQUIRE(setup.allocator.record_stream(block, 5));
  setup.allocator.begin_pool(2, Stream{9});
  setup.allocator.end_pool(1);
  setup.give(block);
  setup.allocator.use_pool_on_oom(1, true);
  CHECK(setup.allocator.counters().active.all().current() == 1);
  CHECK_FALSE(setup.allocator.allocate(40 * kMiB, 0).has_value());
  CHECK(setup.allocator.counters().active.all().current() == 0);
}

TEST_CASE("the text of a failure tells what private pools have cached") {
  PoolSetup setup("2.11", "", 60 * kMiB);
  setup.allocator.use_pool(1);
  setup.give(setup.take_in(1, 30 * kMiB));
  REQUIRE_FALSE(setup.allocator.allocate(40 * kMiB, 0).has_value());
  const std::string text = out_of_memory_message(*setup.allocator.last_failure());
  CHECK(text.find("30.00 MiB is allocated by PyTorch, with 30.00 MiB allocated in private pools "
                  "(e.g., CUDA Graphs), and 0 bytes is reserved by PyTorch but unallocated.") !=
        std::string::npos);
}

TEST_CASE("since 2.13 each pool's reserved bytes are counted, also when it is gone") {
  const auto value_of = [](const PoolSetup& setup, std::string_view name) {
    std::int64_t found = -1;
    for (const auto& [counter, value] : flatten(setup.allocator.counters()))
      found = counter == name ? value : found;
    return found;
  };
  PoolSetup setup("2.13");
  setup.give(setup.take_in(4, 30 * kMiB));
  setup.allocator.empty_cache();
  const std::string name = "reserved_bytes_by_private_pools.0_4.";
  CHECK(value_of(setup, name + "all.current") == 0);
  CHECK(value_of(setup, name + "all.peak") == 30 * std::int64_t{kMiB});
  CHECK(value_of(setup, name + "small_pool.peak") == 0);
  PoolSetup older("2.12");
  older.give(older.take_in(4, 30 * kMiB));
  CHECK(value_of(older, name + "all.peak") == -1);
}

TEST_CASE("PyTorch's lost count of a pool in expandable segments is seen, and does no harm here") {
  PoolSetup setup("2.15", "expandable_segments:True");
  setup.give(setup.take_in(1, 40 * kMiB));
  setup.allocator.use_pool(2);
  setup.give(setup.take_in(2, 40 * kMiB));
  const std::uint64_t live = setup.take_in(2, 2 * kMiB);
  setup.allocator.release_pool(2);
  // One request of 40 MiB made two pages; giving back the second one ends PyTorch's count.
  setup.allocator.empty_pool(2);
  CHECK(setup.allocator.heap().pool_count_error_count == 1);
  CHECK(setup.reserved_of(2) == 20 * kMiB);
  setup.give(live);
  setup.allocator.empty_cache();
  CHECK(setup.reserved() == 0);
}

TEST_CASE("a block is put back where it was, whatever would fit better") {
  PoolSetup setup;
  setup.allocator.use_pool(1);
  setup.allocator.begin_pool(1, std::nullopt);
  const std::uint64_t first = setup.take(3 * kMiB);
  const std::uint64_t second = setup.take(4 * kMiB);
  const std::uint64_t third = setup.take(30 * kMiB);
  setup.give(first);
  setup.give(third);
  // The 3 MiB before `second` would be the best fit.
  CHECK(setup.allocator.restore_block(1, third, 3 * kMiB));
  CHECK(setup.allocator.counters().active_bytes.all().current() == 7 * kMiB);
  CHECK(setup.take(27 * kMiB) == third + 3 * kMiB);
  CHECK_FALSE(setup.allocator.restore_block(1, third, 3 * kMiB));
  CHECK_FALSE(setup.allocator.restore_block(1, first, 5 * kMiB));
  CHECK(setup.allocator.restore_block(1, first, 3 * kMiB));
  CHECK_FALSE(setup.allocator.restore_block(2, second, 512));
  setup.allocator.end_pool(1);
}

TEST_CASE("a heap that is taken over has its private pools") {
  PoolSetup from;
  from.allocator.use_pool(7);
  const std::uint64_t inside = from.take_in(7, 3 * kMiB);
  from.give(from.take_in(7, 9 * kMiB));
  static_cast<void>(from.take(5 * kMiB));
  PoolSetup into;
  into.allocator.adopt(take_snapshot(from.allocator));
  CHECK(into.reserved_of(7) == 20 * kMiB);
  CHECK(into.reserved_of(0) == 20 * kMiB);
  CHECK(into.take_in(7, 9 * kMiB) == inside + 3 * kMiB);
  into.give(inside + 3 * kMiB);
  into.give(inside);
  into.allocator.empty_cache();
  CHECK(into.reserved_of(7) == 20 * kMiB);
  into.allocator.release_pool(7);
}

TEST_CASE("calls that PyTorch stops at with an error are refused") {
  PoolSetup setup("2.11");
  CachingAllocator& allocator = setup.allocator;
  CHECK_THROWS_AS(allocator.release_pool(1), EnvironmentError);
  CHECK_THROWS_AS(allocator.end_pool(1), EnvironmentError);
  const std::uint64_t live = setup.take_in(1, kMiB);
  CHECK_THROWS_AS(allocator.use_pool(1), EnvironmentError);
  CHECK_THROWS_AS(allocator.begin_pool(1, std::nullopt), EnvironmentError);
  allocator.begin_pool(2, std::nullopt);
  CHECK_THROWS_AS(allocator.begin_pool(2, std::nullopt), EnvironmentError);
  CHECK_THROWS_AS(allocator.empty_pool(1), EnvironmentError);
  setup.give(live);
}

TEST_CASE("an allocator that goes away gives back what private pools have") {
  FakeDevice device(8 * kGiB, 4 * kGiB);
  for (const std::string_view conf : {"", "expandable_segments:True"}) {
    CachingAllocator allocator(device, parse_strict(conf, *find_rules("2.11")).settings);
    allocator.begin_pool(1, std::nullopt);
    const std::optional<std::uint64_t> block = allocator.allocate(30 * kMiB, 0);
    REQUIRE(block.has_value());
    REQUIRE(allocator.record_stream(*block, 5));
    REQUIRE(allocator.deallocate(*block));
    REQUIRE(allocator.allocate(kMiB, 0).has_value());
  }
  CHECK(device.is_clean());
}
