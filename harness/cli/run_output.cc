// See run_output.h.
#include "harness/cli/run_output.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include "base/bytes.h"
#include "harness/bundle/report_files.h"
#include "harness/cli/terminal.h"
#include "harness/run/runtime_select.h"
#include "results/answer/answer.h"
#include "results/columns/text.h"
#include "results/derived.h"
#include "results/json.h"
#include "results/tables/writers.h"

namespace allocmark {
std::string render_results(std::string_view format, const std::string& folder,
                           const Environment& environment, const std::vector<CellResult>& cells) {
  if (format == "markdown") {
    return render_markdown(environment, cells, shell_command(environment.argv));
  }
  if (format == "csv") {
    return render_csv(cells);
  }
  if (format == "json") {
    std::string text = "{\"environment\": " + to_json_line(environment) + ",\n\"cells\": [";
    for (const CellResult& cell : cells) {
      text += (&cell == cells.data() ? "\n" : ",\n") + to_json_line(cell);
    }
    return text + "]}\n";
  }
  if (format == "jsonl") {
    std::string text = to_json_line(environment) + "\n";
    for (const CellResult& cell : cells) {
      text += to_json_line(cell) + "\n";
    }
    return text;
  }
  const std::string table = (std::filesystem::path(folder) / "table.txt").string();
  return render_table(cells, {.width = output_width(stdout), .all = false, .all_columns = table});
}

namespace {

constexpr std::size_t kWarningLinesMax = 8;

// Numbers differ from cell to cell, and what is warned of is the same.
std::string without_numbers(const std::string& text) {
  std::string kind;
  for (const char letter : text) {
    const bool digit = std::isdigit(static_cast<unsigned char>(letter)) != 0;
    if (!digit || kind.empty() || kind.back() != '#') kind += digit ? '#' : letter;
  }
  return kind;
}

}  // namespace

std::vector<std::string> warning_summary(const Environment& environment,
                                         const std::vector<CellResult>& cells) {
  struct Kind {
    std::string example;
    std::size_t cell_count = 0;
  };
  std::map<std::string, Kind> kinds;
  for (const CellResult& cell : cells) {
    std::map<std::string, std::string> of_cell;
    for (const std::string& warning : cell.warnings) {
      of_cell.try_emplace(without_numbers(warning), warning);
    }
    if (is_measured(cell) && cell.residue_bytes > 0) {
      of_cell["leak"] = fmt::format("the allocator left {} of device memory behind at its end",
                                    format_bytes(cell.residue_bytes));
    }
    for (const auto& [kind, text] : of_cell) {
      Kind& found = kinds.try_emplace(kind, Kind{.example = text}).first->second;
      ++found.cell_count;
    }
  }
  std::vector<Kind> sorted;
  for (const auto& [name, kind] : kinds) sorted.push_back(kind);
  std::ranges::stable_sort(
      sorted, [](const Kind& a, const Kind& b) { return a.cell_count > b.cell_count; });
  std::vector<std::string> lines;
  for (const std::string& warning : environment.warnings) lines.push_back(printable(warning));
  for (const Kind& kind : sorted) {
    lines.push_back(
        fmt::format("{} of {} cells: {}", kind.cell_count, cells.size(), printable(kind.example)));
  }
  if (lines.size() > kWarningLinesMax) {
    const std::size_t more = lines.size() - (kWarningLinesMax - 1);
    lines.resize(kWarningLinesMax - 1);
    lines.push_back(fmt::format("and {} other kinds, in report.md", more));
  }
  return lines;
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

std::string figures_note(const Environment& environment) {
  if (is_simulated(environment.device)) {
    std::string text =
        "Latencies on a simulated GPU: measured host time of the allocator's own code + modelled "
        "driver time. OOMs and memory figures are the simulated device's.";
    if (environment.times_borrowed_from.empty()) return text;
    return text + fmt::format(
                      " Driver times are borrowed from {}: compare settings by them, not "
                      "cards.",
                      environment.times_borrowed_from);
  }
  return "Latencies on a GPU: measured host time, the driver's included.";
}

}  // namespace allocmark
