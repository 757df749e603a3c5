// Goal: shifts from paired rounds and intervals over passes cover the truth as often as they say,
// also where a rule stops early. Method: literals of Wilcoxon's distribution, and simulations with
// a fixed seed, of noise with bursts that a normal distribution does not have.
#include "results/statistics/paired_shift.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "results/compare/width.h"
#include "tests/catch.h"
#include "tests/support/noise.h"

using namespace allocmark;

namespace {

// Noise of a process: mostly small; one in twenty is disturbed by much, to either side.
double heavy(Random& random) {
  const double scale = random.unit() < 0.05 ? 0.3 : 0.015;
  return scale * sample::normal(random);
}

std::vector<double> draw(Random& random, std::size_t count, double shift, bool is_heavy) {
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) {
    values.push_back(shift + (is_heavy ? heavy(random) : 0.02 * sample::normal(random)));
  }
  return values;
}

}  // namespace

TEST_CASE("the signed-rank distribution is Wilcoxon's") {
  CHECK(signed_rank_cdf(3, 0) == Approx(1.0 / 8));
  CHECK(signed_rank_cdf(3, 3) == Approx(5.0 / 8));
  CHECK(signed_rank_cdf(3, 6) == Approx(1.0));
  CHECK(signed_rank_cdf(5, 2) == Approx(3.0 / 32));
  CHECK(signed_rank_cdf(16, 0) == Approx(1.0 / 65536));
  CHECK(signed_rank_cdf(5, -1) == 0);
  CHECK(signed_rank_cdf(5, 99) == 1);
  // Table value: P(W <= 29) for n = 16 is the largest below 2.5 %.
  CHECK(signed_rank_cdf(16, 29) <= 0.025);
  CHECK(signed_rank_cdf(16, 30) > 0.025);
  // The approximation for many rounds goes on where the exact one ends.
  CHECK(signed_rank_cdf(101, 2100) == Approx(signed_rank_cdf(100, 2050)).epsilon(0.1));
}

TEST_CASE("a shift is the median of the pairwise means, and a disturbed round does not move it") {
  std::vector<double> values{0.04, 0.05, 0.06, 0.05, 0.04, 0.06,
                             0.05, 0.05, 0.04, 0.06, 0.05, 0.05};
  const auto quiet = estimate_paired_shift(values, {});
  REQUIRE(quiet.has_value());
  CHECK(quiet->method == ShiftMethod::Ranks);
  CHECK(quiet->estimate == Approx(0.05));
  CHECK(quiet->p_value == Approx(2.0 / 4096));
  CHECK(quiet->low >= 0.04);
  CHECK(quiet->high <= 0.06);
  values.back() = 5;
  CHECK(estimate_paired_shift(values, {})->estimate == Approx(0.05).margin(0.005));
  values.back() = -5;
  CHECK(estimate_paired_shift(values, {})->p_value > 0.01);
}

TEST_CASE("no difference at all is no shift, and two rounds are the least") {
  const auto none = estimate_paired_shift(std::vector<double>(16, 0.0), {});
  REQUIRE(none.has_value());
  CHECK(none->estimate == 0);
  CHECK(none->p_value == 1);
  CHECK_FALSE(estimate_paired_shift(std::vector<double>{0.1}, {}).has_value());
  const auto few = estimate_paired_shift(std::vector<double>{0.1, 0.1, 0.1}, {.spread_min = 0.01});
  REQUIRE(few.has_value());
  CHECK(few->method == ShiftMethod::Student);
  CHECK(few->low < 0.1);
}

TEST_CASE("intervals of paired shifts cover the truth as often as they say, within 1 %") {
  constexpr int kTrials = 6000;
  for (const std::size_t round_count : {std::size_t{16}, std::size_t{32}}) {
    for (const bool is_heavy : {false, true}) {
      for (const double confidence : {0.95, 0.975}) {
        Random random(11);
        int covered = 0;
        for (int trial = 0; trial < kTrials; ++trial) {
          const auto values = draw(random, round_count, 0.05, is_heavy);
          const auto shift = estimate_paired_shift(values, {.confidence = confidence});
          covered += shift->low <= 0.05 && 0.05 <= shift->high ? 1 : 0;
        }
        const double share = static_cast<double>(covered) / kTrials;
        INFO(round_count << " rounds, heavy " << is_heavy << ", confidence " << confidence
                         << ": covered " << share);
        CHECK(std::abs(share - confidence) <= 0.01);
      }
    }
  }
}

TEST_CASE("intervals of unpaired shifts cover the truth as often as they say, within 1 %") {
  constexpr int kTrials = 6000;
  for (const std::size_t pass_count : {std::size_t{3}, std::size_t{10}}) {
    Random random(12);
    int covered = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      const auto base = draw(random, pass_count, 0, false);
      const auto now = draw(random, pass_count, 0.05, false);
      const auto shift = estimate_shift(base, now, {});
      covered += shift->low <= 0.05 && 0.05 <= shift->high ? 1 : 0;
    }
    const double share = static_cast<double>(covered) / kTrials;
    INFO(pass_count << " passes: covered " << share);
    CHECK(std::abs(share - 0.95) <= 0.01);
  }
}

