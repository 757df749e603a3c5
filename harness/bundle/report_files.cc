// See report_files.h.
#include "harness/bundle/report_files.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace allocmark {
namespace {

// An argument as a shell takes it.
std::string shell_quoted(const std::string& text) {
  const bool plain = !text.empty() && text.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789_-./:,=+@%") == std::string::npos;
  if (plain) {
    return text;
  }
  std::string quoted = "'";
  for (const char c : text) {
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return quoted + "'";
}

}  // namespace

std::string shell_command(const std::vector<std::string>& argv) {
  std::vector<std::string> words;
  std::transform(argv.begin(), argv.end(), std::back_inserter(words), shell_quoted);
  return fmt::format("{}", fmt::join(words, " "));
}

void make_report_files(const Environment& environment, std::span<const CellResult> cells,
                       const CellSource& whole, const SinkOfFile& sink_of) {
  sink_of("table.txt")(render_table(cells));
  write_csv(whole, sink_of("table.csv"));
  write_google_benchmark(environment, whole, sink_of("google_benchmark.json"));
  sink_of("report.md")(render_markdown(environment, cells, shell_command(environment.argv)));
}

}  // namespace allocmark
