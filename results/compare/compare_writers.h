// A comparison as text, for people and for other programs. Flows in: a comparison; flows out: one
// text with a newline at its end. Neither times nor checks allocators. results/compare/VERDICTS.md,
// "Comparing two runs", defines every number and word.
#pragma once

#include <string>
#include <string_view>

#include "results/compare/compare.h"
#include "results/tables/writers.h"

namespace allocmark {

// The name under which services follow a cell over time: it must not change with the run. At most
// 1024 characters, valid UTF-8, without the folders of files. Where two sides differ, what differs
// is left out.
[[nodiscard]] std::string service_name(const CellKey& key);
[[nodiscard]] std::string service_name(const CellComparison& cell);

// How much a terminal shows: a line for each finding, a row for each number that is not the same,
// or a row for each number.
enum class Detail { Findings, Rows, All };

// A config string with files by their names alone: their folder is another one on the next machine.
[[nodiscard]] std::string without_folders(std::string_view conf);

// For a terminal: what was compared, what to know, the findings or rows with the most important
// first, and whether it passed.
void write_comparison_table(const Comparison& comparison, Detail detail, const TextSink& sink);
[[nodiscard]] std::string render_comparison(const Comparison& comparison, Detail detail);

// The lines of the findings alone, with what to do below them (compare_findings.cc).
[[nodiscard]] std::string render_findings(const Comparison& comparison);

// What somebody can do about a number that differs, in one sentence (compare_advice.cc); empty
// where there is nothing to say.
[[nodiscard]] std::string advice_for(const CellComparison& cell, const NumberComparison& number);

// What a cell's verdict rests on, in one line: "worse: failed requests 23 -> 644".
[[nodiscard]] std::string finding_text(const CellComparison& cell);

// The last line of a comparison that does not fail: "passed", and how much of it is not decided.
[[nodiscard]] std::string passed_text(const Comparison& comparison);

// The number without a unit: a whole one without a point, any other with one digit after it.
[[nodiscard]] std::string plain_text(double value);

// Everything, as one JSON object. Written a piece at a time: of many cells it does not fit into
// memory.
void write_comparison_json(const Comparison& comparison, const TextSink& sink);
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
