// The table for a terminal: aligned, plain text, at most 160 columns wide.
#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "results/answer/answer.h"
#include "results/columns.h"
#include "results/text.h"
#include "results/writers.h"

namespace allocmark {
namespace {

constexpr std::size_t kWidthMax = 160;
constexpr std::size_t kAllocatorWidthMax = 16;
constexpr std::size_t kConfWidthMin = 9;
constexpr std::size_t kGap = 2;

std::string pad_right(const std::string& text, std::size_t width) {
  const std::size_t used = display_width(text);
  return used < width ? text + std::string(width - used, ' ') : text;
}

std::string pad_left(const std::string& text, std::size_t width) {
  const std::size_t used = display_width(text);
  return used < width ? std::string(width - used, ' ') + text : text;
}

void append_line(std::string& out, std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  out += line + '\n';
}

// Widths of all columns; the config string takes what the others leave.
struct Layout {
  std::size_t allocator = 9, conf = 4;
  std::vector<std::size_t> columns;
};

Layout make_layout(std::span<const CellResult> cells, const Columns& columns) {
  Layout layout;
  std::size_t used = 0;
  for (std::size_t index = 0; index < columns.headings.size(); ++index) {
    const Column& heading = columns.headings[index];
    std::size_t width = std::max({heading.group.size(), heading.name.size(), heading.unit.size()});
    for (const auto& row : columns.rows) width = std::max(width, display_width(row[index]));
    layout.columns.push_back(width);
    used += width + kGap;
  }
  for (const CellResult& cell : cells) {
    layout.allocator = std::max(layout.allocator, display_width(printable(cell.key.allocator)));
    const std::string conf = printable(conf_or_unset(cell.key));
    layout.conf = std::max(layout.conf, display_width(conf));
  }
  layout.allocator = std::min(layout.allocator, kAllocatorWidthMax);
  used += layout.allocator + kGap;
  const std::size_t left = used < kWidthMax ? kWidthMax - used : 0;
  layout.conf = std::min(layout.conf, std::max(left, kConfWidthMin));
  return layout;
}

void append_headings(std::string& out, const Layout& layout, const Columns& columns) {
  const std::string gap(kGap, ' ');
  for (std::string Column::*part : {&Column::group, &Column::name, &Column::unit}) {
    const bool names = part == &Column::name;
    std::string line = pad_right(names ? "allocator" : "", layout.allocator) + gap +
                       pad_right(names ? "conf" : "", layout.conf);
    for (std::size_t index = 0; index < columns.headings.size(); ++index) {
      const std::string& text = columns.headings[index].*part;
      const std::size_t width = layout.columns[index];
      line += gap + (index == 0 ? pad_right(text, width) : pad_left(text, width));
    }
    append_line(out, line);
  }
}

// Names that are too long go on in lines of their own below the numbers.
void append_row(std::string& out, const Layout& layout, const CellKey& key,
                const std::vector<std::string>& row) {
  const std::string gap(kGap, ' ');
  const auto allocator = wrap_conf(printable(key.allocator), layout.allocator);
  const auto conf = wrap_conf(printable(conf_or_unset(key)), layout.conf);
  for (std::size_t at = 0; at < std::max(allocator.size(), conf.size()); ++at) {
    std::string line = pad_right(at < allocator.size() ? allocator[at] : "", layout.allocator) +
                       gap + pad_right(at < conf.size() ? conf[at] : "", layout.conf);
    for (std::size_t index = 0; at == 0 && index < row.size(); ++index) {
      const std::size_t width = layout.columns[index];
      line += gap + (index == 0 ? pad_right(row[index], width) : pad_left(row[index], width));
    }
    append_line(out, line);
  }
}

void append_notes(std::string& out, std::span<const CellResult> cells, const Columns& columns) {
  std::string notes =
      "Latency is the allocator's host time plus the driver time that the device model adds (on a "
      "GPU both are "
      "measured in one).";
  const std::string overhead = overhead_sentence(cells);
  if (!overhead.empty()) notes += " " + overhead;
  const std::string repeat = repeat_sentence(cells);
  if (!repeat.empty()) notes += " " + repeat;
  if (columns.has_marks) notes += " ~ = too few samples for this percentile.";
  notes += " Every number is defined in results/README.md.";
  out += wrap_words(notes, kWidthMax) + '\n';
}

// Only the experiments where there was something to decide; the report has the costs of the others.
void append_answers(std::string& out, const std::vector<CellGroup>& groups,
                    const TextStyle& style) {
  const auto quiet_count =
      std::ranges::count_if(groups, [](const CellGroup& group) { return !needs_answer(group); });
  if (quiet_count > 0) {
    out +=
        fmt::format("\nNothing ran out of memory in {} of {} experiments (a table each, above).\n",
                    quiet_count, groups.size());
  }
  if (static_cast<std::size_t>(quiet_count) == groups.size()) return;
  out += "\nWhich settings serve every request, and what do they cost?\n";
  for (const CellGroup& group : groups) {
    if (!needs_answer(group)) continue;
    out += '\n' + wrap_words(group_title(group, style), kWidthMax) + '\n';
    for (const std::string& line : answer_lines(group, find_answer(group), style)) {
      out += wrap_words(line, kWidthMax) + '\n';
    }
  }
  out += '\n' + wrap_words(answer_legend(), kWidthMax) + '\n';
}

}  // namespace

// The groups that have requests, in a table of their own below.
void append_requests(std::string& out, std::span<const CellResult> cells,
                     const std::vector<CellGroup>& groups) {
  const Columns columns = make_request_columns(cells);
  if (columns.headings.empty()) return;
  const Layout layout = make_layout(cells, columns);
  out +=
      "Requests to the server, on the clock of modelled kernels and the allocator's time; delay: "
      "how much later than\nwith an allocator that costs nothing.\n";
  for (const CellGroup& group : groups) {
    if (!has_requests(group)) continue;
    out += wrap_words(group_title(group, terminal_style()), kWidthMax) + '\n';
    append_headings(out, layout, columns);
    for (const CellResult* cell : group.cells) {
      append_row(out, layout, cell->key,
                 columns.rows[static_cast<std::size_t>(cell - cells.data())]);
    }
    out += '\n';
  }
}

std::string render_table(std::span<const CellResult> cells) {
  if (cells.empty()) return "No cells: nothing was measured.\n";
  const Columns columns = make_columns(cells);
  const Layout layout = make_layout(cells, columns);
  const TextStyle style = terminal_style();
  const std::vector<CellGroup> groups = group_cells(cells);
  std::string out;
  for (const CellGroup& group : groups) {
    out += wrap_words(group_title(group, style), kWidthMax) + '\n';
    append_headings(out, layout, columns);
    for (const CellResult* cell : group.cells) {
      append_row(out, layout, cell->key,
                 columns.rows[static_cast<std::size_t>(cell - cells.data())]);
    }
    out += '\n';
  }
  append_requests(out, cells, groups);
  append_notes(out, cells, columns);
  append_answers(out, groups, style);
  return out;
}

}  // namespace allocmark
