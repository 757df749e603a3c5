// Sampling of modelled costs: quantiles, sizes, and that samples depend on nothing but cost, thread
// and draw.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "harness/simcuda/shim/cost.h"
#include "tests/catch.h"

using namespace simcuda;

namespace {

bool set_curve(CostId cost, const std::vector<CostRow>& rows) {
  return set_cost_curves(cost, {{.level = 0, .rows = rows}});
}

CostRow flat_row(std::uint64_t size, std::uint64_t ns) {
  return {.size = size,
          .sample_count = 1,
          .min_ns = ns,
          .p10_ns = ns,
          .p50_ns = ns,
          .p90_ns = ns,
          .p99_ns = ns,
          .p999_ns = ns,
          .max_ns = ns};
}

std::vector<std::uint64_t> sorted_samples(CostId cost, std::uint64_t size, std::uint32_t count) {
  std::vector<std::uint64_t> samples;
  for (std::uint32_t draw = 0; draw < count; ++draw) {
    samples.push_back(sample_cost(cost, {.size = size}, 0, draw));
  }
  std::sort(samples.begin(), samples.end());
  return samples;
}

}  // namespace

TEST_CASE("samples have the quantiles of the recording") {
  REQUIRE(set_curve(CostId::Malloc, {{.size = 0,
                                      .sample_count = 10000,
                                      .min_ns = 100,
                                      .p10_ns = 100,
                                      .p50_ns = 100,
                                      .p90_ns = 200,
                                      .p99_ns = 400,
                                      .p999_ns = 2000,
                                      .max_ns = 5000}}));
  const std::vector<std::uint64_t> samples = sorted_samples(CostId::Malloc, 0, 100000);
  CHECK(samples[40000] == 100);
  CHECK(samples[90000] >= 190);
  CHECK(samples[90000] <= 210);
  CHECK(samples[99000] >= 380);
  CHECK(samples[99000] <= 440);
  CHECK(samples[99900] >= 1800);
  CHECK(samples.back() == 5000);
}

TEST_CASE("the lower half of the samples has its own quantiles") {
  REQUIRE(set_curve(CostId::Malloc, {{.size = 0,
                                      .sample_count = 1000,
                                      .min_ns = 40,
                                      .p10_ns = 80,
                                      .p50_ns = 100,
                                      .p90_ns = 100,
                                      .p99_ns = 100,
                                      .p999_ns = 100,
                                      .max_ns = 100}}));
  const std::vector<std::uint64_t> samples = sorted_samples(CostId::Malloc, 0, 100000);
  CHECK(samples.front() == 40);
  CHECK(samples[10000] >= 78);
  CHECK(samples[10000] <= 82);
  CHECK(samples[49000] >= 98);
  CHECK(samples[51000] == 100);
}

TEST_CASE("a mean is that of the draws below P99, at every call") {
  const CostRow row{.size = 4096,
                    .sample_count = 10000,
                    .min_ns = 900,
                    .p10_ns = 1000,
                    .p50_ns = 2000,
                    .p90_ns = 3000,
                    .p99_ns = 9000,
                    .p999_ns = 20000,
                    .max_ns = 1000000};
  REQUIRE(set_curve(CostId::Malloc, {row}));
  std::vector<std::uint64_t> samples = sorted_samples(CostId::Malloc, 4096, 100000);
  samples.resize(99000);
  const double mean = static_cast<double>(std::accumulate(samples.begin(), samples.end(), 0ULL)) /
                      static_cast<double>(samples.size());
  use_mean_costs(true);
  REQUIRE(set_curve(CostId::Malloc, {row, flat_row(16384, 7000)}));
  const std::vector<std::uint64_t> means = sorted_samples(CostId::Malloc, 4096, 1000);
  CHECK(means.front() == means.back());
  CHECK(static_cast<double>(means.front()) == Approx(mean).epsilon(0.01));
  CHECK(sample_cost(CostId::Malloc, {.size = 16384}, 3, 5) == 7000);
  const std::uint64_t between = sample_cost(CostId::Malloc, {.size = 8192}, 3, 5);
  CHECK(between == (means.front() + 7000) / 2);
  use_mean_costs(false);
}

