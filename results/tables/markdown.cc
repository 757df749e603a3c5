// report.md: GitHub-flavoured Markdown; every name from outside is a code span or escaped.
#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/bytes.h"
#include "results/answer/answer.h"
#include "results/answer/cause_words.h"
#include "results/cell_check.h"
#include "results/columns/columns.h"
#include "results/columns/text.h"
#include "results/derived.h"
#include "results/json.h"
#include "results/tables/writers.h"

namespace allocmark {
namespace {

void append_line(std::string& out, const std::vector<std::string>& values) {
  for (const std::string& value : values) out += "| " + value + " ";
  out += "|\n";
}

// A heading row and the row that aligns all but the first `left_count` columns to the right.
void append_heading(std::string& out, const std::vector<std::string>& names,
                    std::size_t left_count) {
  append_line(out, names);
  for (std::size_t index = 0; index < names.size(); ++index) {
    out += index < left_count ? "| :-- " : "| --: ";
  }
  out += "|\n";
}

std::string conf_cell(const CellKey& key) {
  return key.conf.empty() ? "unset" : markdown_cell_code(key.conf);
}

// What names a cell in a table over all experiments, with further headings.
std::vector<std::string> key_headings(const std::vector<std::string>& further) {
  std::vector<std::string> headings{"workload", "capacity", "allocator", "conf"};
  headings.insert(headings.end(), further.begin(), further.end());
  return headings;
}

std::vector<std::string> key_cells(const CellKey& key) {
  return {markdown_cell_code(key.workload), markdown_cell_code(key.capacity),
          markdown_cell_code(key.allocator), conf_cell(key)};
}

void add_fact(std::string& out, const char* name, const std::string& value) {
  if (!value.empty()) append_line(out, {name, markdown_cell_code(value)});
}

std::string joined(std::string_view left, std::string_view right) {
  return left.empty() || right.empty() ? fmt::format("{}{}", left, right)
                                       : fmt::format("{}, {}", left, right);
}

void append_environment(std::string& out, const Environment& environment) {
  out += "## Where it ran\n\n";
  append_heading(out, {"fact", "value"}, 2);
  add_fact(out, "device", environment.device);
  add_fact(out, "GPU",
           joined(environment.gpu_name, environment.gpu_memory_bytes > 0
                                            ? format_bytes(environment.gpu_memory_bytes)
                                            : std::string()));
  add_fact(out, "device model", joined(environment.profile_name, environment.profile_hash));
  add_fact(out, "driver times borrowed from", environment.times_borrowed_from);
  add_fact(out, "CUDA driver, runtime",
           joined(environment.driver_version, environment.runtime_version));
  add_fact(out, "CPU",
           environment.cpu_count > 0 ? joined(environment.cpu_model,
                                              fmt::format("{} logical CPUs", environment.cpu_count))
                                     : environment.cpu_model);
  add_fact(out, "CPU governor", environment.cpu_governor);
  add_fact(out, "host memory",
           environment.memory_bytes > 0 ? format_bytes(environment.memory_bytes) : std::string());
  add_fact(out, "system", joined(environment.os, environment.kernel));
  add_fact(out, "allocmark",
           joined(environment.allocmark_version,
                  environment.git_sha + (environment.git_dirty ? " with local changes" : "")));
  add_fact(out, "build", joined(environment.build_type, environment.compiler));
  add_fact(out, "started (UTC)", environment.started_utc);
  out += '\n';
}

void append_how_to_read(std::string& out, std::span<const CellResult> cells,
                        const Columns& columns) {
  out += "## How to read it\n\n";
  out +=
      "- Each table is one experiment: one workload under one capacity; each row is one allocator "
      "with one config "
      "string, run in a process of its own.\n";
  out +=
      "- Latency is what one call costs the program's thread: the allocator's measured host time "
      "plus the driver "
      "time that the device model adds. On a GPU both are measured in one.\n";
  out +=
      "- OOM n counts the failed requests of one pass; OOM rate is their share of all requests. "
      "Waste is the share "
      "of reserved memory that nobody had asked for when most was reserved.\n";
  out +=
      "- `-` means not defined or not known, never zero. Cells whose status is neither `ok` nor "
      "`oom_stopped` have "
      "no numbers.\n";
  if (columns.has_marks) {
    out += "- `~` marks a percentile with fewer than ten samples beyond it; do not compare it.\n";
  }
  for (const std::string& sentence :
       {scaled_sentence(columns), overhead_sentence(cells), repeat_sentence(cells)}) {
    if (!sentence.empty()) out += "- " + sentence + '\n';
  }
  out +=
      "- Every number is defined, with its formula and what it cannot tell, in "
      "`results/DEFINITIONS.md` "
      "of allocmark.\n\n";
}

void append_table(std::string& out, std::span<const CellResult> cells, const CellGroup& group,
                  const Columns& columns) {
  std::vector<std::string> names{"allocator", "conf"};
  for (const Column& column : columns.headings) {
    std::string name = column.group.empty() ? column.name : column.group + " " + column.name;
    if (!column.unit.empty()) name += " (" + column.unit + ")";
    names.push_back(name);
  }
  append_heading(out, names, 3);
  for (const CellResult* cell : group.cells) {
    std::vector<std::string> row{markdown_cell_code(cell->key.allocator), conf_cell(cell->key)};
    for (const std::string& value : columns.rows[static_cast<std::size_t>(cell - cells.data())]) {
      row.push_back(markdown_escape(value));
    }
    append_line(out, row);
  }
}

// Lists need an empty line before and after; every other line is a paragraph.
void append_answer(std::string& out, const CellGroup& group, const TextStyle& style) {
  bool in_list = false;
  for (const std::string& line : answer_lines(group, find_answer(group), style)) {
    const bool item = line.starts_with("- ");
    if (!item || !in_list) out += '\n';
    out += line + '\n';
    in_list = item;
  }
  out += '\n';
}

void append_tables(std::string& out, std::span<const CellResult> cells,
                   const std::vector<CellGroup>& groups, const Columns& columns) {
  const TextStyle style = markdown_style();
  const Columns request_columns = make_request_columns(cells);
  out += "## Results\n\n";
  for (const CellGroup& group : groups) {
    out += "### " + group_title(group, style) + "\n\n";
    append_table(out, cells, group, columns);
    if (has_requests(group)) {
      out +=
          "\nRequests to the server, on the clock of modelled kernels and the allocator's time; "
          "delay: how much later than with an allocator that costs nothing.\n\n";
      append_table(out, cells, group, request_columns);
    }
    append_answer(out, group, style);
  }
  out += markdown_escape(answer_legend()) + "\n\n";
}

std::string first_failure(const CellResult& cell) {
  if (!cell.oom_first) return "-";
  const OomEvent& event = *cell.oom_first;
  std::string text =
      fmt::format("event {}: {} on stream {}, {}", event.event_index,
                  format_bytes(event.size_bytes), event.stream, short_words(event.cause));
  if (event.free_largest_bytes) {
    text += ", largest cached block " + format_bytes(*event.free_largest_bytes);
  }
  const std::string details = failure_details(cell);
  if (!details.empty()) text += "; " + markdown_escape(details);
  return text;
}

void append_oom(std::string& out, const std::vector<CellGroup>& groups) {
  out += "## Why requests failed\n\n";
  std::string rows;
  for (const CellGroup& group : groups) {
    for (const CellResult* cell : group.cells) {
      if (!is_measured(*cell) || (cell->oom_count == 0 && cell->trial_oom_count == 0)) continue;
      std::vector<std::string> row = key_cells(cell->key);
      for (std::size_t cause = 0; cause < kOomCauseCount; ++cause) {
        row.push_back(cause < cell->oom_cause_counts.size()
                          ? std::to_string(cell->oom_cause_counts[cause])
                          : "-");
      }
      const auto trials = trial_oom_rate(*cell);
      row.push_back(trials ? fmt::format("{} of {} ({:.0f} to {:.0f} %)", cell->trial_oom_count,
                                         cell->trial_count, 100 * trials->low, 100 * trials->high)
                           : "-");
      row.push_back(first_failure(*cell));
      append_line(rows, row);
    }
  }
  if (rows.empty()) {
    out += "No request failed in any measured cell.\n\n";
    return;
  }
  std::vector<std::string> headings = key_headings({});
  for (std::size_t cause = 0; cause < kOomCauseCount; ++cause) {
    headings.push_back(fmt::format("{} (n)", short_words(static_cast<OomCause>(cause))));
  }
  headings.insert(headings.end(), {"passes with an OOM (95 % interval)", "first failure"});
  append_heading(out, headings, 4);
  out += rows + '\n';
}

// Cells without numbers, each with its reason.
void append_not_measured(std::string& out, std::span<const CellResult> cells) {
  std::string rows;
  for (const CellResult& cell : cells) {
    if (is_measured(cell)) continue;
    std::vector<std::string> row = key_cells(cell.key);
    row.push_back(markdown_escape(to_string(cell.status)));
    row.push_back(markdown_escape(cell.reason));
    append_line(rows, row);
  }
  if (rows.empty()) return;
  out += "## Cells without numbers\n\n";
  append_heading(out, key_headings({"status", "reason"}), 6);
  out += rows + '\n';
}

void append_warnings(std::string& out, const Environment& environment,
                     std::span<const CellResult> cells) {
  out += "## Warnings\n\n";
  std::map<std::string, std::size_t> cell_counts;
  for (const CellResult& cell : cells) {
    std::set<std::string> different(cell.warnings.begin(), cell.warnings.end());
    if (!differing_passes(cell).empty()) {
      different.insert("more than a quarter of the passes lie far from their median");
    }
    if (is_measured(cell) && cell.residue_bytes.value_or(0) > 0) {
      different.insert("device memory was left behind at the allocator's end");
    }
    for (const std::string& warning : different) ++cell_counts[warning];
  }
  if (environment.warnings.empty() && cell_counts.empty()) out += "None.\n";
  for (const std::string& warning : environment.warnings) {
    out += "- " + markdown_escape(warning) + " (whole run)\n";
  }
  for (const auto& [warning, count] : cell_counts) {
    out +=
        "- " + markdown_escape(warning) + fmt::format(" ({} of {} cells)\n", count, cells.size());
  }
  out += '\n';
}

// An indented block takes any text as it is, so no fence can be broken out of.
void append_command(std::string& out, std::string_view command) {
  out += "## Run it again\n\n";
  std::string line;
  for (const char byte : std::string(command) + '\n') {
    if (byte != '\n') {
      line += byte;
      continue;
    }
    out += "    " + printable(line) + '\n';
    line.clear();
  }
}

// The answer that a reader came for, and the line to paste, before anything else.
void append_headline(std::string& out, std::span<const CellResult> cells) {
  const RunAnswer whole = run_answer(cells, markdown_style());
  out += "**" + whole.sentence + "**\n\n";
  if (!whole.paste.empty()) out += "    " + printable(whole.paste) + "\n\n";
}

}  // namespace

std::string render_markdown(const Environment& environment, std::span<const CellResult> cells,
                            std::string_view command) {
  const Columns columns = make_columns(cells);
  const std::vector<CellGroup> groups = group_cells(cells);
  const auto measured = std::count_if(cells.begin(), cells.end(), is_measured);
  std::string out = "# allocmark report\n\n";
  out += fmt::format("{} of {} cells measured, {} experiments, results schema {}.\n\n", measured,
                     cells.size(), groups.size(), markdown_escape(environment.schema_version));
  append_headline(out, cells);
  append_environment(out, environment);
  append_how_to_read(out, cells, columns);
  append_tables(out, cells, groups, columns);
  append_oom(out, groups);
  append_not_measured(out, cells);
  append_warnings(out, environment, cells);
  append_command(out, command);
  return out;
}

}  // namespace allocmark
