// What the tables for people show: cells grouped by experiment, columns with one unit each, values
// as short text. Flows in: results; flows out: strings that table.cc and markdown.cc lay out. Units
// are chosen once for all groups, so that a column means the same everywhere on a page.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "results/schema.h"

namespace allocmark {

// The backend that hands out no memory; it measures the harness and cannot run out of memory.
inline constexpr std::string_view kNullAllocator = "null";
// The backend whose unset config string costs are compared with.
inline constexpr std::string_view kBaselineAllocator = "caching";

// Cells that differ only in allocator and conf, in the order in which they were given.
struct CellGroup {
  std::vector<const CellResult*> cells;  // never empty; owned by the caller of group_cells
  [[nodiscard]] const CellKey& key() const { return cells.front()->key; }
};

[[nodiscard]] std::vector<CellGroup> group_cells(std::span<const CellResult> cells);

// The bytes that the group's capacity came to; nothing where unlimited, not measured or not the
// same in all cells.
[[nodiscard]] std::optional<std::uint64_t> capacity_bytes(const CellGroup& group);

struct Column {
  std::string group;  // first line of the heading, may be empty: "allocate"
  std::string name;   // second line: "P50"
  std::string unit;   // third line, may be empty: "us"
};

struct Columns {
  std::vector<Column> headings;  // all but allocator and conf; the first is status
  std::vector<std::vector<std::string>>
      rows;                // one per cell, in the order given; "-" where undefined
  bool has_marks = false;  // some percentile has the mark ~
};

[[nodiscard]] Columns make_columns(std::span<const CellResult> cells);

// How long requests to a server took; no headings where no measured cell has any.
[[nodiscard]] Columns make_request_columns(std::span<const CellResult> cells);
[[nodiscard]] bool has_requests(const CellGroup& group);

// "unset" for the empty config string.
[[nodiscard]] std::string_view conf_or_unset(const CellKey& key);

// What the harness itself takes per event, over the measured cells; empty where none knows.
[[nodiscard]] std::string overhead_sentence(std::span<const CellResult> cells);

// How wide the intervals are in which a second measurement is expected, median over the cells that
// state them; empty where none does.
[[nodiscard]] std::string repeat_sentence(std::span<const CellResult> cells);

}  // namespace allocmark