TEST_CASE(
    "costs between two sizes lie between their rows, and grow with the size beyond the last") {
  REQUIRE(set_curve(CostId::Free, {{.size = 1024,
                                    .sample_count = 1,
                                    .min_ns = 100,
                                    .p10_ns = 100,
                                    .p50_ns = 100,
                                    .p90_ns = 100,
                                    .p99_ns = 100,
                                    .p999_ns = 100,
                                    .max_ns = 100},
                                   {.size = 4096,
                                    .sample_count = 1,
                                    .min_ns = 300,
                                    .p10_ns = 300,
                                    .p50_ns = 300,
                                    .p90_ns = 300,
                                    .p99_ns = 300,
                                    .p999_ns = 300,
                                    .max_ns = 300}}));
  CHECK(median_cost(CostId::Free, 1) == 100);
  CHECK(median_cost(CostId::Free, 1024) == 100);
  CHECK(median_cost(CostId::Free, 2048) >= 199);
  CHECK(median_cost(CostId::Free, 2048) <= 200);
  CHECK(median_cost(CostId::Free, 4096) == 300);
  CHECK(median_cost(CostId::Free, 8192) == 600);
  CHECK(median_cost(CostId::Free, 4096 * 1000ull) == 300000);
}

TEST_CASE("a sample depends on cost, thread and draw alone") {
  REQUIRE(set_curve(CostId::Malloc, {{.size = 0,
                                      .sample_count = 1000,
                                      .min_ns = 100,
                                      .p10_ns = 100,
                                      .p50_ns = 100,
                                      .p90_ns = 2000,
                                      .p99_ns = 40000,
                                      .p999_ns = 500000,
                                      .max_ns = 500000}}));
  // Literals: the same on every machine.
  std::vector<std::uint64_t> first;
  for (std::uint32_t draw = 0; draw < 8; ++draw) {
    first.push_back(sample_cost(CostId::Malloc, {.size = 0}, 0, draw));
  }
  CHECK(first == std::vector<std::uint64_t>{112, 100, 391, 149, 100, 101, 100, 100});
  CHECK(sample_cost(CostId::Malloc, {.size = 0}, 1, 3) !=
        sample_cost(CostId::Malloc, {.size = 0}, 0, 3));
}

TEST_CASE("costs between two levels lie between theirs, and stay as they are beyond the last") {
  REQUIRE(set_cost_curves(CostId::Malloc,
                          {{.level = 1 << 20, .rows = {flat_row(64, 100), flat_row(128, 200)}},
                           {.level = 1 << 24, .rows = {flat_row(64, 500), flat_row(128, 600)}}}));
  const auto cost = [](std::uint64_t size, std::uint64_t level) {
    return sample_cost(CostId::Malloc, {.size = size, .level = level}, 0, 0);
  };
  CHECK(cost(64, 0) == 100);
  CHECK(cost(64, 1 << 20) == 100);
  CHECK(cost(128, 1 << 20) == 200);
  CHECK(cost(64, 1 << 22) >= 299);
  CHECK(cost(64, 1 << 22) <= 300);
  CHECK(cost(64, 1 << 24) == 500);
  CHECK(cost(128, std::uint64_t{1} << 40) == 600);
  CHECK_FALSE(set_cost_curves(CostId::Malloc, {{.level = 8, .rows = {flat_row(1, 1)}},
                                               {.level = 8, .rows = {flat_row(1, 1)}}}));
  CHECK_FALSE(set_cost_curves(CostId::Malloc, std::vector<CostLevel>(5)));
}

TEST_CASE("curves without rows, with too many or with equal sizes are refused") {
  CHECK_FALSE(set_cost_curves(CostId::Malloc, {}));
  CHECK_FALSE(set_curve(CostId::Malloc, std::vector<CostRow>(29)));
  CHECK_FALSE(set_curve(CostId::Malloc, std::vector<CostRow>(2)));
}
