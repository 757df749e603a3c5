// A qualification report as text: for a terminal, as JSON, as JUnit XML. Each ends with a newline.
#pragma once

#include <string>

#include "harness/qualify/result.h"

namespace allocmark::qualify {

// Per GPU its tests, and of every threshold the figure that came nearest to it or went beyond.
[[nodiscard]] std::string render_table(const Report& report);
// Everything; TESTS.md of this folder names the keys.
[[nodiscard]] std::string render_json(const Report& report);
// One line of JSON, for a log that grows while the tests run.
[[nodiscard]] std::string render_json_line(const TestResult& result);
// A test suite per GPU and one for the node. FAIL is a failure, SKIP is skipped, WARN passes with
// its reason as output.
[[nodiscard]] std::string render_junit(const Report& report);

}  // namespace allocmark::qualify
