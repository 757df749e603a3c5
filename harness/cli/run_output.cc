// See run_output.h.
#include "harness/cli/run_output.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include "harness/report_files.h"
#include "harness/runtime_select.h"
#include "results/answer/answer.h"
#include "results/json.h"
#include "results/writers.h"

namespace allocmark {
std::string render_results(std::string_view format, const Environment& environment,
                           const std::vector<CellResult>& cells) {
  if (format == "markdown") {
    return render_markdown(environment, cells, shell_command(environment.argv));
  }
  if (format == "csv") {
    return render_csv(cells);
  }
  if (format == "json") {
    std::string text = to_json_line(environment) + "\n";
    for (const CellResult& cell : cells) {
      text += to_json_line(cell) + "\n";
    }
    return text;
  }
  return render_table(cells);
}

std::string write_reports(const std::string& folder, const Environment& environment,
                          const std::vector<CellResult>& cells) {
  const std::filesystem::path path(folder);
  for (const ArchiveFile& file : report_files(environment, cells)) {
    write_file((path / file.name).string(), file.text);
  }
  return (path / "report.md").string();
}

std::string count_by_status(const std::vector<CellResult>& cells, std::size_t planned_count) {
  std::map<CellStatus, std::uint64_t> counts;
  std::uint64_t oom_count = 0;
  for (const CellResult& cell : cells) {
    ++counts[cell.status];
    oom_count += cell.oom_count > 0 ? 1 : 0;
  }
  std::vector<std::string> parts;
  for (const auto& [status, count] : counts) {
    parts.push_back(fmt::format("{} {}", count, to_string(status)));
  }
  if (planned_count > cells.size()) {
    parts.push_back(fmt::format("{} not run", planned_count - cells.size()));
  }
  std::string text = fmt::format("{}", fmt::join(parts, ", "));
  if (oom_count > 0) {
    text += fmt::format("; {} of them ran out of memory", oom_count);
  }
  return text;
}

void print_answer(const std::vector<CellResult>& cells, std::FILE* people) {
  const RunAnswer answer = run_answer(cells, terminal_style());
  if (!answer.paste.empty()) fmt::print(people, "to set it: {}\n", answer.paste);
  fmt::print(people, "answer: {}\n", answer.sentence);
}

std::string figures_note(const std::string& device) {
  if (is_simulated(device)) {
    return "Latencies on a simulated GPU: measured host time of the allocator's own code + "
           "modelled driver time. "
           "OOMs and memory figures are the simulated device's.";
  }
  return "Latencies on a GPU: measured host time, the driver's included.";
}

}  // namespace allocmark
