// What the tables for people show: cells grouped by experiment, columns with one unit each, values
// as short text. Flows in: results; flows out: strings that table.cc and markdown.cc lay out. Units
// are the same in every table, so that tables read against each other: us for a call, ms for a step
// or a request, which is what the user waits for. Only memory is MiB or GiB.
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
  std::string group;   // first line of the heading, may be empty: "allocate"
  std::string name;    // second line: "P50"
  std::string unit;    // third line, may be empty: "us"
  unsigned place = 0;  // among the columns that a narrow table keeps; the lowest are kept longest
};

struct Columns {
  std::vector<Column> headings;  // all but allocator and conf; the first is status
  std::vector<std::vector<std::string>>
      rows;                 // one per cell, in the order given; "-" where undefined
  bool has_marks = false;   // some percentile has the mark ~
  bool has_scaled = false;  // host parts as on another host stand beside those measured
};

// What the user pays comes first: a request's P99 and the allocator's time per step, where the
// cells have them; then OOMs, calls, memory.
[[nodiscard]] Columns make_columns(std::span<const CellResult> cells);

// How long requests to a server took; no headings where no measured cell has any.
[[nodiscard]] Columns make_request_columns(std::span<const CellResult> cells);
[[nodiscard]] bool has_requests(const CellGroup& group);

// "unset" for the empty config string.
[[nodiscard]] std::string_view conf_or_unset(const CellKey& key);

// What the scaled columns show; empty where there are none.
[[nodiscard]] std::string scaled_sentence(const Columns& columns);

// What the harness itself takes per event, over the measured cells; empty where none knows.
[[nodiscard]] std::string overhead_sentence(std::span<const CellResult> cells);

// How wide the intervals are in which a second measurement is expected, median over the cells that
// state them; empty where none does.
[[nodiscard]] std::string repeat_sentence(std::span<const CellResult> cells);

}  // namespace allocmark
