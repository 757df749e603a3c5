// A cache of one release on a machine that only counts, for the tests of this folder.
#pragma once

#include <cstdint>
#include <string_view>

#include "allocators/caching/config.h"
#include "allocators/caching/release.h"
#include "allocators/host_caching/counting_driver.h"
#include "allocators/host_caching/host_cache.h"
#include "base/bytes.h"
#include "tests/catch.h"

namespace allocmark::host_caching {

// Fails the test where the release does not accept the string.
inline caching::Settings settings_of(std::string_view release, std::string_view conf = "") {
  const auto config = caching::parse_strict(conf, caching::require_rules(release, "a test"));
  REQUIRE_FALSE(config.error.has_value());
  return config.settings;
}

struct Setup {
  explicit Setup(std::string_view release, std::string_view conf = "",
                 std::uint64_t room_bytes = 64 * kGiB)
      : driver(room_bytes), cache(driver, settings_of(release, conf)) {}

  Address take(std::uint64_t size_bytes) { return cache.allocate(size_bytes).address; }
  std::int64_t count(std::string_view name) const {
    for (const auto& [own, value] : cache.statistics()) {
      if (own == name) return value;
    }
    FAIL("no counter is named " << name);
    return 0;
  }

  CountingDriver driver;
  HostCache cache;
};

}  // namespace allocmark::host_caching
