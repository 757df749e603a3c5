// Goal: `host_caching` gives the block and counts what PyTorch's cache of pinned memory does,
// release by release. Method: each rule alone, with literals, on a machine that only counts; the
// same against the CUDA runtime in host_driver_test.cc, and against PyTorch's own answers in
// recorded_test.cc.
#include <cstdint>
#include <string_view>
#include <vector>

#include "allocators/caching/release.h"
#include "allocators/host_caching/counting_driver.h"
#include "allocators/host_caching/host_cache.h"
#include "base/bytes.h"
#include "tests/allocators/host_caching/host_setup.h"
#include "tests/catch.h"

using namespace allocmark::host_caching;
using allocmark::kGiB;
using allocmark::kKiB;
using allocmark::kMiB;
using allocmark::caching::all_rules;
using allocmark::caching::require_rules;
using allocmark::caching::Rules;

TEST_CASE("every release rounds to a power of two, and keeps a block for the next request") {
  for (const Rules& rules : all_rules()) {
    INFO(rules.name());
    Setup setup(rules.name());
    const PinnedBlock first = setup.cache.allocate(5 * kGiB);
    CHECK(first.size_bytes == 8 * kGiB);
    setup.cache.deallocate(first.address);
    CHECK(setup.driver.pinned_bytes() == 8 * kGiB);
    CHECK(setup.take(4 * kGiB + 1) == first.address);
    CHECK(setup.cache.allocate(4 * kGiB).size_bytes == 4 * kGiB);
    CHECK(setup.cache.allocate(1).size_bytes == 1);
    CHECK(setup.cache.allocate(0).address == 0);
    CHECK(setup.driver.pin_calls() == 3);
  }
}

TEST_CASE("size classes end at powers of two") {
  const std::vector<std::pair<std::uint64_t, std::size_t>> table = {
      {1, 0}, {2, 1}, {3, 2}, {4, 2}, {5, 3}, {4096, 12}, {4097, 13}, {150'000'000, 28}};
  for (const auto& [size_bytes, index] : table) {
    INFO(size_bytes);
    CHECK(size_class(size_bytes) == index);
  }
  CHECK(size_class(std::uint64_t{1} << 63) == 63);
  CHECK(block_bytes((std::uint64_t{1} << 63) + 1, settings_of("2.11")) == 0);
}

TEST_CASE("the block that was freed last serves first") {
  Setup setup("2.11");
  const Address a = setup.take(100), b = setup.take(100);
  setup.cache.deallocate(a);
  setup.cache.deallocate(b);
  CHECK(setup.take(128) == b);
  CHECK(setup.take(65) == a);
}

TEST_CASE("a block that a stream used waits for all of its streams") {
  for (const Rules& rules : all_rules()) {
    INFO(rules.name());
    Setup setup(rules.name());
    const Address a = setup.take(1000);
    CHECK(setup.cache.use(a, 1));
    CHECK(setup.cache.use(a, 2));
    CHECK(setup.cache.use(a, 2));
    CHECK_FALSE(setup.cache.use(a + 8, 1));
    setup.driver.hold(1);
    setup.driver.hold(2);
    setup.cache.deallocate(a);
    CHECK(setup.driver.event_count() == 2);
    const Address b = setup.take(1000);
    CHECK(b != a);
    setup.driver.release(1);
    setup.cache.empty_cache();
    CHECK(setup.driver.pinned_count() == 2);
    setup.driver.release(2);
    CHECK(setup.take(1000) == a);
    CHECK(setup.driver.event_count() == 0);
  }
}

TEST_CASE("an event that has not passed hides those behind it") {
  Setup setup("2.11");
  const Address a = setup.take(100), b = setup.take(1000);
  (void)setup.cache.use(a, 1);
  (void)setup.cache.use(b, 2);
  setup.driver.hold(1);
  setup.cache.deallocate(a);
  setup.cache.deallocate(b);
  CHECK(setup.take(1000) != b);
  setup.driver.release(1);
  CHECK(setup.take(1000) == b);
}

