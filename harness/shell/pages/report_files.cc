// See report_files.h.
#include "harness/shell/pages/report_files.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include "base/shell_text.h"

namespace allocmark {

std::string shell_command(const std::vector<std::string>& argv) {
  std::vector<std::string> words;
  std::transform(argv.begin(), argv.end(), std::back_inserter(words), shell_word);
  return fmt::format("{}", fmt::join(words, " "));
}

void make_report_files(const Environment& environment, std::span<const CellResult> cells,
                       const CellSource& whole, const SinkOfFile& sink_of,
                       const CsvColumns* known_columns) {
  sink_of("table.txt")(render_table(cells));
  // Reading a cell takes longer than what is made of it, so each is read once where that will do.
  const TextSink csv = sink_of("table.csv");
  CsvColumns columns;
  if (known_columns != nullptr) csv(known_columns->header());
  const CellSource watched{.count = whole.count,
                           .whole = [&](std::size_t index) -> const CellResult& {
                             const CellResult& cell = whole.whole(index);
                             if (known_columns != nullptr) {
                               csv(known_columns->row(cell));
                             } else {
                               columns.note(cell);
                             }
                             return cell;
                           }};
  write_google_benchmark(environment, watched, sink_of("google_benchmark.json"));
  if (known_columns == nullptr) {
    csv(columns.header());
    for (std::size_t index = 0; index < whole.count; ++index) csv(columns.row(whole.whole(index)));
  }
  sink_of("report.md")(render_markdown(environment, cells, shell_command(environment.argv)));
}

}  // namespace allocmark
