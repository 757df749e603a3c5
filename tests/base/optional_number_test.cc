#include "base/optional_number.h"

#include <limits>
#include <optional>

#include "tests/catch.h"

using namespace allocmark;

TEST_CASE("an absent number is none, and takes no more than a number") {
  CHECK(sizeof(OptionalNumber) == sizeof(double));
  CHECK_FALSE(OptionalNumber().has_value());
  CHECK_FALSE(OptionalNumber(std::nullopt).has_value());
  CHECK_FALSE(OptionalNumber(std::optional<double>()).has_value());
  CHECK_FALSE(OptionalNumber(std::numeric_limits<double>::quiet_NaN()).has_value());
  CHECK(OptionalNumber().value_or(3) == 3);
  CHECK_FALSE(std::optional<double>(OptionalNumber()).has_value());
}

TEST_CASE("a number that is there is read, 0 and infinity among them") {
  for (const double value : {0.0, -2.5, std::numeric_limits<double>::infinity()}) {
    const OptionalNumber number = std::optional(value);
    REQUIRE(number);
    CHECK(*number == value);
    CHECK(std::optional<double>(number) == value);
    CHECK(number == OptionalNumber(value));
    CHECK_FALSE(number == OptionalNumber());
  }
  CHECK(OptionalNumber() == OptionalNumber());
}
