// Goal: derived numbers are right where they are defined and absent where they are not. Method:
// literals, worked out by hand or taken from published tables.
#include "results/derived.h"
#include "results/statistics/percentile.h"
#include "results/statistics/proportion.h"

#include <optional>
#include <string>
#include <string_view>

#include "results/unsupported.h"
#include "tests/catch.h"

using namespace allocmark;

namespace {

CellResult measured_cell() {
  CellResult cell;
  cell.allocate_count = 400, cell.oom_count = 4;
  cell.trial_count = 10, cell.trial_oom_count = 1;
  cell.requested_bytes_peak = 160 * kMiB;
  cell.allocated_bytes_peak = 180 * kMiB, cell.active_bytes_peak = 190 * kMiB;
  cell.reserved_bytes_peak = 200 * kMiB;
  cell.allocated_bytes_at_reserved_peak = 150 * kMiB;
  cell.requested_bytes_at_reserved_peak = 120 * kMiB;
  cell.reserved_bytes_at_requested_peak = 184 * kMiB;
  OomEvent event;
  event.free_largest_bytes = 10 * kMiB, event.free_bytes = 40 * kMiB;
  cell.oom_first = event;
  return cell;
}

std::optional<double> fragmentation(const CellResult& cell, std::string_view name) {
  for (const DerivedNumber& definition : fragmentation_numbers()) {
    if (definition.name == name) return definition.value(cell);
  }
  FAIL("no definition " << name);
  return std::nullopt;
}

}  // namespace

TEST_CASE("Wilson's interval agrees with published values") {
  // Newcombe 1998, table I, method 3: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
  CHECK(wilson_interval(81, 263)->low == Approx(0.2553).margin(0.00005));
  CHECK(wilson_interval(81, 263)->high == Approx(0.3662).margin(0.00005));
  CHECK(wilson_interval(15, 148)->low == Approx(0.0624).margin(0.00005));
  CHECK(wilson_interval(15, 148)->high == Approx(0.1605).margin(0.00005));
  CHECK(wilson_interval(0, 20)->low == 0);
  CHECK(wilson_interval(0, 20)->high == Approx(0.1611).margin(0.00005));
  CHECK(wilson_interval(1, 29)->low == Approx(0.0061).margin(0.00005));
  CHECK(wilson_interval(1, 29)->high == Approx(0.1718).margin(0.00005));
}

TEST_CASE("Wilson's interval stays within 0 and 1 and is absent where it has no meaning") {
  CHECK(wilson_interval(20, 20)->high == 1);
  CHECK(wilson_interval(20, 20)->low == Approx(0.8389).margin(0.00005));
  CHECK(wilson_interval(5, 10, 0.99)->low < wilson_interval(5, 10, 0.95)->low);
  CHECK_FALSE(wilson_interval(0, 0).has_value());
  CHECK_FALSE(wilson_interval(3, 2).has_value());
  CHECK_FALSE(wilson_interval(1, 2, 1.0).has_value());
  CHECK_FALSE(wilson_interval(1, 2, 0.0).has_value());
}

TEST_CASE("the samples for a margin are MLPerf's") {
  CHECK(sample_count_for_margin(kP50, 0.025) == 8192);
  CHECK(sample_count_for_margin(kP90, 0.005) == 24576);
  CHECK(sample_count_for_margin({.numerator = 95, .denominator = 100}, 0.0025) == 57344);
  CHECK(sample_count_for_margin({.numerator = 97, .denominator = 100}, 0.0015) == 90112);
  CHECK(sample_count_for_margin(kP99, 0.0005) == 270336);
  CHECK(sample_count_for_margin(kP999, 0.00005) == 2654208);
}

TEST_CASE("a percentile needs ten samples beyond it") {
  CHECK(sample_count_min(kP50) == 20);
  CHECK(sample_count_min(kP90) == 100);
  CHECK(sample_count_min(kP99) == 1000);
  CHECK(sample_count_min(kP999) == 10000);
  CHECK_FALSE(has_enough_samples(kP999, 9999));
  CHECK(has_enough_samples(kP999, 10000));
}

TEST_CASE("OOM rates count requests and passes apart") {
  CHECK(oom_rate(measured_cell()) == Approx(0.01));
  CHECK(trial_oom_rate(measured_cell())->estimate == Approx(0.1));
  CellResult cell = measured_cell();
  cell.status = CellStatus::Crashed;
  CHECK_FALSE(oom_rate(cell).has_value());
  CHECK_FALSE(trial_oom_rate(cell).has_value());
  cell.status = CellStatus::OomStopped;
  CHECK_FALSE(oom_rate(cell).has_value());
  CHECK(trial_oom_rate(cell).has_value());
  cell = measured_cell();
  cell.allocate_count = 0;
  CHECK_FALSE(oom_rate(cell).has_value());
}

