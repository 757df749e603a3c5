// The slope of values in a row.
#include "results/statistics/slope.h"

#include <vector>

#include "base/random.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

TEST_CASE("a line's slope is found exactly, one outlier or not") {
  std::vector<double> values;
  for (int at = 0; at < 12; ++at) values.push_back(3.0 * at + 7);
  values[5] = 1e6;
  const auto slope = estimate_slope(values);
  REQUIRE(slope);
  CHECK(slope->estimate == Approx(3));
  CHECK(slope->low <= 3);
  CHECK(slope->high >= 3);
  CHECK_FALSE(estimate_slope(std::vector<double>(7, 1.0)));
}

// Of 400 rows without a slope, about 380 intervals hold 0.
TEST_CASE("the interval covers as often as it says") {
  Random random(7);
  int covered = 0;
  for (int trial = 0; trial < 400; ++trial) {
    std::vector<double> values;
    for (int at = 0; at < 20; ++at) {
      values.push_back(static_cast<double>(random.next() % 1000003));
    }
    const auto slope = estimate_slope(values);
    REQUIRE(slope);
    covered += slope->low <= 0 && slope->high >= 0 ? 1 : 0;
  }
  CHECK(covered >= 370);
  CHECK(covered <= 396);
}

}  // namespace
}  // namespace allocmark
