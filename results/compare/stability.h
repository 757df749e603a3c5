// Whether a cell's passes look like measurements of one thing: drift over the passes, passes that
// stand apart, and latencies of two kinds with a quantile between them. Flows in: a cell; flows
// out: findings with the numbers they rest on. Neither times nor checks allocators.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "results/latency_histogram.h"
#include "results/schema.h"

namespace allocmark {

// Passes that drift needs, so that chance alone shows one in fewer than 1 % of cells.
inline constexpr std::size_t kDriftPassCountMin = 6;
// Changes below these are of no matter, however sure they are.
inline constexpr double kDriftMin = 0.03;
inline constexpr double kOutlierMin = 0.05;

// How much the values rise from the first to the last pass, as a share (Theil and Sen's slope),
// where their order says that they do (Mann and Kendall's test, two-sided at 1 %) and it is at
// least kDriftMin. Nothing for fewer than kDriftPassCountMin.
[[nodiscard]] std::optional<double> drift(std::span<const double> values);

// Indices of the values that lie further from the median than kOutlierMin and than 3.5 robust
// standard deviations (1.4826 median absolute deviations). None for fewer than three.
[[nodiscard]] std::vector<std::size_t> outliers(std::span<const double> values);

// Two kinds of latency, each with at least a fifth of the samples, and few between them (less than
// half of the smaller peak). Bins are an eighth of an octave wide, and at least one step of the
// clock. The two largest such peaks' middles, ascending, in ns.
[[nodiscard]] std::optional<std::pair<double, double>> two_modes(const LatencyBuckets& buckets,
                                                                 double clock_step_ns);

// Sentences for people: "allocate: P50 rises by 12 % over the passes". Empty where nothing is found
// or the cell has no passes.
[[nodiscard]] std::vector<std::string> stability_flags(const CellResult& cell,
                                                       double clock_step_ns);

}  // namespace allocmark
