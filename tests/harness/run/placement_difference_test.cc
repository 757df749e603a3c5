// Goal: the first request that two allocators place differently is named, and nothing is where they
// agree. Method: files of placements as literals; the whole way, with two processes, is in
// tests/harness/cli/two_sides_test.sh.
#include "harness/core/run/placement_difference.h"

#include <optional>
#include <string>

#include "tests/catch.h"

using namespace allocmark;

namespace {

const std::string kHeader = "c total=100 fraction_cap=0 backend=native\n# conf: \n";

}  // namespace

TEST_CASE("files with the same answers have no first difference") {
  const std::string text = kHeader + "g 0 7000 2097152 0 0\na 0 0\na 0 200\na oom\n";
  CHECK_FALSE(first_difference(text, text).has_value());
  // Segments at other addresses are the same place.
  CHECK_FALSE(first_difference(text, kHeader + "g 0 9000 2097152 0 0\na 0 0\na 0 200\na oom\n"));
  CHECK_FALSE(first_difference(kHeader, kHeader).has_value());
}

TEST_CASE("the first answer that differs is named by its request") {
  const std::string segment = kHeader + "g 0 7000 2097152 0 0\n";
  const std::string base = segment + "a 0 0\nr 1 2097152 1\na 0 200\na 0 800\n";
  const std::optional<PlacementDifference> moved =
      first_difference(base, segment + "a 0 0\na 0 400\na 0 600\n");
  REQUIRE(moved.has_value());
  CHECK(moved->allocation_index == 1);
  CHECK(moved->base == "segment 0 + 0x200");
  CHECK(moved->now == "segment 0 + 0x400");
}

TEST_CASE("places without segments, or in a segment elsewhere, are told from the first block") {
  const std::string region = kHeader + "g 0 10000000000 1099511627776 0 0\n";
  const std::optional<PlacementDifference> moved =
      first_difference(region + "a 0 5000\na 0 4000\n", region + "a 0 5000\na 0 5200\n");
  REQUIRE(moved.has_value());
  CHECK(moved->base == "-0x1000 from the first block");
  CHECK(moved->now == "+0x200 from the first block");
  // Another allocator: what lies equally far from the first block is the same place.
  const std::string segments = kHeader + "g 0 7000 4096 0 0\ng 1 9000 4096 0 0\n";
  CHECK_FALSE(first_difference(region + "a 0 5000\na 0 7000\n", segments + "a 0 0\na 1 0\n"));
  const std::optional<PlacementDifference> elsewhere =
      first_difference(segments + "a 0 0\na 1 0\n",
                       kHeader + "g 0 7000 4096 0 0\ng 1 b000 4096 0 0\na 0 0\na 1 0\n");
  REQUIRE(elsewhere.has_value());
  CHECK(elsewhere->base == "segment 1 + 0x0, +0x2000 from the first block");
  CHECK(elsewhere->now == "segment 1 + 0x0, +0x4000 from the first block");
}

TEST_CASE("a failure and an early end are differences") {
  const std::string base = kHeader + "a 0 0\na ok\n";
  const std::optional<PlacementDifference> failed =
      first_difference(base, kHeader + "a 0 0\na oom\n");
  REQUIRE(failed.has_value());
  CHECK(failed->base == "served");
  CHECK(failed->now == "out of memory");
  const std::optional<PlacementDifference> ended = first_difference(base, kHeader + "a 0 0\n");
  REQUIRE(ended.has_value());
  CHECK(ended->allocation_index == 1);
  CHECK(ended->now == "no such request");
}