TEST_CASE("looks are at 10, 20, 40 ... passes, never beyond the most, and at the most") {
  CHECK(width_looks({.width_max = 0.05, .pass_count_min = 3, .pass_count_max = 200}) ==
        std::vector<std::uint32_t>{10, 20, 40, 80, 160, 200});
  CHECK(width_looks({.width_max = 0.05, .pass_count_min = 16, .pass_count_max = 64}) ==
        std::vector<std::uint32_t>{16, 32, 64});
  CHECK(width_looks({.width_max = 0.05, .pass_count_min = 3, .pass_count_max = 5}) ==
        std::vector<std::uint32_t>{5});
}

// Stopping as soon as the interval is narrow prefers passes that happen to lie close together. The
// interval must cover the truth nevertheless; intervals that ignore the looks do not.
TEST_CASE("an interval that ended a run covers the truth although it chose its moment") {
  constexpr int kTrials = 3000;
  const WidthRule rule{.width_max = 0.02, .pass_count_min = 10, .pass_count_max = 160};
  const std::vector<std::uint32_t> looks = width_looks(rule);
  Random random(13);
  int covered = 0;
  int covered_naively = 0;
  int stopped_early = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> values;
    for (const std::uint32_t look : looks) {
      const auto more = draw(random, look - values.size(), 4, false);
      values.insert(values.end(), more.begin(), more.end());
      const Estimate interval = look_interval(values, rule);
      if (interval.high - interval.low > rule.width_max && look != looks.back()) continue;
      const auto naive = estimate_paired_shift(values, {.confidence = rule.confidence});
      covered += interval.low <= 4 && 4 <= interval.high ? 1 : 0;
      covered_naively += naive->low <= 4 && 4 <= naive->high ? 1 : 0;
      stopped_early += look != looks.back() ? 1 : 0;
      break;
    }
  }
  const double share = static_cast<double>(covered) / kTrials;
  INFO("covered " << share << ", without regard to the looks "
                  << static_cast<double>(covered_naively) / kTrials << ", stopped early "
                  << stopped_early);
  CHECK(stopped_early > kTrials / 2);
  CHECK(share >= 0.95);
  CHECK(covered_naively < covered);
}

TEST_CASE("widths name the number that is too wide, and the one that more passes cannot help") {
  Random random(14);
  CellResult cell;
  for (int pass = 0; pass < 10; ++pass) {
    cell.passes.push_back(
        {.allocate_buckets = sample::noisy_buckets(random, 2000, pass % 2 == 0 ? 0.1 : 0, 0)});
  }
  const WidthRule narrow{.width_max = 0.01, .pass_count_min = 10, .pass_count_max = 10};
  const WidthFindings wide = find_widths(cell, narrow, 0);
  REQUIRE(wide.too_wide.size() == 2);
  CHECK(wide.too_wide.front().find("allocate P50") != std::string::npos);
  CHECK(wide.unsupported.empty());
  const WidthRule loose{.width_max = 0.5, .pass_count_min = 10, .pass_count_max = 10};
  CHECK(find_widths(cell, loose, 0).too_wide.empty());
  for (PassSummary& pass : cell.passes) pass.allocate_buckets.resize(1);
  for (PassSummary& pass : cell.passes) pass.allocate_buckets.front().count = 100;
  const WidthFindings few = find_widths(cell, loose, 0);
  REQUIRE(few.unsupported.size() == 1);
  CHECK(few.unsupported.front().find("P99 has 100 samples") != std::string::npos);
}

TEST_CASE("a shift below the clock's step shows in the resolved quantile") {
  // Calls of 64 and of 67 ns, each read by a clock of 10 ns that they meet at any moment.
  const auto read = [](double true_ns) {
    Random random(15);
    std::vector<std::uint64_t> counts(kLatencyBucketCount, 0);
    for (int i = 0; i < 20000; ++i) {
      const double begin = 10 * random.unit();
      const double spread = true_ns + 12 * sample::normal(random);
      const double seen = 10 * std::floor((begin + spread) / 10);
      ++counts[sample::bucket_of_picoseconds(static_cast<std::uint64_t>(seen * 1e3))];
    }
    LatencyBuckets buckets;
    for (std::uint32_t index = 0; index < kLatencyBucketCount; ++index) {
      if (counts[index] > 0) buckets.push_back({.index = index, .count = counts[index]});
    }
    return buckets;
  };
  const double before = *resolved_quantile_ns(read(64), 0.5, 10);
  const double after = *resolved_quantile_ns(read(67), 0.5, 10);
  CHECK(before == Approx(64).margin(1.5));
  CHECK(after - before == Approx(3).margin(0.5));
  // The buckets alone hold whole steps: the shift is not there or ten.
  const double seen = *quantile_ns(read(67), 0.5) - *quantile_ns(read(64), 0.5);
  CHECK((std::abs(seen) < 1.2 || std::abs(seen) > 8.8));
  CHECK_FALSE(resolved_quantile_ns({}, 0.5, 10).has_value());
  // Where the clock is finer than the buckets, nothing changes but the interpolation.
  const LatencyBuckets coarse = read(64);
  CHECK(*resolved_quantile_ns(coarse, 0.5, 0) == Approx(*quantile_ns(coarse, 0.5)).epsilon(0.01));
}
