#include "base/random.h"

#include "tests/catch.h"

using namespace allocmark;

TEST_CASE("the same seed gives the same numbers as on every other machine") {
  Random random(42);
  CHECK(random.next() == 15021278609987233951u);
  CHECK(random.next() == 5881210131331364753u);
  CHECK(random.next() == 18149643915985481100u);
}

TEST_CASE("bounded numbers stay in bounds and reach both ends") {
  Random random(1);
  bool lowest = false, highest = false;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t value = random.between(3, 7);
    REQUIRE(value >= 3);
    REQUIRE(value <= 7);
    lowest |= value == 3;
    highest |= value == 7;
  }
  CHECK(lowest);
  CHECK(highest);
}
