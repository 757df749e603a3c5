// Goal: the interval that a cell states for a repeat holds as often as it says, is as narrow as it
// may be, and is left out where nothing can be said. Method: pairs of simulated runs whose passes
// and runs differ by known log-normal noise, with a fixed seed; and cells with literal numbers.
#include "results/compare/repeat.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/random.h"
#include "results/columns/columns.h"
#include "results/compare/compare.h"
#include "results/json.h"
#include "tests/catch.h"
#include "tests/support/noise.h"

using namespace allocmark;

namespace {

constexpr double kNormal95 = 1.959964;

struct Truth {
  std::size_t pass_count = 3;
  double pass_spread = 0;    // standard deviation of a pass's logarithm
  double between_share = 0;  // what is said of runs, and true of them
};

std::vector<double> run_of(Random& random, const Truth& truth) {
  const double run_spread = std::log1p(truth.between_share) / kNormal95 / std::sqrt(2.0);
  const double shift = run_spread * sample::normal(random);
  std::vector<double> logs;
  for (std::size_t i = 0; i < truth.pass_count; ++i) {
    logs.push_back(shift + truth.pass_spread * sample::normal(random));
  }
  return logs;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// The share of runs whose repeat lies where they said.
double coverage(const Truth& truth) {
  constexpr int kPairCount = 10000;
  Random random(7);
  int covered = 0;
  for (int pair = 0; pair < kPairCount; ++pair) {
    const std::vector<double> first = run_of(random, truth);
    const std::vector<double> second = run_of(random, truth);
    const double half = repeat_half_width(first, truth.between_share);
    covered += std::abs(mean(second) - mean(first)) <= half ? 1 : 0;
  }
  return covered / static_cast<double>(kPairCount);
}

// Samples of 1024 ns in every pass but the last, which has them 2 % above.
CellResult cell_of_passes(std::size_t pass_count) {
  CellResult cell;
  cell.status = CellStatus::Ok;
  for (std::size_t i = 0; i < pass_count; ++i) {
    const std::uint64_t picoseconds = i + 1 == pass_count ? 1044480 : 1024000;
    cell.passes.push_back(
        {.allocate_buckets = {
             {.index = sample::bucket_of_picoseconds(picoseconds), .count = 5000}}});
  }
  cell.pass_count = static_cast<std::uint32_t>(pass_count);
  cell.allocate.total = {
      .count = 5000 * pass_count, .p50_ns = 1028, .p90_ns = 1028, .p99_ns = 1044};
  return cell;
}

bool is_stated(const RepeatInterval& interval) { return interval.high_ns > 0; }

}  // namespace

TEST_CASE("a repeat lies in the stated interval in 95 % of cells") {
  for (const std::size_t pass_count : {3u, 6u, 20u}) {
    for (const double pass_spread : {0.0, 0.02, 0.05, 0.2}) {
      for (const double between_share : {0.02, 0.13, 0.35}) {
        INFO(pass_count << " passes of spread " << pass_spread << ", runs " << between_share);
        const double covered = coverage(
            {.pass_count = pass_count, .pass_spread = pass_spread, .between_share = between_share});
        // With three passes the rule errs by up to 2.5 % to the safe side.
        CHECK(covered > 0.94);
        CHECK(covered < (pass_count == 3 ? 0.975 : 0.97));
      }
    }
  }
}

TEST_CASE(
    "the interval is the passes' alone where runs do not differ, and the runs' where passes do "
    "not") {
  const std::vector<double> equal(3, 5.0);
  CHECK(repeat_half_width(equal, 0) == 0);
  CHECK_THAT(repeat_half_width(equal, 0.13), Catch::Matchers::WithinAbs(std::log(1.13), 1e-4));
  // Spread 0.1, Student's t of 2 degrees: 4.3027 * 0.1 * sqrt(2 / 3).
  const std::vector<double> spread{4.9, 5.0, 5.1};
  CHECK_THAT(repeat_half_width(spread, 0), Catch::Matchers::WithinAbs(0.35131, 1e-4));
}

TEST_CASE("a cell states intervals for what it has, around its own numbers") {
  CellResult cell = cell_of_passes(3);
  state_repeat(cell, {.clock_step_ns = 0.5});
  CHECK(cell.repeat.allocate_p50.between_share == kBetweenRunsP50);
  CHECK(cell.repeat.allocate_p99.between_share == kBetweenRunsP99);
  // 1028 ns / 1.13 and a bit more for the passes, less half a clock step and half a bucket (8 ns);
  // the same numbers stand in tests/scripts/publish_test.py.
  CHECK_THAT(cell.repeat.allocate_p50.low_ns, Catch::Matchers::WithinAbs(898.8, 0.1));
  CHECK_THAT(cell.repeat.allocate_p50.high_ns, Catch::Matchers::WithinAbs(1173.3, 0.1));
  CHECK_FALSE(is_stated(cell.repeat.deallocate_p50));
  CHECK_FALSE(is_stated(cell.repeat.deallocate_p99));
}

TEST_CASE("a coarse clock widens the interval by its step") {
  CellResult fine = cell_of_passes(3);
  CellResult coarse = cell_of_passes(3);
  state_repeat(fine, {.clock_step_ns = 0});
  state_repeat(coarse, {.clock_step_ns = 10});
  CHECK(coarse.repeat.allocate_p50.high_ns - fine.repeat.allocate_p50.high_ns > 4);
  CHECK(fine.repeat.allocate_p50.low_ns - coarse.repeat.allocate_p50.low_ns > 4);
}

TEST_CASE("one pass, few samples, no histogram or no result: nothing is stated") {
  CellResult cell = cell_of_passes(1);
  state_repeat(cell, {});
  CHECK_FALSE(is_stated(cell.repeat.allocate_p50));

  cell = cell_of_passes(3);
  cell.allocate.total.count = 999;  // P99 needs 1000
  state_repeat(cell, {});
  CHECK(is_stated(cell.repeat.allocate_p50));
  CHECK_FALSE(is_stated(cell.repeat.allocate_p99));

  cell = cell_of_passes(3);
  cell.passes[1].allocate_buckets.clear();
  state_repeat(cell, {});
  CHECK_FALSE(is_stated(cell.repeat.allocate_p50));

  cell = cell_of_passes(3);
  state_repeat(cell, {});
  cell.status = CellStatus::OomStopped;
  state_repeat(cell, {});
  CHECK_FALSE(is_stated(cell.repeat.allocate_p50));
}

TEST_CASE("a calibration says how far apart runs come, number by number") {
  Calibration calibration;
  calibration.bounds = {{.number = "allocate_latency_ns_p50", .shift_p95 = 0.04},
                        {.number = "deallocate_latency_ns_p50"}};  // of an older version
  CHECK(between_runs_share("allocate_latency_ns_p50", &calibration) == 0.04);
  CHECK(between_runs_share("allocate_latency_ns_p99", &calibration) == kBetweenRunsP99);
  CHECK(between_runs_share("deallocate_latency_ns_p50", &calibration) == kBetweenRunsP50);
  CHECK(between_runs_share("deallocate_latency_ns_p99", nullptr) == kBetweenRunsP99);

  CellResult calibrated = cell_of_passes(3);
  CellResult other = cell_of_passes(3);
  state_repeat(calibrated, {.calibration = &calibration});
  state_repeat(other, {});
  CHECK(calibrated.repeat.allocate_p50.between_share == 0.04);
  CHECK(calibrated.repeat.allocate_p50.high_ns < other.repeat.allocate_p50.high_ns);
}

TEST_CASE("a calibration of schema 1.2 is read, and says nothing about repeats") {
  Calibration calibration{.run_count = 2};
  calibration.bounds = {
      {.number = "allocate_latency_ns_p50", .shift_bound = 0.1, .shift_p95 = 0.04}};
  nlohmann::json older = nlohmann::json::parse(to_json(calibration));
  REQUIRE(older["bounds"][0].erase("shift_p95") == 1);
  const Calibration read = calibration_from_json(older.dump(), "calibration.json");
  CHECK(read.find("allocate_latency_ns_p50")->shift_bound == 0.1);
  CHECK(between_runs_share("allocate_latency_ns_p50", &read) == kBetweenRunsP50);
}

TEST_CASE("runs that are calibrated with state intervals that the next run keeps") {
  Random random(11);
  const sample::NoisyPlan plan{.cell_count = 60, .noise = {.run = 0.05}};
  const auto side = [&] {
    return RunSide{.label = "run", .file = sample::noisy_run(random, plan)};
  };
  const std::vector<RunSide> sides{side(), side()};
  const Calibration calibration = calibrate(sides);
  // 1.96 * sqrt(2) * sqrt(0.05^2 + 0.004^2 / 3): 13.9 %, and the chance of 60 pairs.
  const double share = between_runs_share("allocate_latency_ns_p50", &calibration);
  CHECK(share > 0.10);
  CHECK(share < 0.21);
  CHECK(calibration.find("allocate_latency_ns_p50")->shift_p95 <
        calibration.find("allocate_latency_ns_p50")->shift_bound);
}

TEST_CASE("intervals are stored, and lines of schema 1.2 are read without") {
  CellResult cell = cell_of_passes(3);
  state_repeat(cell, {});
  const std::string line = to_json_line(cell);
  const CellResult read = cell_result_from_json(line, "line");
  CHECK(read.repeat.allocate_p50.low_ns == cell.repeat.allocate_p50.low_ns);
  CHECK(read.repeat.allocate_p99.between_share == kBetweenRunsP99);
  CHECK(read.repeat.deallocate_p50.high_ns == 0);

  nlohmann::json old = nlohmann::json::parse(line);
  CHECK(old["deallocate_latency_ns_p50_repeat_high"].is_null());
  for (const char* operation : {"allocate", "deallocate"}) {
    for (const char* quantile : {"p50", "p99"}) {
      for (const char* end : {"low", "high", "between_share"}) {
        old.erase(std::string(operation) + "_latency_ns_" + quantile + "_repeat_" + end);
      }
    }
  }
  old["schema_version"] = "1.2.0";
  CHECK_FALSE(is_stated(cell_result_from_json(old.dump(), "line").repeat.allocate_p50));
}

TEST_CASE("the tables say how wide the intervals are, or nothing") {
  CellResult cell = cell_of_passes(3);
  CHECK(repeat_sentence({&cell, 1}).empty());
  cell.allocate.total.p50_ns = 100, cell.allocate.total.p99_ns = 1000;
  cell.repeat.allocate_p50 = {.low_ns = 88, .high_ns = 114};
  cell.repeat.allocate_p99 = {.low_ns = 800, .high_ns = 1250};
  CHECK(
      repeat_sentence({&cell, 1}) ==
      "A second measurement is expected at -12 to +14 % of allocate's P50 and -20 to +25 % of its "
      "P99 (95 %; median of the cells, each cell's interval is in the CSV).");
}
