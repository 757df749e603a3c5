// Modelled driver time: quantile curves from the profile, by the size of the request and for some
// calls by how much memory is in use, sampled with a counter-based generator. All arithmetic on
// samples is on integers, so the same calls cost the same on every machine. In: profile rows. Out:
// ns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace simcuda {

// Every modelled cost.
enum class CostId : std::uint8_t {
#define COST(id, name) id,
#include "harness/simcuda/shim/costs.inc"
#undef COST
  Count_,
};
inline constexpr std::size_t kCostCount = static_cast<std::size_t>(CostId::Count_);

[[nodiscard]] std::string_view cost_name(CostId cost);

// One measured row: quantiles over `sample_count` calls, from the smallest sample to the largest.
struct CostRow {
  std::uint64_t size = 0;
  std::uint64_t sample_count = 0;
  std::uint64_t min_ns = 0;
  std::uint64_t p10_ns = 0;
  std::uint64_t p50_ns = 0;
  std::uint64_t p90_ns = 0;
  std::uint64_t p99_ns = 0;
  std::uint64_t p999_ns = 0;
  std::uint64_t max_ns = 0;
};

// The rows that were measured at one level, by rising size. A cost that knows no levels has one.
struct CostLevel {
  std::uint64_t level = 0;
  std::vector<CostRow> rows;
};

// Levels by rising level. Replaces the curves of `cost`; false where there are none, too many, or
// two that are too close.
[[nodiscard]] bool set_cost_curves(CostId cost, const std::vector<CostLevel>& levels);

// Whether every sample of a cost is its mean below P99, and not a draw: for sums that are compared,
// not for tails. Holds for curves that are set afterwards.
void use_mean_costs(bool uses);

// What a call is about: values between measured ones are interpolated.
struct CostPoint {
  std::uint64_t size = 0;
  std::uint64_t level = 0;
};

// The `draw`-th sample of `cost` for thread number `thread`.
[[nodiscard]] std::uint64_t sample_cost(CostId cost, CostPoint at, std::uint32_t thread,
                                        std::uint32_t draw);
// The median, without a draw: how long work takes on the device.
[[nodiscard]] std::uint64_t median_cost(CostId cost, std::uint64_t size);

}  // namespace simcuda
