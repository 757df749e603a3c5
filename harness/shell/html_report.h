// The page for people, report.html, LaTeX tables and charts: made by the Python program in
// scripts/report, which reads results.jsonl and is given the facts. A results folder flows in; what
// was written, or why not, flows out.
#pragma once

#include <string>

#include "base/stored_text.h"

namespace allocmark {

struct HtmlReport {
  std::string folder;  // a results folder
  StoredText facts;    // what results/facts/report_facts.h renders of it
  std::string latex;   // LaTeX tables go there; empty = none
  std::string svg;     // a folder for charts; empty = none
  bool html = true;    // the page
};

struct HtmlOutcome {
  std::string text;  // lines for people: what was written, or in one line how to get report.html
  bool made = true;
};

// A page that the script of that name prints, given `input` on its stdin: of the folder
// scripts/report. Throws EnvironmentError where there is no python3 or it fails.
[[nodiscard]] std::string make_page(const std::string& script, const std::string& input);

// Without python3 there is no page, which is no error. Throws EnvironmentError where it is there
// and fails, and where LaTeX or SVG was asked for and there is no python3.
[[nodiscard]] HtmlOutcome write_html_report(const HtmlReport& report);

}  // namespace allocmark
