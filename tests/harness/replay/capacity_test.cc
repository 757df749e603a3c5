// Goal: capacity texts mean what the documentation says, and bad ones are refused with what is
// allowed.
#include "harness/core/replay/capacity.h"

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/error.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

TEST_CASE("unlimited and empty mean no limit") {
  REQUIRE(parse_capacity("unlimited").unlimited());
  REQUIRE(parse_capacity("").unlimited());
  REQUIRE(parse_capacity("unlimited").enforcement == CapacityEnforcement::Ballast);
}

TEST_CASE("absolute sizes are rounded up to whole device pages") {
  REQUIRE(parse_capacity("8GiB").resolve_bytes(1) == 8 * kGiB);
  REQUIRE(parse_capacity("1B").resolve_bytes(1) == 2 * kMiB);
  REQUIRE(parse_capacity("2097153B").resolve_bytes(1) == 4 * kMiB);
}

TEST_CASE("multiples are of the trace's peak and rounded up to whole device pages") {
  REQUIRE(parse_capacity("1x").resolve_bytes(100 * kMiB) == 100 * kMiB);
  REQUIRE(parse_capacity("1.5x").resolve_bytes(100 * kMiB) == 150 * kMiB);
  REQUIRE(parse_capacity("1.05x").resolve_bytes(100 * kMiB) == 106 * kMiB);
  REQUIRE(parse_capacity("0.5X").resolve_bytes(kMiB) == 2 * kMiB);
  REQUIRE(parse_capacity("1000000x").resolve_bytes(~std::uint64_t{0}) == std::uint64_t{1} << 56);
}

TEST_CASE("@limit leaves the enforcement to the allocator") {
  const Capacity capacity = parse_capacity("1.05x@limit");
  REQUIRE(capacity.enforcement == CapacityEnforcement::AllocatorLimit);
  REQUIRE(capacity.resolve_bytes(100 * kMiB) == 106 * kMiB);
  REQUIRE(parse_capacity("8GiB@limit").resolve_bytes(0) == 8 * kGiB);
}

TEST_CASE("texts that are no capacity are refused") {
  for (const std::string text : {"x",     "-1x",         "0x",
                                 "nanx",  "infx",        "1e9x",
                                 "1.05",  "1.05y",       "8Gi B",
                                 "-8GiB", "0",           "1",
                                 "24",    "24g",         "24Gb",
                                 "100%",  "@limit",      "unlimited@limit",
                                 "8GiB@", "8GiB@limits", "99999999999999999999",
                                 "1x2x"}) {
    INFO(text);
    REQUIRE_THROWS_AS(parse_capacity(text), UsageError);
  }
}

}  // namespace
}  // namespace allocmark
