// Goal: the sign-flip test gives the p-values that counting by hand gives. Method: few differences,
// whose ways to flip can be listed.
#include "results/statistics/sign_flip.h"

#include <vector>

#include "tests/catch.h"

using namespace allocmark;

TEST_CASE("all differences of one sign are one way in 2^n") {
  CHECK(sign_flip_p_value(std::vector{1.0, 2.0, 3.0}) == Approx(1.0 / 8));
  CHECK(sign_flip_p_value(std::vector{-1.0, -2.0, -3.0}) == Approx(1.0));
  CHECK(sign_flip_p_value(std::vector<double>(10, 5.0)) == Approx(1.0 / 1024));
}

TEST_CASE("sums as large as the one seen are counted") {
  // Of +-1 +-2 +-3 the sums 6, 4 and 2 are at least 2.
  CHECK(sign_flip_p_value(std::vector{1.0, -2.0, 3.0}) == Approx(3.0 / 8));
  CHECK(sign_flip_p_value(std::vector{0.0, 0.0, 4.0}) == Approx(0.5));
  CHECK(sign_flip_p_value(std::vector<double>{}) == 1);
  CHECK(sign_flip_p_value(std::vector{0.0, 0.0}) == 1);
}

TEST_CASE("many rounds are drawn, the same way every time") {
  std::vector<double> differences;
  for (int i = 0; i < 40; ++i) differences.push_back(i % 2 == 0 ? 1.0 : -1.0);
  const double p = sign_flip_p_value(differences);
  CHECK(p == sign_flip_p_value(differences));
  CHECK(p > 0.5);
  CHECK(p < 0.65);
  CHECK(sign_flip_p_value(std::vector<double>(40, 1.0)) < 1e-4);
}
