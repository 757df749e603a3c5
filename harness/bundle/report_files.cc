// See report_files.h.
#include "harness/bundle/report_files.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include "results/tables/writers.h"

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

std::vector<ArchiveFile> report_files(const Environment& environment,
                                      const std::vector<CellResult>& cells) {
  return {{"table.txt", render_table(cells)},
          {"table.csv", render_csv(cells)},
          {"google_benchmark.json", render_google_benchmark(environment, cells)},
          {"report.md", render_markdown(environment, cells, shell_command(environment.argv))}};
}

}  // namespace allocmark
