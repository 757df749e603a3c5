// See html_report.h.
#include "harness/shell/html_report.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include "base/error.h"
#include "base/own_process.h"
#include "base/shell_text.h"
#include "harness/job/child_process.h"

namespace allocmark {
namespace {

// A page of 1000 cells takes seconds; only something stuck takes this long.
constexpr double kTimeout_s = 300;

bool is_file(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

// The program's data lie at the same place from it in a build folder and where it is installed;
// empty where there are none.
std::string find_script(const std::string& name) {
  const std::filesystem::path script =
      std::filesystem::path(own_program_path()).parent_path() / "../share/allocmark/report" / name;
  return is_file(script) ? script.lexically_normal().string() : "";
}

// What ALLOCMARK_PYTHON names, else PATH's python3; empty where there is none.
std::string find_python() {
  if (const char* named = std::getenv("ALLOCMARK_PYTHON"); named != nullptr && *named != '\0') {
    if (access(named, X_OK) == 0) return named;
    throw FileError({.what = "ALLOCMARK_PYTHON names no program",
                     .where = "environment",
                     .wanted = "the path of a python3",
                     .got = named,
                     .next = "unset it, or leave the page out with --no-html"});
  }
  return find_program("python3");
}

// The script ends when this process does.
std::vector<std::string> child_environment() {
  return environment_with({{"ALLOCMARK_PARENT", std::to_string(getpid())}});
}

// report.html cannot be made here: fine, unless something was asked for that needs it.
HtmlOutcome missing(const HtmlReport& report, const std::string& what, const std::string& next) {
  if (!report.latex.empty() || !report.svg.empty()) {
    throw EnvironmentError({.what = "LaTeX tables and charts cannot be made: " + what,
                            .where = report.latex.empty() ? "--svg" : "--latex",
                            .next = next});
  }
  return {.text = fmt::format("report.html: not made: {}; {}\n", what, next), .made = false};
}

}  // namespace

std::string make_page(const std::string& script, const std::string& input) {
  const std::string path = find_script(script);
  const std::string python = path.empty() ? "" : find_python();
  if (python.empty()) {
    throw EnvironmentError({.what = "the page cannot be made",
                            .where = "--out",
                            .wanted = "python3, and share/allocmark/report beside the program",
                            .got = path.empty() ? "no " + script : "no python3 on the PATH",
                            .next = "leave --out away: the text says the same"});
  }
  ChildOutcome outcome = run_child({.argv = {python, "-B", path},
                                    .environment = child_environment(),
                                    .input = input,
                                    .timeout_s = kTimeout_s});
  if (outcome.exit_code == 0) return std::move(outcome.result);
  throw EnvironmentError({.what = "the page cannot be made",
                          .where = path,
                          .got = outcome.timed_out             ? "no end after 300 s"
                                 : outcome.stderr_tail.empty() ? "a page that is too large"
                                                               : outcome.stderr_tail,
                          .next = "leave --out away: the text says the same"});
}

HtmlOutcome write_html_report(const HtmlReport& report) {
  const std::string script = find_script("report.py");
  if (script.empty()) {
    return missing(report, "share/allocmark/report is not beside this program's folder",
                   "install allocmark with cmake --install, or run it from its build folder");
  }
  const std::string python = find_python();
  if (python.empty()) {
    return missing(report, "python3 is not on the PATH",
                   "install it (Debian: apt-get install python3), then: allocmark report " +
                       shell_word(report.folder));
  }
  std::vector<std::string> argv = {python, "-B", script, "--facts", "-"};
  if (!report.html) argv.emplace_back("--no-html");
  if (!report.latex.empty()) argv.insert(argv.end(), {"--latex", report.latex});
  if (!report.svg.empty()) argv.insert(argv.end(), {"--svg", report.svg});
  argv.insert(argv.end(), {"--", report.folder});
  const ChildOutcome outcome = run_child({.argv = argv,
                                          .environment = child_environment(),
                                          .input = report.facts,
                                          .timeout_s = kTimeout_s});
  if (outcome.exit_code == 0) return {.text = outcome.stderr_tail};
  throw EnvironmentError({.what = "report.html cannot be made",
                          .where = script,
                          .got = outcome.timed_out ? "no end after 300 s" : outcome.stderr_tail,
                          .next = "report.md is complete; 'allocmark report DIR --no-html' leaves "
                                  "the page out"});
}

}  // namespace allocmark
