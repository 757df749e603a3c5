// The page for people, report.html, LaTeX tables and charts: made by the Python program in
// scripts/report, which reads results.jsonl and is given the facts. A results folder flows in; what
// was written, or why not, flows out.
#pragma once

#include <string>

namespace allocmark {

struct HtmlReport {
  std::string folder;  // a results folder
  std::string facts;   // what results/report_facts.h renders of it
  std::string latex;   // LaTeX tables go there; empty = none
  std::string svg;     // a folder for charts; empty = none
  bool html = true;    // the page
};

// Lines for people: what was written, and in one line how to get report.html where python3 or its
// packages are missing. Throws EnvironmentError where the program is there and fails, and where
// LaTeX or SVG was asked for and there is no python3.
[[nodiscard]] std::string write_html_report(const HtmlReport& report);

}  // namespace allocmark
