// See run_output.h.
#include "harness/shell/pages/run_output.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include "base/bytes.h"
#include "base/error.h"
#include "base/output_file.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/replay/kernel_source.h"
#include "harness/core/run/run_folder.h"
#include "harness/shell/pages/report_files.h"
#include "harness/shell/terminal.h"
#include "results/answer/answer.h"
#include "results/columns/text.h"
#include "results/derived.h"
#include "results/json.h"

namespace allocmark {
namespace {

void print_as_is(std::string_view text) { fmt::print("{}", text); }

void print_lines(const CellSource& cells, std::string_view between) {
  for (std::size_t index = 0; index < cells.count; ++index) {
    fmt::print("{}{}", index == 0 ? "" : between, to_json_line(cells.whole(index)));
  }
}

// Cells are stored as they end; the plan's order is what a reader expects. What no plan names keeps
// its place behind it.
std::vector<std::size_t> planned_order(const std::string& folder, const RunFile& file) {
  std::vector<std::size_t> order(file.cells.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::unordered_map<std::string, std::size_t> place_by_id;
  for (const CellKey& key : planned_cells(folder))
    place_by_id.emplace(key.id(), place_by_id.size());
  std::ranges::stable_sort(order, {}, [&](std::size_t index) {
    const auto found = place_by_id.find(file.cells[index].key.id());
    return found == place_by_id.end() ? place_by_id.size() : found->second;
  });
  return order;
}

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

// Which host's times the table shows.
std::string host_note(const Environment& environment) {
  if (environment.host_reference_ns <= 0 || environment.profile_host_reference_ns <= 0) {
    return " The table shows host time as measured here, and how fast the profile's host is is not "
           "known: times per step are as on this host without load.";
  }
  return fmt::format(
      " The table shows host time as measured here, where the same work takes {:.2f} times as long "
      "as on the profile's host{}: \"at card\" and times per step are as on that host.",
      environment.host_reference_ns / environment.profile_host_reference_ns,
      environment.profile_host_reference_basis == "measured"
          ? ""
          : " (in part an estimate: 'Host time on another host' in results/TIMES.md)");
}

}  // namespace

StoredCells stored_cells(const std::string& folder, RunFile* file,
                         const std::vector<CellKey>& keys) {
  std::vector<std::size_t> order = planned_order(folder, *file);
  if (!keys.empty()) {
    std::unordered_map<std::string, std::size_t> index_by_id;
    for (const std::size_t index : order) index_by_id[file->cells[index].key.id()] = index;
    order.clear();
    for (const CellKey& key : keys) {
      const auto found = index_by_id.find(key.id());
      if (found != index_by_id.end()) order.push_back(found->second);
    }
  }
  StoredCells stored;
  std::vector<LinePlace> places;
  for (const std::size_t index : order) {
    stored.summaries.push_back(std::move(file->cells[index]));
    places.push_back(file->places[index]);
  }
  stored.whole = cells_of_file(results_path(folder), std::move(places));
  return stored;
}

void print_results(std::string_view format, const std::string& folder,
                   const Environment& environment, const StoredCells& cells) {
  if (format == "markdown") {
    print_as_is(render_markdown(environment, cells.summaries, shell_command(environment.argv)));
  } else if (format == "csv") {
    write_csv(cells.whole, print_as_is);
  } else if (format == "json") {
    fmt::print("{{\"environment\": {},\n\"cells\": [\n", to_json_line(environment));
    print_lines(cells.whole, ",\n");
    fmt::print("]}}\n");
  } else if (format == "jsonl") {
    fmt::print("{}\n", to_json_line(environment));
    print_lines(cells.whole, "\n");
    if (cells.whole.count > 0) fmt::print("\n");
  } else {
    const std::string table = (std::filesystem::path(folder) / "table.txt").string();
    print_as_is(render_table(cells.summaries,
                             {.width = output_width(stdout), .all = false, .all_columns = table}));
  }
}

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
    if (is_measured(cell) && cell.residue_bytes.value_or(0) > 0) {
      of_cell["leak"] = fmt::format("the allocator left {} of device memory behind at its end",
                                    format_bytes(*cell.residue_bytes));
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
                          const StoredCells& cells, const CsvColumns* columns) {
  const std::filesystem::path path(folder);
  std::vector<std::unique_ptr<OutputFile>> files;
  const auto sink_of = [&](const std::string& name) -> TextSink {
    files.push_back(std::make_unique<OutputFile>((path / name).string()));
    return [file = files.back().get()](std::string_view piece) { file->write(piece); };
  };
  make_report_files(environment, cells.summaries, cells.whole, sink_of, columns);
  for (const std::unique_ptr<OutputFile>& file : files) file->finish();
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
  print_fitted(people, fmt::format("answer: {}\n", answer.sentence));
  std::set<std::string> workloads;
  for (const CellResult& cell : cells) workloads.insert(cell.key.workload_text());
  // A suite of many is nobody's own job.
  if (workloads.size() > 2) return;
  for (const std::string& workload : workloads) print_presets(workload, people);
}

void print_presets(const std::string& workload, std::FILE* people) {
  std::string presets;
  std::vector<std::string> left_out;
  try {
    presets = presets_of_workload(workload);
    left_out = notes_of_workload(workload);
  } catch (const Error&) {
    return;  // a result of another version, whose words are not known here, or of another machine
  }
  for (const std::string& note : left_out) {
    print_wrapped(people, fmt::format("{}: {}.", workload, note));
  }
  if (presets.empty()) return;
  print_wrapped(
      people, fmt::format("presets of {}: {}. Give what differs in your job.", workload, presets));
}

std::string figures_note(const Environment& environment) {
  if (is_simulated(environment.device)) {
    std::string text =
        "Latencies on a simulated GPU: measured host time of the allocator's own code + modelled "
        "driver time. OOMs and memory figures are the simulated device's.";
    text += host_note(environment);
    if (environment.times_borrowed_from.empty()) return text;
    return text + fmt::format(
                      " Driver times are borrowed from {}: compare settings by them, not "
                      "cards.",
                      environment.times_borrowed_from);
  }
  return "Latencies on a GPU: measured host time, the driver's included.";
}

}  // namespace allocmark
