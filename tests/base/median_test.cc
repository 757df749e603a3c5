#include "base/median.h"

#include "tests/catch.h"

using namespace allocmark;

TEST_CASE("a median is the middle value, or the mean of two") {
  CHECK(median({}) == 0);
  CHECK(median({7}) == 7);
  CHECK(median({9, 1, 2}) == 2);
  CHECK(median({8, 1, 2, 4}) == 3);
}

TEST_CASE("a median by nearest rank is a value that was measured") {
  CHECK(median_low({}) == 0);
  CHECK(median_low({9, 1, 2}) == 2);
  CHECK(median_low({8, 1, 2, 4}) == 2);
}
