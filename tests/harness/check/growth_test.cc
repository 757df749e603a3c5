// Growth over steps: which steps count, and what the slope is.
#include "harness/core/check/growth.h"

#include <cstddef>

#include "tests/catch.h"

namespace allocmark {
namespace {

Growth grown(std::size_t warm_count, std::size_t count, double per_step) {
  Growth growth;
  for (std::size_t step = 0; step < warm_count; ++step) growth.add(1e9 * static_cast<double>(step));
  for (std::size_t step = 0; step < count; ++step) growth.add(per_step * static_cast<double>(step));
  return growth;
}

TEST_CASE("the first half of the steps does not count") {
  const auto found = grown(8, 8, 100).result();
  REQUIRE(found);
  CHECK(found->bytes_per_step == Approx(100));
  CHECK(found->bytes_per_step_low == Approx(100));
  CHECK(found->step_count == 8);
}

TEST_CASE("a constant is flat, and few steps tell nothing") {
  const auto flat = grown(0, 20, 0).result();
  REQUIRE(flat);
  CHECK(flat->bytes_per_step == 0);
  CHECK(flat->bytes_per_step_low <= 0);
  CHECK(flat->bytes_per_step_high >= 0);
  CHECK_FALSE(grown(7, 8, 100).result());
}

TEST_CASE("many steps are thinned and the slope stays one per step") {
  const auto found = grown(0, 5000, 12).result();
  REQUIRE(found);
  CHECK(found->bytes_per_step == Approx(12));
  CHECK(found->step_count == 2500);
}

}  // namespace
}  // namespace allocmark
