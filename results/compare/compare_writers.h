// A comparison as text, for people and for other programs. Flows in: a comparison; flows out: one
// text with a newline at its end. Neither times nor checks allocators. results/compare/VERDICTS.md,
// "Comparing two runs", defines every number and word.
#pragma once

#include <string>

#include "results/compare/compare.h"

namespace allocmark {

// The name under which services follow a cell over time: it must not change with the run. At most
// 1024 characters, valid UTF-8.
[[nodiscard]] std::string service_name(const CellKey& key);

// For a terminal: the verdict, what to know, then one row per number that is not the same, the most
// important first. `all` adds those that are.
[[nodiscard]] std::string render_comparison(const Comparison& comparison, bool all);

// Everything, as one JSON object.
[[nodiscard]] std::string render_comparison_json(const Comparison& comparison);

// JUnit XML (compare_junit.cc): a test case per cell, whose time is that of NEW's cell. A
// regression is a failure, a cell that could not be compared an error, an undecided one skipped.
[[nodiscard]] std::string render_comparison_junit(const Comparison& comparison);

// NEW's numbers for github-action-benchmark (tool customSmallerIsBetter): latency quantiles with
// their intervals, bytes, counts.
[[nodiscard]] std::string render_github_benchmark(const Comparison& comparison);

// NEW's numbers in the Bencher Metric Format.
[[nodiscard]] std::string render_bencher(const Comparison& comparison);

}  // namespace allocmark