TEST_CASE("fragmentation has one value per published definition") {
  const CellResult cell = measured_cell();
  CHECK(fragmentation(cell, "fragmentation_share_pytorch") == Approx(0.25));
  CHECK(fragmentation(cell, "fragmentation_share_gmlake") == Approx(0.05));
  CHECK(fragmentation(cell, "fragmentation_share_stalloc") == Approx(0.1));
  CHECK(fragmentation(cell, "fragmentation_ratio_johnstone_wilson_3") == Approx(200.0 / 120));
  CHECK(fragmentation(cell, "fragmentation_share_internal") == Approx(0.2));
  CHECK(fragmentation(cell, "fragmentation_share_largest_free") == Approx(0.75));
}

TEST_CASE("waste is what the device gave beyond the program's peak") {
  CellResult cell = measured_cell();
  cell.device_bytes_peak = 250 * kMiB;
  CHECK_FALSE(waste_share(cell).has_value());  // 4 requests failed
  cell.oom_count = 0;
  CHECK(waste_share(cell) == Approx(0.36));
  cell.device_bytes_peak = 0;  // no device memory behind it
  CHECK_FALSE(waste_share(cell).has_value());
}

TEST_CASE("regret is what was reserved beyond the packing, else beyond the rounded peak") {
  CellResult cell = measured_cell();
  cell.rounded_bytes_peak = 160 * kMiB, cell.packed_bytes = 160 * kMiB;
  CHECK_FALSE(regret_share(cell).has_value());  // 4 requests failed
  cell.oom_count = 0;
  CHECK(regret_share(cell) == Approx(0.25));
  cell.packed_bytes = 250 * kMiB;
  CHECK(regret_share(cell) == Approx(-0.2));
  cell.packed_bytes.reset();
  CHECK(regret_share(cell) == Approx(0.25));
  CHECK(least_page_bytes(cell) == 160 * kMiB);
  cell.rounded_bytes_peak = 160 * kMiB + 512;
  CHECK(least_page_bytes(cell) == 162 * kMiB);
  cell.rounded_bytes_peak.reset();  // an older file
  CHECK_FALSE(regret_share(cell).has_value());
  CHECK_FALSE(least_page_bytes(cell).has_value());
}

TEST_CASE("ratios to the trace's peak are absent where a request failed") {
  CellResult cell = measured_cell();
  CHECK_FALSE(fragmentation(cell, "fragmentation_ratio_johnstone_wilson_2").has_value());
  CHECK_FALSE(fragmentation(cell, "fragmentation_ratio_johnstone_wilson_4").has_value());
  cell.oom_count = 0;
  CHECK(fragmentation(cell, "fragmentation_ratio_johnstone_wilson_2") == Approx(1.15));
  CHECK(fragmentation(cell, "fragmentation_ratio_johnstone_wilson_4") == Approx(1.25));
}

TEST_CASE("fragmentation is absent below the floor, without its inputs and where they contradict") {
  CellResult cell = measured_cell();
  cell.requested_bytes_peak = 16 * kMiB - 1;
  CHECK_FALSE(fragmentation(cell, "fragmentation_share_pytorch").has_value());
  cell.requested_bytes_peak = 16 * kMiB;
  CHECK(fragmentation(cell, "fragmentation_share_pytorch").has_value());
  cell.reserved_bytes_peak.reset();
  CHECK_FALSE(fragmentation(cell, "fragmentation_share_pytorch").has_value());
  cell.reserved_bytes_peak = 0;
  CHECK_FALSE(fragmentation(cell, "fragmentation_share_pytorch").has_value());
  cell.reserved_bytes_peak = 100 * kMiB;
  CHECK_FALSE(fragmentation(cell, "fragmentation_share_pytorch").has_value());
  cell.requested_bytes_peak = 101 * kMiB, cell.oom_count = 0;
  CHECK_FALSE(fragmentation(cell, "fragmentation_ratio_johnstone_wilson_4").has_value());
  cell = measured_cell();
  cell.status = CellStatus::Failed;
  CHECK_FALSE(waste_share(cell).has_value());
}

TEST_CASE("quantiles that rest on too few samples are named, in a cell and in its size classes") {
  CellResult cell;
  cell.allocate.total.count = cell.allocate.host.count = 9999;
  cell.deallocate.total.count = 99;
  cell.size_classes.resize(1);
  cell.size_classes.back().size_class = "<=512B";
  cell.size_classes.back().allocate.total.count = 999;
  CHECK(unsupported_quantiles(cell) ==
        std::vector<std::string>{"allocate_latency_ns_p999", "deallocate_latency_ns_p90",
                                 "deallocate_latency_ns_p99", "deallocate_latency_ns_p999",
                                 "size_classes.<=512B.allocate_latency_ns_p99",
                                 "size_classes.<=512B.allocate_latency_ns_p999"});
  cell.allocate.total.count = cell.deallocate.total.count = 10000;
  cell.size_classes.clear();
  CHECK(unsupported_quantiles(cell).empty());
  // No samples, no quantile: null is mark enough.
  CHECK(unsupported_quantiles(CellResult{}).empty());
}
