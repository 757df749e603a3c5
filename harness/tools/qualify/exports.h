// A qualification in the forms in which other programs collect such things. Nothing here drains a
// node: who collects decides. EXPORTS.md shows each. A report flows in, text flows out; each ends
// with a newline.
#pragma once

#include <string>

#include "harness/tools/qualify/result.h"

namespace allocmark::qualify {

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
