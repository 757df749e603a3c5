// The page for people, report.html, and LaTeX tables: made by the Python program in scripts/report,
// which reads results.jsonl. A results folder flows in; what was written, or why not, flows out.
#pragma once

#include <string>

namespace allocmark {

struct HtmlReport {
  std::string folder;  // a results folder
  std::string latex;   // LaTeX tables go there; empty = none
  bool html = true;    // the page
};

// Lines for people: what was written, and in one line how to get report.html where python3 or its
// packages are missing. Throws EnvironmentError where the program is there and fails, and where
// LaTeX was asked for and there is no python3.
[[nodiscard]] std::string write_html_report(const HtmlReport& report);

}  // namespace allocmark
