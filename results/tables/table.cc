// The table for a terminal: aligned plain text of a given width. Which columns it keeps is decided
// once for all blocks.
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "results/answer/answer.h"
#include "results/columns/columns.h"
#include "results/columns/text.h"
#include "results/derived.h"
#include "results/tables/writers.h"

namespace allocmark {
namespace {

constexpr std::size_t kAllocatorWidthMax = 16;
// What a config string keeps beside the numbers: most options fit in whole.
constexpr std::size_t kConfWidthMin = 24;
constexpr std::size_t kColumnGap = 2;

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

// Widths of all columns, and which ones are kept; the config string takes what the others leave.
struct Layout {
  std::size_t allocator = 9, conf = 4;
  std::vector<std::size_t> columns;
  std::vector<bool> kept;  // per column
};

std::size_t column_width(const Columns& columns, std::size_t index) {
  const Column& heading = columns.headings[index];
  std::size_t width = std::max({heading.group.size(), heading.name.size(), heading.unit.size()});
  for (const auto& row : columns.rows) width = std::max(width, display_width(row[index]));
  return width;
}

// Keeps columns in the order of their places until one does not fit.
void keep_columns(Layout& layout, const Columns& columns, std::size_t left) {
  std::vector<std::size_t> order(columns.headings.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return columns.headings[a].place < columns.headings[b].place;
  });
  layout.kept.assign(order.size(), false);
  for (const std::size_t index : order) {
    const std::size_t width = layout.columns[index] + kColumnGap;
    if (width > left) return;
    left -= width;
    layout.kept[index] = true;
  }
}

Layout make_layout(std::span<const CellResult> cells, const Columns& columns,
                   const TableStyle& style) {
  Layout layout;
  for (const CellResult& cell : cells) {
    layout.allocator = std::max(layout.allocator, display_width(printable(cell.key.allocator)));
    const std::string conf = printable(conf_or_unset(cell.key));
    layout.conf = std::max(layout.conf, display_width(conf));
  }
  layout.allocator = std::min(layout.allocator, kAllocatorWidthMax);
  std::size_t beside = style.width - layout.allocator - kColumnGap;
  // On the narrowest terminals half of the line is for numbers.
  const std::size_t conf_min = std::min({layout.conf, kConfWidthMin, beside / 2});
  std::size_t wanted = conf_min;
  for (std::size_t index = 0; index < columns.headings.size(); ++index) {
    layout.columns.push_back(column_width(columns, index));
    wanted += layout.columns.back() + kColumnGap;
  }
  if (style.all) beside = std::max(beside, wanted);
  keep_columns(layout, columns, beside - conf_min);
  std::size_t used = 0;
  for (std::size_t index = 0; index < layout.kept.size(); ++index) {
    if (layout.kept[index]) used += layout.columns[index] + kColumnGap;
  }
  layout.conf = std::min(layout.conf, beside - used);
  return layout;
}

// Which columns were left out and where they are; empty where all are there.
std::string left_out(const Layout& layout, const Columns& columns, const TableStyle& style) {
  std::string names;
  for (std::size_t index = 0; index < layout.kept.size(); ++index) {
    if (layout.kept[index]) continue;
    const Column& column = columns.headings[index];
    names += names.empty() ? "" : ", ";
    names += column.group.empty() ? column.name : column.group + " " + column.name;
  }
  if (names.empty()) return "";
  return wrap_words(fmt::format("Left out at {} columns: {}. All are in {} and the report.",
                                style.width, names, style.all_columns),
                    style.width) +
         '\n';
}

void append_headings(std::string& out, const Layout& layout, const Columns& columns) {
  const std::string gap(kColumnGap, ' ');
  for (std::string Column::*part : {&Column::group, &Column::name, &Column::unit}) {
    const bool names = part == &Column::name;
    std::string line = pad_right(names ? "allocator" : "", layout.allocator) + gap +
                       pad_right(names ? "conf" : "", layout.conf);
    for (std::size_t index = 0; index < columns.headings.size(); ++index) {
      if (!layout.kept[index]) continue;
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
  const std::string gap(kColumnGap, ' ');
  const auto allocator = wrap_conf(printable(key.allocator), layout.allocator);
  const auto conf = wrap_conf(printable(conf_or_unset(key)), layout.conf);
  for (std::size_t at = 0; at < std::max(allocator.size(), conf.size()); ++at) {
    std::string line = pad_right(at < allocator.size() ? allocator[at] : "", layout.allocator) +
                       gap + pad_right(at < conf.size() ? conf[at] : "", layout.conf);
    for (std::size_t index = 0; at == 0 && index < row.size(); ++index) {
      if (!layout.kept[index]) continue;
      const std::size_t width = layout.columns[index];
      line += gap + (index == 0 ? pad_right(row[index], width) : pad_left(row[index], width));
    }
    append_line(out, line);
  }
}

void append_notes(std::string& out, std::span<const CellResult> cells, const Columns& columns,
                  std::size_t width) {
  std::string notes =
      "Latency is the allocator's host time plus the driver time that the device model adds (on a "
      "GPU both are measured in one).";
  const bool has_steps = std::ranges::any_of(
      columns.headings, [](const Column& column) { return column.name == "per step"; });
  if (has_steps) notes += " Time per step is the allocator's part of a step, median.";
  for (const std::string& sentence : {scaled_sentence(columns), overhead_sentence(cells),
                                      repeat_sentence(cells), decisions_sentence(cells)}) {
    if (!sentence.empty()) notes += " " + sentence;
  }
  if (columns.has_marks) notes += " ~ = too few samples for this percentile.";
  notes += " Every number is defined in results/DEFINITIONS.md.";
  out += wrap_words(notes, width) + '\n';
}

// Only the experiments where there was something to decide; the report has the costs of the others.
void append_answers(std::string& out, const std::vector<CellGroup>& groups, std::size_t width) {
  const TextStyle style = terminal_style();
  const auto quiet_count =
      std::ranges::count_if(groups, [](const CellGroup& group) { return !needs_answer(group); });
  if (quiet_count > 0) {
    const std::string nothing =
        fmt::format("Nothing ran out of memory in {} of {} experiments (a table each, above).",
                    quiet_count, groups.size());
    out += '\n' + wrap_words(nothing, width) + '\n';
  }
  if (static_cast<std::size_t>(quiet_count) == groups.size()) return;
  out +=
      '\n' + wrap_words("Which settings serve every request, and what do they cost?", width) + '\n';
  for (const CellGroup& group : groups) {
    if (!needs_answer(group)) continue;
    out += '\n' + wrap_words(group_title(group, style), width) + '\n';
    for (const std::string& line : answer_lines(group, find_answer(group), style)) {
      out += wrap_words(line, width) + '\n';
    }
  }
  out += '\n' + wrap_words(answer_legend(), width) + '\n';
}

// A block per group, the columns of each with the same layout.
void append_blocks(std::string& out, std::span<const CellResult> cells, const Columns& columns,
                   const std::vector<const CellGroup*>& groups, const TableStyle& style) {
  const Layout layout = make_layout(cells, columns, style);
  for (const CellGroup* group : groups) {
    out += wrap_words(group_title(*group, terminal_style()), style.width) + '\n';
    append_headings(out, layout, columns);
    for (const CellResult* cell : group->cells) {
      append_row(out, layout, cell->key,
                 columns.rows[static_cast<std::size_t>(cell - cells.data())]);
    }
    out += '\n';
  }
  const std::string missing = left_out(layout, columns, style);
  if (!missing.empty()) out += missing + '\n';
}

// The groups that have requests, in a table of their own below.
void append_requests(std::string& out, std::span<const CellResult> cells,
                     const std::vector<CellGroup>& groups, const TableStyle& style) {
  const Columns columns = make_request_columns(cells);
  if (columns.headings.empty()) return;
  out += wrap_words(
             "Requests to the server, on the clock of modelled kernels and the allocator's time; "
             "delay: how much later than with an allocator that costs nothing.",
             style.width) +
         '\n';
  std::vector<const CellGroup*> serving;
  for (const CellGroup& group : groups) {
    if (has_requests(group)) serving.push_back(&group);
  }
  append_blocks(out, cells, columns, serving, style);
}

}  // namespace

std::string render_table(std::span<const CellResult> cells, const TableStyle& style) {
  if (cells.empty()) return "No cells: nothing was measured.\n";
  TableStyle fitting = style;
  fitting.width = std::max(style.width, kWidthMin);
  const Columns columns = make_columns(cells);
  const std::vector<CellGroup> groups = group_cells(cells);
  std::vector<const CellGroup*> all;
  for (const CellGroup& group : groups) all.push_back(&group);
  std::string out;
  append_blocks(out, cells, columns, all, fitting);
  append_requests(out, cells, groups, fitting);
  append_notes(out, cells, columns, fitting.width);
  append_answers(out, groups, fitting.width);
  return out;
}

}  // namespace allocmark
