// Goal: the two ways in which the driver picks address ranges, downwards for the heap, upwards for
// pools and reservations.
#include "harness/simcuda/core/address_ranges.h"

#include <cstdint>

#include "harness/simcuda/core/reserved_area.h"
#include "tests/catch.h"

namespace simcuda {
namespace {

constexpr std::uint64_t kC = kChunkBytes;

TEST_CASE("a range is the top end of the highest gap that is strictly larger") {
  AddressRanges ranges({0, 100 * kC});
  CHECK(ranges.take_range(kC) == 99 * kC);
  CHECK(ranges.take_range(3 * kC) == 96 * kC);
  CHECK(ranges.take_range(kC) == 95 * kC);
  ranges.give_range({96 * kC, 99 * kC});
  // The hole of three chunks is too small for three, and serves two.
  CHECK(ranges.take_range(3 * kC) == 92 * kC);
  CHECK(ranges.take_range(2 * kC) == 97 * kC);
  // One chunk is left of the hole and never used.
  CHECK(ranges.take_range(kC) == 91 * kC);
}

TEST_CASE("ranges given back merge with both neighbours") {
  AddressRanges ranges({0, 10 * kC});
  CHECK(ranges.take_range(kC) == 9 * kC);
  CHECK(ranges.take_range(kC) == 8 * kC);
  CHECK(ranges.take_range(kC) == 7 * kC);
  ranges.give_range({9 * kC, 10 * kC});
  CHECK(ranges.gap_count() == 2);
  ranges.give_range({8 * kC, 9 * kC});
  CHECK(ranges.gap_count() == 2);
  ranges.give_range({7 * kC, 8 * kC});
  CHECK(ranges.gap_count() == 1);
  CHECK(ranges.take_range(9 * kC) == kC);
}

TEST_CASE("no range is given where no gap is larger") {
  AddressRanges ranges({0, 2 * kC});
  CHECK_FALSE(ranges.take_range(2 * kC).has_value());
  CHECK(ranges.take_range(kC) == kC);
  CHECK_FALSE(ranges.take_range(kC).has_value());
}

TEST_CASE("the reserved area gives the lowest gap and steps over its hole") {
  ReservedArea area({kC, 20 * kC}, {4 * kC, 6 * kC});
  CHECK(area.take(kC) == kC);
  CHECK(area.take(kC + 1) == 2 * kC);  // two chunks, up to the hole
  CHECK(area.take(3 * kC) == 6 * kC);
  CHECK(area.give(2 * kC));
  CHECK_FALSE(area.give(2 * kC));
  CHECK_FALSE(area.give(4 * kC));  // the hole is nobody's
  CHECK(area.take(3 * kC) == 9 * kC);
  CHECK(area.take(2 * kC) == 2 * kC);
}

TEST_CASE("the reserved area keeps larger alignments and knows when it is full") {
  ReservedArea area({kC, 20 * kC}, {});
  CHECK(area.take(kC, 8 * kC) == 8 * kC);
  CHECK(area.take(kC) == kC);
  CHECK_FALSE(area.take(12 * kC).has_value());
  CHECK_FALSE(area.take(~std::uint64_t{0}).has_value());
  CHECK_FALSE(area.take(kC, std::uint64_t{1} << 63).has_value());
}

}  // namespace
}  // namespace simcuda