TEST_CASE(
    "with background threads 2.9 looks for the size among waiting blocks, later ones do not") {
  constexpr std::string_view kConf = "pinned_use_background_threads:True";
  for (const Rules& rules : all_rules()) {
    INFO(rules.name());
    Setup setup(rules.name(), kConf);
    const Address a = setup.take(100), b = setup.take(1000);
    (void)setup.cache.use(a, 1);
    (void)setup.cache.use(b, 2);
    setup.driver.hold(1);
    setup.cache.deallocate(a);
    setup.cache.deallocate(b);
    CHECK((setup.take(1000) == b) == (rules.minor == 9));
    setup.driver.release(1);
    const Address c = setup.take(64);  // nothing of its size waits
    CHECK(c != a);
    setup.cache.background_pass();
    CHECK(setup.take(100) == a);
  }
}

TEST_CASE("no background thread runs before new memory was needed with the key on") {
  Setup setup("2.11");
  const Address a = setup.take(100);
  (void)setup.cache.use(a, 1);
  setup.cache.deallocate(a);
  setup.cache.change(settings_of("2.11", "pinned_use_background_threads:True"));
  setup.cache.background_pass();
  const Address b = setup.take(100);
  CHECK(b != a);
  setup.cache.background_pass();
  CHECK(setup.take(100) == a);
}

TEST_CASE("above the threshold sizes are exact, above the cached size nothing is kept") {
  for (const std::string_view release : {"2.13", "2.14", "2.15"}) {
    INFO(release);
    Setup setup(release, "pinned_max_round_threshold_mb:128,pinned_max_cached_size_mb:200");
    CHECK(setup.cache.allocate(128 * kMiB).size_bytes == 128 * kMiB);
    CHECK(setup.cache.allocate(100 * kMiB).size_bytes == 128 * kMiB);
    const PinnedBlock kept = setup.cache.allocate(150 * kMiB);
    CHECK(kept.size_bytes == 150 * kMiB);
    const PinnedBlock large = setup.cache.allocate(201 * kMiB);
    CHECK(large.size_bytes == 201 * kMiB);
    setup.cache.deallocate(large.address);
    CHECK(setup.driver.pinned_bytes() == (128 + 128 + 150) * kMiB);
    setup.cache.deallocate(kept.address);
    CHECK(setup.driver.pinned_bytes() == (128 + 128 + 150) * kMiB);
    CHECK(setup.count("allocations.current") == 3);
    CHECK(setup.count("active_requests.current") == 2);
    CHECK(setup.count("num_host_free") == 1);
  }
}

TEST_CASE("a size that is rounded above the cached size is pinned anew each time") {
  Setup setup("2.15", "pinned_max_cached_size_mb:100");
  for (int i = 0; i < 3; ++i) setup.cache.deallocate(setup.take(90 * kMiB));
  CHECK(setup.driver.pin_calls() == 3);
  CHECK(setup.driver.pinned_bytes() == 0);
  for (int i = 0; i < 3; ++i) setup.cache.deallocate(setup.take(60 * kMiB));
  CHECK(setup.driver.pin_calls() == 4);
}

TEST_CASE("2.13 hands out a kept block that is smaller than the request, 2.14 does not") {
  for (const std::string_view release : {"2.13", "2.14", "2.15"}) {
    INFO(release);
    Setup setup(release, "pinned_max_round_threshold_mb:128,pinned_max_cached_size_mb:1024");
    const Address small = setup.take(150 * kMiB), other = setup.take(250 * kMiB);
    setup.cache.deallocate(other);
    setup.cache.deallocate(small);
    const PinnedBlock given = setup.cache.allocate(200 * kMiB);
    if (release == "2.13") {
      CHECK(given.address == small);
      CHECK(given.size_bytes == 150 * kMiB);
      CHECK(setup.count("active_bytes.current") == static_cast<std::int64_t>(200 * kMiB));
    } else {
      CHECK(given.address == other);
      CHECK(given.size_bytes == 250 * kMiB);
      CHECK(setup.count("active_bytes.current") == static_cast<std::int64_t>(250 * kMiB));
      CHECK(setup.take(160 * kMiB) != small);
      CHECK(setup.take(140 * kMiB) == small);
    }
  }
}

