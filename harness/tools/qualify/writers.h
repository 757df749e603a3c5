// A qualification report as text for people and CI (writers.cc), and in the forms in which other
// programs collect such things (exports.cc, which EXPORTS.md shows). Nothing here drains a node:
// who collects decides. A report flows in, text flows out; each ends with a newline.
#pragma once

#include <string>

#include "harness/tools/qualify/result.h"

namespace allocmark::qualify {

// Per GPU its tests, and of every threshold the figure that came nearest to it or went beyond.
[[nodiscard]] std::string render_table(const Report& report);
// A test suite per GPU and one for the node. FAIL is a failure, SKIP is skipped. JUnit knows no
// warning, so WARN is skipped, too, with a message that begins with WARN; or it is a failure where
// `fails_from` says so.
[[nodiscard]] std::string render_junit(const Report& report, Verdict fails_from = Verdict::Fail);
// "FAIL gpu/leaks on cuda:3 0000:1b:00.0: ...": the worst first, since readers cut it.
[[nodiscard]] std::string render_one_line(const Report& report);

// Prometheus' text format, for the textfile collector of node_exporter: verdicts by test, figures
// by threshold.
[[nodiscard]] std::string render_prometheus(const Report& report);
// NVSentinel's health events, one a line: one per test, healthy or not.
[[nodiscard]] std::string render_nvsentinel(const Report& report);
// One line of SuperBench's results-summary.jsonl: "allocmark-qualify/METRIC:GPU".
[[nodiscard]] std::string render_superbench(const Report& report);
// Shaped as what 'dcgmi diag --json' prints.
[[nodiscard]] std::string render_dcgm(const Report& report);

}  // namespace allocmark::qualify
