// Goal: shifts, intervals and p-values are what their definitions and tables say, and intervals
// cover the true shift as often as they say. Method: published values; simulation with a fixed
// seed.
#include "results/statistics/shift.h"

#include <cmath>
#include <vector>

#include "base/random.h"
#include "tests/catch.h"
#include "tests/support/noise.h"

using namespace allocmark;

namespace {

struct CoverageSetting {
  std::size_t pass_count;
  double confidence;
};

double coverage(const CoverageSetting& at, const SpreadPrior& prior) {
  Random random(20260611);
  constexpr double kTrueShift = 0.05;
  constexpr int kTrials = 20000;
  int covered = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> base(at.pass_count), now(at.pass_count);
    for (double& value : base) value = 3 + 0.01 * sample::normal(random);
    for (double& value : now) value = 3 + kTrueShift + 0.01 * sample::normal(random);
    const Shift shift =
        estimate_shift(base, now, {.confidence = at.confidence, .prior = prior}).value();
    covered += shift.low <= kTrueShift && kTrueShift <= shift.high ? 1 : 0;
  }
  return static_cast<double>(covered) / kTrials;
}

}  // namespace

TEST_CASE("the Mann-Whitney distribution is the tables'") {
  // 3 and 3: 20 arrangements, one each with U = 0 and U = 1, two with U = 2.
  CHECK(mann_whitney_cdf(3, 3, 0) == Approx(0.05));
  CHECK(mann_whitney_cdf(3, 3, 1) == Approx(0.1));
  CHECK(mann_whitney_cdf(3, 3, 2) == Approx(0.2));
  CHECK(mann_whitney_cdf(3, 3, 9) == 1);
  // Critical values at 2.5 % one-sided: 10 and 10: 23; 12 and 15: 49.
  CHECK(mann_whitney_cdf(10, 10, 23) <= 0.025);
  CHECK(mann_whitney_cdf(10, 10, 24) > 0.025);
  CHECK(mann_whitney_cdf(12, 15, 49) <= 0.025);
  CHECK(mann_whitney_cdf(12, 15, 50) > 0.025);
  CHECK(mann_whitney_cdf(10, 10, 0) == Approx(1.0 / 184756));
  // The approximation takes over where it is close.
  CHECK(mann_whitney_cdf(30, 31, 300) == Approx(mann_whitney_cdf(30, 30, 290)).epsilon(0.2));
}

TEST_CASE("few passes: the difference of means with Student's t") {
  const std::vector<double> base{1, 2, 3}, now{5, 6, 7};
  const Shift shift = estimate_shift(base, now, {.confidence = 0.95}).value();
  CHECK(shift.method == ShiftMethod::Student);
  CHECK(shift.estimate == Approx(4));
  // t(4, 97.5 %) = 2.776; the error is sqrt(2/3).
  CHECK(shift.high == Approx(4 + 2.7764 * 0.81650).epsilon(1e-4));
  CHECK(shift.low == Approx(4 - 2.7764 * 0.81650).epsilon(1e-4));
  CHECK(shift.p_value == Approx(0.008048).epsilon(1e-3));
  CHECK_FALSE(estimate_shift(std::vector<double>{1}, now, {}).has_value());
  CHECK_FALSE(estimate_shift(base, std::vector<double>{}, {}).has_value());
}

TEST_CASE("passes without any spread are not believed beyond the resolution") {
  const std::vector<double> same{1, 1, 1}, other{1.001, 1.001, 1.001};
  CHECK(estimate_shift(same, same, {})->p_value == 1);
  CHECK(estimate_shift(same, other, {})->p_value == 0);
  CHECK(estimate_shift(same, other, {.spread_min = 0.004})->p_value > 0.5);
}

TEST_CASE("many passes: the median of all differences, and one bad pass changes little") {
  std::vector<double> base, now;
  for (int pass = 0; pass < 10; ++pass) {
    base.push_back(0.001 * pass);
    now.push_back(0.05 + 0.001 * pass);
  }
  const Shift clean = estimate_shift(base, now, {}).value();
  CHECK(clean.method == ShiftMethod::Ranks);
  CHECK(clean.estimate == Approx(0.05));
  CHECK(clean.p_value == Approx(2.0 / 184756));
  now.back() = 5;
  const Shift disturbed = estimate_shift(base, now, {}).value();
  CHECK(disturbed.estimate == Approx(0.05).margin(0.001));
  CHECK(disturbed.high < 0.06);
}

TEST_CASE("Benjamini and Hochberg's own example") {
  // Their table of 15 p-values (1995, section 3.2): four are called at 5 %.
  const std::vector<double> p_values{0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344,
                                     0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000};
  const std::vector<double> adjusted = benjamini_hochberg(p_values);
  int called = 0;
  for (std::size_t i = 0; i < adjusted.size(); ++i) {
    CHECK(adjusted[i] >= p_values[i]);
    called += adjusted[i] <= 0.05 ? 1 : 0;
  }
  CHECK(called == 4);
  CHECK(benjamini_hochberg({}).empty());
}

TEST_CASE("a prior is wide where cells differ and strong where they are alike") {
  Random random(3);
  std::vector<Spread> alike, unlike;
  for (int cell = 0; cell < 400; ++cell) {
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += std::pow(sample::normal(random), 2);
    alike.push_back({.variance = 4e-4 * sum / 4, .degrees = 4});
    unlike.push_back(
        {.variance = 4e-4 * sum / 4 * std::exp(3 * sample::normal(random)), .degrees = 4});
  }
  CHECK(fit_spread_prior(alike).degrees > 10);
  CHECK(fit_spread_prior(alike).variance == Approx(4e-4).epsilon(0.1));
  CHECK(fit_spread_prior(unlike).degrees < 2);
  CHECK(fit_spread_prior(std::vector<Spread>(7, {.variance = 1, .degrees = 4})).degrees == 0);
}

TEST_CASE("shift intervals cover as often as they say") {
  for (const CoverageSetting& at : {CoverageSetting{3, 0.95}, CoverageSetting{5, 0.99},
                                    CoverageSetting{10, 0.95}, CoverageSetting{15, 0.99}}) {
    INFO(at.pass_count << " passes, confidence " << at.confidence);
    CHECK(std::abs(coverage(at, {}) - at.confidence) <= 0.01);
  }
}