TEST_CASE("the reserved segment serves in steps of 4 KiB, never takes back and is never unpinned") {
  for (const std::string_view release : {"2.10", "2.11", "2.15"}) {
    INFO(release);
    Setup setup(release, "pinned_reserve_segment_size_mb:1");
    const Address a = setup.take(100), b = setup.take(5000);
    CHECK(b == a + 4 * kKiB);
    CHECK(setup.take(1) == b + 8 * kKiB);
    CHECK(setup.driver.pin_calls() == 1);
    CHECK(setup.driver.pinned_bytes() == kMiB);
    const PinnedBlock beside = setup.cache.allocate(kMiB);
    CHECK(setup.driver.pin_calls() == 2);
    setup.cache.deallocate(beside.address);
    setup.cache.deallocate(a);
    setup.cache.empty_cache();
    CHECK(setup.driver.pinned_bytes() == kMiB);
    CHECK(setup.count("num_host_free") == 2);
    CHECK(setup.count("host_free_time.count") == 1);
    CHECK(setup.count("host_alloc_time.count") == 2);
    CHECK(setup.take(100) == b + 12 * kKiB);
  }
}

TEST_CASE("memory goes back in the way that it was pinned, whatever the settings are by then") {
  Setup setup("2.11", "pinned_use_cuda_host_register:True,pinned_num_register_threads:8");
  const Address a = setup.take(100);
  setup.cache.change(settings_of("2.11"));
  const Address b = setup.take(1000);
  setup.cache.deallocate(a);
  setup.cache.deallocate(b);
  setup.cache.empty_cache();  // CountingDriver asserts the kind
  CHECK(setup.driver.pinned_count() == 0);
}

TEST_CASE("a machine without room refuses, and nothing is counted or held") {
  for (const Rules& rules : all_rules()) {
    INFO(rules.name());
    Setup setup(rules.name(), "", 32 * kMiB);
    CHECK(setup.take(17 * kMiB) != 0);
    CHECK(setup.take(1) == 0);
    CHECK(setup.count("num_host_alloc") == 1);
    CHECK(setup.cache.pinned_bytes() == 32 * kMiB);
  }
  Setup reserved("2.11", "pinned_reserve_segment_size_mb:64", 32 * kMiB);
  CHECK(reserved.take(1) == 0);
  CHECK(reserved.driver.pin_calls() == 1);
  CHECK(reserved.take(1) == 0);  // PyTorch asks for the segment again
  CHECK(reserved.driver.pin_calls() == 2);
}

TEST_CASE("in a capture no event is looked at, but by the background thread") {
  for (const bool in_background : {false, true}) {
    Setup setup("2.13", in_background ? "pinned_use_background_threads:True" : "");
    const Address a = setup.take(kMiB);
    (void)setup.cache.use(a, 1);
    setup.cache.deallocate(a);  // the event has passed
    setup.cache.begin_capture(7);
    setup.cache.empty_cache();
    CHECK(setup.count("num_host_free") == 0);
    setup.cache.background_pass();
    setup.cache.empty_cache();
    CHECK(setup.count("num_host_free") == (in_background ? 1 : 0));
    setup.cache.end_capture();
    setup.cache.empty_cache();
    CHECK(setup.count("num_host_free") == 1);
  }
}

TEST_CASE("the cache gives everything back when it goes") {
  CountingDriver driver;
  {
    HostCache cache(driver, settings_of("2.15", "pinned_reserve_segment_size_mb:1"));
    const Address a = cache.allocate(2 * kMiB).address;
    (void)cache.allocate(100);
    (void)cache.use(a, 1);
    driver.hold(1);
    cache.deallocate(a);
  }
  CHECK(driver.pinned_count() == 0);
  CHECK(driver.event_count() == 0);
}

TEST_CASE("a release without a row of its own follows the one before it") {
  CHECK(host_rules(require_rules("2.12", "test")).since_minor == 11);
  CHECK(host_rules(require_rules("2.15", "test")).since_minor == 15);
  CHECK(all_host_rules().front().since_minor == all_rules().front().minor);
}
