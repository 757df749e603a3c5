// Goal: drift, passes that stand apart and two kinds of latency are found where they are, and not
// where chance made them. Method: literals, and simulation with a fixed seed for chance.
#include "results/compare/stability.h"

#include <cmath>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/support/noise.h"

using namespace allocmark;

namespace {

LatencyBuckets two_kinds(double share_of_second, double second_ns) {
  Random random(4);
  std::vector<std::uint64_t> counts(kLatencyBucketCount, 0);
  for (int i = 0; i < 5000; ++i) {
    const double centre = random.unit() < share_of_second ? second_ns : 40;
    ++counts[sample::bucket_of_picoseconds(
        static_cast<std::uint64_t>(1e3 * centre * std::exp(0.1 * sample::normal(random))))];
  }
  LatencyBuckets buckets;
  for (std::uint32_t index = 0; index < kLatencyBucketCount; ++index) {
    if (counts[index] > 0) buckets.push_back({.index = index, .count = counts[index]});
  }
  return buckets;
}

}  // namespace

TEST_CASE("a steady rise is a drift, too few passes or a small rise are none") {
  CHECK(drift(std::vector<double>{100, 102, 104, 106, 108, 110}).value() ==
        Approx(0.1).margin(0.005));
  CHECK(drift(std::vector<double>{110, 108, 106, 104, 102, 100}).value() < -0.08);
  CHECK_FALSE(drift(std::vector<double>{100, 102, 104, 106, 108}).has_value());
  CHECK_FALSE(drift(std::vector<double>{100, 100.2, 100.4, 100.6, 100.8, 101}).has_value());
  CHECK_FALSE(drift(std::vector<double>{100, 110, 100, 110, 100, 110, 100}).has_value());
  CHECK_FALSE(drift({}).has_value());
}

TEST_CASE("chance drifts in at most 1 % of cells") {
  Random random(8);
  int found = 0;
  for (int cell = 0; cell < 2000; ++cell) {
    std::vector<double> values;
    for (int pass = 0; pass < 10; ++pass) {
      values.push_back(100 * std::exp(0.05 * sample::normal(random)));
    }
    found += drift(values) ? 1 : 0;
  }
  CHECK(found <= 20);
}

TEST_CASE("a pass far from the others stands apart") {
  CHECK(outliers(std::vector<double>{100, 101, 99, 130, 100}) == std::vector<std::size_t>{3});
  CHECK(outliers(std::vector<double>{100, 101, 99, 104, 100}).empty());
  CHECK(outliers(std::vector<double>{100, 200}).empty());
  CHECK(outliers(std::vector<double>{90, 100, 110, 120, 130}).empty());
  CHECK(outliers(std::vector<double>{100, 100, 50}) == std::vector<std::size_t>{2});
}

TEST_CASE("two kinds of latency are found, one kind with its tail is one") {
  const auto modes = two_modes(two_kinds(0.4, 120), 1);
  REQUIRE(modes.has_value());
  CHECK(modes->first == Approx(40).epsilon(0.1));
  CHECK(modes->second == Approx(120).epsilon(0.1));
  CHECK_FALSE(two_modes(two_kinds(0, 120), 1).has_value());
  CHECK_FALSE(two_modes(two_kinds(0.05, 120), 1).has_value());
  CHECK_FALSE(two_modes(two_kinds(0.4, 44), 1).has_value());
  CHECK_FALSE(two_modes({}, 1).has_value());
}

TEST_CASE("the steps of a coarse clock are no kinds of latency") {
  LatencyBuckets steps;
  for (const std::uint64_t ns : {20u, 30u, 40u, 50u}) {
    steps.push_back({.index = sample::bucket_of_picoseconds(ns * 1000), .count = 1000});
  }
  CHECK_FALSE(two_modes(steps, 10).has_value());
  CHECK(two_modes(steps, 0.4).has_value());
}

TEST_CASE("samples that all read 0, as a coarse clock's do, are one kind of latency") {
  CHECK_FALSE(two_modes({{.index = 0, .count = 100}}, 0).has_value());
  CHECK_FALSE(two_modes({{.index = 0, .count = 100}}, 1e6).has_value());
  CHECK_FALSE(two_modes({{.index = 0, .count = 50}, {.index = 1, .count = 50}}, 0).has_value());
}

TEST_CASE("a cell's flags say which operation and how much") {
  Random random(2);
  CellResult cell =
      sample::noisy_run(random, {.cell_count = 1, .pass_count = 8, .noise = {.disturbed_share = 0}})
          .cells.front();
  CHECK(stability_flags(cell, 1).empty());
  for (std::size_t pass = 0; pass < cell.passes.size(); ++pass) {
    cell.passes[pass].deallocate_buckets.assign(
        1, {.index = 1000 + 4 * static_cast<std::uint32_t>(pass), .count = 1000});
  }
  const std::vector<std::string> flags = stability_flags(cell, 0.01);
  REQUIRE(flags.size() == 1);
  CHECK(flags[0].find("deallocate: P50 drifts by +") == 0);
  cell.status = CellStatus::Crashed;
  CHECK(stability_flags(cell, 1).empty());
}
