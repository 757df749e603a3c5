// A qualification report as text for people and CI: for a terminal, as JUnit XML, as one line. What
// else collects reports is in exports.h. Each ends with a newline.
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

}  // namespace allocmark::qualify
